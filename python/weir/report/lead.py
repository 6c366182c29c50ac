"""The figures that lead a report: those that the scenario names in ``summary``, else one that its claims suggest.

Without ``summary``, the figure is a reference of the metric that most claims name, provided that it differs between
the cells; of several references to that metric, the one that most claims name, then the one that differs most. If no
metric of the claims differs, it is the first of a few usual ones that does. A run of one cell has some usual figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from weir.metrics import Category, MetricError, parse_reference
from weir.metrics.expect import ExpectError
from weir.metrics.expect.parser import parse_check, parse_expression
from weir.metrics.expect.syntax import references
from weir.metrics.reference import Reference
from weir.metrics.summary import Figure, Summarised, figures_of, summarise
from weir.run import Plan, Run, RunError

__all__ = ["difference", "direction", "lead_figures", "metrics_of", "most_claimed", "origin", "spread"]

DIFFERS = 0.02
"""Values differ if their range is at least this share of the largest."""

_MOST = 12
"""References that are computed to choose among them."""

_USUAL = {
    "goodput.mean": "Mean goodput",
    "completion.mean": "Mean completion time",
    "page.completion.mean": "Mean completion time of pages",
    "delay.p95": "One-way delay, 95th percentile",
    "jain": "Jain's fairness index",
}
_OF_ONE_CELL = {
    "goodput.aggregate.mean": "Aggregate goodput",
    "jain": "Jain's fairness index",
    "page.completion.mean": "Mean completion time of pages",
    "completion.mean": "Mean completion time",
    "delay.p95": "One-way delay, 95th percentile",
    "queue.delay": "Queueing delay at the bottleneck",
}
_WORDS = {**_OF_ONE_CELL, **_USUAL, "goodput.aggregate.mean": "Aggregate goodput",
          "utilisation": "Utilisation of the bottleneck", "utilisation.mean": "Utilisation of the bottleneck",
          "link.loss": "Loss rate at the bottleneck", "rtt.mean": "Round-trip time",
          "page.completion.p95": "95th percentile of the completion times of pages",
          "completion.cov": "Spread of completion times", "goodput.sd": "Standard deviation of goodput",
          "goodput.cov": "Coefficient of variation of goodput",
          "goodput.normalised_sd": "Normalised deviation of goodput", "retransmissions.rate": "Retransmissions",
          "timeouts.rate": "Timeouts", "loss.synchronisation": "Loss synchronisation"}  # fmt: skip


def lead_figures(run: Run, *, several: bool) -> tuple[Summarised, ...]:
    """The figures of a run; ``several``: whether it has several combinations of factors."""
    named = figures_of(run)
    if named:
        return summarise(run, named)
    last = _last_phase(run)
    if not several:
        found = summarise(run, [_figure(f"{name}{last}", title) for name, title in _OF_ONE_CELL.items()])
        return tuple(one for one in found if one.known)[:3]
    best = _chosen(run, last)
    return () if best is None else (best,)


def _chosen(run: Run, last: str) -> Summarised | None:
    """The figure that the claims suggest, else a usual one."""
    counted = _counted(run)
    texts = [text for texts in counted.values() for text in texts][:_MOST]
    usual = [f"{name}{last}" for name in _USUAL]
    asked = dict.fromkeys([*texts, *usual])
    found = {one.figure.value: one for one in summarise(run, [_figure(text) for text in asked])}
    for texts_of in counted.values():
        ranked = sorted((t for t in texts_of if t in found), key=lambda t: (-texts_of[t], -difference(found[t])))
        for text in ranked:
            if difference(found[text]) >= DIFFERS:
                return found[text]
    several = [one for one in found.values() if len(one.known) > 1]
    differing = [found[text] for text in usual if difference(found[text]) >= DIFFERS]
    return next(iter([*differing, *several]), None)


def origin(run: Run, figures: Sequence[Summarised]) -> str:
    """Says why these figures lead the report, in a sentence."""
    if figures_of(run):
        return "The figures of the scenario's summary."
    claimed = {text for texts in _counted(run).values() for text in texts}
    if len(figures) == 1 and figures[0].figure.value in claimed:
        return "The metric that most claims name."
    return "The scenario names no figures in a summary, and no metric of its claims differs between the cells."


def most_claimed(run: Run) -> Reference | None:
    """A reference of the metric that most claims name."""
    return next((parse_reference(text) for texts in _counted(run).values() for text in texts), None)


def _counted(run: Run) -> dict[str, Counter[str]]:
    """The number of claims that name a reference, without factors, by metric; the most named metric first."""
    by_metric: dict[str, Counter[str]] = {}
    claims: Counter[str] = Counter()
    for found in _references(run):
        claims.update(list(dict.fromkeys(reference.metric.name for reference in found)))
        for name, text in dict.fromkeys((reference.metric.name, _bare(reference)) for reference in found):
            by_metric.setdefault(name, Counter())[text] += 1
    return {name: by_metric[name] for name, _ in claims.most_common()}


def _references(run: Run) -> Iterator[list[Reference]]:
    """The references of each claim that have one value in a cell."""
    for entry in run.manifest.get("expect", ()):
        if isinstance(entry, Mapping):
            try:
                found = references(parse_check(str(entry.get("check"))))
            except ExpectError:
                continue
            yield [one for one in found if one.metric.kind != "distribution"]


def _bare(reference: Reference) -> str:
    """The reference without factors, so that it has a value in each cell."""
    if not reference.factors:
        return reference.text
    return re.sub(r"(\[[^\]]*\])|\{[^}]*\}", lambda part: part[1] or "", reference.text)


def _figure(text: str, title: str = "") -> Figure:
    try:
        reference = parse_reference(text)
    except MetricError:
        return Figure(text, title)
    words = title or _WORDS.get(reference.name, "")
    if not words or reference.arguments:
        return Figure(text)
    return Figure(text, ", ".join(part for part in (words, reference.selector, reference.phase) if part))


def difference(one: Summarised) -> float:
    """The range of a figure's values as a share of the largest; 0 with fewer than two."""
    return spread([v.value for v in one.known])


def spread(values: Sequence[float]) -> float:
    """The range of ``values`` as a share of the largest; 0 with fewer than two."""
    largest = max(map(abs, values), default=0.0)
    return (max(values) - min(values)) / largest if len(values) > 1 and largest > 0 else 0.0


_TIMES = ("completion", "completion.makespan", "page.completion")
_NO_DAMAGE = ("loss.synchronisation", "link.marks", "marks")
_DEVIATIONS = ("goodput.cov", "goodput.sd", "goodput.variance", "goodput.normalised_sd", "throughput.cov")


def direction(figure: Figure) -> str:
    """Says of a figure whose small values are good that they are; empty for others and for arithmetic."""
    try:
        reference = parse_reference(figure.value)
    except (MetricError, ExpectError):
        return ""
    metric = reference.metric
    if metric.name in _DEVIATIONS or {"cov", "sd", "var"} & set(reference.stats):
        return "less is steadier"
    bad = metric.category in (Category.DELAY, Category.LOSS) and metric.name not in _NO_DAMAGE
    return "less is better" if bad or metric.name in _TIMES else ""


def metrics_of(expression: str) -> frozenset[str]:
    """The names of the metrics in an expression or a check; none if it is malformed."""
    try:
        return frozenset(one.metric.name for one in references(parse_expression(expression)))
    except (MetricError, ExpectError):
        return frozenset()


def _last_phase(run: Run) -> str:
    """The last phase of the scenario as a part of a reference; empty without phases."""
    for cell in run.cells:
        try:
            plan: Plan = cell.plan
        except RunError:
            continue
        return f"@{plan.phases[-1].name}" if plan.phases else ""
    return ""
