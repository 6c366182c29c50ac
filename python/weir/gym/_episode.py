"""A simulation that stops whenever the control of one flow has to decide.

The simulator calls its controls; it cannot be left in the middle of a call. So it runs in a thread, which waits in that
call for the decision. To end it early, the call raises an exception, which ends the simulation.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from typing import Any

from weir import _weir
from weir.control import Answer, Asker, Report
from weir.plan import Plan

__all__ = ["Episode", "EpisodeError"]

_SLICE_NS = 1_000_000_000
"""Virtual time after which the thread sees that it is no longer wanted, even if nobody asks."""


class EpisodeError(Exception):
    """A scenario cannot be simulated as an environment, or its simulation failed."""


class _Closed(Exception):  # noqa: N818 - never seen outside
    """Nobody wants the rest of the simulation."""


class Episode:
    """One simulation of a plan, in which somebody else decides for one flow; must be closed."""

    def __init__(self, document: Mapping[str, Any], plan: Plan, flow: int, after_us: int | None) -> None:
        """Starts it.

        Args:
            document: The document of ``plan``.
            plan: The plan.
            flow: The flow's number.
            after_us: Time between two decisions in microseconds; ``None``: a round trip.

        Raises:
            EpisodeError: the simulator cannot execute the plan.
        """
        self._after_us = after_us
        self._end_ns = plan.end_ns
        self._closed = False
        self._told: queue.SimpleQueue[Report | BaseException | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._asker = Asker(f"the control of {plan.flows[flow].name}", self._decide)
        try:
            self._simulator = _weir.Simulator(json.dumps(_with(document, flow, self._asker)))
        except ValueError as error:
            self._asker.close()
            raise EpisodeError(str(error)) from None
        self._thread = threading.Thread(target=self._run, name="weir-episode", daemon=True)
        self._thread.start()

    def next(self, answer: Answer | None = None) -> Report | None:
        """Takes the decision about the report before, and simulates until the next; ``None`` at the end of the run.

        Raises:
            EpisodeError: the simulation failed.
            weir.control.AnswerError: ``answer`` is none.
        """
        if answer is not None:
            answer.decision(None)
            self._answers.put(answer)
        told = self._told.get()
        if isinstance(told, BaseException):
            self.close()
            raise EpisodeError(f"the simulation failed: {told}") from told
        return told

    def close(self) -> None:
        """Ends the simulation and its thread."""
        self._closed = True
        self._answers.put(None)
        if threading.current_thread() is not self._thread:  # a collection of garbage may end it from there
            self._thread.join()
        self._asker.close()

    def _run(self) -> None:
        try:
            finished = False
            while not finished and not self._closed:
                finished = self._simulator.advance(self._simulator.now_ns + _SLICE_NS)
            self._told.put(None)
        except BaseException as error:
            failure = self._asker.failure
            self._told.put(None if isinstance(failure, _Closed) else failure or error)

    def _decide(self, report: Report, _seed: int) -> tuple[int | None, int | None, int | None]:
        if not self._closed:
            self._told.put(report)
            answer = self._answers.get()
            if answer is not None:
                return answer.decision(self._after_us)
        raise _Closed


def _with(document: Mapping[str, Any], flow: int, asker: Asker) -> dict[str, Any]:
    """``document`` with another control of one flow, and without tables, which nobody reads."""
    flows = list(document["flows"])
    flows[flow] = {**flows[flow], "transport": {**flows[flow]["transport"], **asker.transport()}}
    return {**document, "flows": flows, "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0}}
