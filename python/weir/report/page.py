"""Assembles a report: one HTML file with its data, its charts' definitions and the code that draws them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from weir._inside import FILE, expect
from weir.metrics import Category
from weir.metrics.expect import percent
from weir.report import fidelity, provenance, tables, theme
from weir.report.bundle import chart_item, environment, frame_of, pack, write_page
from weir.report.charts import CELL_CHARTS, RUN_CHARTS, Medium, metric_by_factor, summary
from weir.report.lead import most_claimed
from weir.report.nodes import node_tables
from weir.report.qos import qos_tables
from weir.report.story import question, story
from weir.report.verdicts import headline, verdicts
from weir.report.view import CellView, RunView
from weir.run import Run
from weir.run.repeats import identical_repeats

__all__ = ["build", "medium"]

BUDGET = 8_000_000
"""Characters of chart data after which further cells have tables only."""

_SECTIONS = [
    ("outcome", "What came out"),
    ("verdicts", "Verdicts"),
    ("sweep", "Sweep"),
    ("tables", "Tables"),
    ("cells", "Cells"),
    ("warnings", "Warnings"),
    ("provenance", "Provenance"),
]


@dataclass(frozen=True)
class _Cell:
    number: int
    label: str
    factors_json: str
    warnings: list[str]
    duration: float
    windows: list[tuple[str, float, float]]
    charts: tuple[str, ...]
    """Names of its charts."""
    left_out: str
    tables: list[tables.Grid]
    fidelity: str


@dataclass(frozen=True)
class _Factor:
    name: str
    values_: tuple[str, ...]


def medium(combinations: int) -> Medium:
    """The page as a medium: the more cells it holds, the fewer points each series keeps."""
    buckets = 600 if combinations <= 4 else 480 if combinations <= 24 else 300 if combinations <= 60 else 200
    return Medium(theme.PAGE, buckets, min(100, buckets // 3), 34, 170)


def build(run: Run, out: Path | None = None, *, level: float = 0.95) -> Path:
    """Writes the report of a run and returns its path.

    The page is one file: it works offline and loads nothing. The same run gives the same bytes.

    Args:
        run: an opened run.
        out: where to write; default ``report.html`` in the run's folder.
        level: confidence level of the verdicts; the intervals of tables and charts are at 95 %.

    Raises:
        OSError: the file cannot be written, or a link or something other than a plain file has its name.
    """
    place = out or run.path / "report.html"
    expect(place, FILE)
    return write_page(place, render(RunView(run), level))


def render(view: RunView, level: float = 0.95) -> str:
    """The page as text."""
    drawn = medium(len(view.combinations))
    blobs: list[tuple[str, Markup]] = []
    view.prepare(tables.SUMMARY)
    across = [chart_item(chart, chart.draw(view, drawn), drawn) for chart in RUN_CHARTS]
    lead = [item for item in across if item and item["name"] == summary.CHART.name]
    run_items = [item for item in across if item and item not in lead]
    for name, items in (("lead", lead), ("run", run_items)):
        if items:
            blobs.append((name, pack(items)))
    cells = [_cell(view, cell, i, drawn, blobs) for i, cell in enumerate(view.combinations)]
    source, rationale = provenance.about(view)
    shown, grids = verdicts(view, level), tables.summary_tables(view)
    if not view.swept:  # one cell: its tables stand beside its metrics
        grids += [grid for cell in view.combinations for grid in qos_tables(cell)]
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=view.title,
            source=" · ".join(part for part in (source, provenance.scenario_path(view)) if part),
            asked=question(rationale),
            headline=headline(shown),
            story=story(view, shown),
            lead=_lead(view, lead, cells),
            standing=view.standing,
            facts=provenance.facts(view),
            warnings=provenance.warnings(view),
            sections=[s for s in _SECTIONS if s[0] != "sweep" or run_items],
            verdicts=shown,
            level=percent(level),
            no_verdicts="The scenario makes no claim: it has no expect section."
            if view.run.complete
            else "The run is incomplete. Its claims are judged when it is complete.",
            tables=grids,
            tables_note=_tables_note(view),
            has_run_charts=bool(run_items),
            zeros=metric_by_factor.zero_metrics(view, RUN_CHARTS),
            cells=cells,
            repeats=view.repeats,
            factors=[_Factor(f.name, f.values) for f in view.swept],
            provenance=provenance.provenance(view),
            plans=provenance.plans(view),
            scenario=view.run.scenario,
            blobs=blobs,
            **frame_of(),
        )
    )


@dataclass(frozen=True)
class _Lead:
    """The figure after the outcome: the packed charts, and the one of them to show (empty: all)."""

    blob: str
    chart: str = ""


_OF_CATEGORY = {
    Category.DELAY: ("delay-flows", "rtt", "queue-delay"),
    Category.LOSS: ("loss", "recoveries"),
    Category.FAIRNESS: ("fairness-time", "flow-shares"),
    Category.STABILITY: ("goodput-flows",),
    Category.CONVERGENCE: ("goodput-flows",),
    Category.REACTIVITY: ("cwnd", "goodput-flows"),
    Category.THROUGHPUT: ("page-completion", "completion", "goodput-total"),
}
"""Charts that show a category of metrics over the time of one cell."""


def _lead(view: RunView, lead: list[dict[str, Any]], cells: list[_Cell]) -> _Lead | None:
    """The picture of the leading figures or, in a run of one cell, the chart that shows what most claims are about."""
    if lead:
        return _Lead("lead")
    if not cells or not cells[0].charts:
        return None
    claimed = most_claimed(view.run)
    wanted: tuple[str, ...] = () if claimed is None else _OF_CATEGORY.get(claimed.metric.category, ())
    if claimed is not None and claimed.metric.name.startswith("class."):
        wanted = ("class-delay" if claimed.metric.category is Category.DELAY else "classes", *wanted)
    there = cells[0].charts
    return _Lead("cell-0-data", next((name for name in wanted if name in there), there[0]))


def _tables_note(view: RunView) -> str:
    if view.repeats > 1 and identical_repeats(view.run):
        return (
            f"All {view.repeats} repeats are identical, byte for byte: nothing in this plan is random, and they count "
            "as one."
        )
    if view.repeats > 1:
        return f"Means over {view.counted.have} with their 95 % confidence intervals (Student's t)."
    return "One repeat: no confidence intervals."


def _cell(view: RunView, cell: CellView, number: int, drawn: Medium, blobs: list[tuple[str, Markup]]) -> _Cell:
    full = sum(len(data) for name, data in blobs if name not in ("lead", "run")) > BUDGET
    made = [] if full else [chart_item(chart, chart.draw(cell, drawn), drawn) for chart in CELL_CHARTS]
    items = [item for item in made if item]
    if items:
        blobs.append((f"cell-{number}-data", pack(items)))
    end = round(cell.end_s, 6)
    windows = [("whole run", 0.0, end)]
    windows += [(p.name, p.from_ns / 1e9, p.to_ns / 1e9) for p in cell.plan.phases]
    return _Cell(
        number,
        cell.label,
        json.dumps({f.name: cell.cell.factors.get(f.name, "") for f in view.swept}),
        [*cell.cell.warnings, *cell.problems],
        end if items else 0,
        windows,
        tuple(item["name"] for item in items),
        "left out, so that the page stays small; `weir report --figures` draws them" if full else "",
        [*(qos_tables(cell) if view.swept else ()), *tables.cell_tables(view, cell), *node_tables(cell)],
        _fidelity(view, cell),
    )


def _fidelity(view: RunView, cell: CellView) -> str:
    """The measured error of the method against a real kernel near this cell; empty without a measurement."""
    method = str(view.run.manifest.get("method") or cell.cell.manifest.get("method") or "")
    found = fidelity.nearest(cell.plan, method)
    return "" if found is None else fidelity.describe(found)
