"""One-way delays in the lab: exact without queueing, else as in the simulator; the measurement has no side effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_support import plan

from shared import Memory, execute
from weir.cli._scenarios import load
from weir.lab import Kernel
from weir.methods import MethodError
from weir.run.tables import TABLES

CALL = Path(__file__).parent.parent.parent / "examples" / "call.yaml"
QUEUES = ("droptail", "codel", "fq_codel")
SECOND = 1_000_000_000


def call(queue: str, *overrides: str) -> dict[str, Any]:
    """The plan of a call, flow 0, beside a download, flow 1."""
    cell = load(str(CALL), overrides=overrides, quiet=True).cells()[QUEUES.index(queue)]
    compiled: dict[str, Any] = cell.plan()
    assert compiled["links"][0]["queue"]["kind"] == queue
    return compiled


def percentile(sink: Memory, flow: int, percent: float, what: str = "delay", end_s: float = 30) -> float:
    """Of the delays or jitters of a flow, from the tenth second to an instant."""
    bins = sink.table("delay_bins").to_pydict()
    times = enumerate(bins["time_ns"])
    mine = [i for i, at in times if bins["flow"][i] == flow and 10 * SECOND < at <= end_s * SECOND]
    middles = np.array([(bins["low_ns"][i] + bins["high_ns"][i]) / 2 for i in mine])
    counts = np.array([bins[f"{what}_packets"][i] for i in mine])
    order = np.argsort(middles)
    reached = np.cumsum(counts[order])
    return float(middles[order][np.searchsorted(reached, percent / 100 * reached[-1])])


def total(sink: Memory, table: str, column: str, flow: int) -> int:
    rows = sink.table(table).to_pydict()
    return sum(value for value, owner in zip(rows[column], rows["flow"], strict=True) if owner == flow)


@pytest.fixture(scope="module")
def both(kernel: Kernel) -> dict[tuple[str, str], Memory]:
    return {(method, queue): execute(method, call(queue))[0] for method in ("sim", "lab") for queue in QUEUES}


@pytest.mark.parametrize("queue", QUEUES)
def test_a_call_alone_takes_as_long_as_in_the_simulator(both: dict[tuple[str, str], Memory], queue: str) -> None:
    rows = [both[method, queue].table("delays").to_pylist()[:9] for method in ("sim", "lab")]
    assert [row["time_ns"] for row in rows[0]] == [(k + 1) * SECOND // 2 for k in range(9)]
    for sim, lab in zip(*rows, strict=True):
        assert sim["delay_ns"] == sim["delay_min_ns"] == sim["delay_max_ns"]
        for name in ("time_ns", "flow", "packets", "jitter_packets"):
            assert lab[name] == sim[name], name
        for name in ("delay_ns", "delay_min_ns", "delay_max_ns", "jitter_max_ns"):
            assert lab[name] == pytest.approx(sim[name], abs=10), name


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("percent", [50, 95, 99])
def test_beside_a_download_delays_are_near_those_of_the_simulator(
    both: dict[tuple[str, str], Memory], queue: str, percent: int
) -> None:
    for flow in (0, 1):
        sim, lab = (percentile(both[method, queue], flow, percent) for method in ("sim", "lab"))
        assert lab == pytest.approx(sim, rel=0.05), flow


def test_fair_queueing_is_what_the_call_feels(both: dict[tuple[str, str], Memory]) -> None:
    ninety_nine = {queue: percentile(both["lab", queue], 0, 99) for queue in QUEUES}
    # For Linux, a packet that finds an empty queue and a busy device has left the queue: the call waits for two.
    two = 2 * 1538 * 8 / 20e6 * 1e9
    # One in a hundred waits for a third, too.
    assert percentile(both["lab", "fq_codel"], 0, 98) < 20.1e6 + two
    assert ninety_nine["fq_codel"] < 20.1e6 + 1.5 * two < 24e6
    assert 24e6 < ninety_nine["codel"] < 60e6 < 200e6 < ninety_nine["droptail"]
    steps = {queue: percentile(both["lab", queue], 0, 95, "jitter") for queue in QUEUES}
    assert steps["fq_codel"] < steps["codel"] < steps["droptail"]


@pytest.mark.parametrize("queue", QUEUES)
def test_every_packet_arrived_was_lost_or_was_under_way(both: dict[tuple[str, str], Memory], queue: str) -> None:
    sink = both["lab", queue]
    for flow in (0, 1):
        arrived = total(sink, "delays", "packets", flow)
        sent, lost = (total(sink, "flows", f"{what}_packets", flow) for what in ("sent", "lost"))
        assert arrived + lost <= sent <= arrived + lost + 400
        assert total(sink, "delay_bins", "delay_packets", flow) == arrived
        assert total(sink, "delay_bins", "jitter_packets", flow) == arrived - 1


@pytest.mark.parametrize("queue", ["droptail", "fq_codel"])
def test_to_measure_changes_nothing_else(both: dict[tuple[str, str], Memory], queue: str) -> None:
    plan_ = call(queue)
    del plan_["measure"]["delay_ns"]
    without, _ = execute("lab", plan_)
    assert set(without.batches) == {name for name, table in TABLES.items() if not table.optional}
    for name in without.batches:
        assert without.table(name).equals(both["lab", queue].table(name)), name


def test_the_emulator_in_the_lab_tells_the_same(both: dict[tuple[str, str], Memory]) -> None:
    shorter = ("duration=15s", "workload.call.until=15s", "workload.download.until=15s", "phases.busy.to=15s")
    sink, _ = execute("lab", call("fq_codel", "methods.lab.links=emulator", *shorter))
    alone = sink.table("delays").to_pylist()[:9]
    exact = both["sim", "fq_codel"].table("delays").to_pylist()[0]["delay_ns"]
    assert all(exact <= row["delay_min_ns"] <= row["delay_max_ns"] <= exact + 2_000 for row in alone)
    for percent in (50, 95):
        other = percentile(both["lab", "fq_codel"], 0, percent, end_s=15)
        assert percentile(sink, 0, percent, end_s=15) == pytest.approx(other, rel=0.05)


@pytest.mark.parametrize("offload", ["trains", "device"])
def test_each_packet_of_a_train_counts(kernel: Kernel, offload: str) -> None:
    sink, _ = execute("lab", call("droptail", f"methods.lab.offload={offload}"))
    arrived = total(sink, "delays", "packets", 1)
    sent, lost = (total(sink, "flows", f"{what}_packets", 1) for what in ("sent", "lost"))
    assert arrived > 30_000
    assert arrived + lost <= sent <= arrived + lost + 400
    assert total(sink, "delays", "jitter_packets", 1) == arrived - 1


def test_links_that_cannot_time_packets_are_refused(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(MethodError, match=r"netem lacks this: measure\.delay: the time that single packets take"):
        execute("lab", plan(tmp_path, "measure.delay=500ms", "methods.lab.links=netem"))
