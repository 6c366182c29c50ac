"""What a run says in a few sentences: its leading figures, and its claims by outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from weir.metrics.expect import Value
from weir.metrics.summary import Summarised
from weir.report._text import quantity
from weir.report.lead import DIFFERS, difference, direction
from weir.report.verdicts import ShownVerdict
from weir.report.view import RunView

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
        ("Holds:", "holds", [v for v in shown if v.outcome == "holds"]),
        ("Fails, as expected:", "fails", [v for v in shown if v.predicted]),
    )
    figures = [_figure(run, one) for one in run.figures[:_FIGURES] if one.known]
    return [*figures, *(Line(what, _claims(found), outcome) for what, outcome, found in groups if found)]


def _claims(found: Sequence[ShownVerdict]) -> str:
    rest = len(found) - _TOLD
    return "; ".join([*(v.claim for v in found[:_TOLD]), *([f"and {rest} more"] if rest > 0 else [])]) + "."


def _figure(run: RunView, one: Summarised) -> Line:
    """The values of a figure: each, if they are few, or else the smallest and the largest."""
    good = direction(one.figure)
    name = f"{one.figure.name} ({good})" if good else one.figure.name
    known = sorted(one.known, key=lambda v: v.value)
    low, high = known[0], known[-1]

    def text(value: Value) -> str:
        amount = quantity(100 * value.value, "%") if value.percent else quantity(value.amount(value.value), value.unit)
        return f"more than {amount}" if value.censored else amount

    def at(value: Value) -> str:
        """The value with its place and its interval."""
        place = _place(run, value)
        said = [place] if place and len(one.values) > 1 else []
        if math.isfinite(value.low) and value.low < value.high:
            low, high = (text(replace(value, value=end, censored=False)) for end in (value.low, value.high))
            said.append(_interval(low, high, value.repeats))
        return text(value) + (f" ({'; '.join(said)})" if said else "")

    if len(known) == 1:
        return Line(f"{name}:", f"{at(low)}.")
    if difference(one) < DIFFERS:
        return Line(f"{name}:", f"{text(high)} in all {len(known)} cells, to within {100 * DIFFERS:g} %.")
    if len(known) <= _FEW:
        return Line(f"{name}:", ", ".join(map(at, one.known)) + f"{_doubt(low, high)}.")
    return Line(f"{name}:", f"from {at(low)} to {at(high)}{_doubt(low, high)}.")


def _interval(low: str, high: str, repeats: int) -> str:
    """The ends of a confidence interval; in words if they are the same as written."""
    return f"95 % interval {low} to {high}" if low != high else f"nearly the same in all {repeats} repeats"


def _doubt(low: Value, high: Value) -> str:
    """Says that the smallest and the largest value may be equal, if their intervals overlap."""
    return "; these intervals overlap, and the order may be chance" if low.high >= high.low else ""


def _place(run: RunView, value: Value) -> str:
    """The factors of a value in words: ``cubic, rtt 100ms``."""
    parts = [(f, value.factors[f.name]) for f in run.swept if f.name in value.factors]
    return ", ".join(f"{f.name} {text}" if f.numeric else text for f, text in parts)
