"""Figures for papers: every chart as SVG and PDF of a column's width or another size, and its data as CSV.

A PNG has 300 points an inch. A PDF embeds its fonts. An SVG names Liberation Sans, then Arial and Helvetica, whose
letters have the same widths.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl
import vl_convert

from weir._inside import FOLDER, Folder, expect
from weir.metrics.errors import nearest
from weir.metrics.summary import Figure, summarise
from weir.report import theme
from weir.report.charts import CELL_CHARTS, CHARTS, RUN_CHARTS, Chart, Drawing, Medium
from weir.report.charts.summary import chart_of
from weir.report.errors import ReportError
from weir.report.names import as_text, folder_names, write_index
from weir.report.spec import rows_of, set_width, specification
from weir.report.view import RunView
from weir.run import Run

__all__ = [
    "COLUMN_PT",
    "PAPER",
    "Format",
    "Size",
    "check_formats",
    "figures",
    "render_svg",
    "summary_picture",
    "write_figure",
]

Format = Literal["svg", "pdf", "csv", "png"]
_FORMATS: Sequence[Format] = ("svg", "pdf", "csv")
_PNG_DPI = 300

COLUMN_PT = {1: 252, 2: 516}
"""Width of a figure in a two-column paper, by number of columns it spans; points of 1/72 inch."""

PAPER = Medium(theme.PAPER, buckets=300, map_columns=90, row_height=17, height=100)


@dataclass(frozen=True)
class Size:
    """The size of a figure, in points of 1/72 inch."""

    width_pt: float | None = None
    """Width of a figure, whatever columns it would span; ``None``: that of its columns."""
    height_pt: int | None = None
    """Height of a plot without axes; flat plots, such as the queue above a window, have a share of it."""

    @property
    def medium(self) -> Medium:
        """The medium that charts draw themselves for."""
        return PAPER if self.height_pt is None else replace(PAPER, height=self.height_pt)


_USUAL = Size()


@dataclass(frozen=True)
class _Figure:
    folder: str
    chart: Chart
    drawing: Drawing


def figures(
    run: Run,
    out_dir: Path,
    formats: Sequence[str] = _FORMATS,
    only: Collection[str] | None = None,
    size: Size = _USUAL,
) -> list[Path]:
    """Writes the figures of a run and returns their paths, sorted.

    Charts across the sweep go to ``out_dir``. Charts of a cell go to a folder named after its factors; ``index.csv``
    lists the folders. A run of one cell has no such folder. The same run gives the same bytes.

    Args:
        run: an opened run.
        out_dir: the folder to write to; created if missing.
        formats: any of ``svg``, ``pdf``, ``csv``, ``png``.
        only: names of charts; default all.
        size: of each figure.

    Raises:
        ReportError: no such format or chart.
        OSError: a file cannot be written, or a link stands in place of it or of one of its folders.
    """
    check_formats(formats)
    _check("chart", only or (), [c.name for c in CHARTS])
    view = RunView(run)
    combinations = [cell.cell.factors for cell in view.combinations]
    names = folder_names(combinations) if len(combinations) > 1 else [""] * len(combinations)
    if out_dir.parent.resolve() == run.path.resolve():  # inside the run's own folder, no link can be the user's
        expect(out_dir, FOLDER)
    out_dir.mkdir(parents=True, exist_ok=True)
    with Folder(out_dir) as top:
        written = [write_index(top, names, combinations)] if len(names) > 1 and "csv" in formats else []
        for figure in _drawn(view, names, only, size.medium):
            with top.inner(figure.folder, make=True) if figure.folder else Folder.at(top) as folder:
                written += write_figure(figure.chart, figure.drawing, folder, formats, size)
    return sorted(written)


def summary_picture(
    run: Run,
    figures: Sequence[Figure],
    out_dir: Path,
    formats: Sequence[str] = _FORMATS,
    size: Size = _USUAL,
) -> list[Path]:
    """Writes one picture of ``figures``, a panel each over the factors of the run, and returns its paths, sorted.

    Args:
        run: an opened run.
        figures: the expressions.
        out_dir: the folder to write ``chart.svg``, ``chart.pdf`` and ``chart.csv`` to; created if missing.
        formats: any of ``svg``, ``pdf``, ``csv``, ``png``.
        size: of the picture.

    Raises:
        ReportError: no such format, an expression has no value in this run, or the run has one cell.
        OSError: a file cannot be written, or a link stands in place of it or of one of its folders.
    """
    check_formats(formats)
    view, found = RunView(run), summarise(run, figures)
    if reasons := [one.reason for one in found if one.reason]:
        raise ReportError("; ".join(reasons))
    chart = chart_of(found)
    drawing = chart.draw(view, size.medium)
    if drawing is None:
        raise ReportError("this run has one cell, and nothing to draw its figures over; `weir show -m` prints them")
    if out_dir.parent.resolve() == run.path.resolve():
        expect(out_dir, FOLDER)
    out_dir.mkdir(parents=True, exist_ok=True)
    return sorted(write_figure(chart, drawing, out_dir, formats, size))


def check_formats(formats: Collection[str]) -> None:
    """Verifies the names of formats.

    Raises:
        ReportError: one of them is not a figure format.
    """
    _check("format", formats, get_args(Format))


def _check(what: str, given: Collection[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ReportError(f"no {what} {name!r}.{nearest(name, known)} Expected {', '.join(known)}")


def _drawn(view: RunView, folders: Sequence[str], only: Collection[str] | None, medium: Medium) -> Iterator[_Figure]:
    for chart in RUN_CHARTS:
        if only is None or chart.name in only:
            drawing = chart.draw(view, medium)
            if drawing is not None:
                yield _Figure("", chart, drawing)
    for cell, folder in zip(view.combinations, folders, strict=True):
        for cell_chart in CELL_CHARTS:
            if only is None or cell_chart.name in only:
                drawing = cell_chart.draw(cell, medium)
                if drawing is not None:
                    yield _Figure(folder, cell_chart, drawing)


def write_figure(
    chart: Chart, drawing: Drawing, folder: Path | Folder, formats: Sequence[str], size: Size = _USUAL
) -> list[Path]:
    """Writes one figure to a folder; returns the paths.

    Raises:
        OSError: a file cannot be written.
    """
    contents = _contents(chart, drawing, formats, size)
    with Folder.at(folder) as place:
        return [place.write(name, content, durable=False) for name, content in contents]


def _contents(chart: Chart, drawing: Drawing, formats: Sequence[str], size: Size) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a figure."""
    name = chart.name
    if "csv" in formats:
        for data, frame in drawing.data.items():
            file = f"{name}.csv" if len(drawing.data) == 1 else f"{name}-{data}.csv"
            yield file, _csv(frame, drawing.csv_names)
    if not {"svg", "pdf", "png"}.intersection(formats):
        return
    svg = render_svg(chart, drawing, size)
    if "svg" in formats:
        yield f"{name}.svg", svg.encode()
    if "pdf" in formats:
        yield f"{name}.pdf", _in_order(vl_convert.svg_to_pdf(svg))
    if "png" in formats:
        yield f"{name}.png", vl_convert.svg_to_png(svg, scale=1.0, ppi=_PNG_DPI)


def _csv(frame: pl.DataFrame, names: Mapping[str, str]) -> bytes:
    """The data of a figure as CSV: texts and column names as texts, numbers unchanged."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String or kind == pl.Categorical]
    safe = frame.with_columns(pl.col(name).cast(pl.String).map_elements(as_text, pl.String) for name in texts)
    return safe.rename({name: as_text(names.get(name, name)) for name in frame.columns}).write_csv().encode()


def render_svg(chart: Chart, drawing: Drawing, size: Size = _USUAL) -> str:
    """The figure as SVG, as wide as its columns or ``size`` to within a few points (panels have whole widths)."""
    spec = specification(chart, drawing, PAPER)
    spec["config"]["legend"]["columns"] *= drawing.span
    spec["datasets"] = {name: rows_of(frame) for name, frame in drawing.data.items()}
    wanted = COLUMN_PT[drawing.span] if size.width_pt is None else size.width_pt
    # The size of axes and legends is known only after drawing.
    plot = wanted - 44.0
    set_width(spec, plot, drawing.columns, _spacing(spec))
    missing = wanted - _width(_convert(spec))
    set_width(spec, plot + missing, drawing.columns, _spacing(spec))
    return _convert(spec)


def _spacing(spec: dict[str, Any]) -> float:
    value = spec.get("spacing", 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _convert(spec: dict[str, Any]) -> str:
    svg = str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    # Vega numbers its clip paths and gradients from figure to figure.
    for prefix in ("clip", "gradient_"):
        ids = dict.fromkeys(re.findall(rf'id="({prefix}\d+)"', svg))
        for i, old in enumerate(ids):
            svg = re.sub(rf"\b{old}\b", f"{prefix}-{i}", svg)
    # Nobody has thousands of points read aloud, and their descriptions are most of the file.
    return re.sub(_DESCRIPTION, " ", svg) if svg.count(_POINT) > _MOST_DESCRIBED else svg


def _in_order(pdf: bytes) -> bytes:
    """Sorts the entries of a PDF's resource dictionaries; the converter writes them in any order.

    The total length of the entries does not change, so every offset in the file stays valid.
    """

    def sort(match: re.Match[bytes]) -> bytes:
        return b"".join(sorted(re.findall(_RESOURCE, match[0])))

    return re.sub(b"(?:%s){2,}" % _RESOURCE, sort, pdf)


_POINT = 'aria-roledescription="point"'
_DESCRIPTION = rf' (?:aria-label="[^"]*" )?role="graphics-symbol" {_POINT} '
_MOST_DESCRIBED = 1000
_RESOURCE = rb"\n +/[a-z]+\d+ \d+ 0 R"


def _width(svg: str) -> float:
    match = re.search(r'<svg[^>]*? width="([\d.]+)"', svg)
    return float(match[1]) if match else 0.0
