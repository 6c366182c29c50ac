"""Changes of a node: journal, restoring, the watchdog, programs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nodes_support import Nodes

from weir.deploy import DeployError, Keeper, deploy, describe, host, offload, qdisc, route, segments, sysctl
from weir.hosts.relay import Relay
from weir.inventory import Node

SACK = "net.ipv4.tcp_sack"


def place(nodes: Nodes, name: str = "a1") -> Relay:
    return nodes.connect(Node(name=name, set="A", address=nodes.address(name)))


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_a_host_behind_an_interface_disappears_with_the_way(nodes: Nodes) -> None:
    """Nobody restores the node: its watchdog does."""
    name = f"{nodes.tag}inner"
    made = host(name, "eth0", "weir0")
    with place(nodes) as way:
        keeper = Keeper(way)
        keeper.claim(20)
        assert keeper.lacking([made]) == [made]
        keeper.apply([made])
        assert keeper.lacking([made]) == []
        assert b"macvlan" in way.require(("ip", "-n", name, "-d", "link", "show", "dev", "weir0"))
    assert describe(made) == (
        f"ip netns add {name}; ip link add link eth0 name weir0 netns {name} type macvlan mode private"
    )
    assert until(lambda: not Path("/run/netns", name).exists())


def test_everything_is_undone_in_reverse_and_in_the_journal_before(nodes: Nodes) -> None:
    peer = nodes.address("b1")
    qdiscs = nodes.run("a1", "tc", "qdisc", "show", "dev", "eth0")
    routes = nodes.run("a1", "ip", "route")
    links = nodes.run("a1", "ip", "-d", "-o", "link")
    with place(nodes) as way:
        keeper = Keeper(way)
        assert keeper.claim(20) == []
        wanted = [
            sysctl(SACK, "0"),
            sysctl("net.ipv4.tcp_rmem", "4096 100000 200000"),
            qdisc("eth0", ["tbf", "rate", "5mbit", "burst", "5kb", "limit", "50kb"]),
            route(peer, ["initcwnd", "4", "quickack", "1"]),
            segments("eth0", 1),
        ]
        assert len(keeper.lacking(wanted)) == 5
        done = keeper.apply(wanted)
        assert [entry["change"] for entry in done] == wanted
        assert done[0]["before"] == "1"
        assert nodes.sysctl("a1", SACK) == "0"
        assert "tbf" in nodes.run("a1", "tc", "qdisc", "show", "dev", "eth0")
        assert "gso_max_segs 1 " in nodes.run("a1", "ip", "-d", "-o", "link", "show", "dev", "eth0")
        assert "initcwnd 4" in nodes.run("a1", "ip", "route", "show", f"{peer}/32")
        (journal,) = nodes.journals()
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        assert [line["change"] for line in lines[1:]] == wanted
        assert lines[1]["before"] == "1"

        # Once more, only what differs: its value before is the one of this experiment.
        assert [entry["change"]["kind"] for entry in keeper.apply([*wanted[:2], *wanted[3:], sysctl(SACK, "1")])] == [
            "sysctl"
        ]
        assert nodes.sysctl("a1", SACK) == "1"

        restored = keeper.restore()
        assert restored[0]["change"] == sysctl(SACK, "1")
        assert restored[-1]["change"] == wanted[0]
        assert nodes.sysctl("a1", SACK) == "1"
        assert nodes.run("a1", "tc", "qdisc", "show", "dev", "eth0") == qdiscs
        assert nodes.run("a1", "ip", "route") == routes
        assert nodes.run("a1", "ip", "-d", "-o", "link") == links
        assert nodes.journals() == []
        assert keeper.status() == {"claim": None, "lives": False, "changes": []}


def test_a_journal_is_written_before_its_change(nodes: Nodes) -> None:
    with place(nodes) as way:
        keeper = Keeper(way)
        keeper.claim(20)
        with pytest.raises(DeployError, match="Invalid argument"):
            keeper.apply([sysctl("net.ipv4.tcp_rmem", "no number")])
        assert [line["change"]["name"] for line in keeper.status()["changes"]] == ["net.ipv4.tcp_rmem"]
        before = nodes.sysctl("a1", "net.ipv4.tcp_rmem")
        keeper.restore()
        assert nodes.sysctl("a1", "net.ipv4.tcp_rmem") == before


def test_the_node_restores_itself_when_the_way_is_cut(nodes: Nodes) -> None:
    way = place(nodes)
    keeper = Keeper(way)
    keeper.claim(20)
    keeper.apply([sysctl(SACK, "0")])
    way.cut()
    assert until(lambda: nodes.sysctl("a1", SACK) == "1")
    assert until(lambda: nodes.journals() == [] and nodes.processes() == [])
    way.close()


def test_the_node_restores_itself_when_it_hears_nothing(nodes: Nodes) -> None:
    with place(nodes) as way:
        keeper = Keeper(way)
        keeper.claim(2)
        keeper.apply([sysctl(SACK, "0")])
        assert until(lambda: nodes.sysctl("a1", SACK) == "1"), "nothing is asked for two seconds"
        assert until(lambda: nodes.processes() == [])


def test_a_far_end_that_was_killed_or_stopped_is_no_obstacle(nodes: Nodes) -> None:
    for number in (9, 19):
        way = place(nodes)
        keeper = Keeper(way)
        pid = way.limit(2)
        keeper.claim(2)
        keeper.apply([sysctl(SACK, "0")])
        os.kill(pid, number)
        assert until(lambda: nodes.sysctl("a1", SACK) == "1")
        assert until(lambda: nodes.processes() == [])
        assert not Path(way.folder).exists()
        way.cut()
        way.close()


def test_a_node_is_one_experiments_at_a_time(nodes: Nodes) -> None:
    with place(nodes) as first, place(nodes) as second:
        one, other = Keeper(first), Keeper(second)
        one.claim(20)
        with pytest.raises(DeployError, match=r"a1: it is in use by .*, since 2"):
            other.claim(20)
        with pytest.raises(DeployError, match="in use"):
            other.restore()
        one.restore()
        assert other.claim(20) == []


def test_a_program_travels_once_and_is_verified(nodes: Nodes) -> None:
    with place(nodes) as way:
        keeper = Keeper(way)
        path = Path(deploy(keeper, "weir-agent"))
        assert path.is_relative_to(nodes.home("a1"))
        changed = path.stat().st_mtime_ns
        assert deploy(keeper, "weir-agent") == str(path)
        assert path.stat().st_mtime_ns == changed
        path.write_bytes(b"damaged")
        assert deploy(keeper, "weir-agent") == str(path)
        assert path.stat().st_size > 1000
        assert keeper.ask("uninstall")["removed"] == [path.name]


def test_changes_are_described_as_commands() -> None:
    assert describe(sysctl(SACK, "0")) == "sysctl -w net.ipv4.tcp_sack='0'"
    assert (
        describe(offload("eth0", "generic-receive-offload", on=False)) == "ethtool -K eth0 generic-receive-offload off"
    )
    assert describe(qdisc("eth0", [])) == "tc qdisc replace dev eth0 root the kernel's own"


@pytest.mark.parametrize("cut", ["", '{"by": "so'])
def test_a_claim_that_was_cut_is_none(nodes: Nodes, cut: str) -> None:
    with place(nodes) as way:
        keeper = Keeper(way)
        keeper.claim(20)
        (journal,) = nodes.journals()
        keeper.restore()
        journal.write_text(cut)  # the disk was full, or the machine lost its power

        assert keeper.restore() == []
        assert nodes.journals() == []

        journal.write_text(cut)
        assert keeper.claim(20) == []
        keeper.apply([sysctl(SACK, "0")])
        assert [entry["change"] for entry in keeper.restore()] == [sysctl(SACK, "0")]
        assert nodes.journals() == []


def test_a_line_that_was_cut_does_not_hide_the_next(nodes: Nodes) -> None:
    with place(nodes) as way:
        keeper = Keeper(way)
        keeper.claim(20)
        (journal,) = nodes.journals()
        with journal.open("a") as file:
            file.write('{"change": {"kind": "sys')

        keeper.apply([sysctl(SACK, "0")])

        assert [entry["change"] for entry in keeper.restore()] == [sysctl(SACK, "0")]
        assert nodes.sysctl("a1", SACK) == "1"


def test_a_full_disk_leaves_no_half_a_claim(nodes: Nodes) -> None:
    state = nodes.home("a1") / ".local" / "state" / "weir"
    state.mkdir(parents=True, mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(state)], check=True)
    try:
        with place(nodes) as way:
            keeper = Keeper(way)
            full = state / "full"
            with contextlib.suppress(OSError), full.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            with pytest.raises(DeployError, match="No space left on device"):
                keeper.claim(20)
            assert [path.name for path in state.iterdir()] == ["full"]

            full.unlink()
            assert keeper.claim(20) == []
            keeper.apply([sysctl(SACK, "0")])
            keeper.restore()
            assert nodes.sysctl("a1", SACK) == "1"
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)
