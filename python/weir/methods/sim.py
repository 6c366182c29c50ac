"""The packet-level simulator (crates/weir-sim), in virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from weir import cc
from weir.methods import INSIDE, TABLES, Method, MethodError, Outcome, Progress, Sink
from weir.methods._document import plan_of
from weir.plan import Plan, TcpTransport, Transport, with_transports
from weir.run.columns import rows

__all__ = ["Sim"]

_FIRST_STEP_NS = 10_000_000
_MIN_STEP_NS = 1_000_000
_WALL_STEP_S = 0.2
"""Wall time between two drains of the tables and progress reports; does not affect results."""
_START_S = 0.3
_PACKETS_PER_S = 5e6
"""Data packets that one processor simulates per second, an order of magnitude (`make bench` measures it)."""


class Sim(Method):
    """Runs a plan in the simulator."""

    name = "sim"
    clock: Literal["virtual", "real"] = "virtual"
    needs = "nothing"
    title = "the packet-level simulator"
    called = "the simulator"
    precedence = 10
    time_title = "Simulated time"
    loads_controls = True
    tables = TABLES | INSIDE

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.obstacle`."""
        from weir import _weir

        try:
            typed = plan_of(plan)
            for name in cc.controls_of(typed):
                cc.control(name)
            _weir.Simulator(json.dumps(_with(plan, typed, _STAND_IN)))
        except (ValueError, MethodError, cc.ControlError) as error:
            return str(error)
        return None

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """See :meth:`weir.methods.Method.foreseen_s`."""
        return _START_S + packets / _PACKETS_PER_S

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan``; see :meth:`weir.methods.Method.execute`."""
        from weir import _weir

        document = json.loads(plan)
        names = cc.controls_of(typed := plan_of(document))
        try:
            loaded = {name: {"cc": str(cc.served(name))} for name in names}
            simulator = _weir.Simulator(json.dumps(_with(document, typed, loaded)) if names else plan)
        except cc.ControlError as error:
            raise MethodError(str(error)) from error
        except ValueError as error:
            raise MethodError(_renamed(str(error), loaded)) from error
        kinds = pa.array(_weir.event_kinds(), pa.string())
        trace: dict[str, BinaryIO] = {}
        finished = False
        step_ns = _FIRST_STEP_NS
        while not finished:
            begin = time.monotonic()
            try:
                finished = simulator.advance(simulator.now_ns + step_ns)
            except ValueError as error:
                raise MethodError(_renamed(str(error), loaded)) from error
            for table, columns in simulator.drain().items():
                sink.write(table, rows(table, columns, kinds))
            for name, content in simulator.drain_trace().items():
                if name not in trace:
                    trace[name] = sink.open(name)
                trace[name].write(content)
            progress(simulator.now_ns)
            step_ns = _next_step(step_ns, time.monotonic() - begin)
        return Outcome(stats=simulator.stats())


_Instead = Mapping[str, Mapping[str, Any]]
"""The replacement of a user's control in a flow's transport, by its name."""


class _StandIn(dict[str, Mapping[str, Any]]):
    """A registered congestion control in place of any user's, if nothing is executed."""

    def __missing__(self, name: str) -> Mapping[str, Any]:
        return {"cc": "reno", "cc_options": {}}


_STAND_IN = _StandIn()


def _with(document: Mapping[str, Any], plan: Plan, instead: _Instead) -> dict[str, Any]:
    """``document`` of ``plan`` with other settings for the flows of users' controls."""

    def other(transport: Transport, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(transport, TcpTransport) and cc.is_file_name(transport.cc):
            return {**given, **instead[transport.cc]}
        return given

    return with_transports(document, plan, other)


def _renamed(text: str, loaded: _Instead) -> str:
    """``text`` with the controls' names instead of the paths from which they were loaded."""
    for name, settings in loaded.items():
        text = text.replace(settings["cc"], name)
    return text


def _next_step(step_ns: int, wall_s: float) -> int:
    """The virtual time that should take about ``_WALL_STEP_S``; it at most quadruples."""
    factor = _WALL_STEP_S / max(wall_s, 1e-4)
    return max(_MIN_STEP_NS, int(step_ns * min(4.0, factor)))
