"""Agreement of three or more runs on verdicts and figures: the majority, and the run that stands alone.

Two figures agree if they differ by at most a tolerance. The majority is the largest set in which every two agree, if it
is larger than any other such set; runs outside it are odd. If figures are spread so evenly that two such sets are
equally large (10, 12 and 14 with a tolerance of 2), no run is odd; the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

__all__ = ["Agreement", "Tolerance", "apart", "names", "of_figures", "of_outcomes", "tolerance_of"]

Kind = Literal["all", "majority", "split", "alone"]


@dataclass(frozen=True)
class Agreement:
    """Which runs agree on one claim or figure."""

    kind: Kind
    """``all``: every run that decides; ``majority``: more than half, against ``odd``; ``split``: no such set;
    ``alone``: fewer than two decide.
    """
    together: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    """Runs without an answer: undecided, or not executed."""

    @property
    def text(self) -> str:
        """In words."""
        match self.kind:
            case "alone":
                return "not decided by two"
            case "all":
                return "all agree" if not self.silent else f"{names(self.together)} agree"
            case "majority":
                verb = "differs" if len(self.odd) == 1 else "differ"
                return f"{names(self.together)} agree; {names(self.odd)} {verb}"
            case "split":
                return "they disagree"


@dataclass(frozen=True)
class Tolerance:
    """Largest difference of two figures of one metric that agree: the larger of the two limits."""

    relative: float
    """Of the mean of both."""
    absolute: float = 0.0
    """In the metric's unit."""

    def covers(self, a: float, b: float) -> bool:
        """Whether two figures agree."""
        if a == b:
            return True
        return abs(a - b) <= max(self.absolute, self.relative * (abs(a) + abs(b)) / 2)


_TOLERANCES: dict[str, Tolerance] = {
    "goodput.aggregate.mean": Tolerance(0.05),
    "goodput.mean": Tolerance(0.05),
    "utilisation": Tolerance(0.03),
    "jain": Tolerance(0.0, 0.03),
    "link.loss": Tolerance(0.3, 1e-4),
    "queue.delay": Tolerance(0.15, 2e-4),
    "rtt": Tolerance(0.1, 2e-4),
    "cwnd": Tolerance(0.1, 1.0),
    "retransmissions": Tolerance(0.3, 1e-3),
    "timeouts": Tolerance(0.3, 2.0),
    "completion.mean": Tolerance(0.05),
    "completion.unfinished": Tolerance(0.0, 0.05),
    "page.completion.mean": Tolerance(0.05),
    "page.completion.p95": Tolerance(0.1),
    "delay": Tolerance(0.1, 2e-4),
    "delay.p95": Tolerance(0.15, 2e-4),
    "delay.jitter": Tolerance(0.3, 2e-4),
}
"""Tolerances of the default metrics: about the spread of one method's repeats, from ``docs/validation``."""

_OTHER = Tolerance(0.05)


def tolerance_of(metric: str) -> Tolerance:
    """The tolerance of a metric; 5 % without a specific one."""
    return _TOLERANCES.get(metric, _OTHER)


def of_outcomes(outcomes: Mapping[str, str]) -> Agreement:
    """Agreement on a claim, by label; an outcome other than ``holds`` and ``fails`` does not count."""
    said = {label: outcome for label, outcome in outcomes.items() if outcome in ("holds", "fails")}
    return _agreement(list(outcomes), list(said), {(a, b): said[a] == said[b] for a, b in combinations(said, 2)})


def of_figures(figures: Mapping[str, float | None], tolerance: Tolerance) -> Agreement:
    """Agreement on a figure, by label; ``None`` and ``nan`` do not count."""
    said = {label: value for label, value in figures.items() if value is not None and not math.isnan(value)}
    same = {(a, b): tolerance.covers(said[a], said[b]) for a, b in combinations(said, 2)}
    return _agreement(list(figures), list(said), same)


def apart(a: float | None, b: float | None, floor: float = 0.0) -> float | None:
    """Distance of two figures, relative to the mean of their magnitudes or to ``floor``, whichever is larger."""
    if a is None or b is None or math.isnan(a) or math.isnan(b):
        return None
    if a == b:
        return 0.0
    scale = max((abs(a) + abs(b)) / 2, floor)
    return abs(a - b) / scale


def names(labels: Iterable[str]) -> str:
    """``a, b and c``."""
    some = list(labels)
    return some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}" if some else ""


def _agreement(labels: list[str], said: list[str], same: Mapping[tuple[str, str], bool]) -> Agreement:
    silent = tuple(label for label in labels if label not in said)
    if len(said) < 2:
        return Agreement("alone", silent=silent)
    largest = _largest(said, same)
    if len(largest) > 1 or 2 * len(largest[0]) <= len(said):
        return Agreement("split", silent=silent)
    together = largest[0]
    odd = tuple(label for label in said if label not in together)
    return Agreement("majority" if odd else "all", together, odd, silent)


def _largest(said: list[str], same: Mapping[tuple[str, str], bool]) -> list[tuple[str, ...]]:
    """The largest sets in which every two agree, by brute force: a survey has a handful of methods."""
    for size in range(len(said), 1, -1):
        found = [some for some in combinations(said, size) if all(same[pair] for pair in combinations(some, 2))]
        if found:
            return found
    return [(label,) for label in said]
