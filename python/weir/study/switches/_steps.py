"""The number of each step of a characterisation, and how long the others will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir._duration import estimate_text
from weir.study.switches._extent import Extent
from weir.study.switches._programme import all_outputs, calibration, slowness, two_outputs
from weir.study.switches._rig import Rig

__all__ = ["Phase", "Steps", "phases"]

_FIT_NS = 60_000_000
"""How long the inputs send in a trial of the fit, at 1 Gb/s, before the size of the memory is known."""
_TCP = 4
"""Pairs of TCP flows, as in ``assets/tcp.yaml``."""
_COUNTED, _OF_TCP = 0.03, 0.08
"""Work to simulate a second in which packets are only counted, and one of TCP flows, over that of one which records
each packet, from the times of the preset dlink-dgs1216t.
"""
_KNOWN_S = 5.0
"""Time by the clock from which on a pace is known; before, imports count for much."""


@dataclass(frozen=True)
class Phase:
    """Steps that are alike."""

    step_s: tuple[float, ...]
    """The time of each that passes in the switch; if simulated, the work in seconds at 1 Gb/s of recorded packets."""
    simulated: bool


class Steps:
    """Numbers steps: ``12/65 two sizes (about 3 min left)``.

    A step lasts as long as what passes in the switch, times a pace. The pace is that of the steps so far which were
    executed alike, in real time or simulated; until there are some, it is 1. There is no estimate in the first seconds.
    """

    def __init__(
        self, tell: Callable[[str], None], planned: Sequence[Phase], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Steps of all phases in order.

        Args:
            tell: Gets the texts.
            planned: The phases.
            clock: The time, s.
        """
        self._tell, self._clock = tell, clock
        self._planned = list(planned)
        self._phase = self._number = self._within = 0
        self._spent = {True: [0.0, 0.0], False: [0.0, 0.0]}
        """By whether it was simulated: time of the steps in the switch, and by the clock, s."""
        self._since: float | None = None

    def plan(self, planned: Sequence[Phase]) -> None:
        """Replaces the phases after the present one, of which more is known now."""
        self._planned[self._phase + 1 :] = planned

    def next_phase(self) -> None:
        """Ends the present phase, also if it had fewer steps or more than planned."""
        self._end_step()
        own = self._planned[self._phase]
        self._planned[self._phase] = Phase(own.step_s[: self._within], own.simulated)
        self._phase, self._within = self._phase + 1, 0

    def __call__(self, text: str) -> None:
        """Begins a step."""
        self._end_step()
        own = self._planned[self._phase]
        if self._within == len(own.step_s):
            self._planned[self._phase] = Phase((*own.step_s, own.step_s[-1]), own.simulated)
        self._number, self._within, self._since = self._number + 1, self._within + 1, self._clock()
        later = self._planned[self._phase + 1 :]
        last = len(self._planned[self._phase].step_s) - self._within
        total = self._number + last + sum(len(one.step_s) for one in later)
        known = sum(spent for _, spent in self._spent.values()) >= _KNOWN_S
        left = f" (about {estimate_text(self._left_s())} left)" if known else ""
        self._tell(f"{self._number}/{total} {text}{left}")

    def _left_s(self) -> float:
        """The time of this step and of all later ones."""
        own = self._planned[self._phase]
        here = sum(own.step_s[self._within - 1 :]) * self._pace(own.simulated)
        return here + sum(sum(one.step_s) * self._pace(one.simulated) for one in self._planned[self._phase + 1 :])

    def _pace(self, simulated: bool) -> float:
        in_switch, spent = self._spent[simulated]
        return spent / in_switch if in_switch else 1.0

    def _end_step(self) -> None:
        if self._since is None:
            return
        own, now = self._planned[self._phase], self._clock()
        spent = self._spent[own.simulated]
        spent[0] += own.step_s[self._within - 1]
        spent[1] += now - self._since
        self._since = None


def phases(
    rig: Rig,
    extent: Extent,
    *,
    simulated: bool,
    with_tcp: bool,
    pairs: int,
    bursts: int,
    window_ns: float | None = None,
    again: int = 0,
) -> list[Phase]:
    """The phases of a characterisation: the fit, the switch, the fitted model, and TCP over both.

    Args:
        rig: The switch and its testers.
        extent: What is measured beside the fit.
        simulated: Whether the switch is a model.
        with_tcp: Whether TCP flows pass both.
        pairs: Pairs of rates.
        bursts: Bursts.
        window_ns: A time over which rates are steady; ``None`` if it is not known yet.
        again: How often isolines of the fitted model are measured again.
    """
    unit_s = _FIT_NS * slowness(rig) / 1e9
    more = sum(made(rig, 1, 1) is not None for made in (two_outputs, all_outputs))
    fit = [unit_s * 2 / 3] * len(calibration(rig)) + [2 * unit_s] + [3 * unit_s] * (4 + more)
    window_s = 2 * unit_s if window_ns is None else window_ns / 1e9
    line_s = extent.points * 2.5 * window_s * (_COUNTED if simulated else 1.0)
    lines = [line_s] * extent.points
    pair_s = 1.5 * window_s + max(window_s, extent.pairs_ns / 1e9)
    shown = [pair_s] * pairs + [window_s] * bursts + lines
    tcp = [extent.tcp_ns / 1e9] * (_TCP * len(extent.tcp_rtts_ns) if with_tcp else 0)
    of_model = [_OF_TCP * second for second in tcp]
    own_tcp = of_model if simulated else tcp
    made = [(fit, simulated), (shown, simulated), (shown + lines * again, True), (own_tcp, simulated), (of_model, True)]
    work = 1 / slowness(rig)
    return [Phase(tuple(one * work if how else one for one in step_s), how) for step_s, how in made]
