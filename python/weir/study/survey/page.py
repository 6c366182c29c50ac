"""The page of a survey, one HTML file that works offline: the agreement at a glance, then the details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from weir import methods
from weir._duration import clock_text
from weir.compare import names
from weir.compare.charts import OVERLAYS
from weir.compare.tables import percent
from weir.metrics.registry import UNIT
from weir.report.bundle import chart_item, environment, frame_of, pack, write_page
from weir.report.page import medium
from weir.run.quantity import format_quantity
from weir.study.survey._result import Claim, Entry, Figure, Pair, Survey

__all__ = [
    "GLANCE",
    "Count",
    "PairRow",
    "build",
    "chance_text",
    "counts",
    "gaps",
    "headline",
    "pair_rows",
    "share",
    "value_text",
]

_ASSETS = Path(__file__).parent / "assets"
_DRAWN = tuple(overlay for overlay in OVERLAYS if overlay.trace in ("goodput.aggregate", "queue"))
_MAX_FIGURES = 12
"""Maximum number of listed figures of a scenario; disagreements first."""
_STEPS = (0.01, 0.03, 0.1, 0.3)

GLANCE = (
    ("goodput.aggregate.mean", "goodput"),
    ("utilisation", "utilisation"),
    ("jain", "Jain's index"),
    ("queue.delay", "queueing delay"),
    ("completion.mean", "completion time"),
)
"""Metrics whose median distances are shown for each pair, and their names."""


@dataclass(frozen=True)
class PairRow:
    """Agreement of two methods over the whole catalogue."""

    name: str
    same: int
    claims: int
    agree: int
    figures: int
    medians: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def claims_width(self) -> float:
        """Width of a bar, per cent."""
        return round(100 * self.same / self.claims, 1) if self.claims else 0.0

    @property
    def figures_width(self) -> float:
        """Width of a bar, per cent."""
        return round(100 * self.agree / self.figures, 1) if self.figures else 0.0


def build(survey: Survey, path: Path) -> Path:
    """Writes the page, and the linked comparison of each scenario; the same survey gives the same page.

    Raises:
        OSError: a page cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    links = {entry.name: _comparison(entry, path.parent) for entry in survey.entries}
    return write_page(path, _render(survey, links))


def _comparison(entry: Entry, folder: Path) -> str:
    """Writes the page of one scenario's comparison; returns its address relative to the survey's page, empty without
    one.
    """
    if entry.comparison is None:
        return ""
    place = next(iter(entry.executions.values())).task.folder.parent / "compare.html"
    entry.comparison.report(place)
    try:
        return place.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return place.resolve().as_uri()


def _render(survey: Survey, links: dict[str, str]) -> str:
    here = [m for m in survey.methods if m not in survey.missing]
    charts = _charts(survey)
    title, rest = headline(survey)
    return (
        environment(_ASSETS)
        .get_template("survey.html.j2")
        .render(
            survey=survey,
            here=here,
            title=f"The catalogue by {names(here)}",
            headline=title,
            rest=rest,
            facts=_facts(survey),
            pairs=pair_rows(survey),
            glance=[name for _, name in GLANCE],
            odd=_odd(survey),
            disputed=survey.disputed,
            scenarios=[(entry, counts(entry), links[entry.name]) for entry in survey.entries],
            figures={entry.name: entry.figures[:_MAX_FIGURES] for entry in survey.entries},
            gaps=gaps(survey),
            warnings=_warnings(survey),
            distance=_distance,
            chance_text=chance_text,
            spread=_spread,
            value_text=value_text,
            shade=_shade,
            combinations=lambda values: list(combinations(values, 2)),
            blobs=[("run", pack(charts))] if charts else [],
            **frame_of(),
        )
    )


def headline(survey: Survey) -> tuple[str, str]:
    """The result in a sentence, and the second most important fact."""
    decided = [c for _, c in survey.claims if c.agreement.kind != "alone"]
    here = [m for m in survey.methods if any(m in entry.runs for entry in survey.entries)]
    if not decided:
        return f"{len(survey.claims)} claims judged by {names(here) or 'nobody'}", "nothing to compare"
    same = sum(c.agreement.kind == "all" for c in decided)
    text = f"{names(here)} agree on {same} of {len(decided)} claims"
    chance = sum(c.by_chance for _, c in survey.disputed)
    alone = {m: n for m, n in survey.odd_ones().items() if n}
    rest = ", ".join(f"{m} {n} times" if n > 1 else f"{m} once" for m, n in alone.items())
    said = [f"alone against the others: {rest}"] if rest else []
    said += [f"{chance} of the {len(decided) - same} others by chance alone"] if chance else []
    return text, "; ".join(said)


def pair_rows(survey: Survey) -> list[PairRow]:
    """One row per pair of methods."""
    rows = []
    for pair in survey.pairs:
        medians = [survey.median_distance(pair, metric) for metric, _ in GLANCE]
        texts = tuple("–" if m is None else share(m) for m in medians)
        rows.append(
            PairRow(
                " and ".join(pair),
                *survey.same_verdict(pair),
                *survey.same_figures(pair),
                texts,
                tuple(map(_shade, medians)),
            )
        )
    return rows


def share(value: float) -> str:
    """Formats a relative distance for people: ``3.1 %``."""
    return percent(value).removeprefix("+")


def value_text(figure: Figure, method: str) -> str:
    """Formats one method's figure for people."""
    value = figure.values.get(method)
    return "–" if value is None else _text(value, figure.unit)


def _distance(of: Claim | Figure, pair: Pair) -> str:
    found = of.distances.get(pair)
    return "–" if found is None else share(found)


def chance_text(claim: Claim) -> str:
    """The simulator's outcomes of a claim with other seeds."""
    held = sum(s.outcome == "holds" for s in claim.seeds)
    values = sorted((s.value, s.shown) for s in claim.seeds if s.value is not None)
    figures = f", {values[0][1]} to {values[-1][1]}" if values else ""
    said = f"{methods.DEFAULT} with {len(claim.seeds)} seeds: holds with {held}{figures}"
    return f"{said}: chance" if claim.by_chance else said


def _spread(figure: Figure) -> str:
    if len(figure.seeds) < 2:
        return "–"
    return f"{_text(min(figure.seeds), figure.unit)} to {_text(max(figure.seeds), figure.unit)}"


def _text(value: float, unit: str) -> str:
    scale, dimension = UNIT.get(unit, (1.0, (0, 0)))
    return format_quantity(value * scale, dimension)


def _shade(size: float | None) -> str:
    return "" if size is None else f"d{sum(size > step for step in _STEPS)}"


def _facts(survey: Survey) -> list[tuple[str, str]]:
    what = {"full": "full", "quick": "quick", "realtime": "for real time"}[survey.version]
    wall = {m: sum(e.executions[m].wall_s for e in survey.entries if m in e.executions) for m in survey.methods}
    times = ", ".join(f"{m} {clock_text(s)}" for m, s in wall.items() if s >= 1)
    facts = [("Scenarios", str(len(survey.entries))), ("Version", what), ("Judged", f"{len(survey.claims)} claims")]
    facts.append(("Not judged", str(sum(len(entry.unjudged) for entry in survey.entries))))
    if times:
        facts.append(("Took", times))
    return [*facts, ("Date", survey.date)]


def _odd(survey: Survey) -> list[tuple[str, int, int]]:
    """By method: number of claims and figures with which it stands alone."""
    claims = survey.odd_ones()
    figures = [f for entry in survey.entries for f in entry.figures]
    return [(m, n, sum(f.agreement.odd == (m,) for f in figures)) for m, n in claims.items()]


@dataclass(frozen=True)
class Count:
    """The result of one scenario."""

    same: int
    disputed: int
    figures_agree: int
    figures: int
    who: str
    worst: Figure | None


def counts(entry: Entry) -> Count:
    kinds = [c.agreement.kind for c in entry.claims]
    known = [f for f in entry.figures if f.agreement.kind != "alone"]
    odd = [f.agreement.odd for f in known if f.agreement.odd]
    differ = sum(f.agreement.kind != "all" for f in known)
    return Count(
        kinds.count("all"),
        kinds.count("majority") + kinds.count("split"),
        len(known) - differ,
        len(known),
        _who(odd, differ),
        known[0] if differ else None,
    )


def _who(odd: Sequence[tuple[str, ...]], differ: int) -> str:
    """The method that stands alone with more than half of the differing figures."""
    if not odd:
        return ""
    most = max(dict.fromkeys(odd), key=odd.count)
    count = odd.count(most)
    return f"{names(most)} in {count} of {differ}" if 2 * count > differ else "nobody in most"


def gaps(survey: Survey) -> list[tuple[str, str, str]]:
    """The missing runs, and the reasons."""
    gaps = [("all", method, reason) for method, reason in survey.missing.items()]
    for entry in survey.entries:
        for execution in entry.executions.values():
            gaps += [(entry.name, execution.task.side.method, execution.reason)] if execution.reason else []
            gaps += [(entry.name, execution.task.side.method, text) for text in execution.failures]
    return gaps


def _warnings(survey: Survey) -> list[tuple[str, str, list[str]]]:
    found = []
    for entry in survey.entries:
        for execution in entry.executions.values():
            texts = list(dict.fromkeys(execution.warnings))
            if texts:
                found.append((entry.name, execution.task.side.method, texts))
    return found


def _charts(survey: Survey) -> list[dict[str, Any]]:
    """For each scenario, the cell with the largest distance, its methods overlaid."""
    drawn = medium(len(survey.entries))
    items = []
    for entry in survey.entries:
        comparison = entry.comparison
        if comparison is None or not entry.figures:
            continue
        group = comparison.groups[entry.figures[0].cell]
        for overlay in _DRAWN:
            item = chart_item(overlay.chart, overlay.draw(comparison, group, drawn), drawn)
            if item is not None:
                place = f", {group.name}" if len(comparison.groups) > 1 else ""
                items.append(item | {"section": f"{entry.name}{place}", "half": True})
    return items
