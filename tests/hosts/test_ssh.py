"""Nodes of an inventory through a real SSH server: what they do, and what is said of those that cannot be reached."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_support import Server, free_port, make_key, server

from weir import _ssh
from weir.hosts.place import PlaceError
from weir.hosts.ssh import ConnectError, connect, connect_all
from weir.inventory import Node


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        yield listener.getsockname()[1]


def clients(port: int) -> list[int]:
    """Processes of ssh that go to a port."""
    found = subprocess.run(["pgrep", "-f", rf"^ssh -T .*-p {port} "], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def test_a_node_is_a_place(one: Server) -> None:
    with connect(one.node()) as place:
        assert place.run(["sh", "-c", 'read x; echo "$x" | tr a-z A-Z; exit 3'], b'it\'s "$HOME"\n').code == 3
        path = place.put("file", bytes(range(256)) * 1000)
        assert place.get(path) == bytes(range(256)) * 1000
        assert abs(place.clock().offset_ns) < 10**9, "the clock of this machine"
        assert len(clients(one.port)) == 1, "one process carries everything"
        folder = place.folder
        assert Path(folder).is_dir()
    assert not Path(folder).exists()
    assert clients(one.port) == []


def test_processes_of_a_node_end_with_its_connection(one: Server) -> None:
    place = connect(one.node())
    process = place.start(["sh", "-c", "echo $$; exec sleep 1000"])
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    (client,) = clients(one.port)
    os.kill(client, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(PlaceError, match="a1 is not there any more"):
        place.run(["true"])
    place.close()


def test_a_node_behind_two_others(one: Server) -> None:
    hop = f"{one.node().user}@127.0.0.1:{one.port}"
    with connect(one.node(jump=(hop, hop))) as place:
        assert place.run(["echo", "there"]).out == b"there\n"
    assert one.log().count("Accepted publickey") >= 3


def test_hosts_on_the_way_are_checked_too(one: Server, tmp_path: Path) -> None:
    with server(tmp_path / "gate") as gate:
        user = gate.node().user
        with pytest.raises(ConnectError) as error:
            connect(one.node(jump=(f"{user}@127.0.0.1:{gate.port}",)))
        assert error.value.why == "its host key is not known"
        assert f"[127.0.0.1]:{gate.port}" in error.value.said
        assert error.value.todo.endswith(f"The cause may also be on the way: {user}@127.0.0.1:{gate.port}.")
        assert "Accepted" not in gate.log()


def refused(one: Server, **changes: object) -> ConnectError:
    with pytest.raises(ConnectError) as error:
        connect(one.node(**changes), 10.0)
    return error.value


def test_an_unknown_host_key(one: Server, tmp_path: Path) -> None:
    known = tmp_path / "none"
    known.touch()
    error = refused(one, known_hosts=str(known))
    assert error.why == "its host key is not known"
    assert "Host key verification failed" in error.said
    assert f"ssh-keyscan -p {one.port} 127.0.0.1" in error.todo
    assert str(known) in error.todo
    assert str(error).startswith("a1 (127.0.0.1) cannot be reached: its host key is not known. ssh said: ")
    assert known.read_bytes() == b"", "nothing was added"


def test_another_host_key(one: Server, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{one.port} {other}\n", encoding="utf-8")
    error = refused(one, known_hosts=str(known))
    assert error.why == "its host key is not the one that is known"
    assert "fingerprint" in error.todo


def test_another_user_key(one: Server, tmp_path: Path) -> None:
    make_key(tmp_path / "mine")
    error = refused(one, key=str(tmp_path / "mine"))
    assert error.why == f"it refuses user `{one.node().user}`"
    assert "Permission denied" in error.said


def test_files_that_are_not_there(one: Server) -> None:
    error = refused(one, key="/nowhere/key")
    assert (
        str(error)
        == "a1 (127.0.0.1) cannot be reached: there is no file /nowhere/key. The inventory names it as `key`."
    )


def test_nobody_listens(one: Server) -> None:
    port = free_port()
    assert refused(one, port=port).why == f"nothing listens at its port {port}"


def test_a_name_that_nobody_knows(one: Server) -> None:
    assert refused(one, address="nowhere.invalid").why == "its name is not known"


def test_a_node_without_python(one: Server) -> None:
    error = refused(one, python="python3.8-of-nobody")
    assert error.why == "it has no `python3.8-of-nobody`"


def test_a_server_that_says_nothing(one: Server, silent: int) -> None:
    begin = time.monotonic()
    with pytest.raises(ConnectError, match=r"^a1 .* cannot be reached: (no answer in 2 s|it does not answer)"):
        connect(one.node(port=silent), 2.0)
    assert time.monotonic() - begin < 10
    assert clients(silent) == []


def test_all_at_once_and_one_that_hangs_holds_nobody(one: Server, silent: int) -> None:
    nodes = [one.node(f"a{number}", port=silent if number == 2 else one.port) for number in range(6)]
    nodes.append(one.node("a6", user="nobody-of-that-name"))
    told: list[tuple[str, bool]] = []
    with connect_all(nodes, lambda node, error: told.append((node.name, error is None)), 6.0, 4) as made:
        assert list(made.places) == ["a0", "a1", "a3", "a4", "a5"]
        assert list(made.failed) == ["a2", "a6"]
        assert told[-1] == ("a2", False), "the others did not wait for it"
        assert sorted(told) == [(f"a{n}", n not in {2, 6}) for n in range(7)]
        assert made.places["a3"].run(["echo", "x"]).out == b"x\n"
    assert clients(one.port) == []
    assert clients(silent) == []


def test_an_interrupt_waits_for_no_node_and_leaves_no_connection(one: Server, silent: int) -> None:
    nodes = [one.node("a0", port=silent), *(one.node(f"a{number}") for number in range(1, 6))]

    def interrupt(_node: Node, _error: PlaceError | None) -> None:
        raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        connect_all(nodes, interrupt, 25.0, 3)
    assert time.monotonic() - begin < 20, "the silent one would take longer"
    while clients(one.port):
        assert time.monotonic() - begin < 60
        time.sleep(0.05)


def test_all_are_required(one: Server) -> None:
    made = connect_all([one.node("a1"), one.node("a2", port=free_port())], patience_s=5.0)
    with pytest.raises(PlaceError, match=r"^a2 \(127\.0\.0\.1\) cannot be reached: nothing listens"):
        made.require()
    assert clients(one.port) == []


def test_a_server_that_refuses_some_of_many_is_asked_again(tmp_path: Path) -> None:
    with server(tmp_path / "busy", ["MaxStartups 1"]) as busy:
        with connect_all([busy.node(f"a{n}") for n in range(4)], patience_s=30.0) as made:
            assert sorted(made.places) == ["a0", "a1", "a2", "a3"], made.failed
        assert "MaxStartups" in busy.log()


def test_a_connection_that_hangs_is_found(one: Server) -> None:
    """The far end is stopped: nothing is answered, as when a cable is drawn."""
    before = one.sessions()
    place = connect(one.node())
    (daemon,) = one.sessions() - before
    os.kill(daemon, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        with pytest.raises(PlaceError, match=r"a1 is not there any more: .*not responding"):
            place.run(["true"])
        assert time.monotonic() - begin < 40
    finally:
        os.kill(daemon, signal.SIGCONT)
        place.close()


def test_the_command_line_quotes_every_word() -> None:
    said = _ssh.command("a1", ["printf", "a b", "$HOME", "'"], key="/k %d/id", jump="me@g:22,[::1]:23", connect_s=7)
    assert said[-3:] == ["--", "a1", "printf 'a b' '$HOME' ''\"'\"''"]
    assert 'IdentityFile="/k %%d/id"' in said
    (proxy,) = [word.removeprefix("ProxyCommand=") for word in said if word.startswith("ProxyCommand=")]
    assert proxy.endswith("-W '[%h]:%p' -- 'ssh://[::1]:23'")
    assert proxy.count("[%h]:%p") == 1
    assert "[%%h]:%%p" in proxy
    assert "ssh://me@g:22" in proxy
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ServerAliveInterval=5", "ForwardAgent=no"):
        assert option in said


def test_a_thread_for_each_place_and_no_more_when_they_are_closed(one: Server) -> None:
    before = threading.active_count()
    with connect_all([one.node(f"a{n}") for n in range(3)]):
        pass
    deadline = time.monotonic() + 10
    while threading.active_count() > before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
