"""The verdicts of ``expect`` in the words of the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.metrics.expect import Measurement, Verdict, evaluate, percent
from weir.report.lead import metrics_of
from weir.report.rates import as_rate
from weir.report.view import RunView
from weir.run import Run

__all__ = ["Comparison", "Headline", "ShownVerdict", "headline", "verdicts"]


_MAX_COUNT = 60
_BASIS = {
    "tolerance": "tolerance",
    "refuted_by": "refuted by",
    "fitted": "fitted",
    "beyond": "beyond the source",
    "chance": "decided by chance",
}


@dataclass(frozen=True)
class Comparison:
    """One comparison of a check."""

    place: str
    value: str
    threshold: str
    margin: str
    interval: str
    """Of the margin."""
    outcome: str
    note: str


@dataclass(frozen=True)
class ShownVerdict:
    """One claim with its verdict."""

    claim: str
    outcome: str
    """``holds``, ``fails`` or ``undecided``."""
    details: tuple[tuple[str, str], ...]
    """Name and text of the supporting details, in the order shown."""
    comparisons: tuple[Comparison, ...] = ()
    """All comparisons made, if there are several; the decisive ones first."""
    more: int = 0
    """Number of comparisons not listed."""
    short: str = ""
    """The deciding measurement in a few words."""
    predicted: bool = False
    """Whether it fails as the scenario says."""
    metrics: frozenset[str] = frozenset()
    """The names of the metrics that its check has."""


@dataclass(frozen=True)
class Headline:
    """The first sentence of a report."""

    strong: str
    rest: str = ""


def headline(shown: Sequence[ShownVerdict]) -> Headline:
    """The number of claims that hold; empty without claims."""
    if not shown:
        return Headline("")
    count = Counter(v.outcome for v in shown)
    holds, total = count["holds"], len(shown)
    noun = "claim" if total == 1 else "claims"
    if holds == total:
        return Headline(f"All {total} {noun} hold." if total > 1 else "The claim holds.")
    if total == 1:
        return Headline(f"The claim {'fails' if count['fails'] else 'is undecided'}.")
    known = sum(v.predicted for v in shown)
    new = count["fails"] - known
    rest = [f"{new} {'fails' if new == 1 else 'fail'}"] if new else []
    rest += [f"{known} {'fails' if known == 1 else 'fail'} as expected"] if known else []
    rest += [f"{count['undecided']} undecided"] if count["undecided"] else []
    return Headline(f"{holds} of {total} {noun} {'holds' if holds == 1 else 'hold'}", f"· {', '.join(rest)}")


def verdicts(run: RunView, level: float = 0.95) -> list[ShownVerdict]:
    """The verdicts of the scenario's claims, in their order."""
    entries = run.run.manifest.get("expect", ())
    return [_shown(run.run, verdict) for verdict in evaluate(run.run, entries, level)] if entries else []


def _shown(run: Run, verdict: Verdict) -> ShownVerdict:
    details = [("source", verdict.source), ("paper", verdict.basis.get("paper", ""))]
    details += [("check", verdict.check), ("where", _places(verdict.where))]
    decisive = verdict.decisive
    if decisive is not None:
        details.append(("measured", _measured(run, decisive)))
    details.append(("explanation", _explanation(verdict)))
    details += [("news", verdict.news), ("note", " ".join(verdict.note.split()))]
    details += [(text, verdict.basis.get(name, "")) for name, text in _BASIS.items()]
    details += [("warning", text) for text in verdict.warnings]
    shown = tuple((name, text) for name, text in details if text)
    listed = verdict.measured[:_MAX_COUNT] if len(verdict.measured) > 1 else ()
    comparisons = tuple(_comparison(run, m) for m in listed)
    predicted = verdict.outcome == verdict.expected == "fails"
    return ShownVerdict(
        verdict.claim or verdict.check,
        verdict.outcome,
        shown,
        comparisons,
        max(0, len(verdict.measured) - _MAX_COUNT),
        "" if decisive is None or verdict.outcome == "undecided" else _short(run, decisive, predicted),
        predicted,
        metrics_of(verdict.check),
    )


def _short(run: Run, m: Measurement, predicted: bool) -> str:
    rate = as_rate(run, m)
    text = _against(m) if rate is None else f"{_against(rate.measured)} ({_value(m)} of {rate.of})"
    return f"{text}, as expected" if predicted else text


def _value(m: Measurement, missing: str = "undefined") -> str:
    return m.show(m.value) if isinstance(m.value, str) or math.isfinite(m.value) else missing


def _against(m: Measurement) -> str:
    if m.numbers:
        return _words(m)
    return f"{_value(m)} against {m.limit}" if m.against else _value(m)


def _words(m: Measurement) -> str:
    """The value of a factor that leads, with its amount, and the wanted or the next one with theirs."""
    told = [f"{word} ({m.show(amount)})" for word, amount in m.numbers]
    if not m.against:
        return f"{told[0]}, then {told[1]}" if len(told) > 1 else told[0]
    wanted = str(m.threshold).split(" or ")
    texts = [text for (word, _), text in zip(m.numbers, told, strict=True) if word in wanted]
    return f"{told[0]} against {' or '.join(texts) or m.threshold}"


def _explanation(verdict: Verdict) -> str:
    """Explains what the shown measurement does not."""
    if verdict.within_chance:
        doubtful = sum(m.within_chance for m in verdict.measured)
        which = f" in {doubtful} of {len(verdict.measured)} comparisons" if len(verdict.measured) > 1 else ""
        return (
            f"Undecided{which}, because the {percent(verdict.level)} interval of the margin includes zero: "
            "more repeats would narrow it."
        )
    if verdict.outcome == "undecided" or not verdict.measured:
        return verdict.explanation
    same = sum(m.outcome == verdict.outcome for m in verdict.measured)
    if len(verdict.measured) > 1:
        which = "the closest" if verdict.outcome == "holds" else "the one farthest from holding"
        return f"{verdict.outcome.capitalize()} in {same} of {len(verdict.measured)} comparisons; {which} is shown."
    return ""


def _places(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {' or '.join(map(str, v)) if isinstance(v, list) else v}" for k, v in where.items())


def _measured(run: Run, m: Measurement) -> str:
    rate = as_rate(run, m)
    every = ", ".join(f"{word} {m.show(amount)}" for word, amount in m.numbers)
    parts = [every or _against(m), m.spread, m.note]
    if rate is not None:
        parts = [_against(rate.measured), f"{_against(m)} of the bottleneck's {rate.of}", rate.measured.spread, m.note]
    text = "; ".join(part for part in parts if part)
    place = _places(m.factors)
    return f"{text} (at {place})" if place else text


def _comparison(run: Run, m: Measurement) -> Comparison:
    rate = as_rate(run, m)
    m = m if rate is None else rate.measured
    value = _value(m, "–")
    threshold = m.limit if m.threshold != "" else ""
    margin = m.show(m.margin) if math.isfinite(m.margin) else "–"
    ends = (m.margin_low, m.margin_high)
    interval = f"{m.show(ends[0])} to {m.show(ends[1])}" if all(map(math.isfinite, ends)) else "–"
    if m.same:
        interval = f"the same in all {m.repeats} repeats"
    return Comparison(_places(m.factors), value, threshold, margin, interval, m.outcome, m.note)
