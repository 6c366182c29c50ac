"""What a run says in a few sentences: its leading figures, and its claims by outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from weir.metrics.expect import Value, paired_difference
from weir.metrics.summary import Summarised
from weir.report._text import quantity
from weir.report.lead import DIFFERS, direction, metrics_of, spread
from weir.report.verdicts import ShownVerdict
from weir.report.view import Factor, RunView, axis_of

__all__ = ["Line", "Question", "question", "story"]

_TOLD = 3
"""Claims that a sentence names."""
_FIGURES = 5
_FEW = 3
"""Up to so many values are told one by one."""
_ENOUGH = 150
"""Characters of a question after which the rest is folded."""


@dataclass(frozen=True)
class Line:
    """One sentence."""

    what: str
    text: str
    outcome: str = ""
    """The outcome of the claims that it names; empty for a figure."""


@dataclass(frozen=True)
class Question:
    """The rationale of a scenario: its beginning, and the paragraphs that follow."""

    first: str
    rest: tuple[str, ...] = ()


def question(rationale: str) -> Question:
    """The first sentences of a rationale, and the rest of it."""
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n(?=\S)", rationale) if part.strip()]
    if not parts:
        return Question("")
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z])", parts[0])
    asked = next((i + 1 for i, text in enumerate(sentences) if text.endswith("?")), 0)
    lengths = [len(" ".join(sentences[: i + 1])) for i in range(len(sentences))]
    enough = next((i + 1 for i, length in enumerate(lengths) if length >= _ENOUGH), len(sentences))
    count = max(asked, enough) if asked and lengths[asked - 1] <= 3 * _ENOUGH else enough
    left = " ".join(sentences[count:])
    return Question(" ".join(sentences[:count]), (*([left] if left else []), *parts[1:]))


def story(run: RunView, shown: Sequence[ShownVerdict]) -> list[Line]:
    """The outcome: the leading figures, and the claims that fail, that are undecided and that hold."""
    groups = (
        ("Fails:", "fails", [v for v in shown if v.outcome == "fails" and not v.predicted]),
        ("Undecided:", "undecided", [v for v in shown if v.outcome == "undecided"]),
        ("Holds:", "holds", _leading_first(run, [v for v in shown if v.outcome == "holds"])),
        ("Fails, as expected:", "fails", [v for v in shown if v.predicted]),
    )
    figures = [_figure(run, one) for one in run.figures[:_FIGURES] if one.known]
    return [*figures, *(Line(what, _claims(found), outcome) for what, outcome, found in groups if found)]


def _leading_first(run: RunView, found: Sequence[ShownVerdict]) -> list[ShownVerdict]:
    """The claims about the metrics of the leading figures before the others, else in their order."""
    leading = {metric for one in run.figures for metric in metrics_of(one.figure.value)}
    return sorted(found, key=lambda verdict: not verdict.metrics & leading)


def _claims(found: Sequence[ShownVerdict]) -> str:
    rest = len(found) - _TOLD
    return "; ".join([*(v.claim for v in found[:_TOLD]), *([f"and {rest} more"] if rest > 0 else [])]) + "."


def _figure(run: RunView, one: Summarised) -> Line:
    """The values of a figure: each, if they are few, or else the smallest and the largest at the ends of the sweep."""
    good = direction(one.figure)
    name = f"{one.figure.name} ({good})" if good else one.figure.name
    values = [value for value in run.in_order(one) if value in one.known]
    if len(values) == 1:
        return Line(f"{name}:", f"{_at(run, one, values[0])}.")
    if _alike(values):
        return Line(f"{name}:", f"{_same(values)}.")
    if len(values) <= _FEW:
        return Line(f"{name}:", f"{_each(run, one, values)}.")
    ends = _ends(run, one, values)
    if ends is None:
        return Line(f"{name}:", f"{_range(run, one, values)}.")
    factor, groups = ends
    at = "at" if factor.numeric else "with"
    told = [f"{at} {_named(factor, value)}, {_told(run, one, own, factor)}" for value, own in groups]
    told += _between(run, one, values, [value for _, own in groups for value in own])
    return Line(f"{name}:", f"{'; '.join(told)}.")


def _ends(
    run: RunView, one: Summarised, values: Sequence[Value]
) -> tuple[Factor, list[tuple[str, list[Value]]]] | None:
    """The factor of the x axis, and the values at its two ends, if other factors differ there; else ``None``.

    Without such an axis, a factor of two values.
    """
    free = run.free(one)
    factor = axis_of(free) or next((f for f in reversed(free) if len(f.values) == 2), None)
    if factor is None:
        return None
    ends = (factor.values[0], factor.values[-1])
    groups = [(end, [v for v in values if v.factors.get(factor.name) == end]) for end in ends]
    return (factor, groups) if all(len(own) > 1 for _, own in groups) else None


def _between(run: RunView, one: Summarised, values: Sequence[Value], told: Sequence[Value]) -> list[str]:
    """The smallest and the largest of all values, as far as they exceed those ``told``, at the ends."""
    said = []
    for word, extreme in (("down", _smallest), ("up", _largest)):
        own = extreme(values)
        if spread([own.value, extreme(told).value]) >= DIFFERS:
            said.append(f"{word} to {_at(run, one, own)}")
    return [f"in between {' and '.join(said)}"] if said else []


def _told(run: RunView, one: Summarised, values: Sequence[Value], apart: Factor) -> str:
    """The values at one end of the factor ``apart``."""
    if _alike(values):
        return _same(values)
    said = _each if len(values) <= _FEW else _range
    return said(run, one, values, apart)


def _alike(values: Sequence[Value]) -> bool:
    return spread([v.value for v in values]) < DIFFERS


def _same(values: Sequence[Value]) -> str:
    number = "both" if len(values) == 2 else f"all {len(values)}"
    return f"{number} have {_text(_largest(values))}, to within {100 * DIFFERS:g} %"


def _smallest(values: Sequence[Value]) -> Value:
    return min(values, key=lambda v: v.value)


def _largest(values: Sequence[Value]) -> Value:
    return max(values, key=lambda v: v.value)


def _each(run: RunView, one: Summarised, values: Sequence[Value], apart: Factor | None = None) -> str:
    low, high = _smallest(values), _largest(values)
    return ", ".join(_at(run, one, value, apart) for value in values) + _doubt(low, high)


def _range(run: RunView, one: Summarised, values: Sequence[Value], apart: Factor | None = None) -> str:
    low, high = _smallest(values), _largest(values)
    return f"from {_at(run, one, low, apart)} to {_at(run, one, high, apart)}{_doubt(low, high)}"


def _text(value: Value) -> str:
    amount = _amount(value, value.value)
    return f"more than {amount}" if value.censored else amount


def _amount(value: Value, base: float) -> str:
    return quantity(100 * base, "%") if value.percent else quantity(value.amount(base), value.unit)


def _at(run: RunView, one: Summarised, value: Value, apart: Factor | None = None) -> str:
    """The value with its place, without the factor ``apart``, and its interval."""
    place = ", ".join(_named(f, value.factors[f.name]) for f in run.free(one) if f is not apart)
    said = [place] if place and len(one.values) > 1 else []
    if math.isfinite(value.low) and value.low < value.high:
        said.append(_interval(_amount(value, value.low), _amount(value, value.high), value.repeats))
    return _text(value) + (f" ({'; '.join(said)})" if said else "")


def _named(factor: Factor, value: str) -> str:
    """A factor's value in words: ``cubic``, ``rtt 100ms``."""
    return f"{factor.name} {value}" if factor.numeric else value


def _interval(low: str, high: str, repeats: int) -> str:
    """The ends of a confidence interval; in words if they are the same as written."""
    return f"95 % interval {low} to {high}" if low != high else f"nearly the same in all {repeats} repeats"


def _doubt(low: Value, high: Value) -> str:
    """Says if the order of the smallest and the largest value may be chance, where their intervals overlap.

    As in the verdicts, repeats are paired: the interval of their differences decides. It is never wider than both
    intervals together. Where a value has other repeats, the order may be chance.
    """
    if not low.high >= high.low:
        return ""
    paired = paired_difference(high, low)
    if paired is None or not all(map(math.isfinite, paired)):
        return "; these intervals overlap, and the order may be chance"
    if paired[0] <= 0:
        return "; the 95 % interval of their difference, repeat by repeat, includes zero: the order may be chance"
    ends = " to ".join(dict.fromkeys(_amount(high, end) for end in paired))
    return f"; repeat by repeat, they differ by {ends} (95 % interval)"
