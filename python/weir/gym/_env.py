"""The environment: what an agent sees, does and gets."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt

from weir import cc
from weir.control import Answer, AnswerError, Report
from weir.gym._episode import Episode, EpisodeError
from weir.plan import Plan, TcpTransport, bottleneck, tcp_flows, typed
from weir.scenario import Version, load

__all__ = ["OBSERVED", "WeirEnv"]

_Observation = npt.NDArray[np.float32]
_Action = npt.NDArray[np.float32]

_MOST_RATIO = 10.0
_MOST_LOG2 = 30.0
_LEAST_WINDOW = 2.0
_MOST_WINDOW = 1e6
_LOSS_COST = 10.0
_DELAY_COST = 0.5

OBSERVED: Mapping[str, float] = {
    "queueing": _MOST_RATIO,
    "loss": 1.0,
    "marks": 1.0,
    "delivery": 1.0,
    "sending": _MOST_RATIO,
    "in_flight": _MOST_RATIO,
    "window": _MOST_LOG2,
    "timeout": 1.0,
}
"""The values of an observation in their order, and the largest of each; all are at least 0."""


class WeirEnv(gymnasium.Env[_Observation, _Action]):
    """One flow of a scenario, whose congestion control is the agent; the simulator executes it.

    An episode is a run of the scenario. A step is a round trip of the flow, or ``interval`` seconds. An action is a
    number from -1 to 1; it multiplies the window by ``2 ** action``. Subclasses may override :meth:`observe` and
    :meth:`answer` for other observations and actions, and set the spaces accordingly.

    The episode is truncated at the end of the run; the last observation is then that before.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as in the base class

    def __init__(
        self,
        scenario: str | os.PathLike[str],
        *,
        flow: str | None = None,
        reward: Callable[[Report], float] | None = None,
        interval: float | Literal["rtt"] = "rtt",
        set: Mapping[str, Any] | None = None,  # noqa: A002  (as the command line calls it)
        version: Version = "full",
        cell: int = 0,
    ) -> None:
        """Reads the scenario; executes nothing yet.

        Args:
            scenario: A YAML file.
            flow: The name of the agent's flow; not needed if there is only one over TCP.
            reward: The reward of a step from its report; default: :meth:`reward`.
            interval: Seconds between two decisions; ``rtt``: a round trip.
            set: Values to change, by their path in the scenario, as of :func:`weir.execute`.
            version: ``full``, ``quick`` or ``realtime``.
            cell: The number of the cell, for a scenario with a sweep.

        Raises:
            weir.scenario.ScenarioError: the scenario is wrong.
            EpisodeError: there is no such flow or cell, or a flow has a user's congestion control.
            ValueError: ``interval`` is no time.
        """
        super().__init__()
        self._file = os.fspath(scenario)
        self._version = version
        self._set = dict(set or {})
        self._cell = cell
        self._reward = reward or self.reward
        self._after_us = _after_us(interval)
        document, plan = self._planned(None)
        self._flow = _flow(plan, flow)
        self._next = (document, plan)
        self.flow: str = plan.flows[self._flow].name
        """The name of the agent's flow."""
        self.capacity_bps: int = bottleneck(plan, plan.flows[self._flow].path).rate_bps
        """Rate of the slowest link of the flow's path at the start."""
        self.observation_space = gymnasium.spaces.Box(
            np.zeros(len(OBSERVED), np.float32), np.array([*OBSERVED.values()], np.float32), dtype=np.float32
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._episode: Episode | None = None
        self._report: Report | None = None
        self._most_bps = 0.0
        self._wished = 0.0
        self._ends: weakref.finalize[Any, Any] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Observation, dict[str, Any]]:
        """Begins a run, and simulates until the flow's connection is established.

        Args:
            seed: The seed of the scenario. Without one, the first run has the scenario's own, and later runs others.
            options: None are known.

        Raises:
            EpisodeError: the simulation failed, or the flow never gets a connection.
        """
        first = self._ends is None
        super().reset(seed=seed)
        self.close()
        if seed is None and not first:
            seed = int(self.np_random.integers(1 << 31))
        document, plan = self._next if seed is None else self._planned(seed)
        episode = Episode(document, plan, self._flow, self._after_us)
        self._episode = episode
        self._ends = weakref.finalize(self, episode.close)
        report = episode.next()
        if report is None:
            self.close()
            raise EpisodeError(f"flow {self.flow} has no connection before the run ends")
        self._report = report
        self._most_bps = self._wished = 0.0
        return self.observe(report), self._info(report)

    def step(self, action: _Action) -> tuple[_Observation, float, bool, bool, dict[str, Any]]:
        """Sets the window, and simulates until the next decision.

        Raises:
            EpisodeError: the simulation failed.
            gymnasium.error.ResetNeeded: the run has ended, or there is none yet.
            weir.control.AnswerError: the action leads to no window.
        """
        if self._episode is None or self._report is None:
            raise gymnasium.error.ResetNeeded("call reset() first: there is no run, or it has ended")
        before = self._report
        report = self._episode.next(self.answer(before, action))
        if report is None:
            self.close()
            return self.observe(before), 0.0, False, True, self._info(before)
        self._report = report
        self._most_bps = max(self._most_bps, report.delivery_bps)
        return self.observe(report), float(self._reward(report)), False, False, self._info(report)

    def close(self) -> None:
        """Ends the run, if one is under way, and its thread."""
        self._episode = self._report = None
        if self._ends is not None:
            self._ends()

    def observe(self, report: Report) -> _Observation:
        """What the agent sees of a report; ``OBSERVED`` has the order.

        - ``queueing``: mean round-trip time over the least one, less 1
        - ``loss``: share of lost packets among those acknowledged or lost
        - ``marks``: share of marked packets among those acknowledged
        - ``delivery``: delivery rate over the largest so far in the run
        - ``sending``: send rate over delivery rate
        - ``in_flight``: packets in flight over the window
        - ``window``: binary logarithm of the window in packets
        - ``timeout``: 1 if a timeout expired
        """
        rtt, least = report.rtt_mean_s or report.srtt_s, report.rtt_min_s
        ended = report.acked_packets + report.lost_packets
        values = (
            rtt / least - 1 if rtt and least else 0.0,
            report.lost_packets / ended if ended else 0.0,
            report.marked_packets / report.acked_packets if report.acked_packets else 0.0,
            report.delivery_bps / self._most_bps if self._most_bps else 0.0,
            report.send_bps / report.delivery_bps if report.delivery_bps else 0.0,
            report.in_flight_packets / report.window_packets,
            math.log2(report.window_packets),
            float(report.timeouts > 0),
        )
        space = self.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        return np.clip(np.array(values, np.float32), space.low, space.high)

    def answer(self, report: Report, action: _Action) -> Answer:
        """What ``action`` means after ``report``: the window times ``2 ** action``, from 2 to 1 000 000 packets."""
        power = float(np.asarray(action, np.float64).reshape(-1)[0])
        if not math.isfinite(power):
            raise AnswerError(f"the action is {power}; expected a number from -1 to 1")
        factor = 2.0 ** min(max(power, -1.0), 1.0)
        # The simulator rounds windows; small factors would otherwise never change a small one.
        kept = round(self._wished) == report.window_packets
        self._wished = min(max((self._wished if kept else report.window_packets) * factor, _LEAST_WINDOW), _MOST_WINDOW)
        return Answer(window_packets=self._wished)

    def reward(self, report: Report) -> float:
        """The default reward: the share of the path's rate that was delivered, less half of the relative queueing
        delay, less ten times the share of lost packets.
        """
        rtt, least = report.rtt_mean_s, report.rtt_min_s
        delay = rtt / least - 1 if rtt and least else 0.0
        ended = report.acked_packets + report.lost_packets
        lost = report.lost_packets / ended if ended else 0.0
        return report.delivery_bps / self.capacity_bps - _DELAY_COST * min(delay, _MOST_RATIO) - _LOSS_COST * lost

    def _info(self, report: Report) -> dict[str, Any]:
        return {"report": report, "time_s": report.time_s}

    def _planned(self, seed: int | None) -> tuple[dict[str, Any], Plan]:
        own = {} if seed is None else {"seed": seed}
        version = {"quick": self._version == "quick", "realtime": self._version == "realtime"}
        scenario = load(self._file, **version, overrides={**self._set, **own})
        cells = scenario.cells()
        if not 0 <= self._cell < len(cells):
            raise EpisodeError(f"{self._file} has {len(cells)} cells; expected a number below, not {self._cell}")
        document = cells[self._cell].plan()
        return document, typed(document)


def _flow(plan: Plan, name: str | None) -> int:
    """The number of the agent's flow.

    Raises:
        EpisodeError: there is none, or another flow has a user's control, which this process must not load.
    """
    known = [flow.name for flow, _ in tcp_flows(plan)]
    if name is None and len(known) != 1:
        raise EpisodeError(f"name the agent's flow with `flow`: there are {_listed(known)}")
    chosen = known[0] if name is None else name
    if chosen not in known:
        raise EpisodeError(f"there is no flow {chosen!r} over TCP; there are {_listed(known)}")
    for flow in plan.flows:
        if flow.name != chosen and isinstance(flow.transport, TcpTransport) and cc.is_file_name(flow.transport.cc):
            raise EpisodeError(
                f"flow {flow.name} has the control {flow.transport.cc}: it is a program, and only a confined process "
                "executes it; give the other flows controls of weir"
            )
    return next(number for number, flow in enumerate(plan.flows) if flow.name == chosen)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "none"


def _after_us(interval: float | str) -> int | None:
    if interval == "rtt":
        return None
    if isinstance(interval, str) or not 1e-6 <= float(interval) <= 3600:
        raise ValueError(f"interval is {interval!r}; expected 'rtt', or seconds from 1e-06 to 3600")
    return round(float(interval) * 1e6)
