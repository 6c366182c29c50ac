"""Synthetic runs in the format of a run folder: plausible saw-tooth flows, made in a second, no simulator needed.

They look like TCP sharing a dumbbell, but nothing here is a result: the report is tested on them, not TCP.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shared import seal_run
from weir.run.tables import TABLES, arrow_schema

__all__ = ["Cell", "Dumbbell", "write_run"]

_SECOND = 1_000_000_000
_PACKET = 1500
_PAYLOAD = 1448

# Packets gained per round trip as a function of the window, and the share of the window kept after a loss.
_GROWTH: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "reno": (lambda w: np.ones_like(w), 0.5),
    "bic": (lambda w: np.full_like(w, 24.0), 0.8),
    "cubic": (lambda w: np.full_like(w, 14.0), 0.7),
    "highspeed": (lambda w: 1 + w**0.45 / 2, 0.68),
    "htcp": (lambda w: np.full_like(w, 18.0), 0.55),
    "scalable": (lambda w: np.maximum(1, 0.01 * w), 0.875),
}


@dataclass(frozen=True)
class Dumbbell:
    """The simulated network; times in seconds, rates in bit/s."""

    flows: int = 12
    access: float = 1e9
    capacity: float = 10e9
    queue_bytes: float = 12.5e6
    duration: float = 60.0
    every: float = 3.0
    step: float = 0.1
    protocol: str = "tcp"
    sizes: tuple[int, ...] = ()
    waits: tuple[float, ...] = ()
    """Time after each transfer until the next one begins; with a negative time they overlap."""
    page: int = 0
    """Number of consecutive transfers of a flow that form a page; 0: no pages."""
    groups: tuple[str, ...] = ("elephants",)
    """Names of the workload entries; the flows take them in turn."""
    phase_names: tuple[str, ...] = ("five", "all")
    """Names of the windows of five flows and of all; the first is left out with fewer flows."""
    stop: float | None = None
    """When all flows stop, if that is not the end."""
    delays: bool = False
    """Whether one-way delays are recorded."""
    probes: tuple[str, ...] = ()
    """Values that every flow's congestion control shows."""
    acks: int = 0
    """Number of flows, the first ones, whose acknowledgements are recorded."""
    uploads: int = 0
    """Number of flows, the last ones, that go from sink to source."""
    bottleneck: str = "bottleneck"
    """Name of the shared link."""
    classes: tuple[str, ...] = ()
    """Names of the classes of its queue, in its direction from source to sink and, with uploads, the other one."""
    changes: tuple[float, ...] = ()
    """When the delay of the shared link changes; at the last instant its losses change as well."""
    passes: tuple[float, ...] = ()
    """Share of each flow's packets that arrives, apart from what the bottleneck drops."""
    trace: int = 0
    """Packets of each flow in the trace; of those of the first flow, every third is lost."""

    def phases(self) -> list[dict[str, Any]]:
        """Two named windows, as in the papers: five flows active, and all of them."""
        if not self.phase_names:
            return []
        last = int(self.every * (self.flows - 1) * _SECOND)
        windows = [(self.phase_names[-1], last, int(self.duration * _SECOND))]
        if self.flows > 5:
            windows.insert(0, (self.phase_names[0], int(4 * self.every * _SECOND), int(5 * self.every * _SECOND)))
        return [{"name": name, "from_ns": start, "to_ns": stop} for name, start, stop in windows if start < stop]


@dataclass(frozen=True)
class Cell:
    """One cell of the sweep: its factors, and its intended failures."""

    factors: dict[str, str] = field(default_factory=dict)
    repeat: int = 0
    missing: bool = False
    failed: bool = False
    empty: bool = False
    drop_tables: tuple[str, ...] = ()
    machines: bool = False
    """Whether it ran on real machines."""
    warnings: tuple[str, ...] = ()
    bell: Dumbbell | None = None
    """Its simulation, if it differs from the others."""

    @property
    def id(self) -> str:
        """Folder name."""
        parts = [f"{k}={v}" for k, v in self.factors.items()]
        name = ",".join([*parts, f"r{self.repeat}"])
        return name if re.fullmatch(r"[\w=,.+-]{1,200}", name) else hashlib.sha256(name.encode()).hexdigest()[:20]


class _Trace:
    """The state of all flows at every step."""

    def __init__(self, bell: Dumbbell, cc: str, rtt: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        growth, keep = _GROWTH.get(cc, _GROWTH["reno"])
        steps, n = int(bell.duration / bell.step), bell.flows
        self.time = ((np.arange(steps) + 1) * bell.step * _SECOND).astype(np.uint64)
        self.start = np.arange(n) * bell.every
        self.rate, self.cwnd, self.ssthresh = (np.zeros((steps, n)) for _ in range(3))
        self.srtt, self.lost = np.zeros((steps, n)), np.zeros((steps, n))
        self.queue, self.drops = np.zeros(steps), np.zeros(steps)
        self.events: list[tuple[int, str, int, int]] = []
        window, threshold, queue = np.full(n, 10.0), np.full(n, np.inf), 0.0
        base = max(rtt, 1e-4)
        for i in range(steps):
            now = (i + 1) * bell.step
            active = self.start < now
            delay = base + queue * 8 / bell.capacity
            rate = np.where(active, np.minimum(window * _PACKET * 8 / delay, bell.access * 0.986), 0.0)
            rate *= 1 + 0.01 * rng.standard_normal(n)
            queue = max(0.0, queue + (rate.sum() - bell.capacity) / 8 * bell.step)
            slow_start = window < threshold
            gain = np.where(slow_start, window, growth(window)) * bell.step / delay
            room = window * _PACKET * 8 / delay < bell.access * 1.02
            window = np.where(active & room, np.minimum(window + gain, 2 * window), window)
            if queue > bell.queue_bytes:
                hit = active & (rng.random(n) < 0.65)
                for flow in np.flatnonzero(hit):
                    kind = "rto" if rng.random() < 0.06 else "recovery"
                    self.events.append((int(self.time[i]), kind, int(flow), int(window[flow])))
                self.lost[i, hit] = 1 + rng.integers(0, 40, hit.sum())
                window = np.where(hit, np.maximum(2, window * keep), window)
                threshold = np.where(hit, window, threshold)
                queue = 0.9 * bell.queue_bytes
            share = rate * min(1.0, bell.capacity / max(rate.sum(), 1.0))
            self.rate[i], self.cwnd[i], self.ssthresh[i] = share, window, threshold
            self.srtt[i], self.queue[i], self.drops[i] = delay, queue, self.lost[i].sum()


def _table(name: str, columns: dict[str, Any]) -> pa.Table:
    """A table of the run's schema; columns not given are null or zero."""
    rows = len(next(iter(columns.values())))
    schema, arrays = arrow_schema(name), []
    for column in schema:
        values = columns.get(column.name)
        if values is None:
            values = [None if column.nullable else 0] * rows
        arrays.append(pa.array(list(values), type=column.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _grid(trace: _Trace, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    steps, flows = trace.rate.shape
    time = np.repeat(trace.time, flows)[keep.ravel()]
    return time, np.tile(np.arange(flows), steps)[keep.ravel()]


def _goodput(trace: _Trace, bell: Dumbbell) -> pa.Table:
    keep = trace.rate > 0
    time, flow = _grid(trace, keep)
    sent = trace.rate[keep] / 8 * bell.step
    delivered = sent * _PAYLOAD / _PACKET
    if bell.passes:
        delivered = delivered * np.array(bell.passes)[flow]
    return _table(
        "goodput",
        {"time_ns": time, "flow": flow, "delivered_bytes": delivered.astype(int), "sent_ip_bytes": sent.astype(int)},
    )


def _samples(trace: _Trace) -> pa.Table:
    keep = trace.rate > 0
    time, flow = _grid(trace, keep)
    threshold = [None if np.isinf(v) else int(v) for v in trace.ssthresh[keep]]
    cwnd = trace.cwnd[keep].astype(int)
    srtt = (trace.srtt[keep] * _SECOND).astype(int)
    columns = {
        "time_ns": time,
        "flow": flow,
        "cwnd": cwnd,
        "ssthresh": threshold,
        "in_flight": cwnd,
        "srtt_ns": srtt,
        "min_rtt_ns": np.full(len(srtt), srtt.min(initial=10**15)),
        "acked_bytes": np.cumsum(trace.rate, axis=0)[keep].astype(int) // 8,
        "retransmitted_packets": np.cumsum(trace.lost, axis=0)[keep].astype(int),
    }
    return _table("samples", columns)


def _links(trace: _Trace, bell: Dumbbell, bottleneck: int) -> pa.Table:
    steps, flows = trace.rate.shape
    blocks: list[dict[str, Any]] = []
    for link in range(flows):
        volume = (trace.rate[:, link] / 8 * bell.step).astype(int)
        blocks.append({"link": np.full(steps, link), "out_bytes": volume, "in_bytes": volume, "queue": np.zeros(steps)})
    down = flows - bell.uploads
    out = (np.minimum(trace.rate[:, :down].sum(axis=1), bell.capacity) / 8 * bell.step).astype(int)
    blocks.append(
        {"link": np.full(steps, bottleneck), "out_bytes": out, "in_bytes": out, "queue": trace.queue * (down > 0)}
    )
    joined = {key: np.concatenate([b[key] for b in blocks]) for key in ("link", "out_bytes", "in_bytes", "queue")}
    drops = np.concatenate([np.zeros(steps * flows), trace.drops * (down > 0)]).astype(int)
    if bell.uploads:
        back = (trace.rate[:, down:].sum(axis=1) / 8 * bell.step).astype(int)
        more = {"link": np.full(steps, 3 * flows + 1), "out_bytes": back, "in_bytes": back, "queue": trace.queue / 3}
        joined = {key: np.concatenate([column, more[key]]) for key, column in joined.items()}
        drops = np.concatenate([drops, trace.drops // 2]).astype(int)
    queue = joined["queue"].astype(int)
    delay = (joined["queue"] * 8 / bell.capacity * _SECOND).astype(int)
    columns = {
        "time_ns": np.tile(trace.time, len(joined["link"]) // steps),
        "link": joined["link"],
        "in_packets": joined["in_bytes"] // _PACKET + drops,
        "in_bytes": joined["in_bytes"] + drops * _PACKET,
        "out_packets": joined["out_bytes"] // _PACKET,
        "out_bytes": joined["out_bytes"],
        "drop_packets": drops,
        "drop_bytes": drops * _PACKET,
        "queue_bytes": queue,
        "queue_packets": queue // _PACKET,
        "queue_max_bytes": (queue * 1.05).astype(int),
        "queue_delay_ns": [int(d) if b >= _PACKET else None for d, b in zip(delay, joined["out_bytes"], strict=True)],
        "queue_delay_max_ns": [
            int(d * 1.05) if b >= _PACKET else None for d, b in zip(delay, joined["out_bytes"], strict=True)
        ],
    }
    return _table("links", columns)


def _classes(trace: _Trace, bell: Dumbbell) -> pa.Table:
    """The classes share what passed a bottleneck as 1 to 2 to 3, and wait so; the last one is silent at times."""
    links = _links(trace, bell, bell.flows).to_pydict()
    rows = [i for i, link in enumerate(links["link"]) if link >= bell.flows]
    parts, names = len(bell.classes) * (len(bell.classes) + 1) // 2, [c.name for c in TABLES["classes"].columns]
    found: dict[str, list[Any]] = {name: [] for name in names}
    for number, row in enumerate(rows):
        for part in range(len(bell.classes)):
            if part == len(bell.classes) - 1 and number % 5 == 0:
                continue
            for name in names:
                value = part if name == "class" else links[name][row]
                if name.endswith(("packets", "bytes")):
                    value = value * (part + 1) // parts
                if "delay" in name and value is not None:
                    value *= part + 1
                found[name].append(value)
    return _table("classes", found)


def _flows(trace: _Trace, bell: Dumbbell, seed: int) -> pa.Table:
    delivered = (trace.rate.sum(axis=0) / 8 * bell.step * _PAYLOAD / _PACKET).astype(int)
    sent = (delivered * 1.001).astype(int)
    lost = trace.lost.sum(axis=0).astype(int)
    if not bell.sizes:
        columns: dict[str, Any] = {
            "flow": range(bell.flows),
            "start_ns": (trace.start * _SECOND).astype(int),
            "established_ns": (trace.start * _SECOND).astype(int) + 10**7,
            "delivered_bytes": delivered,
            "sent_bytes": sent,
            "sent_packets": sent // _PAYLOAD,
            "retransmitted_packets": lost,
            "lost_packets": lost,
            "timeouts": lost // 30,
        }
        return _table("flows", columns)
    return _table("flows", _transfers(trace, bell, seed))


def _transfers(trace: _Trace, bell: Dumbbell, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {k: [] for k in ("flow", "transfer", "start_ns", "established_ns", "end_ns", "bytes")}
    delivered: list[int] = []
    for flow in range(bell.flows):
        now = float(trace.start[flow])
        for number, size in enumerate(bell.sizes):
            took = 0.05 + size * 8 / (bell.access * rng.uniform(0.2, 0.9))
            done = now + took <= bell.duration
            rows["flow"].append(flow)
            rows["transfer"].append(number)
            begin = int(min(now, bell.duration) * _SECOND)  # no run has an instant after its end
            rows["start_ns"].append(begin)
            rows["established_ns"].append(begin + 10**7)
            rows["end_ns"].append(int((now + took) * _SECOND) if done else None)
            rows["bytes"].append(size)
            delivered.append(size if done else size // 2)
            now += took + (bell.waits[number] if bell.waits else 0.0)
    return {**rows, "delivered_bytes": delivered, "sent_bytes": delivered, "sent_packets": np.array(delivered) // 1448}


def _delay_tables(trace: _Trace, bell: Dumbbell) -> dict[str, pa.Table]:
    """Packets of three delays in each interval of each flow, the longest of them rare; some intervals have none."""
    keep = (trace.rate > 0) & (np.arange(len(trace.time)) % 7 != 5)[:, np.newaxis]
    time, flow = _grid(trace, keep)
    base = (trace.srtt[keep] / 2 * _SECOND).astype(int) * (1 + flow)
    middle = np.stack([base, base + base // 4, base * 2])
    counts = np.stack([np.full(len(base), n) for n in (60, 34, 6)])
    total = (middle * counts).sum(axis=0) // 100
    delays = {"time_ns": time, "flow": flow, "packets": np.full(len(base), 100), "delay_ns": total,
              "delay_min_ns": middle[0], "delay_max_ns": middle[2], "jitter_packets": np.full(len(base), 99),
              "jitter_ns": base // 10, "jitter_max_ns": base}  # fmt: skip
    rows = np.argsort(np.tile(time, 3), kind="stable")
    bins = {"time_ns": np.tile(time, 3), "flow": np.tile(flow, 3), "low_ns": middle.ravel() - 500,
            "high_ns": middle.ravel() + 500, "delay_packets": counts.ravel(),
            "jitter_packets": counts.ravel()}  # fmt: skip
    return {
        "delays": _table("delays", delays),
        "delay_bins": _table("delay_bins", {name: column[rows] for name, column in bins.items()}),
    }


def _probes(trace: _Trace, bell: Dumbbell) -> pa.Table:
    """Steps of whole numbers, of another size for each probe, some of them below zero."""
    time, flow = _grid(trace, trace.rate > 0)
    value = (time // (2 * int(bell.step * _SECOND)) * (1 + flow)) % 7
    names = [name for _ in time for name in bell.probes]
    values = np.stack([value * 10**i - i for i in range(len(bell.probes))], axis=1)
    many = len(bell.probes)
    columns = {"time_ns": np.repeat(time, many), "flow": np.repeat(flow, many), "probe": names, "value": values.ravel()}
    return _table("probes", columns)


def _packets(bell: Dumbbell) -> str:
    """The packets of every flow in turn, a millisecond apart and numbered from 40 on; acknowledgements beside them."""
    lines = ["time_ns,event,link,flow,from,connection,kind,number,id"]
    for number in range(bell.trace):
        for flow in range(bell.flows):
            time = 2 * _SECOND + (number * bell.flows + flow) * 1_000_000
            event = "dropped" if flow == 0 and number % 3 == 1 else "received"
            lines.append(f"{time - 5},sent,,{flow},sender,0,data,{40 + number},1")
            lines.append(f"{time},{event},,{flow},sender,0,data,{40 + number},1")
            lines.append(f"{time},received,,{flow},receiver,0,ack,{number},1")
    return "\n".join(lines) + "\n"


def _acks(trace: _Trace, bell: Dumbbell) -> pa.Table:
    """Two rows in each interval of the first flows, with windows that rise and fall."""
    time, flow = _grid(trace, trace.rate > 0)
    time, flow = time[flow < bell.acks], flow[flow < bell.acks]
    time, flow = np.repeat(time, 2), np.repeat(flow, 2)
    second = np.arange(len(time)) % 2
    cwnd = 10 + time // int(bell.step * _SECOND) % 11 + 3 * second
    nothing = np.zeros(len(time), int)
    columns = {"time_ns": time - (1 - second) * int(bell.step * _SECOND / 2), "flow": flow, "kind": second,
               "packet": nothing, "delivered_packets": nothing, "cwnd": cwnd, "ssthresh": nothing + 7,
               "in_flight": cwnd, "rtt_ns": nothing + 5, "delivery_rate_bps": nothing + 9,
               "pacing_rate_bps": nothing + 9, "ca_state": nothing}  # fmt: skip
    return _table("acks", columns)


def _events(trace: _Trace) -> pa.Table:
    starts = [(int(s * _SECOND), "flow_start", i, 0) for i, s in enumerate(trace.start)]
    rows = sorted([*starts, *trace.events])
    return _table(
        "events",
        {
            "time_ns": [r[0] for r in rows],
            "kind": [r[1] for r in rows],
            "flow": [r[2] for r in rows],
            "value": [r[3] for r in rows],
        },
    )


def _plan(bell: Dumbbell, cc: str, rtt: float, title: str, seed: int) -> dict[str, Any]:
    n = bell.flows
    hosts = [{"name": f"src{i}", "kind": "host"} for i in range(n)] + [
        {"name": f"dst{i}", "kind": "host"} for i in range(n)
    ]
    nodes = [*hosts, {"name": "left", "kind": "router"}, {"name": "right", "kind": "router"}]
    left, right = 2 * n, 2 * n + 1
    delay = {"kind": "fixed", "delay_ns": int(rtt / 2 * _SECOND)}

    def link(name: str, a: int, b: int, rate: float, nic: bool = False) -> dict[str, Any]:
        queue: dict[str, Any] = {"kind": "droptail", "limit": {"bytes": int(bell.queue_bytes)}}
        back = f"{bell.bottleneck}.reverse" if bell.uploads else None
        if bell.classes and name in (bell.bottleneck, back):
            points = [{"dscp": [k]} for k in range(1, len(bell.classes))]
            named = zip(bell.classes, [{"rest": True}, *points], strict=True)
            classes = [{"name": one, "members": members, "queue": queue} for one, members in named]
            queue = {"kind": "prio", "limit": queue["limit"], "classes": classes}
        hop = delay if {a, b} == {left, right} else {"kind": "fixed", "delay_ns": 1000}
        return {"name": name, "from": a, "to": b, "rate_bps": int(rate), "overhead_bytes": 38, "mtu_bytes": 1500,
                "delay": hop, "queue": queue, "loss": None, "host_nic": nic}  # fmt: skip

    links = [link(f"src{i}->left", i, left, bell.access, True) for i in range(n)]
    links += [link(bell.bottleneck, left, right, bell.capacity)]
    links += [link(f"right->dst{i}", right, n + i, bell.access) for i in range(n)]
    links += [link(f"dst{i}->right", n + i, right, bell.access, True) for i in range(n)]
    links += [link(f"{bell.bottleneck}.reverse", right, left, bell.capacity)]
    links += [link(f"left->src{i}", left, i, bell.access) for i in range(n)]
    flows = [_flow(bell, cc, i) for i in range(n)]
    return {"version": 1, "title": title, "seed": seed, "end_ns": int(bell.duration * _SECOND), "nodes": nodes,
            "links": links, "flows": flows, "changes": _changes(bell), "phases": bell.phases(),
            "measure": {"delay_ns": int(bell.step * _SECOND) if bell.delays else 0,
                        "goodput_ns": int(bell.step * _SECOND), "tcp_ns": int(bell.step * _SECOND),
                        "links_ns": int(bell.step * _SECOND), "trace": None}}  # fmt: skip


def _changes(bell: Dumbbell) -> list[dict[str, Any]]:
    found = [
        {"at_ns": int(at * _SECOND), "link": bell.flows,
         "change": {"kind": "delay", "delay": {"kind": "fixed", "delay_ns": 10_000_000 * number}}}
        for number, at in enumerate(bell.changes, start=1)
    ]  # fmt: skip
    losses = {"kind": "loss", "loss": {"kind": "bernoulli", "p": 0.01}}
    return [*found, *({**last, "change": losses} for last in found[-1:])]


def _flow(bell: Dumbbell, cc: str, i: int) -> dict[str, Any]:
    n = bell.flows
    tcp = {"protocol": "tcp", "cc": cc, "cc_options": {}, "stack": "linux-2.6", "mss_bytes": _PAYLOAD,
           "timestamps": True, "sack": True, "ecn": False, "initial_window": 3, "send_buffer_bytes": 50_000_000,
           "receive_buffer_bytes": 50_000_000, "pacing": False, "ack": "delayed"}  # fmt: skip
    transport = tcp if bell.protocol == "tcp" else {"protocol": "udp", "payload_bytes": 1472}
    source: dict[str, Any] = {"kind": "bulk"} if bell.protocol == "tcp" else {"kind": "cbr", "rate_bps": 500_000_000}
    if bell.sizes:
        pages = [{"page": k // bell.page} if bell.page else {} for k in range(len(bell.sizes))]
        transfers = [{"wait_ns": 0, "bytes": size, **page} for size, page in zip(bell.sizes, pages, strict=True)]
        source = {"kind": "transfers", "transfers": transfers, "keep_connection": False}
    group, index = bell.groups[i % len(bell.groups)], i // len(bell.groups)
    there, back = [i, n, n + 1 + i], [2 * n + 1 + i, 3 * n + 1, 3 * n + 2 + i]
    upload = i >= n - bell.uploads
    stop_ns = None if bell.stop is None else int(bell.stop * _SECOND)
    return {"name": f"{group}[{index}]", "group": group, "index": index, "stream": 0, "role": "test",
            **({"reverse": True} if upload else {}), "from": n + i if upload else i, "to": i if upload else n + i,
            "path": back if upload else there, "reverse_path": there if upload else back,
            "start_ns": int(i * bell.every * _SECOND), "stop_ns": stop_ns, "transport": transport, "source": source,
            "dscp": 0}  # fmt: skip


def _machines(bell: Dumbbell) -> dict[str, Any]:
    """What a cell keeps of its machines: all hosts but the last one are nodes, and so is the network."""
    hosts = [f"{side}{i}" for side in ("dst", "src") for i in range(bell.flows)][:-1]
    nodes = [{"name": f"{host}.a-long-site.example", "host": host, "address": "10.0.0.1"} for host in hosts]
    skew_ns = 1_500_000.0
    steps = [["agents", -9_500_000_000, -7_000_000_000], ["settings", -7_000_000_000, -7_000_000_000],
             ["congestion_controls", -6_800_000_000, -3_000_000_000], ["ready", -2_900_000_000, -250_000_000],
             ["agents", -200_000_000, 100_000_000]]  # fmt: skip
    began = {
        node["name"]: {"after": {"error_ns": 80_000 + 1_000 * k}, "start_off_ns": 40_000 + 500_000 * k}
        for k, node in enumerate(nodes)
    }
    checks = [{"what": "round-trip time", "pair": f"{hosts[0]} to {hosts[-1]}", "expected": 20.4, "measured": 20.125,
               "tolerance": 2.5, "unit": "ms", "says": "the scenario", "holds": True},
              {"what": "rate of TCP", "pair": f"{hosts[0]} to {hosts[-1]}", "expected": 9.5, "measured": 7.25,
               "tolerance": 1.5, "unit": "Mb/s", "says": "the inventory", "holds": False}]  # fmt: skip
    return {"nodes": [{"name": "between", "host": None}, *nodes], "calibration": {"age_s": 12.5, "checks": checks},
            "clocks": {"begin_ns": 10**15, "skew_ns": skew_ns, "nodes": began, "steps": steps}}  # fmt: skip


def _rtt_seconds(text: str) -> float:
    return float(text.removesuffix("ms")) / 1000


def _write_cell(folder: Path, cell: Cell, bell: Dumbbell, title: str, seed: int) -> dict[str, Any]:
    cc, rtt = cell.factors.get("cc", "reno"), _rtt_seconds(cell.factors.get("rtt", "20ms"))
    plan = _plan(bell, cc, rtt, title, seed)
    text = json.dumps(plan, sort_keys=True)
    manifest = {"id": cell.id, "factors": cell.factors, "repeat": cell.repeat, "seed": seed, "method": "sim",
                "plan_hash": hashlib.sha256(text.encode()).hexdigest(), "warnings": list(cell.warnings),
                "wall_s": 1.25}  # fmt: skip
    if cell.failed:
        return {**manifest, "error": "the simulator stopped: out of memory"}
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(text)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for name, document in (_machines(bell) if cell.machines else {}).items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    if bell.trace:
        (folder / "packets.csv").write_text(_packets(bell))
    trace = _Trace(bell, cc, rtt, seed)
    tables = {
        "flows": _flows(trace, bell, seed),
        "goodput": _goodput(trace, bell),
        "samples": _samples(trace) if bell.protocol == "tcp" else _table("samples", {"time_ns": []}),
        "links": _links(trace, bell, bell.flows),
        "events": _events(trace),
    }
    assert set(tables) == {name for name, table in TABLES.items() if not table.optional}
    if bell.classes:
        tables["classes"] = _classes(trace, bell)
    if bell.delays:
        tables |= _delay_tables(trace, bell)
    if bell.probes:
        tables["probes"] = _probes(trace, bell)
    if bell.acks:
        tables["acks"] = _acks(trace, bell)
    for name, table in tables.items():
        if name not in cell.drop_tables:
            pq.write_table(table.slice(0, 0) if cell.empty else table, folder / f"{name}.parquet", compression="zstd")
    return manifest


def write_run(
    root: Path,
    cells: Sequence[Cell] | None = None,
    *,
    bell: Dumbbell | None = None,
    title: str = "Twelve 1 Gb/s sources share a 10 Gb/s bottleneck",
    expect: Sequence[dict[str, Any]] = (),
    summary: Sequence[dict[str, str]] = (),
    warnings: Sequence[str] = (),
    complete: bool = True,
) -> Path:
    """Writes a run folder to ``root`` and returns it.

    Args:
        root: the folder; made.
        cells: cells of the sweep; without, a single cell with no factor.
        bell: what each cell simulates.
        title: title of the scenario.
        expect: claims of the scenario.
        summary: figures of its summary.
        warnings: warnings of the run.
        complete: whether the run gets its manifest.
    """
    bell = bell or Dumbbell()
    root.mkdir(parents=True, exist_ok=True)
    scenario = f"title: {json.dumps(title)}\nsource: RR-6034, section 4.1\nseed: 1\n"
    (root / "scenario.yaml").write_text(scenario)
    listed = []
    for number, cell in enumerate(cells or [Cell()]):
        if not cell.missing:
            manifest = _write_cell(root / "cells" / cell.id, cell, cell.bell or bell, title, 1000 + number)
        else:
            manifest = {"id": cell.id, "factors": cell.factors, "repeat": cell.repeat, "seed": 0, "warnings": []}
        listed.append(manifest)
    manifest = {
        "weir_version": "0.1.0", "scenario": {"path": "scenarios/A/large-flows.yaml", "text": scenario,
        "sha256": hashlib.sha256(scenario.encode()).hexdigest()}, "seed": 1, "commit": "0123456789abcdef",
        "versions": {"weir": "0.1.0", "python": "3.11.2", "rustc": "1.90.0"}, "kernel": "Linux 6.1.0", "method": "sim",
        "cpu": "AMD EPYC 7B13, 2 cores", "start": "2026-11-21T20:14:00Z", "end": "2026-11-21T20:19:30Z",
        "expect": list(expect), "summary": list(summary), "warnings": list(warnings), "cells": listed,
    }  # fmt: skip
    if complete:
        (root / "manifest.json").write_text(json.dumps(manifest, indent=1))
    return seal_run(root)


def sweep(ccs: Sequence[str], rtts: Sequence[str], repeats: int = 1) -> list[Cell]:
    """The cells of a grid of congestion controls, round-trip times and repeats."""
    return [Cell({"cc": cc, "rtt": rtt}, repeat) for cc, rtt, repeat in product(ccs, rtts, range(repeats))]
