"""``weir emulate`` as its users call it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from emulate_support import TIMEOUT_S, until

from weir import _owner
from weir.emulate import LinkOptions, OptionError, plan

root = pytest.mark.root
_WEIR = [sys.executable, "-m", "weir.cli", "emulate"]

_ECHO = """
import os, socket, sys, time
with socket.create_connection((os.environ["WEIR_PEER"], 7), 10) as s:
    begin = time.perf_counter()
    s.sendall(b"weir")
    assert s.recv(4) == b"weir"
    print(time.perf_counter() - begin)
sys.exit(9)
"""


def weir(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_WEIR, *arguments], capture_output=True, text=True, timeout=60, check=False)


@root
def test_a_command_reaches_its_peer_and_its_exit_code_is_weirs(tmp_path: Path) -> None:
    file, trace = tmp_path / "stats.json", tmp_path / "trace.pcap"
    done = weir("--delay", "20ms", "--stats", str(file), "--trace", str(trace), "--", sys.executable, "-c", _ECHO)
    assert done.returncode == 9, done.stderr
    assert float(done.stdout) >= 0.040
    assert "to the peer" in done.stderr
    stats = json.loads(file.read_text())
    assert stats["up"]["packets"] >= 4
    assert stats["stats"]["lateness_p99_ns"] > 0
    assert trace.stat().st_size > 24 + 8 * (16 + 40)


@root
def test_a_program_of_the_user_answers_at_the_far_end() -> None:
    server = (
        "import socket, os; s = socket.create_server(('', 5555)); c, (who, _) = s.accept(); "
        "c.sendall(str(who == os.environ['WEIR_PEER']).encode())"
    )
    client = (
        "import os, socket, time\n"
        "for _ in range(100):\n"
        "    try: s = socket.create_connection((os.environ['WEIR_PEER'], 5555), 5); break\n"
        "    except OSError: time.sleep(.1)\n"
        "print(s.recv(9).decode())"
    )
    done = weir("-q", "--peer", f'{sys.executable} -c "{server}"', "--", sys.executable, "-c", client)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@root
def test_what_cannot_run_is_told_as_a_shell_does() -> None:
    assert weir("--", "/nonexistent").returncode == 127
    assert weir("--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


@root
def test_the_directions_differ() -> None:
    client = (
        "import os, socket\n"
        "s = socket.create_connection((os.environ['WEIR_PEER'], 7), 20)\n"
        "n = 0\n"
        "s.sendall(bytes(100_000)); s.shutdown(socket.SHUT_WR)\n"
        "while d := s.recv(65536): n += len(d)\n"
        "print(n)"
    )
    done = weir("--rate", "100Mbps", "--down-rate", "2Mbps", "--", sys.executable, "-c", client)
    assert done.stdout == "100000\n", done.stderr
    up, down = done.stderr.splitlines()[:2]
    assert float(down.split("queue ")[1].split(" ms")[0]) > float(up.split("queue ")[1].split(" ms")[0])


def test_options_are_explained_under_their_names() -> None:
    with pytest.raises(OptionError) as error:
        plan(LinkOptions(rate="1Gpbs", delay="5"), LinkOptions(rate="1Gpbs"))
    assert sorted(line.split(":")[0] for line in str(error.value).splitlines()) == ["--rate", "--up-delay"]


def test_problems_of_the_link_do_not_name_weirs_own_links() -> None:
    with pytest.raises(OptionError) as error:
        plan(LinkOptions(rate="0Mbps"), LinkOptions(rate="0Mbps"))
    assert str(error.value) == "--rate: the rate is 0; no packet could pass"


def test_a_queue_in_bdp_is_that_of_its_direction() -> None:
    compiled = plan(LinkOptions(rate="1Gbps", delay="50ms", queue="0.5bdp"), LinkOptions(rate="10Mbps", delay="50ms"))
    assert compiled["links"][0]["queue"]["limit"]["bytes"] == 10**9 * 0.1 / 8 / 2
    assert [link["delay"]["delay_ns"] for link in compiled["links"]] == [50_000_000] * 2
    assert [link["rate_bps"] for link in compiled["links"]] == [10**9, 10**7]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected a COMMAND"),
        (["--between", "a", "b", "--", "true"], "expected a COMMAND"),
        (["--between", "a", "b", "--peer", "x"], "--peer"),
        (["--rate", "1Gpbs", "--", "true"], "Gbps"),
        (["--switch", "nosuch", "--between", "n/a,n/b"], "`nosuch` is not a preset of a switch"),
        (["--switch", "nosuch", "--between", "n/a"], "expected two or more interfaces, found n/a only"),
        (["--between=n/a", "--switch", "fair"], "expected two or more interfaces, found n/a only"),
        (["--switch", "fair", "--between", "n/a,"], "found n/a, an empty name"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], words: str) -> None:
    if os.geteuid() != 0 and words == "Gbps":
        pytest.skip("it asks for root first")
    done = weir(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def _namespaces(pid: int) -> list[str]:
    folder = Path("/run/netns")
    names = [path.name for path in folder.glob("weir-*")] if folder.exists() else []
    return [name for name in names if (tag := _owner.find(name)) is not None and tag.pid == pid]


def _processes(pid: int) -> list[int]:
    return [number for number, tag in _owner.processes().items() if tag.pid == pid]


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    # A program under nohup(1) survives a hangup, as it should; this one must not, however the tests are run.
    process = subprocess.Popen(
        [*_WEIR, *arguments],
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    return process


@root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_however_it_ends(number: int) -> None:
    process = _start("--peer", "sleep 1000", "--", "sh", "-c", "sleep 999 & echo here; exec sleep 1000")
    pid = process.pid
    assert len(_namespaces(pid)) == 2
    assert len(_processes(pid)) >= 4
    process.send_signal(number)
    process.wait(TIMEOUT_S)
    assert until(lambda: not _namespaces(pid) and not _processes(pid)), (_namespaces(pid), _processes(pid))
    assert process.stdout is not None
    process.stdout.close()


@root
def test_an_interrupt_to_weir_alone_reaches_the_command_and_nothing_is_left() -> None:
    process = _start("-q", "--peer", "sleep 1000", "--", "sh", "-c", "echo here; exec sleep 1000")
    pid = process.pid
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 128 + signal.SIGINT
    assert until(lambda: not _namespaces(pid) and not _processes(pid)), (_namespaces(pid), _processes(pid))
    assert process.stdout is not None
    process.stdout.close()


@root
def test_an_interrupt_of_the_terminal_comes_once() -> None:
    """The terminal tells the command itself, which may go on, as a shell does."""
    script = "trap 'echo caught' INT; echo here; for _ in 1 2 3 4 5 6 7 8; do sleep 0.5; done; echo over"
    ours, its = os.openpty()
    process = subprocess.Popen(
        [*_WEIR, "-q", "--", "sh", "-c", script],
        stdin=its, stdout=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(its)
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    os.write(ours, b"\x03")
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert (out, process.returncode) == (b"caught\nover\n", 0)
    os.close(ours)


@root
def test_an_interrupt_is_for_the_command() -> None:
    script = "trap 'echo caught; exit 5' INT; echo here; while :; do sleep 0.1; done"
    process = _start("-q", "--", "sh", "-c", script)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert (out, process.returncode) == (b"caught\n", 5)


@root
def test_a_bridge_passes_what_is_and_what_is_not_ip() -> None:
    mark = f"weirtest{os.getpid() % 100_000}"
    names = [f"{mark}-{end}" for end in "ab"]
    inner = [f"wt{os.getpid() % 100_000}{end}" for end in "ab"]
    ip = [
        *(["netns", "add", name] for name in names),
        *(
            ["link", "add", i, "type", "veth", "peer", "name", "eth0", "netns", n]
            for i, n in zip(inner, names, strict=True)
        ),
        *(["link", "set", i, "up"] for i in inner),
        *(["-n", n, "link", "set", "eth0", "up"] for n in names),
        *(["-n", n, "addr", "add", f"10.1.0.{k}/24", "dev", "eth0"] for k, n in enumerate(names, 1)),
    ]
    try:
        for words in ip:
            subprocess.run(["ip", *words], check=True)
        bridge = subprocess.Popen(
            [*_WEIR, "--between", *inner, "--delay", "10ms"], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _transfer_between(names, b"x" * 3_000_000)
        finally:
            bridge.send_signal(signal.SIGINT)
            _, errors = bridge.communicate(timeout=TIMEOUT_S)
        assert bridge.returncode == 0, errors
        assert errors.startswith("weir: ready; Ctrl-C ends it\n")
        assert f"{inner[0]} to {inner[1]}" in errors
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        for name in inner:
            subprocess.run(["ip", "link", "del", name], check=False, stderr=subprocess.DEVNULL)


def _transfer_between(namespaces: list[str], content: bytes) -> None:
    """A TCP transfer; its address is resolved by ARP first, which is not IP."""
    import socket
    import threading

    from weir.hosts.namespaces import within

    listener = within(f"/run/netns/{namespaces[1]}", lambda: socket.create_server(("10.1.0.2", 5556)))
    got: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(TIMEOUT_S)
        while data := connection.recv(1 << 20):
            got.append(data)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    client = within(f"/run/netns/{namespaces[0]}", lambda: socket.socket())
    client.settimeout(TIMEOUT_S)
    client.connect(("10.1.0.2", 5556))
    begin = time.perf_counter()
    client.sendall(content)
    client.shutdown(socket.SHUT_WR)
    server.join(TIMEOUT_S)
    assert time.perf_counter() - begin >= 0.010
    assert b"".join(got) == content
    client.close()
    listener.close()
