"""Puts a report together: one HTML file that holds its data, its charts' definitions and the code that draws them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from weir.report import provenance, tables, theme
from weir.report.charts import CELL_CHARTS, RUN_CHARTS, Chart, Drawing, Medium
from weir.report.spec import columns_of, specification
from weir.report.verdicts import headline, verdicts
from weir.report.view import CellView, RunView
from weir.run import Run

__all__ = ["build", "medium"]

BUDGET = 8_000_000
"""Characters of chart data after which further cells have tables only."""

_ASSETS = Path(__file__).parent / "assets"
_SECTIONS = [
    ("verdicts", "Verdicts"),
    ("tables", "Summary"),
    ("sweep", "Sweep"),
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
    has_charts: bool
    left_out: str
    tables: list[tables.Grid]


@dataclass(frozen=True)
class _Factor:
    name: str
    values_: tuple[str, ...]


def medium(combinations: int) -> Medium:
    """The page: the more cells it holds, the fewer points each series keeps."""
    buckets = 600 if combinations <= 4 else 480 if combinations <= 24 else 300 if combinations <= 60 else 200
    return Medium(theme.PAGE, buckets, min(100, buckets // 3), 34, 170)


def build(run: Run, out: Path | None = None) -> Path:
    """Writes the report of a run and returns its path.

    The page is one file: it works offline and loads nothing. The same run gives the same bytes.

    Args:
        run: an opened run.
        out: where to write; default ``report.html`` in the run's folder.

    Raises:
        OSError: the file cannot be written.
    """
    path = out or run.path / "report.html"
    text = render(RunView(run))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path


def render(view: RunView) -> str:
    """The page as text."""
    drawn = medium(len(view.combinations))
    blobs: list[tuple[str, Markup]] = []
    view.prepare(tables.SUMMARY)
    across = [_item(chart, chart.draw(view, drawn), drawn) for chart in RUN_CHARTS]
    run_items = [item for item in across if item]
    if run_items:
        blobs.append(("run", _pack(run_items)))
    cells = [_cell(view, cell, i, drawn, blobs) for i, cell in enumerate(view.combinations)]
    source, rationale = provenance.about(view)
    shown, grids = verdicts(view), tables.summary_tables(view)
    css = (_ASSETS / "report.css").read_text(encoding="utf-8")
    script = (_ASSETS / "report.js").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=view.title,
            source=" · ".join(part for part in (source, _path(view)) if part),
            rationale=rationale,
            headline=headline(shown),
            facts=provenance.facts(view),
            warnings=provenance.warnings(view),
            sections=[s for s in _SECTIONS if s[0] != "sweep" or run_items],
            verdicts=shown,
            no_verdicts="The scenario makes no claim: it has no expect section."
            if view.run.complete
            else "The run is not complete: its claims are judged when it is.",
            tables=grids,
            tables_note=_tables_note(view),
            has_run_charts=bool(run_items),
            cells=cells,
            repeats=view.repeats,
            factors=[_Factor(f.name, f.values) for f in view.swept],
            provenance=provenance.provenance(view),
            plans=provenance.plans(view),
            scenario=view.run.scenario,
            version=metadata.version("weir") if _installed() else "",
            blobs=blobs,
            css=Markup(css),
            library=Markup(_library()),
            script=Markup(script),
            csp=_policy(css, _library(), script),
        )
    )


def _installed() -> bool:
    try:
        metadata.version("weir")
    except metadata.PackageNotFoundError:
        return False
    return True


def _tables_note(view: RunView) -> str:
    if view.repeats > 1:
        return f"Means over {view.repeats} repeats, ± half of the 95 % confidence interval (Student's t)."
    return "One repeat: no confidence intervals."


def _path(view: RunView) -> str:
    scenario = view.run.manifest.get("scenario")
    path = scenario.get("path") if isinstance(scenario, dict) else scenario
    return str(path) if isinstance(path, str) and "\n" not in path else ""


def _cell(view: RunView, cell: CellView, number: int, drawn: Medium, blobs: list[tuple[str, Markup]]) -> _Cell:
    full = sum(len(data) for name, data in blobs if name != "run") > BUDGET
    made = [] if full else [_item(chart, chart.draw(cell, drawn), drawn) for chart in CELL_CHARTS]
    items = [item for item in made if item]
    if items:
        blobs.append((f"cell-{number}-data", _pack(items)))
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
        bool(items),
        "left out, so that the page stays small; `weir report --figures` draws them" if full else "",
        tables.cell_tables(view, cell),
    )


def _item(chart: Chart, drawing: Drawing | None, drawn: Medium) -> dict[str, Any] | None:
    if drawing is None:
        return None
    return {
        "name": chart.name,
        "title": chart.title,
        "section": chart.section,
        "caption": chart.caption,
        "notes": list(drawing.notes),
        "columns": drawing.columns,
        "panel": drawing.panel_width,
        "half": drawing.half,
        "spec": specification(chart, drawing, drawn),
        "data": {name: columns_of(frame) for name, frame in drawing.data.items()},
        "csv": dict(drawing.csv_names),
    }


def _pack(items: list[dict[str, Any]]) -> Markup:
    text = json.dumps(items, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii"))


@lru_cache(maxsize=1)
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _policy(css: str, *scripts: str) -> str:
    """Nothing may be loaded; only these very scripts and this style sheet are used."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; style-src {digest(css)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    macros: Any = environment.get_template("table.html.j2").module
    environment.globals["render_table"] = macros.render_table
    return environment
