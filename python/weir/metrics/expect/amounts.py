"""Evaluates a part of a check at one point of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weir.metrics.bounds import ANY, SHARE, Bounds
from weir.metrics.expect.repeats import over_repeats
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.syntax import (
    LABELS,
    MEMBERS,
    REPEAT,
    Binary,
    Call,
    Metric,
    Negative,
    Node,
    Number,
    Text,
    walk,
)
from weir.metrics.expect.values import Amount, Bound, MissingError, UndecidedError, aggregate, arithmetic, fit
from weir.run.quantity import ONE, Dimension, parse_quantity, same_value

__all__ = ["Amounts", "Point", "picks", "ranked"]

Point = dict[str, str]
"""Values of some factors."""


@dataclass(frozen=True)
class Amounts:
    """Evaluates numbers and words with the metrics of a run."""

    source: Source
    chosen: Mapping[Call, int] = field(default_factory=dict)
    """Calls that :func:`picks` finds, and the number of the candidate that each returns, whatever the values."""
    given: Mapping[Call, Amount] = field(default_factory=dict)
    """Values of calls that are not computed, such as the ends of their intervals."""

    def amount(self, node: Node, context: Context) -> Amount:
        """The value of ``node``.

        Raises:
            UndecidedError: the value is undefined on this run.
        """
        match node:
            case Number(value=value, dimension=dimension):
                return Amount(value, dimension, bounds=Bounds(value, value))
            case Metric(reference=reference):
                return self.source.amount(reference, context)
            case Negative(part=part):
                return -self.amount(part, context)
            case Binary():
                return self._binary(node, context)
            case Call():
                return self._call(node, context)
            case _:
                raise AssertionError(f"not a number: {node}")

    def word(self, node: Node, context: Context) -> str:
        """The word ``node``: as written, or the value of a factor at the smallest or largest amount.

        Raises:
            UndecidedError: the value is undefined on this run.
        """
        if isinstance(node, Text):
            return node.value
        assert isinstance(node, Call)
        assert node.function in LABELS
        points, amounts = self.over(node, context)
        if any(a.bound == "unknown" for a in amounts) or len({a.bound for a in amounts}) > 1:
            raise UndecidedError(f"{node.text}: one of the values is only a bound")
        pick = min if node.function == "argmin" else max
        best = pick(range(len(points)), key=lambda k: amounts[k].value)
        return points[best][node.over[0]]

    def over(self, node: Call, context: Context) -> tuple[list[Point], list[Amount]]:
        """The first argument of a call at each point that the call ranges over.

        Raises:
            UndecidedError: the argument is undefined at one of them.
        """
        opened = self.source.opened(node, context)
        points = self.source.points(opened, node.over)
        if len(points) < 2 and node.function in (*LABELS, "rank"):
            raise UndecidedError(f"{node.text} needs two values of {node.over[0]} or more")
        return points, [self.amount(node.parts[0], opened.bind(point)) for point in points]

    def candidates(self, node: Call, context: Context) -> list[Amount]:
        """The amounts of which a call that :func:`picks` finds returns one.

        Raises:
            UndecidedError: one of them is undefined on this run.
        """
        if node.function == "abs":
            part = self.amount(node.parts[0], context)
            return [part, -part]
        return self.over(node, context)[1] if node.over else [self.amount(part, context) for part in node.parts]

    def _binary(self, node: Binary, context: Context) -> Amount:
        """Arithmetic without left recursion: a sum of hundreds of terms nests that deeply."""
        chain: list[Binary] = []
        first: Node = node
        while isinstance(first, Binary):
            chain.append(first)
            first = first.left
        value = self.amount(first, context)
        for part in reversed(chain):
            value = arithmetic(part.operator, value, self.amount(part.right, context))
        return value

    def _call(self, node: Call, context: Context) -> Amount:
        if node in self.given:
            return self.given[node]
        if node in self.chosen:
            return self.candidates(node, context)[self.chosen[node]]
        if node.function == "abs":
            return abs(self.amount(node.parts[0], context))
        if not node.over:
            return aggregate(node.function, [self.amount(part, context) for part in node.parts])
        if REPEAT in node.over:
            return over_repeats(self, node, context)
        if node.over[0] in MEMBERS:
            assert isinstance(node.parts[0], Metric)
            return self.source.amount(node.parts[0].reference, context, f"{node.function}:{node.over[0]}")
        if node.function in _ONE_SIDED:
            return self._one_sided(node, context)
        points, amounts = self.over(node, context)
        if node.function == "rank":
            return _rank(node, points, amounts)
        if node.function in ("slope", "intercept", "r2", "spearman"):
            return _fit(node, points, amounts)
        return aggregate(node.function, amounts)

    def _one_sided(self, node: Call, context: Context) -> Amount:
        """``min``, ``max`` or ``spread``; a bound if some cells were not executed."""
        opened = self.source.opened(node, context)
        found: list[Amount] = []
        missing: MissingError | None = None
        for point in self.source.points(opened, node.over):
            try:
                found.append(self.amount(node.parts[0], opened.bind(point)))
            except MissingError as error:
                missing = error
        if missing is not None and not found:
            raise missing
        whole = aggregate(node.function, found)
        if missing is None:
            return whole
        bound: Bound = _ONE_SIDED[node.function] if whole.bound == "exact" else "unknown"
        return Amount(whole.value, whole.dimension, bound, whole.bounds)


_ONE_SIDED: dict[str, Bound] = {"min": "less", "max": "more", "spread": "more"}
"""Functions that a further value can change in one direction only, and the bound that they are without it."""


def picks(node: Node) -> list[Call]:
    """The calls in ``node`` that return one of several amounts: ``min``, ``max``; ``abs``, the larger of x and -x."""
    calls = [part for part in walk(node) if isinstance(part, Call)]
    return [
        call
        for call in dict.fromkeys(calls)
        if call.function == "abs"
        or (call.function in ("min", "max") and not set(call.over) & set(MEMBERS) and (call.over or call.parts[1:]))
    ]


def _rank(node: Call, points: list[Point], amounts: list[Amount]) -> Amount:
    mine = amounts[ranked(node, points)]
    return Amount(1.0 + sum(a.value < mine.value for a in amounts), ONE, bounds=Bounds(1.0, float(len(points))))


def ranked(node: Call, points: list[Point]) -> int:
    """The index in ``points`` of the point that a ``rank(...)`` is about.

    Raises:
        UndecidedError: there is no such point.
    """
    wanted = node.parts[1]
    assert isinstance(wanted, Text)
    for number, point in enumerate(points):
        if same_value(point[node.over[0]], wanted.value):
            return number
    raise UndecidedError(f"{node.text}: no cell of this run has {node.over[0]} = {wanted.value}")


_FITTED = {"r2": SHARE, "spearman": Bounds(-1.0, 1.0)}


def _fit(node: Call, points: list[Point], amounts: list[Amount]) -> Amount:
    name = node.over[0]
    quantities = [parse_quantity(point[name]) for point in points]
    numbers = [q for q in quantities if q is not None]
    if len(numbers) < len(points):
        raise UndecidedError(f"{node.function} needs numbers, but {name} has the value {points[0][name]!r}")
    with np.errstate(all="ignore"):  # extreme numbers may overflow when squared
        value = fit(node.function, [q.value for q in numbers], [a.value for a in amounts])
    bits, seconds = amounts[0].dimension
    dimension: Dimension = {"slope": (bits, seconds), "intercept": (bits, seconds)}.get(node.function, ONE)
    if node.function == "slope":
        by = numbers[0].dimension
        dimension = (bits - by[0], seconds - by[1])
    exact = all(a.bound == "exact" for a in amounts)
    return Amount(value, dimension, "exact" if exact else "unknown", _FITTED.get(node.function, ANY))
