"""A plan in the lab: the kernel's results, reproducible, and close to the simulator's."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from lab_support import plan

from shared import Memory, execute
from weir._programs import find
from weir.lab import Kernel
from weir.methods import INSIDE, REAL, MethodError
from weir.methods.lab import _wire
from weir.methods.lab._effort import memory_mb
from weir.plan import typed
from weir.queues import red
from weir.run.tables import TABLES

DELAYS = "measure.delay=500ms"
WRITTEN = set(TABLES) - {"classes", "ports"} - INSIDE - REAL
"""No queue of these plans has classes, no node ports, and the kernel's own controls show no probes."""


def delivered(sink: Memory) -> list[int]:
    return [int(value) for value in sink.columns("flows")["delivered_bytes"]]


def lost(sink: Memory) -> list[int]:
    return [int(value) for value in sink.columns("flows")["lost_packets"]]


@pytest.fixture(scope="module")
def reno(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return execute("lab", plan(tmp_path_factory.mktemp("reno"), DELAYS))[0]


def test_every_table_has_rows(reno: Memory) -> None:
    assert set(reno.batches) == WRITTEN
    assert all(reno.table(name).num_rows for name in WRITTEN)
    assert json.loads(reno.files["lab.json"].getvalue())["links"] == "kernel"


def test_twice_the_same_plan_gives_the_same_tables(reno: Memory, tmp_path: Path) -> None:
    again, _ = execute("lab", plan(tmp_path, DELAYS))
    for name in WRITTEN:
        assert again.table(name).equals(reno.table(name)), name


def test_short_intervals_are_served(kernel: Kernel, tmp_path: Path) -> None:
    changes = ("duration=500ms", "workload[0].until=500ms", "workload[0].start=0s")
    fine = "measure={goodput: 100us, tcp: 100us, links: 10us}"
    sink, outcome = execute("lab", plan(tmp_path, *changes, fine))
    assert outcome.warnings == ()
    for table, step in (("samples", 100_000), ("goodput", 100_000)):
        times = sink.columns(table)["time_ns"]
        assert len(times) == 2 * 5000, table
        assert set(times) == set(range(step, 500_000_001, step)), table
    assert max(sink.columns("links")["time_ns"]) <= 500_000_000, "nothing is told of what comes after the end"


def test_another_seed_gives_other_losses(kernel: Kernel, tmp_path: Path) -> None:
    change = "topology.dumbbell.bottleneck.loss=1%"
    first, second = (execute("lab", plan(tmp_path, change, f"seed={seed}"))[0] for seed in (1, 2))
    assert first.columns("links") != second.columns("links")


def test_packets_are_conserved(reno: Memory) -> None:
    links = reno.columns("links")
    rows = [row for row, link in enumerate(links["link"]) if link == 0]
    total = {name: sum(links[name][row] for row in rows) for name in ("in_packets", "out_packets", "drop_packets")}
    assert total["in_packets"] == total["out_packets"] + total["drop_packets"] + links["queue_packets"][rows[-1]]
    assert total["drop_packets"] == sum(lost(reno)) > 0


def test_the_simulator_is_near(reno: Memory, tmp_path: Path) -> None:
    """The link is full in both; the flows share it alike; the losses are of the same order."""
    sim, _ = execute("sim", plan(tmp_path, "transport.cc=reno"))
    assert sum(delivered(reno)) == pytest.approx(sum(delivered(sim)), rel=0.02)
    assert delivered(reno) == pytest.approx(delivered(sim), rel=0.25)
    assert 0.4 < sum(lost(reno)) / sum(lost(sim)) < 2.5


def test_ours_is_the_kernels_reno(reno: Memory, tmp_path: Path) -> None:
    """RFC 5681 leaves no choice: the two sources do the same to every packet. Their clocks differ by nanoseconds."""
    ours, _ = execute("lab", plan(tmp_path, "transport.cc=reno"))
    assert ours.table("goodput").equals(reno.table("goodput"))
    assert lost(ours) == lost(reno)
    here, there = ours.columns("samples"), reno.columns("samples")
    for name in ("time_ns", "flow", "cwnd", "ssthresh", "in_flight", "acked_bytes", "ca_state"):
        assert here[name] == there[name], name
    assert here["srtt_ns"] == pytest.approx(there["srtt_ns"], abs=2000)


def test_options_are_per_flow(kernel: Kernel, tmp_path: Path) -> None:
    """After a loss, each flow keeps its own share of its window."""
    made = plan(tmp_path, "transport.cc=cubic", "workload[0].until=20s")
    shares = (512, 900)
    for flow, beta in zip(made["flows"], shares, strict=True):
        flow["transport"]["cc_options"] = {"beta": beta, "hystart": 0}
    sink, _ = execute("lab", made)
    assert len(set(json.loads(sink.files["lab.json"].getvalue())["congestion_controls"].values())) == 2
    samples = sink.columns("samples")
    for number, beta in enumerate(shares):
        rows = [row for row, flow in enumerate(samples["flow"]) if flow == number and samples["ssthresh"][row]]
        kept = [
            samples["ssthresh"][row] / samples["cwnd"][before]
            for before, row in itertools.pairwise(rows)
            if samples["ssthresh"][row] != samples["ssthresh"][before]
        ]
        assert statistics.median(kept) == pytest.approx(beta / 1024, abs=0.1)


@pytest.mark.parametrize("queue", ["{codel: {}}", "{fq_codel: {}}"])
def test_an_active_queue_of_the_kernel_keeps_the_delay_low(kernel: Kernel, tmp_path: Path, queue: str) -> None:
    sink, _ = execute("lab", plan(tmp_path, f"topology.dumbbell.bottleneck.queue={queue}"))
    links = sink.columns("links")
    waits = [wait for wait, link in zip(links["queue_delay_ns"], links["link"], strict=True) if link == 0 and wait]
    assert 1e6 < statistics.median(waits) < 10e6
    assert sum(lost(sink)) > 0


def test_marks_of_an_active_queue_are_counted(kernel: Kernel, tmp_path: Path) -> None:
    queue = "topology.dumbbell.bottleneck.queue={codel: {ecn: true}}"
    sink, _ = execute("lab", plan(tmp_path, queue, "transport.ecn=true"))
    marked = sum(sink.columns("flows")["marked_packets"])
    assert marked == sum(sink.columns("links")["mark_packets"]) > 0
    assert lost(sink) == [0, 0]


def test_datagrams_arrive_at_their_rate(kernel: Kernel, tmp_path: Path) -> None:
    made = plan(tmp_path, "workload[0]={name: u, between: pairs, kind: cbr, rate: 3Mbps, start: 0s, until: 5s}")
    sink, _ = execute("lab", made)
    payload = made["flows"][0]["transport"]["payload_bytes"]
    assert delivered(sink) == pytest.approx([3e6 * 5 / 8 * payload / (payload + 28)] * 2, rel=0.01)


def test_transfers_take_the_time_they_take_in_the_simulator(kernel: Kernel, tmp_path: Path) -> None:
    entry = "{name: t, between: pairs, kind: transfer, size: 200kB, start: {every: 500ms}}"
    made = plan(tmp_path, f"workload[0]={entry}", "duration=5s", "transport.cc=reno")
    times = [
        [end - start for start, end in zip(table["start_ns"], table["end_ns"], strict=True)]
        for table in (execute(method, made)[0].columns("flows") for method in ("lab", "sim"))
    ]
    assert len(times[0]) == len(times[1]) == 2
    assert sum(times[0]) == pytest.approx(sum(times[1]), rel=0.05)


def test_listed_packets_are_lost_and_no_others(kernel: Kernel, tmp_path: Path) -> None:
    made = plan(tmp_path, "topology.dumbbell.pairs=1")
    made["links"][0]["loss"] = {"kind": "list", "packets": [100, 101, 500]}
    made["links"][0]["queue"]["limit"] = {"bytes": 10_000_000, "packets": None}
    sink, _ = execute("lab", made)
    assert lost(sink) == [3]
    assert sink.columns("flows")["retransmitted_packets"] == [3]


def test_a_changed_rate_counts_from_its_instant(kernel: Kernel, tmp_path: Path) -> None:
    made = plan(tmp_path, "topology.dumbbell.pairs=1")
    made["changes"] = [{"at_ns": 3_000_000_000, "link": 0, "change": {"kind": "rate", "rate_bps": 5_000_000}}]
    sink, _ = execute("lab", made)
    goodput = sink.columns("goodput")
    by_time = dict(zip(goodput["time_ns"], goodput["delivered_bytes"], strict=True))
    assert by_time[2_500_000_000] == pytest.approx(20e6 * 0.5 / 8 * 1448 / 1538, rel=0.02)
    assert by_time[4_500_000_000] == pytest.approx(5e6 * 0.5 / 8 * 1448 / 1538, rel=0.02)


def test_what_the_kernels_links_lack_the_emulator_does(kernel: Kernel, tmp_path: Path) -> None:
    made = plan(tmp_path, "workload[0].until=2s", "topology.dumbbell.bottleneck.rate=5Mbps")
    made["links"][0]["delay"] = {
        "kind": "jitter",
        "delay_ns": 10_000_000,
        "jitter_ns": 1_000_000,
        "normal": False,
        "reorder": False,
    }
    sink, _ = execute("lab", made)
    facts = json.loads(sink.files["lab.json"].getvalue())
    assert facts["links"] == "weir-emu"
    assert "a delay that varies" in facts["because"]
    assert sum(delivered(sink)) == pytest.approx(5e6 * 2 / 8, rel=0.15)
    assert sink.table("links").num_rows


def test_weirs_emulator_sees_each_packet_alone_too(kernel: Kernel, tmp_path: Path) -> None:
    """A short queue behind a fast card: trains overrun it."""
    try:
        find("weir-emu")
    except MethodError as error:
        pytest.skip(str(error))
    changes = {
        "topology.dumbbell.bottleneck": "{rate: 40Mbps, queue: 10packets}",
        "topology.dumbbell.access.rate": "1Gbps",
        "topology.dumbbell.pairs": "1",
        "workload[0].until": "1500ms",
        "transport.cc": "linux:cubic",
    }
    made = [f"{key}={value}" for key, value in changes.items()]
    emulator = "methods.lab.links=emulator"
    exact, alone, trains = (
        delivered(execute("lab", plan(tmp_path, *made, *more))[0])[0]
        for more in ((), (emulator,), (emulator, "methods.lab.offload=trains"))
    )
    assert alone == pytest.approx(exact, rel=0.002)
    assert trains != pytest.approx(exact, rel=0.004)


def test_single_packets_are_recorded_if_asked(kernel: Kernel, tmp_path: Path) -> None:
    made = plan(tmp_path, "workload[0].until=2s", "topology.dumbbell.bottleneck.rate=5Mbps", "measure.trace={from: 0s}")
    sink, _ = execute("lab", made)
    content = sink.files["senders.pcap"].getvalue()
    assert content[:4] == b"\x4d\x3c\xb2\xa1"  # nanoseconds, little-endian
    packets, at = 0, 24
    while at < len(content):
        packets, at = packets + 1, at + 16 + int.from_bytes(content[at + 8 : at + 12], "little")
    assert at == len(content)
    assert packets >= sum(delivered(sink)) / 1460


def test_an_unknown_congestion_control_is_named(kernel: Kernel, tmp_path: Path) -> None:
    made = plan(tmp_path, "transport.cc='linux:lp'")
    made["flows"][0]["transport"]["cc"] = "linux:nonesuch"
    with pytest.raises(MethodError, match=r"linux:nonesuch.*it has reno, "):
        execute("lab", made)


# Tests without a lab -------------------------------------------------------------------------------------------------


def changed(made: dict[str, Any], link: int, **values: Any) -> dict[str, Any]:
    made["links"][link] |= values
    return made


def test_what_the_kernels_links_lack(tmp_path: Path) -> None:
    assert _wire.obstacle(typed(plan(tmp_path))) is None
    jitter = {"kind": "jitter", "delay_ns": 10, "jitter_ns": 5, "normal": True, "reorder": False}
    assert "a delay that varies" in str(_wire.obstacle(typed(changed(plan(tmp_path), 0, delay=jitter))))
    curves = [{"dscp_from": 0, "dscp_to": 9, "min_bytes": 30_000, "max_bytes": 90_000, "max_p": 0.1}] * 2
    limit = {"bytes": 100_000, "packets": None}
    red = {"kind": "red", "limit": limit, "curves": curves, "weight": 1 / 512, "gentle": False, "mark": "drop"}
    assert "RED" in str(_wire.obstacle(typed(changed(plan(tmp_path), 0, queue=red))))
    assert "some code points" in str(
        _wire.obstacle(typed(changed(plan(tmp_path), 0, queue={**red, "curves": curves[:1]})))
    )
    whole = {**red, "curves": [{**curves[0], "dscp_to": 63}]}
    assert _wire.obstacle(typed(changed(plan(tmp_path), 0, queue=whole))) is None
    assert "RED" in str(_wire.obstacle(typed(changed(plan(tmp_path), 0, queue={**whole, "weight": 0.003}))))


@pytest.mark.parametrize("exponent", range(3, 12))
@pytest.mark.parametrize("least", [3_000, 30_000, 600_000])
def test_tc_arrives_at_the_weight_of_red_or_the_emulator_has_it(exponent: int, least: int) -> None:
    """Floyd's relation of the burst, the weight and the threshold, as tc solves it."""
    burst = red._burst(least, 1500, exponent)
    if burst is None:
        assert 2**exponent < least / 1500  # the average would follow within less than the threshold
        return
    wanted = burst + 1 - least / 1500
    sums = ((candidate, (1 - (1 - 2.0**-candidate) ** burst) / 2.0**-candidate) for candidate in range(1, 32))
    assert next(candidate for candidate, total in sums if wanted < 1 or wanted <= total) == exponent


def test_the_guest_has_memory_for_a_trace(tmp_path: Path) -> None:
    made = plan(tmp_path, "topology.dumbbell.access.rate=10Gbps")
    trace = {"from_ns": 0, "to_ns": made["end_ns"], "max_packets": 10**6}
    traced = {**made, "measure": {**made["measure"], "trace": trace}}
    # Two hosts of 10 Gb/s have 416,667 data packets in 250 ms; with acknowledgements each is 896 bytes of rows.
    assert memory_mb(typed(traced)) - memory_mb(typed(made)) == pytest.approx(373 - 64, abs=5)
    traced["measure"]["trace"]["max_packets"] = 1000
    assert memory_mb(typed(traced)) == memory_mb(typed(made))


def test_rows_of_the_module_become_tables() -> None:
    import numpy as np

    rows = np.zeros(5, _wire._ROW)
    rows["time_ns"] = [10, 20, 30, 40, 40]
    rows["kind"] = [0, 1, 2, 3, 4]
    rows["of"] = 4
    rows["values"][:, :4] = [[5, 100, 0, 0], [6, 2, 0, 0], [7, 3, 0, 0], [8, 9, 10, 11], [12, 13, 14, 15]]
    links, drops, marks, delays, bins = _wire.frames(rows.tobytes() + b"half a row", 40)
    assert (links.table, links.rows, links.columns["in_bytes"][0]) == ("links", 1, 100)
    assert (drops.table, drops.columns["flow"][0], drops.columns["packets"][0]) == ("drops", 6, 2)
    assert (marks.table, marks.columns["time_ns"][0], marks.columns["packets"][0]) == ("marks", 30, 3)
    assert (drops.columns["link"][0], delays.columns["flow"][0], bins.columns["flow"][0]) == (4, 4, 4)
    assert (delays.table, delays.columns["packets"][0], delays.columns["delay_max_ns"][0]) == ("delays", 8, 11)
    assert [int(values[0]) for values in bins.columns.values()] == [40, 4, 12, 13, 14, 15]
    for made in (delays, bins):
        assert set(made.columns) == {column.name for column in TABLES[made.table].columns}
