"""Reads the figures of a scenario, and says of each whether it is good or bad beside the references.

A difference that chance explains is none. Repeat k has the same seed for every control, so that two controls differ by
their paired differences. Their interval is Student's; it has to lie beyond the values that count as alike as a whole.

The yardstick of every figure is the controls that a standard defines: the delay of BBR, which none does, takes no merit
from a control that keeps shorter queues than Reno and CUBIC, and its unfairness excuses none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from weir.metrics import MeasuredRun, MetricError
from weir.metrics.expect import Value, tabulate_all
from weir.metrics.statistics import summarise
from weir.study.judge._cases import Case, Measure, references, standards

__all__ = ["LEVEL", "Difference", "Level", "Point", "Values", "graded", "points_of"]

Level = Literal["serious", "weak", "ordinary", "strong", "unknown"]
Values = tuple[float | None, ...]
"""Of a figure and a control, one per repeat; ``None``: it has none there."""

LEVEL = 0.999
"""Of each interval. A judgement has some fifty figures: at 95 %, chance alone would make two or three points."""

_SCALE = {"%": 100.0, "ms": 1e3, "s": 1.0, "1": 1.0, "Mb/s": 1e-6}


@dataclass(frozen=True)
class Difference:
    """How much worse the control's value is than a reference's, in the measure's unit; negative: better."""

    low: float
    high: float
    """The ends of the interval; infinite if a single repeat has both values."""
    near: float
    """A smaller difference, to either side, is none."""

    @property
    def worse(self) -> bool:
        """Whether the control is certainly worse."""
        return self.low > self.near

    @property
    def better(self) -> bool:
        """Whether it is certainly better."""
        return self.high < -self.near


@dataclass(frozen=True)
class Point:
    """One figure of a scenario, for the control and its references."""

    measure: Measure
    own: Values
    """The control's, in the measure's unit."""
    each: Mapping[str, Values]
    """The references'."""
    level: Level = "unknown"
    never: bool = False
    """Whether the event did not come in a repeat, so that the value is only a bound."""
    limit: float | None = None
    """A worse value is a serious fault, in the measure's unit."""
    bound: float | None = None
    """A worse value alone rejects the control."""
    rejects: bool = False
    """Whether the value does."""
    yardstick: float | None = None
    """Of a measure with relative limits, that of which they are shares."""
    differences: Mapping[str, Difference] = field(default_factory=dict)
    """From each reference that has a value in a repeat in which the control has one."""
    beside: frozenset[str] = frozenset()
    """The references that decide whether it is strong or weak."""

    @property
    def yours(self) -> float | None:
        """The mean over repeats; ``None`` if it has no value."""
        return _mean(self.own)

    @property
    def others(self) -> Mapping[str, float | None]:
        """The means of the references."""
        return {name: _mean(values) for name, values in self.each.items()}

    def is_told_from(self, name: str) -> bool:
        """Whether the figure tells the control from the reference ``name``."""
        if (self.yours is None) != (self.others.get(name) is None):
            return True
        found = self.differences.get(name)
        return found is not None and (found.worse or found.better)

    @property
    def nearest(self) -> str | None:
        """The reference with the most similar value, among those that make it strong or weak."""
        wanted = {"strong": lambda found: found.better, "weak": lambda found: found.worse}.get(self.level)
        told = (
            {}
            if wanted is None
            else {name: found for name, found in self.differences.items() if name in self.beside and wanted(found)}
        )
        return min(told, key=lambda name: abs(told[name].low + told[name].high), default=None)


def points_of(run: MeasuredRun, case: Case, name: str) -> tuple[Point, ...]:
    """The figures of the scenario ``case`` for the control ``name``, each graded."""
    repeats = sorted({cell.repeat for cell in run.cells})
    parts = [_read(_part(run, repeat), case) for repeat in repeats]
    points = []
    for measure in case.measures:
        found = {control: [part.get((measure.name, control)) for part in parts] for control in (name, *references())}
        each = {control: tuple(_number(measure, value) for value in values) for control, values in found.items()}
        never = any(value is not None and value.censored for value in found[name])
        points.append(graded(Point(measure, each.pop(name), each, never=never)))
    return tuple(points)


def _part(run: MeasuredRun, repeat: int) -> MeasuredRun:
    return MeasuredRun(run.path, [cell for cell in run.cells if cell.repeat == repeat], run.manifest, ())


def _read(part: MeasuredRun, case: Case) -> dict[tuple[str, str], Value]:
    """The values of one repeat, by the measure's name and the control; those of the same cells are read together."""
    found: dict[tuple[str, str], Value] = {}
    for where in {tuple(measure.where.items()): measure.where for measure in case.measures}.values():
        measures = [measure for measure in case.measures if measure.where == where]
        tables = tabulate_all(part, [measure.expression for measure in measures], where=where or None)
        for measure, values in zip(measures, tables, strict=True):
            if not isinstance(values, MetricError):
                found |= {(measure.name, value.factors[case.label]): value for value in values}
    return found


def _number(measure: Measure, value: Value | None) -> float | None:
    if value is None or not math.isfinite(value.value):
        return None
    return value.amount(value.value) * _SCALE[measure.unit]


def graded(point: Point) -> Point:
    """The point with its limits, its differences from the references, and its level."""
    measure, yours, cost = point.measure, point.yours, _cost(point.measure)
    others = {name: value for name, value in point.others.items() if value is not None}
    standard = {name: value for name, value in others.items() if name in standards()} or others
    peer = {name: value for name, value in others.items() if name == measure.peer}
    yardstick = standard | peer
    point = _limited(point, max(yardstick.values(), key=cost, default=None))
    point = replace(point, beside=frozenset(yardstick))
    if yours is None:
        return point
    near = measure.slack + measure.alike * abs(yours if measure.better != "half" else 0.0)
    found = {name: _difference(point, name, near) for name in others}
    point = replace(point, differences={name: one for name, one in found.items() if one is not None})

    rejects = point.bound is not None and cost(yours) > cost(point.bound)
    # Limits are far from what standard controls do, so the means decide: a wild one must not be excused by its spread.
    beyond = all(cost(yours) > cost(value) + near for value in standard.values())
    if rejects or (point.limit is not None and cost(yours) > cost(point.limit) and beyond):
        return replace(point, level="serious", rejects=rejects)
    if not others:
        return point
    told = [point.differences.get(name) for name in yardstick]
    if all(one is not None and one.worse for one in told):
        return replace(point, level="weak")
    better = measure.praised and all(one is not None and one.better for one in told)
    return replace(point, level="strong" if better else "ordinary")


def _limited(point: Point, whole: float | None) -> Point:
    """The point with its limits; ``whole`` is that of which relative ones are shares."""
    measure = point.measure
    if not measure.relative:
        return replace(point, limit=measure.limit, bound=measure.bound)
    return replace(point, limit=_share(measure.limit, whole), bound=_share(measure.bound, whole), yardstick=whole)


def _share(share: float | None, whole: float | None) -> float | None:
    return None if share is None or whole is None else share * whole


def _difference(point: Point, name: str, near: float) -> Difference | None:
    """How much worse the control is than ``name``, by the repeats in which both have a value."""
    cost = _cost(point.measure)
    pairs = zip(point.own, point.each[name], strict=True)
    found = [cost(own) - cost(other) for own, other in pairs if own is not None and other is not None]
    if not found:
        return None
    if len(found) == 1:
        return Difference(-math.inf, math.inf, near)
    interval = summarise(np.array(found), LEVEL)
    return Difference(interval.low, interval.high, near)


def _mean(values: Values) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _cost(measure: Measure) -> Callable[[float], float]:
    """What is less, the better a value is."""
    if measure.better == "less":
        return lambda value: value
    if measure.better == "more":
        return lambda value: -value
    return lambda value: abs(value - 50)
