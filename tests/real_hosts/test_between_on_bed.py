"""``weir testbed up --emulator``: a run over real SSH, whose network is that of the scenario, beside the simulator."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed_support import Bed, made_bed, until

from shared import Ran, called, dumbbell

BOUNDS = {"goodput.aggregate.mean": "5%", "delay": "10%", "queue.delay": "15%", "rtt": "10%"}
CHANGED = "ip -br link; ip -4 rule; ip -4 route show table all; grep . /proc/sys/net/ipv4/conf/*/forwarding"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """One node at each of two sites, and one between them."""
    with made_bed(tmp_path_factory, "--nodes", "1", "--emulator") as made:
        yield made


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A flow that fills a queue of a bottleneck."""
    path = tmp_path / "test.yaml"
    path.write_text(
        dumbbell(
            title="Test",
            pairs=1,
            access="rate: 1Gbps",
            bottleneck="rate: 20Mbps, queue: {droptail: {size: 60kB}}",
            rtt="40ms",
            transport="cc: cubic, stack: linux",
            workload="name: flow, between: pairs, kind: bulk, until: 8s",
            measure="goodput: 200ms, tcp: 50ms, links: 100ms, delay: 200ms",
        )
        + "phases: {steady: {from: 3s, to: 8s}}\n"
    )
    return path


def compared(one: Path, other: Path) -> Ran:
    metrics = [word for name, limit in BOUNDS.items() for word in ("-m", name, "--within", f"{name}={limit}")]
    return called("compare", one, other, "--phase", "steady", *metrics)


def test_a_run_over_the_node_between_is_as_one_of_the_simulator(bed: Bed, scenario: Path, tmp_path: Path) -> None:
    nodes = ("a1", "b1", "between")
    before = {node: bed.exec(node, CHANGED) for node in nodes}
    hosts, sim, far = (tmp_path / name for name in ("hosts", "sim", "far"))
    bed.weir("hosts", "check", str(bed.inventory), "--for", str(scenario))
    bed.weir(
        *("run", str(scenario), "--method", "hosts", "--on", str(bed.inventory), "--out", str(hosts), "--no-report")
    )
    assert {node: bed.exec(node, CHANGED) for node in nodes} == before
    assert all(bed.exec(node, "ls ~/.local/state/weir 2>/dev/null | grep journal") == "" for node in nodes)

    bed.weir("run", str(scenario), "--method", "sim", "--out", str(sim), "--no-report")
    longer = ("--set", "topology.dumbbell.rtt=60ms")
    bed.weir("run", str(scenario), "--method", "sim", *longer, "--out", str(far), "--no-report")
    done = compared(hosts, sim)
    assert done.code == 0, done.out + done.err
    assert all(name in done.out for name in BOUNDS)
    assert compared(hosts, far).code == 1, "the bounds are beyond what 20 ms more make"


def test_what_a_run_left_on_a_node_without_power_is_gone_when_it_starts_again(bed: Bed) -> None:
    before = bed.exec("between", CHANGED)
    bed.exec("between", "ip tuntap add dev weirh0 mode tun; ip link set weirh0 up")
    bed.exec(
        "between", "ip rule add from 10.0.1.1 lookup 10000 priority 10000; ip route add 10.9.9.9 dev weir0 table 10000"
    )
    assert bed.exec("between", CHANGED) != before
    rows = [line.split() for line in bed.weir("testbed", "status", "--name", bed.name).splitlines()]
    (pid,) = (int(row[-2]) for row in rows if row[:1] == ["between"])
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: "down" in bed.weir("testbed", "status", "--name", bed.name))
    bed.weir("testbed", "start", "--name", bed.name, "between")
    assert bed.exec("between", CHANGED) == before
    assert bed.exec("between", "ip -4 route get 10.0.1.1").startswith("10.0.1.1 dev weir0")
