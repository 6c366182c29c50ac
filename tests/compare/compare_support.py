"""Runs with given numbers, so that every difference can be computed by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shared import seal_run
from weir.run import TABLES, arrow_schema

SECOND = 1_000_000_000
MEGABIT = 1_000_000


@dataclass(frozen=True)
class Cell:
    """One cell: goodput of each flow in Mbit/s and its congestion window, one value per second each."""

    goodput: Sequence[Sequence[float]] = ((10.0, 10.0),)
    cwnd: Sequence[Sequence[int]] = ((10, 20),)
    factors: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0
    seed: int | None = 7
    queue: Sequence[int] = (1000, 2000)
    delays_ns: Sequence[int] = ()
    """Delay of the packets of flow 0, equal for two of them each second; empty: no delay was measured."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other top-level values of the plan."""

    @property
    def id(self) -> str:
        """Folder name."""
        values = "-".join(self.factors.values())
        return f"{values or '0'}-r{self.repeat}"


def write_run(
    folder: Path,
    cells: Sequence[Cell],
    *,
    method: str = "sim",
    title: str = "A test",
    expect: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
) -> Path:
    """Writes a run folder with these cells."""
    listed = []
    for cell in cells:
        where = folder / "cells" / cell.id
        where.mkdir(parents=True)
        plan = _plan(cell, title)
        (where / "plan.json").write_text(json.dumps(plan))
        manifest = {"id": cell.id, "factors": dict(cell.factors), "repeat": cell.repeat, "seed": cell.seed,
                    "method": method, "warnings": []}  # fmt: skip
        (where / "manifest.json").write_text(json.dumps(manifest))
        for name, columns in _tables(cell).items():
            pq.write_table(_table(name, columns), where / f"{name}.parquet")
        listed.append(manifest)
    manifest = {"title": title, "method": method, "expect": list(expect), "cells": listed, "warnings": list(warnings),
                "settings": {}, "scenario": {"path": "a.yaml", "text": "title: A test\n"}}  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "scenario.yaml").write_text("title: A test\n")
    return seal_run(folder)


def _table(name: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    rows = len(next(iter(columns.values())))
    schema = arrow_schema(name)
    blank = {c.name: [None if c.nullable else 0] * rows for c in TABLES[name].columns}
    return pa.table({c.name: pa.array((blank | dict(columns))[c.name], c.type) for c in schema}, schema=schema)


def _tables(cell: Cell) -> dict[str, dict[str, Sequence[Any]]]:
    goodput = [
        ((k + 1) * SECOND, flow, int(value * MEGABIT / 8))
        for flow, values in enumerate(cell.goodput)
        for k, value in enumerate(values)
    ]
    samples = [
        ((k + 1) * SECOND, flow, value) for flow, values in enumerate(cell.cwnd) for k, value in enumerate(values)
    ]
    flows = range(len(cell.goodput))
    return _delays(cell) | {
        "flows": {"flow": flows, "delivered_bytes": [int(sum(g) * MEGABIT / 8) for g in cell.goodput],
                  "sent_packets": [1000] * len(flows)},
        "goodput": {"time_ns": [g[0] for g in goodput], "flow": [g[1] for g in goodput],
                    "delivered_bytes": [g[2] for g in goodput]},
        "samples": {"time_ns": [s[0] for s in samples], "flow": [s[1] for s in samples],
                    "cwnd": [s[2] for s in samples], "in_flight": [s[2] for s in samples],
                    "srtt_ns": [20_000_000] * len(samples), "min_rtt_ns": [20_000_000] * len(samples)},
        "links": {"time_ns": [(k + 1) * SECOND for k in range(len(cell.queue))], "link": [0] * len(cell.queue),
                  "in_packets": [100] * len(cell.queue), "queue_bytes": cell.queue},
        "events": {"time_ns": [], "kind": []},
    }  # fmt: skip


def _delays(cell: Cell) -> dict[str, dict[str, Sequence[Any]]]:
    if not cell.delays_ns:
        return {}
    ends, two = [(k + 1) * SECOND for k in range(len(cell.delays_ns))], [2] * len(cell.delays_ns)
    same = dict.fromkeys(("delay_ns", "delay_min_ns", "delay_max_ns"), cell.delays_ns)
    bins = {"low_ns": cell.delays_ns, "high_ns": cell.delays_ns, "delay_packets": two}
    return {"delays": {"time_ns": ends, "packets": two} | same, "delay_bins": {"time_ns": ends} | bins}


def _plan(cell: Cell, title: str) -> dict[str, Any]:
    length = max(len(values) for values in cell.goodput)
    link = {"name": "bottleneck", "from": 0, "to": 1, "rate_bps": 100 * MEGABIT, "overhead_bytes": 38,
            "mtu_bytes": 1500, "delay": {"kind": "fixed", "delay_ns": 10_000_000}, "loss": None,
            "queue": {"kind": "droptail", "limit": {"bytes": None, "packets": None}}}  # fmt: skip
    transport = {"protocol": "tcp", "cc": cell.factors.get("cc", "reno"), "mss_bytes": 1448, "timestamps": True,
                 "stack": "linux", "sack": True, "ecn": False, "pacing": False, "ack": "delayed", "initial_window": 10,
                 "send_buffer_bytes": 1 << 24, "receive_buffer_bytes": 1 << 24}  # fmt: skip
    flows = [
        {"name": f"flow[{i}]", "group": "flow", "index": i, "stream": 0, "role": "test", "from": 0, "to": 1,
         "path": [0], "reverse_path": [1], "start_ns": 0, "stop_ns": None, "transport": transport,
         "source": {"kind": "bulk"}}
        for i in range(len(cell.goodput))
    ]  # fmt: skip
    plan: dict[str, Any] = {"version": 1, "title": title, "seed": cell.seed, "end_ns": length * SECOND, "nodes": [],
            "links": [link, {**link, "name": "bottleneck.reverse"}], "flows": flows, "changes": [], "phases": [],
            "measure": {"goodput_ns": SECOND, "tcp_ns": SECOND, "links_ns": SECOND, "links": [0]}}  # fmt: skip
    if cell.delays_ns:
        plan["measure"]["delay_ns"] = SECOND
    return plan | dict(cell.changes)
