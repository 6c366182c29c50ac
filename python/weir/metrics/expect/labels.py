"""Comparisons of words: the factor value with the smallest or largest amount, and its rank.

``argmin(x over f) == 'a'`` says that a has the smallest x. With repeats it holds if a's x is smaller than every
other's, by the intervals of the paired differences; it fails if some other's is smaller than a's. The first needs all
differences and takes no correction. The second needs one of k, so each is judged at 1 - (1 - level) / k (Bonferroni).
In a tie, each value is the smallest. A rank lies between the ranks that the same differences permit (after Mogstad et
al., Review of Economic Studies 91, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.metrics.expect.amounts import Amounts, ranked
from weir.metrics.expect.sides import NO_INTERVAL, Range
from weir.metrics.expect.source import Context
from weir.metrics.expect.syntax import LABELS, Call, Compare, Node, OneOf, Text
from weir.metrics.expect.values import Amount, MissingError
from weir.metrics.expect.verdict import Measurement, Outcome
from weir.metrics.results import Floats
from weir.metrics.statistics import jackknife
from weir.run.quantity import ONE, same_value

__all__ = ["is_label", "judge_label", "rank_interval"]


def is_label(node: Node) -> bool:
    """Whether a comparison is between words."""
    return isinstance(node, OneOf) or (isinstance(node, Compare) and _is_text(node.left))


def _is_text(node: Node) -> bool:
    return isinstance(node, Text) or (isinstance(node, Call) and node.function in LABELS)


def judge_label(
    amounts: Amounts,
    node: Node,
    context: Context,
    shown: Mapping[str, str],
    repeats: Sequence[int],
    level: float,
    note: str = "",
) -> Measurement:
    """Judges a comparison of words.

    Raises:
        UndecidedError: a word has no value on this run.
    """
    part, wanted, negated = _parts(amounts, node, context)
    early = _settled_early(amounts, part, wanted, context)
    if early is not None and not negated:
        return early.measurement(node, shown, wanted, level)
    found = amounts.word(part, context)
    truth: bool | None = any(same_value(found, option) for option in wanted)
    margin, ends, dimension = math.nan, NO_INTERVAL, ONE
    numbers: tuple[tuple[str, float], ...] = ()
    if isinstance(part, Call):
        numbers = _numbers(amounts, part, context)
        margin, ends = _lead(amounts, part, wanted, context, repeats, level)
        dimension = _dimension(amounts, part, context)
    if not math.isnan(margin):
        truth = _ahead(margin, ends)
        note = "; ".join(filter(None, [note, "a tie" if margin == 0 else ""]))
    if negated:
        margin, ends, truth = -margin, (-ends[1], -ends[0]), None if truth is None else not truth
    return Measurement(
        text=node.text,
        factors=shown,
        outcome="undecided" if truth is None else "holds" if truth else "fails",
        value=found,
        low=math.nan,
        high=math.nan,
        threshold=" or ".join(wanted),
        margin=margin,
        margin_low=ends[0],
        margin_high=ends[1],
        repeats=len(repeats),
        dimension=dimension,
        note=note,
        within_chance=truth is None,
        level=level,
        fixed=False,
        numbers=numbers,
    )


def _numbers(amounts: Amounts, part: Call, context: Context) -> tuple[tuple[str, float], ...]:
    """The values of the factor with their amounts: the smallest first, of ``argmax`` the largest; none with bounds."""
    points, all_ = amounts.over(part, context)
    if any(amount.bound != "exact" for amount in all_):
        return ()
    found = [(point[part.over[0]], amount.value) for point, amount in zip(points, all_, strict=True)]
    return tuple(sorted(found, key=lambda pair: pair[1], reverse=part.function == "argmax"))


@dataclass(frozen=True)
class _Early:
    """A comparison that values which are only bounds settle."""

    found: str
    margin: float
    dimension: tuple[int, int]

    def measurement(self, node: Node, shown: Mapping[str, str], wanted: Sequence[str], level: float) -> Measurement:
        nan = math.nan
        outcome: Outcome = "holds" if self.margin >= 0 else "fails"
        note = "at least that: not every cell was executed"
        return Measurement(
            text=node.text,
            factors=shown,
            outcome=outcome,
            value=self.found,
            low=nan,
            high=nan,
            threshold=" or ".join(wanted),
            margin=self.margin,
            margin_low=nan,
            margin_high=nan,
            repeats=1,
            dimension=self.dimension,
            note=note,
            level=level,
            fixed=False,
        )


def _settled_early(amounts: Amounts, part: Node, wanted: Sequence[str], context: Context) -> _Early | None:
    """The comparison if cells that were not executed cannot change it; ``None`` if they can, or if none is missing."""
    if not isinstance(part, Call):
        return None
    opened = amounts.source.opened(part, context)
    sign = 1.0 if part.function == "argmin" else -1.0
    inside: list[tuple[float, float, str]] = []
    outside: list[tuple[float, float, str]] = []
    missing, dimension = False, ONE
    for point in amounts.source.points(opened, part.over):
        name = point[part.over[0]]
        low, high = -math.inf, math.inf
        try:
            amount = amounts.amount(part.parts[0], opened.bind(point))
            dimension = amount.dimension
            low = amount.value if amount.bound in ("exact", "more") else low
            high = amount.value if amount.bound in ("exact", "less") else high
            missing = missing or amount.bound != "exact"
        except MissingError:
            missing = True
        low, high = sorted((sign * low, sign * high))
        (inside if any(same_value(name, option) for option in wanted) else outside).append((low, high, name))
    if not missing or not inside or not outside:
        return None
    best, other = min(inside, key=lambda one: one[1]), min(outside, key=lambda one: one[1])
    if best[1] <= min(low for low, _, _ in outside):
        return _Early(best[2], min(low for low, _, _ in outside) - best[1], dimension)
    if other[1] < min(low for low, _, _ in inside):
        return _Early(other[2], other[1] - min(low for low, _, _ in inside), dimension)
    return None


def _ahead(margin: float, ends: Range) -> bool | None:
    """Whether no other value leads; ``None`` if the interval leaves that open."""
    low, high = ends
    if math.isnan(low) or low == high:
        return margin >= 0
    return True if low >= 0 else False if high < 0 else None


def _parts(amounts: Amounts, node: Node, context: Context) -> tuple[Node, tuple[str, ...], bool]:
    if isinstance(node, OneOf):
        return node.part, node.options, False
    assert isinstance(node, Compare)
    left, right = (node.right, node.left) if isinstance(node.left, Text) else (node.left, node.right)
    return left, (amounts.word(right, context),), node.operator == "!="


def _dimension(amounts: Amounts, part: Call, context: Context) -> tuple[int, int]:
    return amounts.over(part, context)[1][0].dimension


def _lead(
    amounts: Amounts, part: Call, wanted: Sequence[str], context: Context, repeats: Sequence[int], level: float
) -> tuple[float, Range]:
    """Lead of the best of the values ``wanted`` over all others, and its interval; ``nan`` if undefined."""
    points, all_ = amounts.over(part, context)
    names = [point[part.over[0]] for point in points]
    inside = [k for k, name in enumerate(names) if any(same_value(name, option) for option in wanted)]
    outside = [k for k in range(len(names)) if k not in inside]
    if not inside or not outside or any(a.bound != "exact" for a in all_):
        return math.nan, NO_INTERVAL
    sign = 1.0 if part.function == "argmin" else -1.0
    value, without = _table(amounts, part, context, repeats, all_)
    scale = float(np.max(np.abs(value)))
    margin = min(max(sign * (value[o] - value[w]) for w in inside) for o in outside)
    if abs(margin) <= 1e-9 * scale:
        margin = 0.0  # a tie, up to the rounding of floating point
    strict = 1 - (1 - level) / len(outside)
    gaps = {(w, o): (sign * (value[o] - value[w]), sign * (without[:, o] - without[:, w])) for w in inside
            for o in outside}  # fmt: skip
    low = max(min(jackknife(*gaps[w, o], level, scale)[0] for o in outside) for w in inside)
    high = min(max(jackknife(*gaps[w, o], strict, scale)[1] for w in inside) for o in outside)
    return margin, (low, high)


def _table(
    amounts: Amounts, part: Call, context: Context, repeats: Sequence[int], all_: Sequence[Amount]
) -> tuple[Floats, Floats]:
    """The value at each point, and the values with each repeat left out: shape (repeats, points)."""
    value = np.array([a.value for a in all_])
    if len(repeats) < 2:
        return value, np.zeros((0, len(value)))
    without = [amounts.over(part, context.only(set(repeats) - {repeat}))[1] for repeat in repeats]
    return value, np.array([[a.value for a in row] for row in without])


def rank_interval(amounts: Amounts, call: Call, context: Context, repeats: Sequence[int], level: float) -> Range:
    """The ranks that the intervals of the differences permit for a ``rank(...)``."""
    points, all_ = amounts.over(call, context)
    if len(repeats) < 2 or len(points) < 2 or any(a.bound != "exact" for a in all_):
        return NO_INTERVAL
    mine = ranked(call, points)
    value, without = _table(amounts, call, context, repeats, all_)
    strict = 1 - (1 - level) / (len(points) - 1)
    others = [k for k in range(len(points)) if k != mine]
    scale = float(np.max(np.abs(value)))
    gaps = [jackknife(float(value[k] - value[mine]), without[:, k] - without[:, mine], strict, scale) for k in others]
    return 1.0 + sum(high < 0 for _, high in gaps), 1.0 + sum(low <= 0 for low, high in gaps if (low, high) != (0, 0))
