"""``Loader``: its controls can be used, and are removed with it, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bpf_support import available, gone, transfer

from weir import _weir, cc
from weir.bpf import BpfError, BpfRequestError, Loader, Status, status
from weir.bpf._loader import kernel_name

NAMES = [one["name"] for one in json.loads(_weir.cc_list())]
MY_CC = Path(__file__).parent.parent.parent / "examples" / "my_cc" / "my_cc.c"


def test_names_tell_the_process_and_the_order() -> None:
    assert kernel_name("cubic", 0x3F2A, 0) == "w3f2a.0_cubic"
    assert kernel_name("cubic-2005", 0x3F2A, 12) == "w3f2a.c_cubic_2"
    assert kernel_name("./folder/my_cc.so", 1, 0) == "w1.0_my_cc"
    longest = [kernel_name(NAMES[count % len(NAMES)], 4_194_304, count) for count in range(300)]
    assert len(set(longest)) == len(longest)
    assert all(len(name) <= 15 for name in longest)


@pytest.mark.parametrize("cc", NAMES)
def test_each_carries_a_transfer(kernel: Status, cc: str) -> None:
    with Loader() as loader:
        name = loader.load(cc)
        assert name in available()
        assert transfer(name) == name
        loader.unload(name)
        assert gone({name})
        again = loader.load(cc)
        assert again != name
        assert transfer(again, 200_000) == again
    assert gone({again})


def test_a_users_own_source_is_compiled_and_carries_a_transfer(kernel: Status, clang: None) -> None:
    with Loader() as loader:
        assert transfer(name := loader.load(str(MY_CC), {"increase": 3}, unrestricted=True), 200_000) == name
        assert name in status().allowed


def test_two_with_different_options_live_side_by_side(kernel: Status) -> None:
    with Loader() as loader:
        first, second = loader.load("cubic", {"beta": 512}), loader.load("cubic", {"beta": 900})
        assert first != second
        listed = {cc.name: cc for cc in status().loaded}
        for name in (first, second):
            assert (listed[name].cc, listed[name].pinned) == ("cubic", False)
        assert {first, second}.isdisjoint(status().own)


def test_the_holder_killed_takes_its_names_along(kernel: Status) -> None:
    with Loader() as loader:
        names = {loader.load("cubic"), loader.load("reno")}
        assert names <= available()
        os.kill(loader.pid, signal.SIGKILL)
        assert gone(names)
        with pytest.raises(BpfError, match="ended with code -9"):
            loader.load("htcp")


def test_the_loading_process_killed_takes_its_names_along(kernel: Status) -> None:
    code = (
        "import time; from weir.bpf import Loader\n"
        "with Loader() as loader:\n"
        "    print(loader.load('cubic'), flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name in available()
        process.kill()
    assert gone({name})


def test_many_at_once_do_not_collide(kernel: Status) -> None:
    def one(number: int) -> tuple[str, str]:
        with Loader() as loader:
            name = loader.load(NAMES[number % len(NAMES)])
            return name, transfer(name, 100_000)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(one, range(12)))
    assert all(used == name for name, used in results)
    assert gone({name for name, _ in results})


def test_threads_may_share_a_loader(kernel: Status) -> None:
    with Loader() as loader, ThreadPoolExecutor(4) as pool:
        names = list(pool.map(loader.load, NAMES))
        assert len(set(names)) == len(NAMES)
        listed = {cc.name: cc.cc for cc in status().loaded}
        assert [listed[name] for name in names] == NAMES


def test_a_name_that_another_has_is_left_to_it(kernel: Status) -> None:
    with Loader() as first, Loader() as second:  # both of this process: their names begin alike
        assert first.load("cubic") != second.load("cubic")


def test_a_connection_keeps_what_is_unloaded(kernel: Status) -> None:
    with Loader() as loader, socket.socket() as connection:
        name = loader.load("scalable")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        loader.unload(name)
        assert gone({name})
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).startswith(name.encode())
        with pytest.raises(FileNotFoundError), socket.socket() as late:
            late.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


def test_a_bad_request_says_what_is_wrong(kernel: Status) -> None:
    with Loader() as loader:
        for cc, options, message in (
            ("cubci", {}, "did you mean cubic"),
            ("cubic", {"beta": 1024}, "option beta of cubic is 1024; expected 1 to 1023"),
            ("cubic", {"beta": -1}, "option beta of cubic is -1; expected 1 to 1023"),
            ("cubic", {"betta": 1}, "did you mean beta"),
            ("./no/such.c", {}, "No such file"),
        ):
            with pytest.raises(BpfRequestError, match=message):
                loader.load(cc, options)
        assert loader.load("cubic") in available()  # the loader still works


def test_the_verifiers_refusal_names_the_operation(kernel: Status, clang: None, tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    text = MY_CC.read_text(encoding="utf-8")
    source.write_text(text.replace("(void)ack;", "((u8 *)inet_csk_ca(sk))[acked] = 1; (void)ack;"), encoding="utf-8")
    with Loader() as loader, pytest.raises(BpfError, match="operation cong_avoid") as caught:
        loader.load(str(source))
    assert not isinstance(caught.value, BpfRequestError)
    assert "verifier refuses" in str(caught.value)


def test_a_source_that_does_not_compile_shows_the_compilers_message(
    kernel: Status, clang: None, tmp_path: Path
) -> None:
    source = tmp_path / "bad.c"
    text = MY_CC.read_text(encoding="utf-8")
    source.write_text(text.replace("(void)ack;", "tcp_sk(sk)->prior_cwnd = 1; (void)ack;"), encoding="utf-8")
    with Loader() as loader, pytest.raises(BpfRequestError, match="const-qualified"):
        loader.load(str(source))


def test_without_clang_the_registered_ones_load_and_a_users_own_says_what_is_missing(kernel: Status) -> None:
    with Loader({**os.environ, "WEIR_CLANG": "/no/such/clang"}) as loader:
        try:
            assert loader.load("bic") in available()
        except BpfError as error:
            if shutil.which("clang") is not None:  # then it was there when weir-bpf was built
                raise
            pytest.skip(f"weir-bpf was built without clang: {error}")
        with pytest.raises(BpfError, match=r"no \"/no/such/clang\" .*; install clang") as caught:
            loader.load(str(MY_CC))
    assert not isinstance(caught.value, BpfRequestError)


def test_a_shared_object_needs_the_source_it_was_built_from(kernel: Status, clang: None, tmp_path: Path) -> None:
    source = tmp_path / "my_cc.c"
    source.write_text(MY_CC.read_text(encoding="utf-8"), encoding="utf-8")
    shared = str(source.with_suffix(".so"))
    cc.compiled(source, Path(shared))
    with Loader() as loader:
        assert loader.load(shared) in available()
        source.write_text(source.read_text(encoding="utf-8").replace("keep, 70,", "keep, 71,"), encoding="utf-8")
        with pytest.raises(BpfRequestError, match="was built from another version of"):
            loader.load(shared)
        source.unlink()
        with pytest.raises(BpfRequestError, match=r"there is no .*my_cc\.c; name the C file"):
            loader.load(shared)


def test_a_loader_that_was_not_entered_says_so() -> None:
    with pytest.raises(BpfError, match="`with`"):
        Loader().load("cubic")
