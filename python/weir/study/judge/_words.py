"""What a judgement says in words."""

from __future__ import annotations

import math
from html import escape

from weir.study.judge._cases import CASES, LEFT, LOST, MORE, PUSHED, REPEATS, Measure, references, standards
from weir.study.judge._judge import Judged, Judgement
from weir.study.judge._points import LEVEL, Point

__all__ = [
    "REJECT",
    "at",
    "chance",
    "difference",
    "intervals",
    "levels",
    "limit",
    "recommendation",
    "rule",
    "sentence",
    "shown",
    "text_of",
]

REJECT = "Reject"


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
    most = "more than " if point.never else ""
    parts = [f"{measure.name}: {most}{text_of(measure, point.yours)}, beside {others}."]
    if point.nearest is not None:
        parts.append(_distance(point, point.nearest))
    if point.level in ("serious", "weak") and point.yardstick:
        parts.append(f"That is {100 * point.yours / point.yardstick:.0f} % of {_yardstick(measure)}.")
    if point.level == "serious":
        parts.append(f"{_capital(_fault(point))}; {_limit(point)}.")
    return " ".join(parts)


def _distance(point: Point, name: str) -> str:
    """How far a strong or weak figure is from that of ``name``."""
    found = point.differences[name]
    low, high = sorted((abs(found.low), abs(found.high)))
    side = "better" if found.better else "worse"
    least, most = (difference(point.measure, value) for value in (low, high))
    return f"It is {side} than {name} by {'' if least == most else f'{least.split()[0]} to '}{most}."


def difference(measure: Measure, value: float) -> str:
    """A difference with its unit: that of two shares is in points, not a share of either."""
    return text_of(measure, value).replace(" %", " points")


def intervals(point: Point) -> str:
    """The interval of the difference from each reference; empty where there is none."""
    sign = -1 if point.measure.better == "more" else 1
    parts = []
    for name, found in point.differences.items():
        if math.isfinite(found.low) and math.isfinite(found.high):
            low, high = sorted((sign * found.low, sign * found.high))
            parts.append(f"from {name} {_signed(point.measure, low).split()[0]} to {_signed(point.measure, high)}")
    what = "Difference in the distance from 50 %" if point.measure.better == "half" else "Difference"
    return f"{what}, {100 * LEVEL:g} % intervals: {'; '.join(parts)}." if parts else ""


def _signed(measure: Measure, value: float) -> str:
    text = difference(measure, abs(value))
    return f"\N{MINUS SIGN}{text}" if value < 0 and text.split()[0].strip("0.") else text


def _yardstick(measure: Measure) -> str:
    """What the yardstick of a measure with relative limits is."""
    names = sorted(standards() | ({measure.peer} if measure.peer else set()))
    return f"the least that {_listed(names)} leave"


def _fault(point: Point) -> str:
    """What a serious figure means."""
    return (point.rejects and point.measure.grave) or point.measure.fault


def _limit(point: Point) -> str:
    if point.rejects:
        side = "above" if point.measure.better == "less" else "below"
        return f"{side} {text_of(point.measure, point.bound)}, it is rejected"
    return f"the limit: {limit(point)}"


def limit(point: Point) -> str:
    """The limit of a figure; empty without one."""
    if point.limit is None:
        return ""
    if point.measure.better == "half":
        return f"{text_of(point.measure, point.limit)} to {text_of(point.measure, 100 - point.limit)}"
    side = "at least" if point.measure.better == "more" else "at most"
    return f"{side} {text_of(point.measure, point.limit)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def chance() -> str:
    """Which difference counts."""
    figures = sum(len(case.measures) for case in CASES)
    often = _listed([case.name for case in CASES if case.times == MORE])
    return (
        f"A scenario runs {REPEATS} times, {often} {MORE * REPEATS} times, each time with other start times, clocks, "
        "losses and pages, which are the same for all controls. A value is the mean. One control is better or worse "
        f"than another if the {100 * LEVEL:g} % interval of their paired differences (Student's t) lies beyond a "
        "margin: 3 % of the value, or more where a figure varies more. By chance alone, about one judgement in twenty "
        f"has a wrong word among its {figures} figures."
    )


def levels() -> dict[str, str]:
    """What the words beside a figure mean."""
    names, rest = _listed(sorted(standards())), _listed(sorted(set(references()) - standards()))
    return {
        "strong": f"better than those of {names}",
        "ordinary": (
            f"neither better nor worse than both. Those of {rest} are on the page, too; no standard defines it: its "
            "merits hide no other's, and its faults excuse none"
        ),
        "weak": f"worse than those of {names}; what is left to {rest} must be less than {rest} leaves to it, too",
        "serious": (
            f"on average beyond its limit, and worse than those of {names}. The limits are weir's; RFC 9743 has no "
            "numbers"
        ),
    }


def rule() -> dict[str, tuple[str, ...]]:
    """When each recommendation is given: the first that has a reason counts."""
    standard = sorted(standards())
    return {
        REJECT: (
            "A build or a check fails: also where a call sets a forbidden window, where a scenario breaks off, or "
            "where half of the shared suite's requirements or more are unmet.",
            f"It sends more than {PUSHED[1]:.0f} Mb/s into a path of 50 Mb/s that loses a third of all packets: "
            "congestion collapse (RFC 9743, section 5.1.1).",
            f"It loses more than {LOST[1]:.0f} % of all packets in a scenario, even alone (section 5.1.3).",
            f"It starves standard TCP: beside it, {_listed(standard, 'or')} keeps less than {100 * LEFT[1]:.0f} % of "
            f"the least that {_listed(standard)} leave to it (section 5.2).",
            "It has a serious fault in more than half of the scenarios.",
            f"It behaves as {_listed(sorted(references()), 'or')}: no figure of any scenario tells the two apart, so "
            "that nothing is new.",
        ),
        "Major revision": (
            "It has a serious fault.",
            "It has more weak points and doubtful checks than strong points, and more than three.",
        ),
        "Minor revision": ("It has a weak point, or a check is doubtful.",),
        "Accept": ("It has neither.",),
    }


def recommendation(judgement: Judgement) -> tuple[str, str]:
    """The referee's recommendation in a word, and why, by :func:`rule`."""
    serious, weak = len(judgement.points("serious")), len(judgement.points("weak"))
    doubtful = [check.name for check in judgement.checks if check.outcome == "doubtful"]
    strong = len(judgement.points("strong"))
    beside = f", and a doubt: {_listed(doubtful)}" if doubtful else ""
    if reasons := _reasons(judgement):
        return REJECT, "; ".join(reasons)
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


def _reasons(judgement: Judgement) -> list[str]:
    """All that rejects the control."""
    failed = [check.name for check in judgement.checks if check.outcome == "failed"]
    found = [f"it fails {_listed(failed)}"] if failed else []
    by_fault: dict[str, list[str]] = {}
    for case, point in judgement.rejecting:
        value = f"{case.case.name} {text_of(point.measure, point.yours)}"
        by_fault.setdefault(_fault(point), []).append(value)
    found += [f"{fault}: {', '.join(values)}" for fault, values in by_fault.items()]
    failing = len({case.case.name for case, _ in judgement.points("serious")})
    if 2 * failing > len(judgement.cases):
        serious = _count(len(judgement.points("serious")), "serious fault")
        found.append(f"it has {serious} in {failing} of {len(judgement.cases)} scenarios")
    if (name := judgement.behaves_as) is not None:
        figures = _count(sum(len(case.points) for case in judgement.cases), "figure")
        found.append(f"it behaves as {name}: none of {figures} tells the two apart, so that nothing is new")
    return found


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}" + ("s" if number != 1 else "")


def _listed(names: list[str], last: str = "and") -> str:
    return ", ".join(names[:-1]) + (f" {last} " if len(names) > 1 else "") + names[-1]


def at(case: Judged) -> str:
    """The address of a scenario in the page."""
    return f"#{case.case.name}"
