"""Plans and a sink for the tests of the lab."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from weir import methods
from weir.cli._scenarios import load

_SCENARIO = """\
title: a test
seed: 1
topology:
  dumbbell:
    pairs: 2
    access: {rate: 100Mbps}
    bottleneck: {rate: 20Mbps, queue: {droptail: {size: 1bdp}}}
    rtt: 20ms
transport: {cc: "linux:reno", buffers: 2MB}
workload:
  - {name: a, between: pairs, kind: bulk, start: {every: 1s}, until: 6s}
measure: {goodput: 500ms, tcp: 50ms, links: 50ms}
"""


def plan(folder: Path, *overrides: str) -> dict[str, Any]:
    """The plan of two flows that share 20 Mb/s for six seconds, with values changed."""
    path = folder / "scenario.yaml"
    path.write_text(_SCENARIO, encoding="utf-8")
    compiled: dict[str, Any] = load(str(path), overrides=overrides, quiet=True).cells()[0].plan()
    return compiled


class Memory:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.batches: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.files: dict[str, io.BytesIO] = {}

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        self.batches[table].append(rows)

    def open(self, name: str) -> BinaryIO:
        return self.files.setdefault(name, io.BytesIO())

    def table(self, name: str) -> pa.Table:
        return pa.Table.from_batches(self.batches[name]).unify_dictionaries()

    def columns(self, name: str) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = self.table(name).to_pydict()
        return columns


def execute(method: str, plan: dict[str, Any]) -> tuple[Memory, methods.Outcome]:
    """``plan`` executed by ``method``: its tables and what it said."""
    sink = Memory()
    return sink, methods.get(method).execute(json.dumps(plan), sink, lambda *_: None)
