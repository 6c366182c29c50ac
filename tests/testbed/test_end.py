"""The end of a test bed: whatever ends it, nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from testbed_support import NOTHING, Traces, eventually, new_since, ssh

from shared import Weir, argv, environment
from weir import testbed
from weir.hosts import remains
from weir.testbed import BedError, Request, TestbedError
from weir.testbed._folder import place

pytestmark = pytest.mark.bed


def small(name: str, **more: object) -> testbed.Bed:
    return testbed.up(Request(sites=2, nodes=1, name=name, **more))  # type: ignore[arg-type]


def guardian_of(bed: testbed.Bed) -> int:
    """The process that cleans up after the supervisor, which has told it what to do."""
    return int(json.loads((bed.folder / "bed.json").read_text())["guardian"])


def test_down_leaves_nothing_and_can_be_repeated(weir: Weir) -> None:
    before = Traces.now()
    small("ends")
    there = new_since(before)
    assert len(there.processes) >= 5, "the emulator, and a shell and a server in each node"
    assert len(there.interfaces) == 1
    assert there.mounts == (), "nothing is mounted for this machine"
    assert there.namespaces == frozenset()
    assert weir("testbed", "down", "--name", "ends").out == "test bed ends is gone\n"
    assert new_since(before) == NOTHING
    assert not (place() / "ends").exists()
    again = weir("testbed", "down", "--name", "ends")
    assert (again.code, again.out) == (0, "there is no test bed ends\n")


def test_a_killed_supervisor_takes_everything_with_it() -> None:
    before = Traces.now()
    bed = small("killed")
    patience = ("-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=3")
    words = ["ssh", *patience, "-F", str(bed.config), "a1", "setsid sleep 1000 & sleep 1000"]
    session = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    assert eventually(lambda: bed.run("a1", ["pgrep", "-c", "sleep"]).out == b"2\n")
    os.kill(bed.supervisor, signal.SIGKILL)
    assert eventually(lambda: new_since(before) == NOTHING)
    assert eventually(lambda: not bed.folder.exists())
    assert session.wait(60) != 0
    assert testbed.find("killed") is None


@pytest.mark.parametrize("one_network", [False, True])
def test_what_even_the_guardian_could_not_remove_is_found(one_network: bool) -> None:
    before = Traces.now()
    bed = small("lost", one_network=one_network)
    os.kill(bed.supervisor, signal.SIGSTOP)
    os.kill(guardian_of(bed), signal.SIGKILL)
    os.kill(bed.supervisor, signal.SIGKILL)
    assert eventually(lambda: not new_since(before).processes), "the kernel ends the nodes"
    assert eventually(lambda: len(new_since(before).interfaces) == one_network)
    left = [remain for remain in remains.find() if remain.name in {str(bed.folder), bed.host_interface}]
    assert [remain.kind for remain in left] == ["interface", "folder"][not one_network :]
    for remain in left:
        assert not remain.alive
        remains.remove(remain)
    assert new_since(before) == NOTHING
    assert not bed.folder.exists()


def test_a_killed_guardian_is_replaced() -> None:
    before = Traces.now()
    bed = small("guarded")
    first = guardian_of(bed)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: guardian_of(bed) != first)
    os.kill(bed.supervisor, signal.SIGKILL)
    assert eventually(lambda: not bed.folder.exists())
    assert eventually(lambda: new_since(before) == NOTHING)


def test_a_test_bed_of_another_version_can_be_removed(weir: Weir) -> None:
    bed = small("older")
    facts = bed.folder / "bed.json"
    facts.write_text(facts.read_text().replace('"version": ', '"version": 9'))
    refused = weir("testbed", "exec", "--name", "older", "a1", "true")
    assert refused.code == 1
    assert "made by another version of weir; `weir testbed down --name older` removes it" in refused.err
    assert weir("testbed", "down", "--name", "older").code == 0
    assert not bed.folder.exists()


def test_a_name_of_a_killed_test_bed_is_free() -> None:
    bed = small("again")
    os.kill(bed.supervisor, signal.SIGSTOP)
    os.kill(guardian_of(bed), signal.SIGKILL)
    os.kill(bed.supervisor, signal.SIGKILL)
    assert eventually(lambda: testbed.find("again") is None)
    assert small("again").supervisor != bed.supervisor
    assert testbed.down("again")


def test_a_node_that_dies_leaves_the_others_alone() -> None:
    bed = testbed.up(Request(sites=2, nodes=2, name="partial"))
    os.kill(bed.node("a1").pid, signal.SIGKILL)

    def state() -> list[bool]:
        found = testbed.find("partial")
        return [node.up for node in found.nodes] if found else []

    assert eventually(lambda: state() == [False, True, True, True])
    with pytest.raises(BedError, match="node a1 of the test bed 'partial' has ended"):
        bed.run("a1", ["true"])
    program = "import socket; socket.create_connection(('b1', 22), 10)"
    assert bed.run("a2", ["python3", "-c", program]).code == 0, "the emulator works"
    assert ssh(bed, "b1", "hostname").stdout == "b1\n"
    assert testbed.down("partial")


def test_an_emulator_that_dies_ends_it() -> None:
    before = Traces.now()
    bed = small("cut")
    children = Path(f"/proc/{bed.supervisor}/task/{bed.supervisor}/children").read_text().split()
    emulator = next(int(pid) for pid in children if b"weir-emu" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(emulator, signal.SIGKILL)
    assert eventually(lambda: new_since(before) == NOTHING)
    assert eventually(lambda: not bed.folder.exists())


def test_its_time_is_limited() -> None:
    before = Traces.now()
    bed = small("brief", time_limit_s=8.0)
    assert eventually(lambda: not bed.folder.exists(), 30)
    assert eventually(lambda: new_since(before) == NOTHING)


def test_two_at_once_do_not_meet(weir: Weir) -> None:
    one, other = small("one"), small("other")
    assert one.control != other.control
    for bed in (one, other):
        bed.put("a1", "/etc/mark", bed.name.encode())
    assert (one.get("a1", "/etc/mark"), other.get("a1", "/etc/mark")) == (b"one", b"other")
    assert {bed.name for bed in testbed.beds()} >= {"one", "other"}
    for words in (("exec", "a1", "true"), ("status", "--inventory")):
        unclear = weir("testbed", *words)
        assert unclear.code == 2
        assert "--name: there is no test bed 'bed'; 'one', 'other' are up" in unclear.err
    assert weir("testbed", "down").out == "there is no test bed bed; 'one', 'other' are up\n"
    refused = weir("testbed", "up", "--name", "one")
    assert refused.code == 2
    assert "there is a test bed 'one'" in refused.err
    testbed.down("one")
    assert ssh(other, "a1", "hostname").stdout == "a1\n"
    assert weir("testbed", "status", "--inventory").out == f"{other.inventory}\n", "the only one needs no name"
    testbed.down("other")


def test_a_network_of_control_that_is_taken() -> None:
    one = small("taken")
    before = Traces.now()
    with pytest.raises(TestbedError, match=f"--control: {one.control} is taken"):
        small("wants", control=one.control)
    assert new_since(before) == NOTHING
    assert not (place() / "wants").exists()
    testbed.down("taken")


def test_a_server_that_does_not_come_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Traces.now()
    monkeypatch.setattr("weir.testbed._up._require", lambda: "/bin/false")
    with pytest.raises(BedError, match="node a1: its sshd ended"):
        small("mute")
    assert new_since(before) == NOTHING
    assert not (place() / "mute").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_leaves_nothing(number: signal.Signals, state: Path) -> None:
    before = Traces.now()
    command = argv("testbed", "up", "--nodes", "8", "--name", "half")
    variables = environment(XDG_STATE_HOME=str(state))
    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "making nodes" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.stderr.read()
        process.wait(60)
    assert eventually(lambda: new_since(before) == NOTHING)
    assert eventually(lambda: not (place() / "half").exists())


def test_thirty_two_nodes() -> None:
    before = Traces.now()
    bed = testbed.up(Request(sites=4, nodes=8, name="large"))
    names = [f"{site}{number}" for site in "abcd" for number in range(1, 9)]
    assert [node.name for node in bed.nodes] == names
    program = "import socket, sys\nfor name in sys.argv[1:]: socket.create_connection((name, 22), 10).close()"
    others = [name for name in names if name != "c5"]
    done = bed.run("c5", ["python3", "-c", program, *others])
    assert done.code == 0, done.err.decode()
    assert testbed.down("large")
    assert new_since(before) == NOTHING


def test_the_command_ends_without_the_supervisors_streams(state: Path) -> None:
    """A shell that waits for the end of the command's output does not wait for the test bed's."""
    command = argv("testbed", "up", "--nodes", "1", "--name", "streams", "--json")
    variables = environment(XDG_STATE_HOME=str(state))
    done = subprocess.run(command, capture_output=True, env=variables, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert testbed.down("streams")
