"""``weir cc load``, ``unload`` and ``list``: congestion controls for other programs."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from bpf_support import available, transfer
from click.testing import CliRunner

from shared import ROOT
from weir.bpf import BpfError, BpfRequestError, Status, _record, drop, drop_all, keep
from weir.cli import _common
from weir.cli.cc import command


def weir_cc(*arguments: str) -> str:
    _common.console.cache_clear()
    ran = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def listed(name: str) -> dict[str, object]:
    found = {cc["name"]: cc for cc in json.loads(weir_cc("list", "--json"))}
    entry = found[name]
    assert isinstance(entry, dict)
    return entry


def test_what_is_loaded_stays_until_it_is_unloaded(bpffs: Path) -> None:
    assert "weir_htcp is loaded" in weir_cc("load", "htcp", "--option", "rtt_scaling=1")
    assert "weir_htcp" in available()
    assert transfer("weir_htcp", 200_000) == "weir_htcp"
    assert listed("htcp")["bpf"] == {"available": True, "why_not": None, "loaded": ["weir_htcp"]}
    assert "loaded: weir_htcp" in weir_cc("list", "htcp")
    assert "unloaded: weir_htcp" in weir_cc("unload", "weir_htcp")
    weir_cc("load", "htcp")
    assert "unloaded: weir_htcp" in weir_cc("unload", "htcp"), "as it was loaded"
    assert "weir_htcp" not in available()
    assert not (bpffs / "weir").exists()


def test_iperf3_can_choose_it(bpffs: Path) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("no iperf3")
    keep("cubic", "wtest_iperf", unrestricted=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with subprocess.Popen(["iperf3", "-s", "-1", "-p", port, "--forceflush"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            while b"listening" not in server.stdout.readline():
                assert server.poll() is None
            client = ["iperf3", "-c", "127.0.0.1", "-p", port, "-n", "20M", "-C", "wtest_iperf", "-J"]
            said = json.loads(subprocess.run(client, capture_output=True, timeout=60, check=True).stdout)
            assert server.wait(20) == 0
        finally:
            server.kill()
    assert said["end"]["sender_tcp_congestion"] == "wtest_iperf"
    drop("wtest_iperf")


def test_all_that_was_kept_can_be_unloaded_at_once(bpffs: Path) -> None:
    keep("cubic", "wtest_a", unrestricted=False)
    keep("cubic", "wtest_b", unrestricted=True)
    assert drop_all() == ["wtest_a", "wtest_b"]
    assert {"wtest_a", "wtest_b"}.isdisjoint(available())
    assert "nothing was loaded" in weir_cc("unload", "--all")


def test_a_name_that_the_kernel_lists_for_a_while_is_waited_for(
    bpffs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_still = tmp_path / "available"
    listed_still.write_text("reno wtest_a cubic\n", encoding="ascii")
    monkeypatch.setattr("weir.bpf._pins._LISTED", listed_still)
    keep("cubic", "wtest_a", unrestricted=False)
    timer = threading.Timer(0.3, listed_still.write_text, ["reno cubic\n"])
    timer.start()
    assert drop("wtest_a") == ["wtest_a"]
    assert listed_still.read_text(encoding="ascii") == "reno cubic\n"
    timer.join()


def test_a_name_that_the_kernel_does_not_remove_is_reported(
    bpffs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed_still = tmp_path / "available"
    listed_still.write_text("reno wtest_a cubic\n", encoding="ascii")
    monkeypatch.setattr("weir.bpf._pins._LISTED", listed_still)
    monkeypatch.setattr("weir.bpf._pins._LONGEST_S", 0.05)
    keep("cubic", "wtest_a", unrestricted=False)
    with pytest.raises(BpfError, match=r"still lists wtest_a .* after the pin was removed"):
        drop("wtest_a")
    assert not (bpffs / "weir").exists()


def test_a_pin_that_another_made_is_left_until_it_is_named(bpffs: Path) -> None:
    keep("cubic", "wtest_a", unrestricted=False)
    keep("cubic", "wtest_b", unrestricted=False)
    _record.forget("wtest_b")
    told = weir_cc("unload", "--all")
    assert "unloaded: wtest_a" in told
    assert "kept, because this user's weir did not load them: wtest_b" in told
    assert "wtest_b" in available()
    assert drop("wtest_b") == ["wtest_b"]


def test_a_taken_or_impossible_name_is_refused(bpffs: Path) -> None:
    keep("reno", "wtest_a", unrestricted=False)
    with pytest.raises(BpfError, match="called wtest_a already"):
        keep("cubic", "wtest_a", unrestricted=False)
    with pytest.raises(BpfRequestError, match="1 to 15 characters"):
        keep("cubic", "a-name", unrestricted=False)
    with pytest.raises(BpfRequestError, match="wtest_b is not loaded by `weir cc load`; loaded: wtest_a"):
        drop("wtest_b")
    assert drop("wtest_a") == ["wtest_a"]


def test_where_no_bpf_file_system_can_be_it_says_so(
    kernel: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_BPFFS", str(tmp_path / "missing"))
    with pytest.raises(BpfError, match="mount -t bpf bpf"):
        keep("reno", "wtest_a", unrestricted=False)
    assert "wtest_a" not in available()


def test_the_list_says_where_each_can_run(kernel: Status) -> None:
    assert listed("cubic-2005")["simulator"] is True
    own = [cc for cc in json.loads(weir_cc("list", "--json")) if cc["linux"]]
    assert {"reno"} <= {cc["linux"] for cc in own}
    assert all(cc["simulator"] or cc["name"] == f"linux:{cc['linux']}" for cc in own)


def test_the_list_has_what_was_loaded_under_another_name_and_how_to_remove_it(bpffs: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.c"
    own.write_text((ROOT / "examples/my_cc/my_cc.c").read_text(encoding="utf-8"), encoding="utf-8")
    keep("cubic", "wtest_gentle", unrestricted=False)
    keep(str(own), "wtest_mine", unrestricted=False)
    told = weir_cc("list")
    for name in ("wtest_gentle", "wtest_mine"):
        assert f"{name}: loaded by `weir cc load`; remove it with: weir cc unload {name}" in told
    assert listed("cubic")["bpf"] == {"available": True, "why_not": None, "loaded": ["wtest_gentle"]}
    (row,) = [cc for cc in json.loads(weir_cc("list", "--json")) if cc["name"] == "wtest_mine"]
    assert row["bpf"]["loaded"] == ["wtest_mine"]
    assert sorted(drop("wtest_gentle", "wtest_mine")) == ["wtest_gentle", "wtest_mine"]
    assert "wtest" not in weir_cc("list")


def test_without_the_program_the_list_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_BIN", str(tmp_path))
    assert "BPF: not available:" in weir_cc("list")
    bpf = listed("cubic")["bpf"]
    assert isinstance(bpf, dict)
    assert bpf["available"] is False
    assert "make setup" in bpf["why_not"]
