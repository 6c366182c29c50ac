"""What a judgement says in words."""

from __future__ import annotations

from html import escape

from weir.study.judge._cases import Measure
from weir.study.judge._judge import Judged, Judgement, Point

__all__ = ["recommendation", "sentence", "shown", "text_of"]


def shown(name: str) -> str:
    """A control's name, safe in HTML."""
    return escape(name)


def text_of(measure: Measure, value: float | None) -> str:
    """A value with its unit: ``93.4 %``."""
    if value is None:
        return "none"
    digits = f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return digits if measure.unit == "1" else f"{digits} {measure.unit}"


def sentence(judgement: Judgement, point: Point) -> str:
    """One figure beside those of the references, and what is wrong with it, if something is."""
    measure = point.measure
    if point.yours is None:
        return f"{measure.name}: it has no value."
    others = ", ".join(f"{name} {text_of(measure, value)}" for name, value in point.others.items())
    most = "more than " if point.bound else ""
    text = f"{measure.name}: {most}{text_of(measure, point.yours)}, beside {others}."
    if point.level == "serious":
        return f"{text} {_capital(measure.fault)}."
    return text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def recommendation(judgement: Judgement) -> tuple[str, str]:
    """The referee's recommendation in a word, and why."""
    failed = [check.name for check in judgement.checks if check.outcome == "failed"]
    serious, weak = len(judgement.points("serious")), len(judgement.points("weak"))
    doubtful = [check.name for check in judgement.checks if check.outcome == "doubtful"]
    strong = len(judgement.points("strong"))
    failing = len({case.case.name for case, _ in judgement.points("serious")})
    beside = f", and a doubt: {_listed(doubtful)}" if doubtful else ""
    if failed:
        return "Reject", f"it fails {_listed(failed)}; the figures below are of little use until it passes"
    if judgement.copy_of is not None:
        return "Reject", f"in every scenario its figures are those of {judgement.copy_of} within 1 %: it is nothing new"
    if 2 * failing > len(judgement.cases):
        return (
            "Reject",
            f"it fails in {failing} of {len(judgement.cases)} scenarios: {_count(serious, 'serious fault')}{beside}",
        )
    if serious:
        return "Major revision", f"{_count(serious, 'serious fault')}, {_count(weak, 'weak point')}{beside}"
    if weak + len(doubtful) > max(3, strong):
        return (
            "Major revision",
            f"no serious fault, but {_count(weak, 'weak point')} against {_count(strong, 'strong one')}{beside}",
        )
    if weak or doubtful:
        return (
            "Minor revision",
            f"no serious fault; {_count(weak, 'weak point')} and {_count(strong, 'strong one')}{beside}",
        )
    return "Accept", f"no serious fault and no weak point; {_count(strong, 'strong one')}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}" + ("s" if number != 1 else "")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def at(case: Judged) -> str:
    """The address of a scenario in the page."""
    return f"#{case.case.name}"
