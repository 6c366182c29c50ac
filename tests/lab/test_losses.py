"""Random losses: the lab loses the same packets as the simulator."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lab_support import plan

from shared import Memory, execute
from weir import _weir
from weir.lab import Kernel
from weir.lab._files import sources
from weir.methods.lab import _wire

BERNOULLI = {"kind": "bernoulli", "p": 0.03}
BURSTS = {"kind": "gilbert_elliott", "p": 0.01, "r": 0.2, "good": 0.001, "bad": 0.6}
_DRAWS = 20_000
_RETRANSMISSION = 2
_BULK = "{name: a, between: pairs, kind: bulk, until: 3s}"
_DATAGRAM = "{name: u, between: pairs, kind: cbr, rate: 320kbps, packet: 40B, start: 1ms, until: 1.5ms}"
"""One small packet, which passes the bottleneck before a flow's first data."""

_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "random.h"

/* SEED CHANCE COUNT: draws of a generator, then as many decisions */
int main(int argc, char **argv)
{
	struct random random = random_of(strtoull(argv[1], NULL, 10));
	u64 chance = strtoull(argv[2], NULL, 10);
	int count = atoi(argv[3]);

	for (int i = 0; i < count; i++)
		printf("%llu\\n", (unsigned long long)random_next(&random));
	for (int i = 0; i < count; i++)
		printf("%d\\n", random_happens(&random, chance));
	return argc != 4;
}
"""


@pytest.fixture(scope="module")
def draws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of the host with the generator of the lab's links."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    folder = tmp_path_factory.mktemp("draws")
    (folder / "draws.c").write_text(_PROGRAM, encoding="utf-8")
    include = f"-I{sources() / 'guest' / 'wire'}"
    subprocess.run(["gcc", "-O1", include, "-o", "draws", "draws.c"], cwd=folder, check=True)
    return folder / "draws"


@pytest.mark.parametrize("seed", [0, 1, 7, (1 << 63) + 12345])
def test_the_generator_is_that_of_the_simulator(draws: Path, seed: int) -> None:
    p = 0.01
    command = [str(draws), str(_wire._substream(seed, "link/a>b/loss")), str(_wire._chance(p)), str(_DRAWS)]
    numbers = [int(line) for line in subprocess.run(command, capture_output=True, check=True).stdout.split()]
    units = _weir.sample(seed, "link/a>b/loss", {"kind": "uniform", "low": 0.0, "high": 1.0}, 2 * _DRAWS)
    # A unit of the simulator is the upper 53 bits.
    assert [(number >> 11) * 2.0**-53 for number in numbers[:_DRAWS]] == units[:_DRAWS]
    decisions = [unit < p for unit in units[_DRAWS:]]
    assert numbers[_DRAWS:] == [int(decision) for decision in decisions]
    assert 0.5 * p < sum(decisions) / _DRAWS < 2 * p


def test_certain_probabilities_are_exact() -> None:
    assert [_wire._chance(p) for p in (-1.0, 0.0, 0.5, 1.0, 2.0)] == [0, 0, 1 << 62, 1 << 63, 1 << 63]


def drops(sink: Memory) -> list[tuple[int, int]]:
    """The bins in which the bottleneck lost packets, with their number."""
    table = sink.columns("links")
    rows = zip(table["time_ns"], table["link"], table["drop_packets"], strict=True)
    return [(time, packets) for time, link, packets in rows if link == 0 and packets]


def lossy(folder: Path, loss: dict[str, Any], *overrides: str) -> dict[str, Any]:
    made = plan(folder, "topology.dumbbell.pairs=1", *overrides)
    made["links"][0]["loss"] = loss
    return made


@pytest.mark.parametrize("loss", [BERNOULLI, BURSTS], ids=["bernoulli", "bursts"])
def test_the_same_packets_are_lost_as_in_the_simulator(kernel: Kernel, tmp_path: Path, loss: dict[str, Any]) -> None:
    """Evenly spaced datagrams, twice as far apart as the bins are wide: the bin of a loss identifies the packet."""
    source = "workload[0]={name: u, between: pairs, kind: cbr, rate: 12Mbps, start: 0s, until: 6s}"
    made = lossy(tmp_path, loss, source, "measure.links=0.5ms")
    lab, sim = (execute(method, made)[0] for method in ("lab", "sim"))
    assert lab.columns("flows")["lost_packets"] == sim.columns("flows")["lost_packets"]
    assert drops(lab) == drops(sim)
    assert len(drops(lab)) > 50


def test_changed_losses_are_those_of_the_simulator(kernel: Kernel, tmp_path: Path) -> None:
    """New losses have a stream of their own, which earlier losses do not change."""
    source = "workload[0]={name: u, between: pairs, kind: cbr, rate: 12Mbps, start: 0s, until: 6s}"
    made = lossy(tmp_path, {"kind": "list", "packets": [5, 1000]}, source, "measure.links=0.5ms")
    changes = (None, BERNOULLI, BURSTS, None)
    made["changes"] = [
        {"at_ns": (second + 1) * 1_000_000_000, "link": 0, "change": {"kind": "loss", "loss": loss}}
        for second, loss in enumerate(changes)
    ]
    lab, sim = (execute(method, made)[0] for method in ("lab", "sim"))
    assert json.loads(lab.files["lab.json"].getvalue())["links"] == "kernel"
    lost = drops(lab)
    assert lost == drops(sim)
    seconds = {time // 1_000_000_000 for time, _ in lost}
    assert seconds == {0, 2, 3}  # 1000 comes after the first change


def test_a_flow_with_random_losses_is_that_of_the_simulator(kernel: Kernel, tmp_path: Path) -> None:
    """Only the losses matter here: no queue forms."""
    changes = ("transport.cc=reno", "topology.dumbbell.bottleneck.rate=100Mbps")
    made = lossy(tmp_path, {"kind": "bernoulli", "p": 0.01}, *changes)
    lab, sim = (execute(method, made)[0].columns("flows") for method in ("lab", "sim"))
    assert lab["lost_packets"][0] == pytest.approx(sim["lost_packets"][0], rel=0.05)
    assert lab["delivered_bytes"][0] == pytest.approx(sim["delivered_bytes"][0], rel=0.03)


def test_the_third_packet_of_the_handshake_takes_a_draw(kernel: Kernel, tmp_path: Path) -> None:
    """In both methods; a small datagram ahead of the data takes another one."""
    changes = ("transport.cc=reno", "topology.dumbbell.bottleneck.rate=100Mbps", "measure.acks=true")
    first = {}
    for name, others in {"alone": _BULK, "beside a datagram": f"{_BULK}, {_DATAGRAM}"}.items():
        made = lossy(tmp_path, {"kind": "bernoulli", "p": 0.002}, *changes, f"workload=[{others}]")
        for method in ("lab", "sim"):
            table = execute(method, made)[0].columns("acks")
            rows = zip(table["kind"], table["packet"], strict=True)
            first[method, name] = next(packet for kind, packet in rows if kind == _RETRANSMISSION)
    assert first["sim", "alone"] == first["lab", "alone"] == first["lab", "beside a datagram"] + 1
    assert first["sim", "beside a datagram"] == first["lab", "beside a datagram"]


def test_of_a_train_the_same_packets_are_lost(kernel: Kernel, tmp_path: Path) -> None:
    """A train that loses packets continues with the remaining ones."""
    changes = ("topology.dumbbell.bottleneck.rate=100Mbps", "methods.lab.offload=trains")
    made = lossy(tmp_path, {"kind": "list", "packets": [100, 101, 500]}, *changes)
    made["links"][0]["queue"]["limit"] = {"bytes": 10_000_000, "packets": None}
    flows = execute("lab", made)[0].columns("flows")
    assert flows["lost_packets"] == [3]
    assert flows["retransmitted_packets"] == [3]


@pytest.mark.parametrize("name", ["bottleneck", "left>right", "", "a link with spaces", "Zürich>Genève"])
def test_a_substream_has_its_own_numbers(draws: Path, name: str) -> None:
    first = subprocess.run(
        [str(draws), str(_wire._substream(3, name)), "0", "1"], capture_output=True, check=True
    ).stdout.split()[0]
    (unit,) = _weir.sample(3, name, {"kind": "uniform", "low": 0.0, "high": 1.0}, 1)
    assert (int(first) >> 11) * 2.0**-53 == unit
