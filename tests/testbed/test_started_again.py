"""``weir testbed start``: a node that has ended comes back under its name, addresses and keys."""

from __future__ import annotations

import os
import signal

import pytest
from testbed_support import NOTHING, Traces, eventually, new_since, ssh

from shared import Weir
from weir import testbed
from weir.testbed import Bed, BedError, Request, TestbedError

pytestmark = pytest.mark.bed

PARAMETER = "/proc/sys/net/ipv4/tcp_no_metrics_save"
CONNECT = "import socket, sys; print(socket.create_connection((sys.argv[1], 22), 10).recv(4).decode())"


def again(name: str) -> Bed:
    found = testbed.find(name)
    assert found is not None
    return found


def lose(bed: Bed, node: str) -> None:
    os.kill(bed.node(node).pid, signal.SIGKILL)
    assert eventually(lambda: not again(bed.name).node(node).up)


@pytest.mark.parametrize("one_network", [False, True])
def test_it_is_reached_as_before_and_knows_nothing(weir: Weir, one_network: bool) -> None:
    before = Traces.now()
    bed = testbed.up(Request(sites=2, nodes=2, name="back", one_network=one_network))
    inventory, known_hosts = bed.inventory.read_bytes(), bed.known_hosts.read_bytes()
    clock = bed.node("a1").clock_ns
    bed.put("a1", "/etc/mark", b"mine")
    bed.run(
        "a1", ["sh", "-c", f"echo 1 > {PARAMETER}; ip route add 10.9.9.9/32 dev weir0; tc qdisc del dev weir0 root"]
    )
    disciplines = bed.run("a2", ["tc", "qdisc", "show", "dev", "weir0"]).out.split()[4:]
    lose(bed, "a1")

    assert weir("testbed", "start", "a1", "--name", "back").out == "test bed back: a1 started\n"

    node = again("back").node("a1")
    assert node.up
    assert (bed.inventory.read_bytes(), bed.known_hosts.read_bytes()) == (inventory, known_hosts)
    there = ssh(bed, "a1", "hostname; cat /etc/mark; cat " + PARAMETER, options=("-o", "StrictHostKeyChecking=yes"))
    assert (there.returncode, there.stdout) == (0, "a1\n0\n"), there.stderr
    found = again("back")
    assert found.run("a1", ["ip", "route", "show", "10.9.9.9"]).out == b""
    assert found.run("a1", ["tc", "qdisc", "show", "dev", "weir0"]).out.split()[4:] == disciplines
    for one, other in (("a1", "b1"), ("b2", "a1"), ("a2", "a1")):
        assert found.run(one, ["python3", "-c", CONNECT, other]).out == b"SSH-\n", "the emulator joins it"
    assert node.clock_ns != clock
    assert testbed.down("back")
    assert new_since(before) == NOTHING


def test_all_that_have_ended_and_again(weir: Weir) -> None:
    bed = testbed.up(Request(sites=2, nodes=1, name="twice"))
    for _ in range(2):
        lose(bed, "a1")
        lose(bed, "b1")
        assert weir("testbed", "start").out == "test bed twice: a1, b1 started\n"
        bed = again("twice")
        assert bed.run("a1", ["python3", "-c", CONNECT, "b1"]).out == b"SSH-\n"
    assert weir("testbed", "start").out == "no node has ended\n"
    testbed.down("twice")


def test_what_cannot_be_started(weir: Weir) -> None:
    bed = testbed.up(Request(sites=2, nodes=1, name="refuses"))
    with pytest.raises(TestbedError, match="node a1 of the test bed 'refuses' has not ended"):
        testbed.start("refuses", ["a1"])
    done = weir("testbed", "start", "c1")
    assert (done.code, "has no node 'c1'" in done.err) == (2, True)
    lose(bed, "a1")
    (bed.folder / "stage").rmdir()  # nothing can be mounted there
    with pytest.raises(BedError, match=r"node a1 of the test bed 'refuses': node a1 could not be made: .*stage"):
        testbed.start("refuses", ["a1"])
    assert [node.up for node in again("refuses").nodes] == [False, True]
    (bed.folder / "stage").mkdir()
    assert testbed.start("refuses", ["a1"]).node("a1").up
    testbed.down("refuses")
