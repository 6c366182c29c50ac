"""The packet-level simulator (crates/weir-sim), in virtual time."""

from __future__ import annotations

import time
from typing import Literal

from weir.methods import MethodError, Outcome, Progress, Sink

__all__ = ["Sim"]

_FIRST_STEP_NS = 10_000_000
_WALL_STEP_S = 0.2
"""How often the tables are drained and progress is told, in wall time; it changes no result."""


class Sim:
    """Runs a plan in the simulator."""

    name = "sim"
    clock: Literal["virtual", "real"] = "virtual"
    needs = "nothing"

    def available(self) -> str | None:
        """``None``: the simulator is part of weir."""
        return None

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan``; see :meth:`weir.methods.Method.execute`."""
        from weir import _weir

        try:
            simulator = _weir.Simulator(plan)
        except ValueError as error:
            raise MethodError(str(error)) from error
        finished = False
        step_ns = _FIRST_STEP_NS
        while not finished:
            begin = time.monotonic()
            finished = simulator.advance(simulator.now_ns + step_ns)
            sink.write(simulator.drain())
            progress(simulator.now_ns)
            step_ns = _next_step(step_ns, time.monotonic() - begin)
        return Outcome(tuple(simulator.warnings()), simulator.stats())


def _next_step(step_ns: int, wall_s: float) -> int:
    """The virtual time that should take about ``_WALL_STEP_S``; it at most quadruples."""
    factor = _WALL_STEP_S / max(wall_s, 1e-4)
    return max(1_000_000, int(step_ns * min(4.0, factor)))
