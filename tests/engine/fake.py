"""A method and a scenario that take no time, for tests of the engine around them.

Worker processes reach the method as ``fake:Fake``; their parent gives them the path of this folder. Words in the plan's
title, separated by spaces, control its behaviour, so that no other channel is needed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weir.methods import Capacity, Method, MethodError, Need, Outcome, Progress, Sink
from weir.run.tables import arrow_schema

METHOD = "fake:Fake"


class Fake(Method):
    """Writes rows that depend on the seed alone."""

    name = "fake"
    clock: Literal["virtual", "real"] = "virtual"
    needs = "nothing"
    title = "rows that depend on the seed alone"

    def available(self) -> str | None:
        return None

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        import json

        parsed = json.loads(plan)
        words = dict(word.partition("=")[::2] for word in parsed["title"].split())
        rows = int(words.get("rows", 1000))
        batch = int(words.get("batch", 300))
        sink.open("trace.pcap").write(b"trace")
        for begin in range(0, rows, batch):
            sink.write("goodput", _rows(parsed["seed"], begin, min(rows, begin + batch)))
            progress(parsed["end_ns"] * min(rows, begin + batch) // rows)
            time.sleep(float(words.get("sleep", 0)))
        if "token" in words:
            _take_token(Path(words["token"]))
        _misbehave(words)
        return Outcome(("a warning",) if "warn" in words else (), {"packets": rows, "events": 2 * rows})


class Holding(Fake):
    """Holds something, a file beside the run, which takes time to give back."""

    def __init__(self) -> None:
        self._held: Path | None = None

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        import json

        words = dict(word.partition("=")[::2] for word in json.loads(plan)["title"].split())
        self._held = Path(words["hold"])
        self._held.touch()
        return super().execute(plan, sink, progress)

    def close(self) -> None:
        if self._held is not None:
            time.sleep(0.5)
            self._held.unlink()


class Unavailable(Fake):
    """Cannot run."""

    def available(self) -> str | None:
        return "there is no moon"


class Real(Fake):
    """Has a real clock."""

    clock: Literal["virtual", "real"] = "real"


class Small(Real):
    """Can carry plans of at most ten seconds."""

    def capacity(self, plan: Mapping[str, Any]) -> Capacity:
        return Capacity((Need("seconds", plan["end_ns"] / 1e9, 10.0, "s"),), "a known figure")


def _take_token(file: Path) -> None:
    """Removes ``file``, waiting for it if necessary: each token from a test lets one cell finish."""
    while True:
        try:
            file.unlink()
        except FileNotFoundError:
            time.sleep(0.01)
        else:
            return


def _misbehave(words: Mapping[str, str]) -> None:
    if "refuse" in words:
        raise MethodError("flows[0]: no such congestion control")
    if "bug" in words:
        raise ZeroDivisionError("a defect")
    if "die" in words:
        os.abort()
    if "full" in words:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


def _rows(seed: int, begin: int, end: int) -> pa.RecordBatch:
    numbers = np.arange(begin, end, dtype=np.uint64)
    noise = (numbers + np.uint64(seed)) * np.uint64(0x9E37_79B9_7F4A_7C15)
    noise ^= noise >> np.uint64(29)
    columns = [
        pa.array(numbers // 4 * 500_000_000),
        pa.array((numbers % 4).astype(np.uint32)),
        pa.array(noise % 60_000_000),
        pa.array(noise // 60_000_000 % 65_000_000),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema("goodput"))


def plan(title: str = "", seed: int = 1) -> dict[str, Any]:
    """A plan of one bulk flow over one link; ``seconds=N`` in the title makes it longer than ten seconds."""
    words = dict(word.partition("=")[::2] for word in title.split())
    return {
        "version": 1,
        "title": title,
        "seed": seed,
        "end_ns": int(words.get("seconds", 10)) * 1_000_000_000,
        "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
        "links": [_link("a->b", 0, 1), _link("b->a", 1, 0)],
        "flows": [
            {
                "name": "elephant",
                "group": "elephant",
                "index": 0,
                "stream": 0,
                "role": "test",
                "from": 0,
                "to": 1,
                "path": [0],
                "reverse_path": [1],
                "start_ns": 0,
                "stop_ns": None,
                "transport": {
                    "protocol": "tcp",
                    "cc": "reno",
                    "stack": "linux",
                    "mss_bytes": 1448,
                    "timestamps": True,
                    "sack": True,
                    "ecn": False,
                    "initial_window": 10,
                    "send_buffer_bytes": 1_000_000,
                    "receive_buffer_bytes": 1_000_000,
                    "pacing": False,
                    "ack": "delayed",
                },
                "source": {"kind": "bulk"},
                "dscp": 0,
            }
        ],
        "changes": [],
        "measure": {"goodput_ns": 500_000_000, "tcp_ns": 20_000_000, "links_ns": 20_000_000},
        "phases": [],
    }


def _link(name: str, start: int, end: int) -> dict[str, Any]:
    return {
        "name": name,
        "from": start,
        "to": end,
        "rate_bps": 100_000_000,
        "overhead_bytes": 38,
        "mtu_bytes": 1500,
        "delay": {"kind": "fixed", "delay_ns": 5_000_000},
        "queue": {"kind": "droptail", "limit": {"bytes": 125_000}},
        "host_nic": True,
    }


@dataclass(frozen=True)
class FakeCell:
    id: str
    title: str = ""
    factors: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0
    seed: int = 1

    def plan(self) -> dict[str, Any]:
        return plan(self.title, self.seed)


@dataclass(frozen=True)
class FakeClaim:
    check: str
    claim: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    note: str = ""
    expected: str = "holds"
    basis: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FakeScenario:
    """A scenario with given cells."""

    cell_list: tuple[FakeCell, ...]
    title: str = "Fake"
    text: str = "title: Fake\n"
    file: str = "fake.yaml"
    expect: tuple[FakeClaim, ...] = ()
    summary: tuple[()] = ()

    def cells(self) -> tuple[FakeCell, ...]:
        return self.cell_list


def scenario(*titles: str) -> FakeScenario:
    """One cell per title, with different seeds."""
    cells = (FakeCell(f"c{i}", title, {"n": str(i)}, 0, i + 1) for i, title in enumerate(titles))
    return FakeScenario(tuple(cells))
