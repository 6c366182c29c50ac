"""The simulator as Python sees it: columns, steps, and results that do not depend on the execution."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import engine_support
import fake
import numpy as np
import pyarrow.parquet as pq
import pytest

from shared import Memory, execute
from weir import _weir, engine, methods
from weir.plan import canonical
from weir.run.tables import TABLES

MS = 1_000_000
RECORDED = tuple(name for name in TABLES if name not in {"classes", "ports", *methods.INSIDE, *methods.REAL})
"""The tables of a plan that measures everything but what is inside controls, without classes and switches."""


def lossy_plan(seed: int = 1) -> dict[str, Any]:
    """Two flows and a constant-bit-rate source through a small queue with random losses."""
    plan = fake.plan("lossy", seed)
    plan["end_ns"] = 3_000 * MS
    plan["measure"]["delay_ns"] = 100 * MS
    plan["links"][0]["host_nic"] = False
    plan["links"][0]["loss"] = {"kind": "bernoulli", "p": 0.001}
    first = plan["flows"][0]
    udp = {"protocol": "udp", "payload_bytes": 1000}
    cbr = {"kind": "cbr", "rate_bps": 10_000_000, "periods_ns": [300 * MS, 200 * MS]}
    plan["flows"] += [
        dict(first, name="second", index=1, start_ns=500 * MS, transport={**first["transport"], "cc": "cubic"}),
        dict(first, name="cbr", group="cbr", start_ns=700 * MS, transport=udp, source=cbr, reverse_path=[]),
    ]
    return plan


def simulate(plan: dict[str, Any]) -> Memory:
    sink, _ = execute("sim", plan)
    assert sink.files == {}, "nothing asked for them"
    return sink


def test_a_bulk_flow_fills_its_link() -> None:
    sink = simulate(fake.plan())
    flows = sink.table("flows").to_pylist()
    assert len(flows) == 1
    # 1448 of 1538 bytes on the wire are payload; slow start and the handshake cost less than 2 % of ten seconds.
    assert flows[0]["delivered_bytes"] == pytest.approx(100e6 / 8 * 10 * 1448 / 1538, rel=0.02)
    assert flows[0]["bytes"] is None
    assert flows[0]["end_ns"] is None
    assert flows[0]["established_ns"] == pytest.approx(10 * MS, rel=0.05)
    kinds = sink.table("events").column("kind").to_pylist()
    assert kinds[:2] == ["flow_start", "established"] or set(kinds[:3]) >= {"flow_start", "established"}
    assert sink.table("samples").column("ssthresh").null_count > 0


def test_results_do_not_depend_on_the_steps_of_the_driver() -> None:
    tables, counts = [], []
    for step in (3_000 * MS, 7 * MS, 333_333_337):
        simulator = _weir.Simulator(canonical(lossy_plan()))
        parts: dict[str, dict[str, list[np.ndarray[Any, Any]]]] = {}
        finished = False
        while not finished:
            finished = simulator.advance(simulator.now_ns + step)
            for table, columns in simulator.drain().items():
                for name, values in columns.items():
                    parts.setdefault(table, {}).setdefault(name, []).append(np.asarray(memoryview(values)))
        tables.append({t: {n: np.concatenate(p) for n, p in c.items()} for t, c in parts.items()})
        counts.append(simulator.stats())
    assert {name: len(next(iter(columns.values()))) for name, columns in tables[0].items()}.keys() == set(RECORDED)
    assert len(tables[0]["samples"]["cwnd"]) > 200
    assert counts[0]["max_in_flight"] > 10
    assert counts == [counts[0]] * 3
    for other in tables[1:]:
        for table, columns in tables[0].items():
            for name, values in columns.items():
                np.testing.assert_array_equal(values, other[table][name], f"{table}.{name}")


def test_the_seed_matters_and_is_all_that_does() -> None:
    one, again, other = (simulate(lossy_plan(seed)) for seed in (1, 1, 2))
    for name in RECORDED:
        assert one.table(name).equals(again.table(name)), name
    assert not one.table("goodput").equals(other.table("goodput"))


def test_columns_are_borrowed_read_only_and_outlive_their_simulator() -> None:
    simulator = _weir.Simulator(canonical(fake.plan()))
    simulator.advance(200 * MS)
    column = simulator.drain()["samples"]["cwnd"]
    view = memoryview(column)
    assert (view.format, view.itemsize, view.readonly, view.shape) == ("I", 4, True, (len(column),))
    with pytest.raises(TypeError):
        view[0] = 1
    array = np.asarray(view)
    del simulator, column, view
    assert array.tolist()[0] >= 10
    assert (array.astype(int) > 0).all()


def test_an_empty_column_is_a_buffer_too() -> None:
    column = _weir.Simulator(canonical(fake.plan())).drain()["flows"]["bytes"]
    assert (len(column), memoryview(column).nbytes, bytes(memoryview(column))) == (0, 0, b"")


def test_other_threads_run_while_the_simulator_does() -> None:
    simulator = _weir.Simulator(canonical(dict(fake.plan(), end_ns=100_000 * MS)))
    ticks = 0
    over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    simulator.advance(100_000 * MS)
    during = ticks - before
    over.set()
    thread.join()
    # If the lock were held, only the turns at the beginning and at the end would count.
    assert during > 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version: 2 is not a version this weir reads"),
        ({"end_ns": 0}, "end_ns: a run needs some time"),
        ({"speed": 1}, "unknown field `speed`"),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(change: dict[str, Any], said: str) -> None:
    text = canonical(fake.plan() | change)
    with pytest.raises(ValueError, match=said):
        _weir.check_plan(text)
    with pytest.raises(methods.MethodError, match=said):
        methods.get("sim").execute(text, Memory(), lambda _now_ns: None)


def test_an_unknown_congestion_control_is_refused() -> None:
    plan = fake.plan()
    plan["flows"][0]["transport"]["cc"] = "cubik"
    with pytest.raises(methods.MethodError, match="cubik"):
        methods.get("sim").execute(canonical(plan), Memory(), lambda _now_ns: None)


class PlanCell(fake.FakeCell):
    def plan(self) -> dict[str, Any]:
        return lossy_plan(self.seed)


def test_twice_and_with_one_and_two_workers_the_bytes_are_the_same(tmp_path: Path) -> None:
    scenario = fake.FakeScenario(tuple(PlanCell(f"c{i}", seed=i + 1) for i in range(4)))
    for name, workers in (("one", 1), ("two", 2), ("again", 2)):
        assert engine.run(scenario, tmp_path / name, workers=workers).failures == ()
    one, two, again = (engine_support.results(tmp_path / name) for name in ("one", "two", "again"))
    assert one == two == again
    assert len(one) == 4 * (len(RECORDED) + 1)
    for name in ("links", "delays", "delay_bins"):
        assert pq.read_metadata(tmp_path / f"one/cells/c0/{name}.parquet").num_rows > 0
    stats = json.loads((tmp_path / "one/cells/c0/manifest.json").read_text())["stats"]
    assert stats["packets"] > 1000


def test_draws_are_named_substreams() -> None:
    draws = [_weir.sample(1, name, {"kind": "exponential", "mean": 3.0}, 4) for name in ("a", "a", "b")]
    assert draws[0] == draws[1] != draws[2]
    assert _weir.sample(1, "a", '{"kind": "exponential", "mean": 3.0}', 4) == draws[0]
    with pytest.raises(ValueError, match="distribution: unknown variant `pareot`"):
        _weir.sample(1, "a", {"kind": "pareot"}, 1)
    with pytest.raises(ValueError, match="pareto: scale and shape must be positive"):
        _weir.sample(1, "a", {"kind": "pareto", "scale": 0.0, "shape": 1.0}, 1)


def traced(plan: dict[str, Any], step_ns: int) -> dict[str, bytes]:
    """The files of the trace, drained every ``step_ns``."""
    simulator = _weir.Simulator(canonical(plan))
    files: dict[str, bytes] = {}
    finished = False
    while not finished:
        finished = simulator.advance(simulator.now_ns + step_ns)
        for name, content in simulator.drain_trace().items():
            files[name] = files.get(name, b"") + content
    return files


def test_a_trace_is_the_same_however_often_it_is_drained() -> None:
    plan = lossy_plan()
    plan["measure"]["trace"] = {"flows": [], "from_ns": 0, "to_ns": 1_000 * MS, "max_packets": 1_000_000}
    whole, parts = traced(plan, 10_000 * MS), traced(plan, 50 * MS)
    assert sorted(whole) == ["packets.csv", "receivers.pcap", "senders.pcap"]
    assert whole == parts
    assert whole["senders.pcap"][:4] == bytes.fromhex("4d3cb2a1")
    lines = whole["packets.csv"].decode().splitlines()
    assert len(lines) > 1000
    assert lines[0].startswith("time_ns,event,")
    assert sum(line.startswith("time_ns") for line in lines) == 1
    assert any(",dropped," in line for line in lines)


def test_without_a_trace_there_are_no_files() -> None:
    assert traced(lossy_plan(), 1_000 * MS) == {}


def test_a_worker_does_not_load_what_reads_results() -> None:
    """Polars would make the start of each worker half as long again."""
    code = (
        "import sys, weir.engine.worker, weir.engine._cell, weir.engine._folder\n"
        "from weir import methods\n"
        "methods.get('sim')\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "weir.methods.sim" in ran.stdout.split()
    assert "polars" not in ran.stdout.split()
