"""Synthetic runs with known answers: a plan and tables written by hand, in the format of ``weir schema``.

Rates are given per flow and interval, so that every expected value can be computed on paper.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shared import seal_cell, seal_run
from weir.run import TABLES, arrow_schema

SECOND = 1_000_000_000
MS = 1_000_000


@dataclass
class FlowSpec:
    """A flow of a synthetic cell; ``mbps`` is its goodput in each interval from its start on."""

    mbps: Sequence[float] = ()
    group: str = "elephants"
    index: int = 0
    stream: int = 0
    role: str = "test"
    reverse: bool = False
    start_s: float = 0.0
    stop_s: float | None = None
    sent_mbps: Sequence[float] | None = None
    """Throughput in each interval; ``None``: the goodput."""
    protocol: str = "tcp"
    cc: str = "reno"
    links: Sequence[int] = (0,)
    transfers: Sequence[tuple[float, float | None, int]] | None = None
    """(start s, end s, bytes); ``None``: a bulk flow."""
    pages: Sequence[int] = ()
    """The page of each transfer."""
    profile: Sequence[tuple[float, int]] = ()
    """Steps of its rate profile, (instant s, bit/s)."""
    unbegun: int = 0
    """Number of transfers of the plan, the last of ``transfers``, that were never begun."""
    program: bool = False
    """Whether a program makes its traffic."""
    samples: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns of ``samples``, one value per interval of ``tcp_ms`` from the start on."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Columns of the (first) row of ``flows``."""
    delays_ns: Sequence[Sequence[int]] = ()
    """Delays of the packets that arrive in each interval of ``delay_ms`` from the start of the run, in order of
    arrival.
    """


@dataclass
class LinkSpec:
    """A link of a synthetic cell; ``rows`` are columns of ``links``, one value per interval."""

    name: str = "bottleneck"
    rate_bps: int = 1_000_000_000
    overhead_bytes: int = 38
    delay_ms: float = 5.0
    queue: Mapping[str, Any] = field(default_factory=lambda: {"kind": "droptail", "limit": {"packets": 100}})
    rows: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    classes: Sequence[Mapping[str, Sequence[Any]]] = ()
    """Columns of ``classes`` for each class of the queue, if it has some."""


def two_classes(af_ppm: int = 900_000) -> dict[str, Any]:
    """A queue with the classes ``af`` and ``be``, which have the whole link together."""
    child = {"kind": "droptail", "limit": {"packets": 100}}
    af = {"name": "af", "members": {"dscp": [10]}, "weight_ppm": af_ppm, "high": True, "queue": child}
    be = {"name": "be", "members": {"rest": True}, "weight_ppm": 1_000_000 - af_ppm, "queue": child}
    return {"kind": "wrr", "limit": {"packets": 200}, "burst_bytes": 3076, "classes": [af, be]}


def nested_classes() -> dict[str, Any]:
    """A queue whose class ``tenant`` has 80 % of the link, three quarters of that for ``gold`` in it, before ``be``."""
    child = {"kind": "droptail", "limit": {"packets": 100}}
    gold = {"name": "gold", "members": {"dscp": [10]}, "weight_ppm": 750_000, "queue": child}
    silver = {"name": "silver", "members": {"rest": True}, "weight_ppm": 250_000, "queue": child}
    inner = {"kind": "wfq", "limit": {"packets": 200}, "classes": [gold, silver]}
    queue = two_classes(800_000)
    tenant, be = queue["classes"]
    return {**queue, "classes": [{**tenant, "name": "tenant", "queue": inner}, be]}


@dataclass
class CellSpec:
    """One cell."""

    flows: Sequence[FlowSpec]
    links: Sequence[LinkSpec] = field(default_factory=lambda: [LinkSpec()])
    factors: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0
    end_s: float = 10.0
    goodput_ms: float = 1000.0
    tcp_ms: float = 0.0
    links_ms: float = 0.0
    delay_ms: float = 0.0
    timed: bool = True
    """Whether the executing method could time packets."""
    phases: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    events: Sequence[tuple[float, str, int | None, int]] = ()
    """(time s, kind, flow, value)."""
    changes: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    processor: Sequence[tuple[float, int, float, float]] | None = ()
    """Rows of ``processor``: end (s), part, and time in user mode and in system calls (ms); ``None``: no such table."""
    ports: Sequence[Mapping[str, Any]] = ()
    """Rows of ``ports``; with some, the node between the links is a switch. Columns left out are 0."""


def write_run(path: Path, cells: Sequence[CellSpec], complete: bool = True) -> Path:
    """Writes a run of these cells; without ``complete``, an interrupted one."""
    names = []
    for number, cell in enumerate(cells):
        names.append(f"{number:03d}")
        write_cell(path / "cells" / names[-1], cell, names[-1])
    if complete:
        manifest = {"method": "synthetic", "warnings": [], "cells": [{"id": n} for n in names]}
        (path / "manifest.json").write_text(json.dumps(manifest))
    return seal_run(path)


def write_cell(folder: Path, cell: CellSpec, name: str = "cell") -> Path:
    """Writes one cell folder."""
    folder.mkdir(parents=True)
    manifest = {
        "id": name,
        "factors": dict(cell.factors),
        "repeat": cell.repeat,
        "warnings": list(cell.warnings),
        "method": "synthetic",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "plan.json").write_text(json.dumps(_plan(cell)))
    for table, rows in _tables(cell).items():
        arrow = pa.Table.from_pylist(rows, schema=arrow_schema(table))
        pq.write_table(arrow, folder / f"{table}.parquet", compression="zstd")
    seal_cell(folder)
    return folder


_SWITCH = {"memory": {"kind": "partitioned", "bytes": 9000}, "arbiter": {"kind": "round_robin"}}


def _plan(cell: CellSpec) -> dict[str, Any]:
    return {
        "version": 1,
        "title": "synthetic",
        "seed": 1,
        "end_ns": _ns(cell.end_s),
        "nodes": [
            {"name": "a", "kind": "host"},
            {"name": "b", "kind": "host", **({"switch": _SWITCH} if cell.ports else {})},
        ],
        "links": [_link(link) for link in cell.links],
        "flows": [_flow(flow) for flow in cell.flows],
        "changes": list(cell.changes),
        "measure": {
            "goodput_ns": int(cell.goodput_ms * MS),
            "tcp_ns": int(cell.tcp_ms * MS),
            "links_ns": int(cell.links_ms * MS),
            **({"delay_ns": int(cell.delay_ms * MS)} if cell.delay_ms else {}),
        },
        "phases": [
            {"name": name, "from_ns": _ns(begin), "to_ns": _ns(end)} for name, (begin, end) in cell.phases.items()
        ],
    }


def _link(link: LinkSpec) -> dict[str, Any]:
    return {
        "name": link.name,
        "from": 0,
        "to": 1,
        "rate_bps": link.rate_bps,
        "overhead_bytes": link.overhead_bytes,
        "mtu_bytes": 1500,
        "delay": {"kind": "fixed", "delay_ns": int(link.delay_ms * MS)},
        "queue": dict(link.queue),
    }


def _flow(flow: FlowSpec) -> dict[str, Any]:
    tcp = {"protocol": "tcp", "cc": flow.cc, "stack": "linux", "mss_bytes": 1448, "timestamps": True, "sack": True,
           "ecn": False, "initial_window": 10, "send_buffer_bytes": 1 << 22, "receive_buffer_bytes": 1 << 22,
           "pacing": False, "ack": "delayed"}  # fmt: skip
    if flow.profile:
        tcp["profile"] = [{"at_ns": _ns(at), "rate_bps": rate} for at, rate in flow.profile]
    udp: dict[str, Any] = {"protocol": "udp", "payload_bytes": 1472}
    source: dict[str, Any] = {"kind": "bulk"} if flow.protocol == "tcp" else {"kind": "cbr", "rate_bps": 1}
    if flow.transfers is not None:
        sizes = [{"wait_ns": 0, "bytes": size} for _, _, size in flow.transfers]
        pages: list[dict[str, int]] = [{"page": page} for page in flow.pages] or [{}] * len(sizes)
        sizes = [size | page for size, page in zip(sizes, pages, strict=True)]
        source = {"kind": "transfers", "transfers": sizes, "keep_connection": False}
    if flow.program:
        source = {"kind": "command", "command": ["program"]}
    return {
        "name": f"{flow.group}[{flow.index}]" + (f".{flow.stream}" if flow.stream else ""),
        "group": flow.group,
        "index": flow.index,
        "stream": flow.stream,
        "role": flow.role,
        **({"reverse": True} if flow.reverse else {}),
        "from": 0,
        "to": 1,
        "path": list(flow.links),
        "reverse_path": list(flow.links),
        "start_ns": _ns(flow.start_s),
        "stop_ns": None if flow.stop_s is None else _ns(flow.stop_s),
        "transport": tcp if flow.protocol == "tcp" else udp,
        "source": source,
    }


def _tables(cell: CellSpec) -> dict[str, list[dict[str, Any]]]:
    goodput, samples, flows = [], [], []
    for number, flow in enumerate(cell.flows):
        goodput += _goodput_rows(cell, number, flow)
        samples += _sample_rows(cell, number, flow)
        flows += _transfer_rows(number, flow)
    links = [row for number, link in enumerate(cell.links) for row in _link_rows(cell, "links", number, link.rows)]
    classes = [
        {**row, "class": of_class}
        for number, link in enumerate(cell.links)
        for of_class, rows in enumerate(link.classes)
        for row in _link_rows(cell, "classes", number, rows)
    ]
    events = [
        {"time_ns": _ns(at), "kind": kind, "flow": flow, "link": None, "value": value}
        for at, kind, flow, value in sorted(cell.events, key=lambda event: event[0])
    ]
    delays = [row for number, flow in enumerate(cell.flows) for row in _delay_rows(cell, number, flow)]
    by_time = lambda row: row["time_ns"]  # noqa: E731  (a method writes its tables in the order of time)
    return {
        "flows": flows,
        "goodput": sorted(goodput, key=by_time),
        "samples": sorted(samples, key=by_time),
        "links": sorted(links, key=by_time),
        "events": events,
        **({"classes": sorted(classes, key=by_time)} if any("classes" in link.queue for link in cell.links) else {}),
        **({"processor": [_processor_row(*row) for row in cell.processor]} if cell.processor is not None else {}),
        **({"ports": [_port_row(row) for row in cell.ports]} if cell.ports else {}),
        **(_delay_tables(sorted(delays, key=by_time)) if cell.delay_ms and cell.timed else {}),
    }


def _processor_row(end_s: float, part: int, user_ms: float, system_ms: float) -> dict[str, int]:
    return {"time_ns": _ns(end_s), "part": part, "user_ns": int(user_ms * MS), "system_ns": int(system_ms * MS)}


def _port_row(given: Mapping[str, Any]) -> dict[str, Any]:
    return {column.name: given.get(column.name, 0) for column in TABLES["ports"].columns}


def _goodput_rows(cell: CellSpec, number: int, flow: FlowSpec) -> list[dict[str, Any]]:
    step = int(cell.goodput_ms * MS)
    first = _ns(flow.start_s) // step
    sent = flow.mbps if flow.sent_mbps is None else flow.sent_mbps
    return [
        {
            "time_ns": (first + k + 1) * step,
            "flow": number,
            "delivered_bytes": round(got * 1e6 / 8 * step / 1e9),
            "sent_ip_bytes": round(put * 1e6 / 8 * step / 1e9),
        }
        for k, (got, put) in enumerate(zip(flow.mbps, sent, strict=True))
    ]


_SAMPLE_DEFAULTS: dict[str, Any] = {
    "cwnd": 10,
    "ssthresh": None,
    "in_flight": 0,
    "srtt_ns": None,
    "min_rtt_ns": None,
    "pacing_rate_bps": None,
    "acked_bytes": 0,
    "sent_bytes": 0,
    "retransmitted_packets": 0,
    "timeouts": 0,
    "ca_state": 0,
    "busy_ns": None,
    "rwnd_limited_ns": None,
    "sndbuf_limited_ns": None,
}


def _sample_rows(cell: CellSpec, number: int, flow: FlowSpec) -> list[dict[str, Any]]:
    rows = max((len(column) for column in flow.samples.values()), default=0)
    step = int(cell.tcp_ms * MS)
    return [
        {
            "time_ns": _ns(flow.start_s) + (k + 1) * step,
            "flow": number,
            **_SAMPLE_DEFAULTS,
            **{name: column[k] for name, column in flow.samples.items()},
        }
        for k in range(rows)
    ]


def _transfer_rows(number: int, flow: FlowSpec) -> list[dict[str, Any]]:
    counters = dict.fromkeys([c.name for c in TABLES["flows"].columns], 0) | dict(flow.counters)
    transfers: Sequence[tuple[float, float | None, int | None]] = flow.transfers or [(flow.start_s, flow.stop_s, None)]
    return [
        {
            **(counters if k == 0 else dict.fromkeys(counters, 0)),
            "flow": number,
            "transfer": k,
            "start_ns": _ns(begin),
            "established_ns": _ns(begin),
            "end_ns": None if end is None else _ns(end),
            "bytes": size,
        }
        for k, (begin, end, size) in enumerate(transfers[: len(transfers) - flow.unbegun])
    ]


def _link_rows(cell: CellSpec, table: str, number: int, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    rows = max((len(column) for column in columns.values()), default=0)
    step = int(cell.links_ms * MS)
    zero = {c.name: None if c.nullable else 0 for c in TABLES[table].columns}
    return [
        {**zero, **{name: column[k] for name, column in columns.items()}, "time_ns": (k + 1) * step, "link": number}
        for k in range(rows)
    ]


def _delay_rows(cell: CellSpec, number: int, flow: FlowSpec) -> list[dict[str, Any]]:
    """Delays and jitters of each interval."""
    found, last = [], None
    for k, delays in enumerate(flow.delays_ns):
        jitters = [abs(b - a) for a, b in itertools.pairwise([last, *delays]) if a is not None and b is not None]
        last = delays[-1] if delays else last
        if delays:
            key = {"time_ns": (k + 1) * int(cell.delay_ms * MS), "flow": number}
            found.append({**key, "delays": delays, "jitters": jitters})
    return found


def _delay_tables(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    table, bins = [], []
    for row in rows:
        key, delays, jitters = {"time_ns": row["time_ns"], "flow": row["flow"]}, row["delays"], row["jitters"]
        table.append(
            {
                **key,
                "packets": len(delays),
                "delay_ns": sum(delays) // len(delays),
                "delay_min_ns": min(delays),
                "delay_max_ns": max(delays),
                "jitter_packets": len(jitters),
                "jitter_ns": sum(jitters) // len(jitters) if jitters else None,
                "jitter_max_ns": max(jitters, default=None),
            }
        )
        both = Counter(map(bin_of, delays)), Counter(map(bin_of, jitters))
        for low, high in sorted({**both[0], **both[1]}):
            counts = {"delay_packets": both[0][low, high], "jitter_packets": both[1][low, high]}
            bins.append({**key, "low_ns": low, "high_ns": high, **counts})
    return {"delays": table, "delay_bins": bins}


def bin_of(ns: int) -> tuple[int, int]:
    """The bin of table ``delay_bins`` for a duration: 128 per power of two, at least 1 ns wide."""
    width = 1 << max(0, ns.bit_length() - 8)
    low = ns - ns % width
    return low, low + width - 1


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)
