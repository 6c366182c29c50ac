"""``weir report``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir._files import made_folder
from weir._inside import FILE, FOLDER, expect
from weir.cli._common import console, examples, plural, verbosity_options, verify_option

if TYPE_CHECKING:
    from weir.report import Size
    from weir.run import Run

__all__ = ["command"]

_EPILOG = examples(
    ("weir report runs/A-large-flows", "write report.html into the run's folder"),
    ("weir report runs/A-large-flows --open", "and open it in the browser"),
    ("weir report runs/A-large-flows --figures", "also write every figure as SVG and PDF, for a paper"),
    ("weir report runs/A-large-flows --figures --only cwnd --width 85mm --format pdf,png", "one chart, of this size"),
    ("weir report runs/A-large-flows --chart 'jain@twelve, rtt.p99'", "write one picture of these, instead"),
)

_FORMATS = ("svg", "pdf", "csv")
_POINTS = {"pt": 1.0, "mm": 72 / 25.4, "cm": 72 / 2.54, "in": 72.0}
_LEAST_PT, _MOST_PT = 20, 10_000


class _Formats(click.ParamType[tuple[str, ...]]):
    """Formats, separated by commas."""

    name = "formats"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Verifies the names."""
        if isinstance(value, tuple):
            return value
        from weir.report import ReportError
        from weir.report.figures import check_formats

        formats = tuple(part.strip() for part in str(value).split(","))
        try:
            check_formats(formats)
        except ReportError as error:
            self.fail(str(error), param, ctx)
        return formats


class _Length(click.ParamType[float]):
    """A length with its unit; points of 1/72 inch."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parses a text such as ``85mm``."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?) ?(pt|mm|cm|in)", str(value))
        points = float(match[1]) * _POINTS[match[2]] if match else 0.0
        if not _LEAST_PT <= points <= _MOST_PT:
            self.fail(f"{value!r} is no length between {_LEAST_PT} and {_MOST_PT} pt, such as 85mm, 3.3in or 252pt")
        return points


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--figures", is_flag=True, help="Also write every figure as SVG and PDF, with its data as CSV.")
@click.option("--only", multiple=True, metavar="CHART", help="With --figures: write only this chart; repeatable.")
@click.option(
    "--chart",
    metavar="EXPR,EXPR",
    help="Write one picture of these expressions over the factors, as figures/chart.svg, .pdf and .csv; no report.",
)
@click.option(
    "--format", "formats", type=_Formats(), metavar="A,B", help="Of figures: svg, pdf, png, csv. Default: all but png."
)
@click.option(
    "--width",
    type=_Length(),
    metavar="LENGTH",
    help="Of a figure, such as 85mm. Default: one or two columns of a paper.",
)
@click.option("--height", type=_Length(), metavar="LENGTH", help="Of a plot in a figure, without axes, such as 40mm.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the output. Default: DIR.")
@click.option("--open", "open_it", is_flag=True, help="Open the report in the browser.")
@verify_option
@verbosity_options
def command(
    folder: Path,
    figures: bool,
    only: tuple[str, ...],
    chart: str | None,
    formats: tuple[str, ...] | None,
    width: float | None,
    height: float | None,
    out: Path | None,
    open_it: bool,
    verify: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Build the report of the run in DIR: one HTML file that works offline.

    --chart accepts what the `summary` of a scenario does: metrics, arithmetic, functions over a factor
    (docs/checks.md), separated by commas.
    """
    from weir import report
    from weir.cli._runs import open_run

    if not figures and chart is None and (formats or width or height):
        raise click.UsageError("--format, --width and --height need --figures or --chart")
    size = report.Size(width, None if height is None else round(height))
    run = open_run(folder, quiet=quiet, verify=verify)
    target = out or folder
    with made_folder(target):
        if chart is not None:
            _draw(run, chart, target / "figures", formats or _FORMATS, size)
            return
        expect(target / "report.html", FILE)
        if figures:
            expect(target / "figures", FOLDER)
            written = report.figures(run, target / "figures", formats or _FORMATS, only or None, size)
        page = report.build(run, target / "report.html")
    console().print(f"report: {page}")
    if figures:
        console().print(f"{plural(len(written), 'file')}: {target / 'figures'}")
        for path in written if verbose else ():
            console().print(f"  {path}")
    if open_it:
        click.launch(str(page.absolute()))


def _draw(run: Run, chart: str, folder: Path, formats: Sequence[str], size: Size) -> None:
    """Writes one picture of the expressions in ``chart`` to ``folder``."""
    from weir import report
    from weir.metrics.summary import parse_figures

    written = report.summary_picture(run, parse_figures(chart), folder, formats, size)
    console().print(f"chart: {', '.join(str(path) for path in written)}")
