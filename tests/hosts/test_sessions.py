"""A run of agents at places: wherever they are, and whatever their clocks show, it is one run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hosts_support import Make

from shared import dumbbell, plan_of
from weir import _owner, _weir
from weir._programs import find
from weir.hosts import session as session_module
from weir.hosts.checks import Checks
from weir.hosts.jobs import job
from weir.hosts.local import Local
from weir.hosts.merge import Merger
from weir.hosts.messages import Frame
from weir.hosts.network import execute
from weir.hosts.place import Place
from weir.hosts.processes import Process, ProcessError
from weir.hosts.session import Session
from weir.hosts.wiring import wire
from weir.plan import typed

_INTERVAL_S = 0.05
_GRACE_S = 20.0
_AHEAD_S = 0.5

_SCENARIO = dumbbell(
    pairs=1,
    transport="cc: 'linux:reno', stack: linux, buffers: 1MB",
    workload="name: flow, between: pairs, kind: bulk, until: 500ms",
    measure=f"goodput: {_INTERVAL_S * 1000:g}ms",
)


def _job(ends: Sequence[str]) -> dict[str, Any]:
    """The job of an agent that has the ``ends`` of the flow: it is all on loopback, and nobody emulates the links."""
    plan = plan_of(_SCENARIO) | {"end_ns": 600_000_000}
    (flow,) = plan["flows"]
    address = f"127.{os.getpid() >> 8 & 127}.{os.getpid() & 255}"
    return {
        "version": 1,
        "plan": plan,
        "first_port": 7000,
        "kernel_cc": {"linux:reno": "reno"},
        "hosts": [
            {"node": flow[end], "address": f"{address}.{number}"} for number, end in enumerate(("from", "to"), 1)
        ],
        "ends": [{end: 0} for end in ends],
    }


def _run(sender: Place, receiver: Place) -> dict[str, list[Frame]]:
    """One run of an agent at each of the places; the tables that they wrote."""
    agent = [str(find("weir-agent"))]
    frames: dict[str, list[Frame]] = {}
    with Session(check=Checks(1, 6, len(_weir.event_kinds()))) as session:
        to = session.start("receivers", receiver, agent, _job(["to"]))
        from_ = session.start("senders", sender, agent, _job(["from"]))
        session.await_ready([to, from_])
        session.begin(time.monotonic_ns() + round(_AHEAD_S * 1e9))
        for frame in session.frames(time.monotonic() + _GRACE_S, lambda: None):
            frames.setdefault(frame.table, []).append(frame)
    assert session.heard.stats["senders.acked_bytes"] == session.heard.stats["receivers.delivered_bytes"] > 0
    return frames


def _first_s(frames: Sequence[Frame]) -> float:
    return min(int(np.min(frame.columns["time_ns"])) for frame in frames) / 1e9


def test_agents_run_at_any_place(place: Place) -> None:
    frames = _run(place, place)
    merger = Merger(pa.array(_weir.event_kinds(), pa.string()))
    tables = [table for part in frames.values() for frame in part for table in merger.take(frame)]
    rows = dict([*tables, *merger.finish()])
    goodput = rows["goodput"].to_pydict()
    assert sum(goodput["delivered_bytes"]) == rows["flows"].to_pydict()["delivered_bytes"][0] > 0
    assert max(goodput["time_ns"]) <= 600_000_000


@pytest.mark.parametrize("where", ["sender", "receiver"])
def test_agents_on_machines_with_clocks_of_their_own_begin_together(make: Make, where: str) -> None:
    here, there = make("machine"), make("elsewhere")
    frames = _run(there, here) if where == "sender" else _run(here, there)
    assert abs(_first_s(frames["sent"]) - _first_s(frames["delivered"])) <= 2 * _INTERVAL_S


def test_a_start_by_another_machines_clock_is_refused(make: Make) -> None:
    """That of this machine is long past elsewhere: what the test before this one shows is no chance."""
    if os.geteuid() != 0:
        pytest.skip("a clock of its own needs root")
    here, there = make("machine"), make("elsewhere")
    with Session() as session:
        agent = session.start("agent", there, [str(find("weir-agent"))], _job(["to", "from"]))
        session.await_ready([agent])
        agent.send(here.clock().start(time.monotonic_ns() + round(_AHEAD_S * 1e9)))
        with pytest.raises(ProcessError, match=r"`start` is 9\d+\.\d+ s past"):
            for _ in session.frames(time.monotonic() + _GRACE_S, lambda: None):
                pass


_SAYS = """
import json, os, sys, time
silent = sys.argv[1] == "silent"
for line in sys.stdin:
    what = json.loads(line).get("command")
    if what is None:
        print(json.dumps({"message": "ready"}), flush=True)
    elif what == "start":
        for _ in range(4):
            print(json.dumps({"message": "progress", "now_ns": 0}), flush=True)
            time.sleep(0.1)
        while not silent:
            print(json.dumps({"message": "progress", "now_ns": 0}), flush=True)
            time.sleep(0.1)
    elif what == "stop":
        break
"""


def test_a_process_that_says_nothing_has_failed_long_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was stopped; however much the others say meanwhile."""
    monkeypatch.setattr(session_module, "_SILENT_S", 1.0)
    failed: list[str] = []
    with Local() as place, Session() as session:
        chatty, silent = (
            session.start(name, place, [sys.executable, "-c", _SAYS, name], {}) for name in ("chatty", "silent")
        )
        session.await_ready([chatty, silent])
        begin_s = time.monotonic()
        session.begin(time.monotonic_ns())

        def fail(by: Process, error: ProcessError) -> float:
            failed.append(str(error))
            return time.monotonic()  # the other does not end either

        for _ in session.frames_by(begin_s + 1000.0, lambda: None, fail, begin_s):
            pass
        assert time.monotonic() - begin_s < _GRACE_S
        assert silent._process.wait(_GRACE_S) == -signal.SIGKILL, "it would not notice the end of its input"
        assert chatty._process.poll() is None
    assert failed == [
        "silent says nothing for 1 s: it was stopped, or its node is busy",
        "chatty did not end in time",
    ]


_PATH = dumbbell(
    pairs=1,
    bottleneck="rate: 4Mbps, queue: 30packets",
    transport="cc: 'linux:reno', stack: linux, buffers: 1MB",
    workload="name: flow, between: pairs, kind: bulk, until: 2s",
    measure="goodput: 100ms, links: 100ms",
)


@pytest.mark.parametrize("name", ["machine", "guest", "elsewhere"])
def test_a_whole_plan_runs_wherever_its_hosts_are(make: Make, name: str) -> None:
    """Namespaces, emulator and agents of one place, by the same calls at each."""
    if name != "guest" and os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    place, document = make(name), plan_of(_PATH)
    wiring = wire(typed(document), str(_owner.new()), alone=True)
    hosts = [host.to_job() for host in wiring.hosts]
    merger = Merger(pa.array(_weir.event_kinds(), pa.string()))
    rows: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    try:
        execute(wiring.up, place)
        with Session() as session:
            told = job(document, hosts, wiring.first_port)
            session.await_ready([session.start("emulator", place, [str(find("weir-emu"))], told)])
            for end in ("to", "from"):
                told = job(document, hosts, wiring.first_port, [{end: 0}], {"linux:reno": "reno"})
                session.await_ready([session.start(end, place, [str(find("weir-agent"))], told)])
            session.begin(time.monotonic_ns() + round(_AHEAD_S * 1e9))
            for frame in session.frames(time.monotonic() + _GRACE_S, lambda: None):
                for table, part in merger.take(frame):
                    rows[table].append(part)
        for table, part in merger.finish():
            rows[table].append(part)
    finally:
        for command in wiring.down:
            place.run(command)
    assert not place.run(["ip", "netns", "list"]).out.count(wiring.hosts[0].namespace.encode())
    (flow,) = pa.Table.from_batches(rows["flows"]).to_pylist()
    capacity_bytes = 2 * 4e6 / 8
    assert 0.5 * capacity_bytes < flow["delivered_bytes"] < capacity_bytes  # less on a busy machine, and never more
    crossed = pa.Table.from_batches(rows["links"]).to_pylist()
    assert sum(row["out_bytes"] for row in crossed) > flow["delivered_bytes"]
