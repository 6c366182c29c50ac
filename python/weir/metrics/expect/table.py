"""Evaluates an expression in the cells of a run: ``weir show -m`` and ``Run.evaluate``.

An expression is anything that a check may contain: a metric, arithmetic, a function over a factor, or a whole
comparison. It has one value per combination of the factors that it leaves free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from weir.metrics.errors import MetricError
from weir.metrics.expect.amounts import Amounts
from weir.metrics.expect.dimensions import is_percent, kind_of
from weir.metrics.expect.evaluate import Judge
from weir.metrics.expect.labels import rank_interval
from weir.metrics.expect.parser import parse_expression
from weir.metrics.expect.repeats import repeat_calls, repeat_interval
from weir.metrics.expect.resample import Resampling
from weir.metrics.expect.sides import NO_INTERVAL, Range
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.syntax import Call, Node
from weir.metrics.expect.values import Amount, UndecidedError, arithmetic
from weir.metrics.expect.verdict import Expectation
from weir.metrics.scanner import ExpectError
from weir.run import Run
from weir.run.quantity import ONE, RATE, SIZE, TIME, Dimension, format_quantity, format_share

__all__ = ["Sampled", "Value", "frame_of", "paired_difference", "tabulate", "tabulate_all"]

_UNITS: Mapping[Dimension, tuple[str, float]] = {
    ONE: ("1", 1.0),
    RATE: ("bit/s", 1.0),
    TIME: ("s", 1.0),
    SIZE: ("B", 8.0),
    (0, -1): ("1/s", 1.0),
    (2, -2): ("(bit/s)²", 1.0),
}


@dataclass(frozen=True)
class Sampled:
    """A number over several repeats, and its values on the subsets of them."""

    resampling: Resampling
    whole: Amount
    parts: tuple[Amount, ...]

    @property
    def interval(self) -> Range:
        """The confidence interval of the number."""
        return self.resampling.interval(self.whole, self.parts, abs(self.whole.value))

    def less(self, other: Sampled) -> Range:
        """The interval of the difference to ``other``, whose repeats are the same and ran the same random draws."""
        whole, *parts = map(_difference, (self.whole, *self.parts), (other.whole, *other.parts))
        return self.resampling.interval(whole, parts, max(abs(self.whole.value), abs(other.whole.value)))


def _difference(one: Amount, other: Amount) -> Amount:
    return arithmetic("-", one, other)


@dataclass(frozen=True)
class Value:
    """The value of an expression at one combination of factors; ``nan`` if undefined."""

    factors: Mapping[str, str]
    """The factors that the expression leaves free."""
    value: float
    low: float
    high: float
    repeats: int
    dimension: Dimension = ONE
    word: str | None = None
    """The value of a factor (``argmin``), or the outcome of a comparison."""
    censored: bool = False
    """Whether the window ended first, so that the true value is larger."""
    note: str = ""
    """Why the value is undefined, or another remark."""
    percent: bool = False
    """Whether people read the value in percent."""
    sampled: Sampled | None = field(default=None, compare=False, repr=False)
    """What its interval comes from; ``None`` with one repeat, and for functions over repeats."""

    @property
    def unit(self) -> str:
        """Unit of ``amount``: ``bit/s``, ``s``, ``B``, ``1`` or a product of powers; empty for a word."""
        if self.word is not None:
            return ""
        bits, seconds = self.dimension
        return _UNITS.get(self.dimension, (f"bit^{bits} s^{seconds}", 1.0))[0]

    def amount(self, base: float) -> float:
        """Converts a number in base units (bit, second), such as ``value``, to ``unit``."""
        return base / _UNITS.get(self.dimension, ("", 1.0))[1]

    def show(self, base: float) -> str:
        """Formats a number in base units for people."""
        return format_share(base) if self.percent else format_quantity(base, self.dimension)


def paired_difference(one: Value, other: Value) -> Range | None:
    """The interval of ``one - other``, repeat by repeat; ``None`` if they do not have the same repeats."""
    if one.sampled is None or other.sampled is None or one.sampled.resampling != other.sampled.resampling:
        return None
    try:
        return one.sampled.less(other.sampled)
    except UndecidedError:  # too large for a number
        return None


def tabulate(
    run: Run, text: str, *, where: Mapping[str, Any] | None = None, phase: str | None = None, level: float = 0.95
) -> list[Value]:
    """Evaluates the expression ``text`` at each combination of the factors that it leaves free, in the order of the
    sweep.

    Args:
        run: an opened run.
        text: an expression in the language of checks, or a whole check.
        where: factor values to keep; a list means any of them.
        phase: default phase of metrics that name none; ``None``: the whole run.
        level: confidence level of the intervals.

    Raises:
        MetricError: the expression cannot be read, or it has no value in any cell.
        ValueError: ``level`` is not between 0 and 1.
    """
    (found,) = tabulate_all(run, [text], where=where, phase=phase, level=level)
    if isinstance(found, MetricError):
        raise found
    return found


def tabulate_all(
    run: Run,
    texts: Sequence[str],
    *,
    where: Mapping[str, Any] | None = None,
    phase: str | None = None,
    level: float = 0.95,
) -> list[list[Value] | MetricError]:
    """As :func:`tabulate`, for several expressions in one pass over the tables; an error stands for its expression.

    Raises:
        ValueError: ``level`` is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level}: expected a number between 0 and 1, such as 0.95")
    source = Source(run, phase=phase)
    judges = [_judge(text, where, source, level) for text in texts]
    ready = [(judge.node, judge.context) for judge in judges if isinstance(judge, Judge)]
    source.prepare(ready)
    return [_values(judge) if isinstance(judge, Judge) else judge for judge in judges]


def _judge(text: str, where: Mapping[str, Any] | None, source: Source, level: float) -> Judge | MetricError:
    """A judge of the expression ``text``, in its context; the error, if it cannot be read."""
    try:
        judge = Judge(Expectation(check=text, where=where), parse_expression(text), source, level)
        judge.context = judge.start()
        source.check_factors(judge.node)
    except ExpectError as error:
        found = MetricError(f"{text!r}, {error}")
        found.__cause__ = error
        return found
    except UndecidedError as reason:
        return MetricError(f"{text}: {reason}")
    return judge


def _values(judge: Judge) -> list[Value] | MetricError:
    """The values at each combination of the factors that the expression leaves free."""
    text, source, context = judge.expectation.check, judge.source, judge.context
    try:
        points = source.points(context, source.free(judge.node, context))
        found = [_value(judge, context.bind(point, in_turn=True), point) for point in points]
    except UndecidedError as reason:
        return MetricError(f"{text}: {reason}")
    if not found:
        return MetricError(f"{text}: this run has no cell")
    if all(value.word is None and math.isnan(value.value) for value in found):
        return MetricError(f"{text}: {found[0].note}")
    return found


def frame_of(run: Run, text: str, values: list[Value]) -> pl.DataFrame:
    """The values as a frame.

    Columns: the run's factors (null if the expression does not depend on them), ``expression``, ``unit``, ``value``,
    ``word`` (of a comparison or ``argmin``), ``n`` (repeats), ``ci_low``, ``ci_high``, ``censored``, ``note``.
    """
    rows = [
        {
            **{name: value.factors.get(name) for name in run.factors},
            "expression": text,
            "unit": value.unit,
            "value": value.amount(value.value),
            "word": value.word,
            "n": value.repeats,
            "ci_low": value.amount(value.low),
            "ci_high": value.amount(value.high),
            "censored": value.censored,
            "note": value.note,
        }
        for value in values
    ]
    numbers = {"value": pl.Float64, "word": pl.String, "n": pl.UInt32, "ci_low": pl.Float64, "ci_high": pl.Float64}
    keys = {**dict.fromkeys(run.factors, pl.String), "expression": pl.String, "unit": pl.String}
    frame = pl.DataFrame(rows, schema={**keys, **numbers, "censored": pl.Boolean, "note": pl.String}, orient="row")
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def _value(judge: Judge, context: Context, point: Mapping[str, str]) -> Value:
    nan = math.nan
    try:
        match kind_of(judge.node):
            case "truth":
                outcome, measured = judge.at(context)
                repeats = max((m.repeats for m in measured), default=0)
                reasons = (m.note for m in measured if m.outcome == "undecided" and not m.within_chance)
                note = next(reasons, "") if outcome == "undecided" else ""
                return Value(point, nan, nan, nan, repeats, word=outcome, note=note)
            case "text":
                repeats = len(judge.source.pairs(judge.node, context)[0])
                return Value(point, nan, nan, nan, repeats, word=Amounts(judge.source).word(judge.node, context))
            case _:
                return _number(judge, context, point)
    except UndecidedError as reason:
        return Value(point, nan, nan, nan, 0, note=str(reason))


def _number(judge: Judge, context: Context, point: Mapping[str, str]) -> Value:
    source, node = judge.source, judge.node
    repeats, of = source.pairs(node, context)
    here = context.only(repeats) if repeats else context
    amounts = Amounts(source)
    amount = amounts.amount(node, here)
    low, high = NO_INTERVAL
    sampled = None
    if len(repeats) > 1 and amount.bound == "exact":
        sampled = _sampled(amounts, node, here, amount, Resampling.of(node, repeats, judge.level))
        low, high = sampled.interval if sampled else _other_interval(amounts, node, here, repeats, judge.level)
    return Value(
        point,
        amount.value,
        low,
        high,
        len(repeats) or 1,
        amount.dimension,
        censored=amount.bound == "more",
        percent=is_percent(node),
        sampled=sampled,
        note=_note(amount.bound, len(repeats), of),
    )


def _note(bound: str, compared: int, of: int) -> str:
    if bound not in ("exact", "more"):
        return "the window ended before the event, so that the value is only a bound"
    return f"some repeats are missing: {compared} of {of} used" if compared < of else ""


def _other_interval(amounts: Amounts, node: Node, context: Context, repeats: tuple[int, ...], level: float) -> Range:
    """The interval of a rank or of a function over repeats."""
    if isinstance(node, Call) and node.function == "rank":
        return rank_interval(amounts, node, context, repeats, level)
    calls = repeat_calls(node)
    return repeat_interval(amounts, calls[0], context, level) if calls and node is calls[0] else NO_INTERVAL


def _sampled(amounts: Amounts, node: Node, context: Context, whole: Amount, resampling: Resampling) -> Sampled | None:
    """The values on subsets of the repeats; ``None`` if one is undefined, or if they give no interval."""
    if (isinstance(node, Call) and node.function == "rank") or repeat_calls(node):
        return None
    try:
        parts = tuple(amounts.amount(node, part) for part in resampling.contexts(context))
    except UndecidedError:
        return None
    return Sampled(resampling, whole, parts)
