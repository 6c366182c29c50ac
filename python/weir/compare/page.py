"""The report of a comparison: one HTML file that works offline, built from the parts of a run's report."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from weir.compare._claims import agreement
from weir.compare._comparison import Comparison
from weir.compare.charts import OVERLAYS, SCATTER, scatter
from weir.compare.tables import DifferenceRow, difference_rows, percent, relative_text, size_of, trace_rows
from weir.metrics.expect import percent as level_text
from weir.report import provenance
from weir.report.bundle import chart_item, environment, frame_of, pack, write_page
from weir.report.charts import Medium
from weir.report.page import BUDGET, medium
from weir.report.view import RunView

__all__ = ["build", "render"]

_ASSETS = Path(__file__).parent / "assets"
_MAX_ROWS = 40
_SECTIONS = [
    ("verdicts", "Verdicts"),
    ("matrix", "Overview"),
    ("metrics", "Metric by metric"),
    ("differences", "Differences"),
    ("traces", "Time series"),
    ("cells", "Cells"),
    ("alignment", "Alignment"),
    ("warnings", "Warnings"),
    ("provenance", "Provenance"),
]
STEPS = (0.01, 0.03, 0.1, 0.3)
"""Relative differences at which the colour of a field changes."""


@dataclass(frozen=True)
class _Cell:
    number: int
    label: str
    factors_json: str
    duration: float
    windows: list[tuple[str, float, float]]
    has_charts: bool
    left_out: bool
    rows: list[DifferenceRow]


@dataclass(frozen=True)
class Matrix:
    """Relative differences of the metrics over all flows: one row per cell."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, int, tuple[tuple[str, str, str], ...]], ...]
    """Name of the cell, its number, and for each metric: text, class, both values."""


def build(comparison: Comparison, path: Path) -> Path:
    """Writes the page; the same comparison gives the same bytes.

    Raises:
        OSError: it cannot be written.
    """
    return write_page(path, render(comparison))


def render(comparison: Comparison) -> str:
    """The page as text."""
    drawn = medium(len(comparison.groups))
    blobs: list[tuple[str, Markup]] = []
    item = chart_item(SCATTER, scatter(comparison, drawn), drawn)
    if item is not None:
        blobs.append(("run", pack([item])))
    differences = difference_rows(comparison)
    cells = [_cell(comparison, number, drawn, differences, blobs) for number in range(len(comparison.groups))]
    views = [(entry.label, RunView(entry.run)) for entry in comparison.runs]
    return (
        environment(_ASSETS)
        .get_template("compare.html.j2")
        .render(
            comparison=comparison,
            title=" against ".join(comparison.labels) if len(comparison.labels) == 2 else ", ".join(comparison.labels),
            scenario=_scenario(views),
            sections=[
                s for s in _SECTIONS if (s[0] != "metrics" or item) and (s[0] != "verdicts" or comparison.claims)
            ],
            claims=[
                (c, [c.outcomes.get(k, "") for k in comparison.labels], agreement(c.outcomes))
                for c in comparison.claims
            ],
            headline=_headline(comparison),
            largest=_largest(comparison, differences),
            chance=_chance(differences),
            facts=_facts(comparison),
            matrices=_matrices(comparison),
            steps=[percent(s).removeprefix("+") for s in STEPS],
            has_scatter=item is not None,
            differences=differences[:_MAX_ROWS],
            more=max(0, len(differences) - _MAX_ROWS),
            traces=trace_rows(comparison)[:_MAX_ROWS],
            shade=_shade,
            level=level_text(comparison.level),
            cells=cells,
            factors=_factors(comparison),
            notes=comparison.notes,
            unaligned=comparison.alignment.unaligned,
            warnings=_warnings(comparison, views),
            provenance=_provenance(views),
            blobs=blobs,
            **frame_of(),
        )
    )


def _cell(
    comparison: Comparison, number: int, drawn: Medium, rows: Sequence[DifferenceRow], blobs: list[tuple[str, Markup]]
) -> _Cell:
    group = comparison.groups[number]
    full = sum(len(data) for name, data in blobs if name != "run") > BUDGET
    made = [] if full else [chart_item(o.chart, o.draw(comparison, group, drawn), drawn) for o in OVERLAYS]
    items = [item for item in made if item]
    if items:
        blobs.append((f"cell-{number}-data", pack(items)))
    plan = next(iter(group.cells.values()))[0].plan
    end = round(plan.end_ns / 1e9, 6)
    windows = [("whole run", 0.0, end), *((p.name, p.from_ns / 1e9, p.to_ns / 1e9) for p in plan.phases)]
    factors = json.dumps(group.shown)
    own = [row for row in rows if row.cell == number]
    return _Cell(number, group.name, factors, end if items else 0, windows, bool(items), full, own)


def _headline(comparison: Comparison) -> tuple[str, str]:
    agreed = [claim.agreed for claim in comparison.claims]
    decided = [a for a in agreed if a is not None]
    rest = _medians(comparison)
    if not decided:
        return "Side by side", rest
    same = sum(decided)
    noun = "claim" if len(decided) == 1 else "claims"
    text = (
        f"All runs agree on {len(decided)} {noun}"
        if same == len(decided)
        else f"The runs agree on {same} of {len(decided)} {noun}"
    )
    return text, rest


def _medians(comparison: Comparison) -> str:
    """The median differences of the most important metrics."""
    said = []
    for metric, name in (
        ("goodput.aggregate.mean", "goodput"),
        ("utilisation", "utilisation"),
        ("jain", "Jain's index"),
    ):
        frame = comparison.differences.filter(metric=metric)
        sizes = [size_of(row) for row in frame.iter_rows(named=True) if row["flow"] is None]
        sizes = sorted(s for s in sizes if math.isfinite(s))
        if sizes:
            said.append(f"{name} {percent(sizes[len(sizes) // 2]).removeprefix('+')}")
    return f"median difference: {', '.join(said)}" if said else ""


_LARGEST = 3
"""Metrics whose largest differences the page names first."""


def _largest(comparison: Comparison, rows: Sequence[DifferenceRow]) -> str:
    """The largest differences over all flows, of different metrics, and that of a single flow if it is larger."""
    known = sorted((row for row in rows if row.size > 0 and row.significant is not False), key=lambda row: -row.size)
    whole: dict[str, DifferenceRow] = {}
    for row in known:
        if not row.flow:
            whole.setdefault(row.metric, row)
    said = [_told(comparison, row) for row in [*whole.values()][:_LARGEST]]
    first = next((row for row in known if row.flow), None)
    if first is not None and all(first.size > row.size for row in whole.values()):
        said.append(f"of a single flow {_told(comparison, first)}")
    return ", ".join(said)


def _told(comparison: Comparison, row: DifferenceRow) -> str:
    several = len(comparison.groups) > 1
    place = [row.flow, comparison.groups[row.cell].name if several else "", row.phase]
    where = ", ".join(part for part in place if part)
    return f"{row.metric} {row.relative} ({where})" if where else f"{row.metric} {row.relative}"


def _chance(rows: Sequence[DifferenceRow]) -> str:
    """Says what the page cannot: whether the differences are chance, if nothing was repeated."""
    if not rows or any(row.significant is not None for row in rows):
        return ""
    return "Without repeats of both runs, it is unknown how much of a difference is chance."


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    facts = [
        (entry.label, f"{entry.method or 'unknown method'}, {len(entry.run.cells)} cells") for entry in comparison.runs
    ]
    facts.append(("Compared", f"{len(comparison.groups)} cells"))
    phases = [p for p in comparison.phases if p]
    return [*facts, ("Window", ", ".join(phases) or "whole run")]


def _scenario(views: Sequence[tuple[str, RunView]]) -> str:
    return " · ".join(dict.fromkeys(view.title for _, view in views))


def _matrices(comparison: Comparison) -> list[Matrix]:
    whole = comparison.differences.filter(comparison.differences["flow"].is_null())
    found = []
    several = len(comparison.labels) > 2
    for part in whole.partition_by(["a", "b", "phase"], maintain_order=True):
        first = part.row(0, named=True)
        metrics = tuple(dict.fromkeys(part["metric"]))
        words = [f"{first['a']} → {first['b']}"] if several else []
        words += [first["phase"]] if first["phase"] else ["whole run"] if any(comparison.phases) else []
        rows = []
        for own in part.partition_by("cell", maintain_order=True):
            by_metric = {row["metric"]: row for row in own.iter_rows(named=True)}
            number = own["cell"][0]
            fields = tuple(_field(by_metric.get(metric)) for metric in metrics)
            rows.append((comparison.groups[number].name, number, fields))
        found.append(Matrix(", ".join(words), metrics, tuple(rows)))
    return found


def _field(row: dict[str, Any] | None) -> tuple[str, str, str]:
    if row is None:
        return "–", "", ""
    both = (
        f"{row['a']} {row['a_value']:.6g}, {row['b']} {row['b_value']:.6g} {row['unit']}"
        if row["a_value"] is not None and row["b_value"] is not None
        else ""
    )
    return relative_text(row), _shade(size_of(row)), both


def _shade(size: float | None) -> str:
    """The class of a field by the magnitude of its difference: ``d0`` to ``d4``."""
    if size is None or math.isnan(size):
        return ""
    return f"d{sum(size > step for step in STEPS)}"


def _factors(comparison: Comparison) -> list[tuple[str, list[str]]]:
    found: dict[str, dict[str, None]] = {}
    for group in comparison.groups:
        for name, value in group.shown.items():
            found.setdefault(name, {})[value] = None
    return [(name, list(values)) for name, values in found.items() if len(values) > 1]


def _warnings(comparison: Comparison, views: Sequence[tuple[str, RunView]]) -> list[tuple[str, str]]:
    found = dict.fromkeys(comparison.warnings)
    for label, view in views:
        found |= dict.fromkeys((label, text) for text in provenance.warnings(view))
    return list(found)


def _provenance(views: Sequence[tuple[str, RunView]]) -> list[tuple[str, list[str], bool]]:
    """One row per name: the value of each run, and whether they differ."""
    tables = [dict(provenance.provenance(view)) for _, view in views]
    names = dict.fromkeys(["folder", *(name for table in tables for name in table)])
    rows = []
    for name in names:
        values = [
            str(v.run.path) if name == "folder" else t.get(name, "–") for (_, v), t in zip(views, tables, strict=True)
        ]
        rows.append((name, values, len(set(values)) > 1))
    return rows
