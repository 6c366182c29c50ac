"""A method outside of weir: a fluid model in which flows share each link equally and lose nothing.

It writes only goodput, all that a fluid has, and executes only bulk flows. Weir finds it by an entry point.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weir.methods import Method, Outcome, Progress, Sink
from weir.run.tables import arrow_schema

_HEADERS = 52 + 38
"""Bytes of a packet beside its payload: IP, TCP with timestamps, Ethernet."""


class Fluid(Method):
    """Equal shares, from the first instant on."""

    name = "fluid"
    clock: Literal["virtual", "real"] = "virtual"
    needs = "nothing"
    title = "a fluid model"
    called = "the fluid"
    precedence = 30
    time_title = "Fluid time"
    tables = frozenset({"flows", "goodput"})

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """Bulk flows only."""
        kinds = {flow["source"]["kind"] for flow in plan["flows"]} - {"bulk"}
        return f"a fluid has no {kinds.pop()} traffic" if kinds else None

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """It takes no time, whatever the number of packets."""
        return 0.5 + 0 * packets

    def memory_bytes(self, plan: Mapping[str, Any]) -> int:
        """Seven megabytes."""
        return 7_000_000

    def remarks(self, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
        """It has no queues."""
        yield "queues are empty in it"

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Writes the same goodput in every interval."""
        parsed = json.loads(plan)
        shares = {number: _share_bps(parsed, flow) for number, flow in enumerate(parsed["flows"])}
        step, end = parsed["measure"]["goodput_ns"], parsed["end_ns"]
        for number, flow in enumerate(parsed["flows"]):
            stop = min(flow["stop_ns"] or end, end)
            times = np.arange(flow["start_ns"] + step, stop + 1, step, dtype=np.uint64)
            sink.write("goodput", _goodput(times, number, shares[number] * step / 8e9))
            sink.write("flows", _flow(number, flow["start_ns"], shares[number] * (stop - flow["start_ns"]) / 8e9))
        progress(end)
        return Outcome(stats={"flows": len(shares)})


class Undeclared(Fluid):
    """The same, but declares that it writes no goodput."""

    name = "undeclared"
    precedence = 0
    tables = frozenset({"flows"})


def _share_bps(plan: Mapping[str, Any], flow: Mapping[str, Any]) -> float:
    def share(link: int) -> float:
        users = sum(link in other["path"] for other in plan["flows"])
        return float(plan["links"][link]["rate_bps"]) / users

    payload = flow["transport"]["mss_bytes"]
    return min(share(link) for link in flow["path"]) * payload / (payload + _HEADERS)


def _goodput(times: Any, flow: int, size: float) -> pa.RecordBatch:
    count = len(times)
    columns = {"time_ns": times, "flow": np.full(count, flow), "delivered_bytes": np.full(count, round(size)),
               "sent_ip_bytes": np.full(count, round(size))}  # fmt: skip
    return _batch("goodput", columns)


def _flow(flow: int, start_ns: int, size: float) -> pa.RecordBatch:
    known = {"flow": [flow], "start_ns": [start_ns], "delivered_bytes": [round(size)], "sent_bytes": [round(size)]}
    nullable = {field.name: [None] for field in arrow_schema("flows") if field.nullable}
    rest = {name: [0] for name in arrow_schema("flows").names}
    return _batch("flows", {**rest, **nullable, **known})


def _batch(table: str, columns: Mapping[str, Any]) -> pa.RecordBatch:
    schema = arrow_schema(table)
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
