"""The packet-level simulator (crates/weir-sim), in virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from weir import cc, control, queues
from weir.methods import INSIDE, TABLES, Method, MethodError, Outcome, Progress, Sink
from weir.methods._document import plan_of
from weir.methods._host_bounds import host_bounds
from weir.methods._served import Served
from weir.methods.options import OPTIONS
from weir.plan import TcpTransport, Transport, with_transports
from weir.run.columns import rows

__all__ = ["Sim"]

_FIRST_STEP_NS = 10_000_000
_MIN_STEP_NS = 1_000_000
_WALL_STEP_S = 0.05
"""Wall time between two drains of the tables and progress reports; does not affect results."""
_START_S = 0.3
_FEW = 3
"""Maximum number of flows named."""
_PACKETS_PER_S = 1e7
"""Data packets that one processor simulates per second: the middle of the plans of docs/speed.md, 3 to 17 million."""


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
    options = OPTIONS["sim"]

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.obstacle`."""
        from weir import _weir

        try:
            typed = plan_of(plan)
            for name in cc.controls_of(typed):
                cc.control(name)
            _weir.Simulator(json.dumps(with_transports(plan, typed, _stand_in)))
        except (ValueError, MethodError, cc.ControlError) as error:
            return str(error)
        return None

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """See :meth:`weir.methods.Method.foreseen_s`."""
        return _START_S + packets / _PACKETS_PER_S

    def remarks(self, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
        """See :meth:`weir.methods.Method.remarks`."""
        typed = plan_of(plan)
        yield from host_bounds(typed)
        refused = [
            flow.name
            for flow in typed.flows
            if isinstance(flow.transport, TcpTransport)
            and flow.transport.quick_start_bps
            and not any(queues.approves_first_rates(typed.links[link].queue) for link in flow.path)
        ]
        if refused:
            few = ", ".join(refused[:_FEW]) + (", ..." if len(refused) > _FEW else "")
            yield (
                f"quick_start ({few}): no router of the path has `queue: quickstart`, so that the request is refused, "
                "and slow start begins"
            )

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan``; see :meth:`weir.methods.Method.execute`."""

        document = json.loads(plan)
        try:
            with Served(document, plan_of(document)) as served:
                text = plan if served.document is document else json.dumps(served.document)
                return self._simulate(text, served, sink, progress)
        except (cc.ControlError, control.UserError) as error:
            raise MethodError(str(error)) from error

    def _simulate(self, plan: str, served: Served, sink: Sink, progress: Progress) -> Outcome:
        from weir import _weir

        try:
            simulator = _weir.Simulator(plan)
        except ValueError as error:
            raise MethodError(served.explained(str(error), 0)) from error
        kinds = pa.array(_weir.event_kinds(), pa.string())
        trace: dict[str, BinaryIO] = {}
        finished = False
        step_ns = _FIRST_STEP_NS
        while not finished:
            begin = time.monotonic()
            try:
                finished = simulator.advance(simulator.now_ns + step_ns)
            except ValueError as error:
                raise MethodError(served.explained(str(error), simulator.now_ns)) from error
            for table, columns in simulator.drain().items():
                sink.write(table, rows(table, columns, kinds))
            for name, content in simulator.drain_trace().items():
                if name not in trace:
                    trace[name] = sink.open(name)
                trace[name].write(content)
            progress(simulator.now_ns)
            step_ns = _next_step(step_ns, time.monotonic() - begin)
        return Outcome(stats=simulator.stats())


def _stand_in(transport: Transport, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A registered congestion control in place of any user's, if nothing is executed."""
    if isinstance(transport, TcpTransport) and cc.is_file_name(transport.cc):
        return {**given, "cc": "reno", "cc_options": {}}
    return given


def _next_step(step_ns: int, wall_s: float) -> int:
    """The virtual time that should take about ``_WALL_STEP_S``; it at most quadruples."""
    factor = _WALL_STEP_S / max(wall_s, 1e-4)
    return max(_MIN_STEP_NS, int(step_ns * min(4.0, factor)))
