"""One comparison of a check at one point of a sweep: its values, its margin, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.metrics.expect.dimensions import dimension_of
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.syntax import (
    LABELS,
    MEMBERS,
    Between,
    Binary,
    Call,
    Compare,
    Metric,
    Negative,
    Node,
    Number,
    OneOf,
    Text,
    Within,
)
from weir.metrics.expect.values import Amount, UndecidedError, aggregate, arithmetic, fit
from weir.metrics.expect.verdict import Measurement, Outcome
from weir.metrics.statistics import jackknife
from weir.run.quantity import ONE, Dimension, parse_quantity, same_value

__all__ = ["Comparison"]


@dataclass(frozen=True)
class _Sides:
    """A comparison's numbers: what was measured, against what, and by how much it holds."""

    value: Amount
    threshold: Amount
    margin: Amount
    strict: bool = False

    @property
    def truth(self) -> bool:
        return self.margin.value > 0 if self.strict else self.margin.value >= 0


@dataclass
class Comparison:
    """Evaluates one comparison."""

    source: Source
    node: Node

    def measure(self, context: Context, shown: Mapping[str, str]) -> Measurement:
        try:
            if self._is_label():
                return self._label(context, shown)
            sides = self._sides(context)
        except UndecidedError as reason:
            dimension = dimension_of(self.node.left) if isinstance(self.node, Compare) else None
            return _undecided(self.node, shown, dimension or ONE, str(reason))
        return self._numeric(sides, context, shown)

    def _numeric(self, sides: _Sides, context: Context, shown: Mapping[str, str]) -> Measurement:
        repeats = self.source.repeats(self.node, context)
        value_ci, margin_ci = self._intervals(sides, context, repeats)
        outcome, note = _judge(sides)
        if not self.source.same_repeats(self.node, context):
            note = "; ".join(filter(None, [note, "some repeats are missing"]))
        return Measurement(
            self.node.text,
            shown,
            outcome,
            sides.value.value,
            *value_ci,
            sides.threshold.value,
            sides.margin.value,
            *margin_ci,
            len(repeats),
            sides.value.dimension,
            note,
        )

    def _intervals(
        self, sides: _Sides, context: Context, repeats: Sequence[int]
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        nothing = (math.nan, math.nan)
        if len(repeats) < 2 or sides.margin.bound != "exact":
            return nothing, nothing
        try:
            without = [self._sides(Context(context.bound, context.allowed, repeat)) for repeat in repeats]
        except UndecidedError:
            return nothing, nothing
        values = np.array([s.value.value for s in without])
        margins = np.array([s.margin.value for s in without])
        return jackknife(sides.value.value, values), jackknife(sides.margin.value, margins)

    def _sides(self, context: Context) -> _Sides:
        node = self.node
        match node:
            case Compare(operator=operator):
                left, right = self.amount(node.left, context), self.amount(node.right, context)
                return _compare(operator, left, right)
            case Within(left=left_node, tolerance=tolerance, right=right_node):
                left, right = self.amount(left_node, context), self.amount(right_node, context)
                allowance = tolerance.value * (abs(right.value) if tolerance.percent else 1.0)
                off = arithmetic("-", left, right)
                bound = off.bound if off.bound == "exact" else "unknown"
                return _Sides(left, right, Amount(allowance - abs(off.value), left.dimension, bound))
            case Between():
                part = self.amount(node.part, context)
                low, high = self.amount(node.low, context), self.amount(node.high, context)
                above, below = arithmetic("-", part, low), arithmetic("-", high, part)
                nearest_end = low if above.value < below.value else high
                least = min(above, below, key=lambda a: a.value)
                bound = "exact" if above.bound == below.bound == "exact" else "unknown"
                return _Sides(part, nearest_end, Amount(least.value, part.dimension, bound))
            case _:
                raise AssertionError(f"not a comparison: {node}")

    def _is_label(self) -> bool:
        node = self.node
        return isinstance(node, OneOf) or (isinstance(node, Compare) and _is_text(node.left))

    def _label(self, context: Context, shown: Mapping[str, str]) -> Measurement:
        node = self.node
        if isinstance(node, OneOf):
            found, wanted = self._word(node.part, context), node.options
            holds = any(same_value(found, option) for option in wanted)
            part = node.part
        else:
            assert isinstance(node, Compare)
            found, wanted = self._word(node.left, context), (self._word(node.right, context),)
            holds = same_value(found, wanted[0]) == (node.operator == "==")
            part = node.left
        repeats = self.source.repeats(node, context)
        note = self._stability(part, context, repeats, found)
        nan = math.nan
        outcome: Outcome = "holds" if holds else "fails"
        against = " or ".join(wanted)
        return Measurement(node.text, shown, outcome, found, nan, nan, against, nan, nan, nan, len(repeats), ONE, note)

    def _stability(self, part: Node, context: Context, repeats: Sequence[int], found: str) -> str:
        """In how many repeats left out one at a time the word changes."""
        if len(repeats) < 2:
            return ""
        words = [self._word(part, Context(context.bound, context.allowed, repeat)) for repeat in repeats]
        others = [word for word in words if word != found]
        return f"without one of the {len(repeats)} repeats it can be {', '.join(sorted(set(others)))}" if others else ""

    def _word(self, node: Node, context: Context) -> str:
        if isinstance(node, Text):
            return node.value
        assert isinstance(node, Call)
        assert node.function in LABELS
        points, amounts = self._over(node, context)
        if any(a.bound == "unknown" for a in amounts) or len({a.bound for a in amounts}) > 1:
            raise UndecidedError(f"{node.text}: one of the values is only a bound")
        pick = min if node.function == "argmin" else max
        best = pick(range(len(points)), key=lambda k: amounts[k].value)
        return points[best][node.over[0]]

    def amount(self, node: Node, context: Context) -> Amount:
        """The value of a part of the comparison.

        Raises:
            UndecidedError: it has none on this run.
        """
        match node:
            case Number(value=value, dimension=dimension):
                return Amount(value, dimension)
            case Metric(reference=reference):
                return self.source.amount(reference, context)
            case Negative(part=part):
                return -self.amount(part, context)
            case Binary(operator=operator, left=left, right=right):
                return arithmetic(operator, self.amount(left, context), self.amount(right, context))
            case Call():
                return self._call(node, context)
            case _:
                raise AssertionError(f"not a number: {node}")

    def _call(self, node: Call, context: Context) -> Amount:
        if node.function == "abs":
            part = self.amount(node.parts[0], context)
            return Amount(abs(part.value), part.dimension, part.bound if part.bound == "exact" else "unknown")
        if not node.over:
            return aggregate(node.function, [self.amount(part, context) for part in node.parts])
        if node.over[0] in MEMBERS:
            assert isinstance(node.parts[0], Metric)
            return self.source.amount(node.parts[0].reference, context, f"{node.function}:{node.over[0]}")
        points, amounts = self._over(node, context)
        if node.function == "rank":
            return self._rank_of(node, points, amounts)
        if node.function in ("slope", "intercept", "r2", "spearman"):
            return self._fit(node, points, amounts)
        return aggregate(node.function, amounts)

    def _over(self, node: Call, context: Context) -> tuple[list[dict[str, str]], list[Amount]]:
        tied = self.source.tied(node.over)
        open_ = Context({k: v for k, v in context.bound.items() if k not in tied}, context.allowed, context.without)
        points = self.source.points(open_, node.over)
        return points, [self.amount(node.parts[0], open_.bind(point)) for point in points]

    def _rank_of(self, node: Call, points: list[dict[str, str]], amounts: list[Amount]) -> Amount:
        wanted = node.parts[1]
        assert isinstance(wanted, Text)
        for point, amount in zip(points, amounts, strict=True):
            if same_value(point[node.over[0]], wanted.value):
                return Amount(1.0 + sum(a.value < amount.value for a in amounts), ONE)
        raise UndecidedError(f"{node.text}: no cell of this run has {node.over[0]} = {wanted.value}")

    @staticmethod
    def _fit(node: Call, points: list[dict[str, str]], amounts: list[Amount]) -> Amount:
        name = node.over[0]
        quantities = [parse_quantity(point[name]) for point in points]
        numbers = [q for q in quantities if q is not None]
        if len(numbers) < len(points):
            raise UndecidedError(f"{node.function} needs numbers, but {name} has the value {points[0][name]!r}")
        value = fit(node.function, [q.value for q in numbers], [a.value for a in amounts])
        bits, seconds = amounts[0].dimension
        dimension: Dimension = {"slope": (bits, seconds), "intercept": (bits, seconds)}.get(node.function, ONE)
        if node.function == "slope":
            by = numbers[0].dimension
            dimension = (bits - by[0], seconds - by[1])
        return Amount(value, dimension, "exact" if all(a.bound == "exact" for a in amounts) else "unknown")


def _is_text(node: Node) -> bool:
    return isinstance(node, Text) or (isinstance(node, Call) and node.function in LABELS)


def _compare(operator: str, left: Amount, right: Amount) -> _Sides:
    if left.value == 0 or right.value == 0 or left.dimension == right.dimension:
        if operator in ("<", "<="):
            return _Sides(left, right, arithmetic("-", right, left), operator == "<")
        if operator in (">", ">="):
            return _Sides(left, right, arithmetic("-", left, right), operator == ">")
        off = arithmetic("-", left, right)
        bound = off.bound if off.bound == "exact" else "unknown"
        close = math.isclose(left.value, right.value, rel_tol=1e-9)
        if operator == "==":
            return _Sides(left, right, Amount(0.0 if close else -abs(off.value), left.dimension, bound))
        return _Sides(left, right, Amount(0.0 if close else abs(off.value), left.dimension, bound), strict=True)
    raise UndecidedError(f"{left.dimension} and {right.dimension} cannot be compared")


def _judge(sides: _Sides) -> tuple[Outcome, str]:
    """The outcome, with care for values that are only bounds: a margin that can only grow proves what already holds."""
    truth = sides.truth
    if math.isnan(sides.margin.value):
        return "undecided", "undefined"
    match sides.margin.bound:
        case "exact":
            return ("holds" if truth else "fails"), ""
        case "more" if truth:
            return "holds", "at least that: the window ended first"
        case "less" if not truth:
            return "fails", "at least that: the window ended first"
        case _:
            return "undecided", "the window ended before the event, so that the value is only a bound"


def _undecided(node: Node, shown: Mapping[str, str], dimension: Dimension, reason: str) -> Measurement:
    nan = math.nan
    return Measurement(node.text, shown, "undecided", nan, nan, nan, "", nan, nan, nan, 0, dimension, reason)
