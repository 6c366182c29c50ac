"""``weir report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir._inside import FILE, FOLDER, expect
from weir.cli._common import console, examples, plural, verbosity_options, verify_option

if TYPE_CHECKING:
    from weir.run import Run

__all__ = ["command"]

_EPILOG = examples(
    ("weir report runs/A-large-flows", "write report.html into the run's folder"),
    ("weir report runs/A-large-flows --open", "and open it in the browser"),
    ("weir report runs/A-large-flows --figures", "also write every figure as SVG and PDF, for a paper"),
    ("weir report runs/A-large-flows --chart 'jain@twelve, rtt.p99'", "write one picture of these, instead"),
)


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--figures", is_flag=True, help="Also write every figure as SVG and PDF, with its data as CSV.")
@click.option("--only", multiple=True, metavar="CHART", help="With --figures: write only this chart; repeatable.")
@click.option(
    "--chart",
    metavar="EXPR,EXPR",
    help="Write one picture of these expressions over the factors, as figures/chart.svg, .pdf and .csv; no report.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the output. Default: DIR.")
@click.option("--open", "open_it", is_flag=True, help="Open the report in the browser.")
@verify_option
@verbosity_options
def command(
    folder: Path,
    figures: bool,
    only: tuple[str, ...],
    chart: str | None,
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

    run = open_run(folder, quiet=quiet, verify=verify)
    target = out or folder
    target.mkdir(parents=True, exist_ok=True)
    if chart is not None:
        _draw(run, chart, target / "figures")
        return
    expect(target / "report.html", FILE)
    if figures:
        expect(target / "figures", FOLDER)
    page = report.build(run, target / "report.html")
    console().print(f"report: {page}")
    if figures:
        written = report.figures(run, target / "figures", only=only or None)
        console().print(f"{plural(len(written), 'file')}: {target / 'figures'}")
        for path in written if verbose else ():
            console().print(f"  {path}")
    if open_it:
        click.launch(str(page.absolute()))


def _draw(run: Run, chart: str, folder: Path) -> None:
    """Writes one picture of the expressions in ``chart`` to ``folder``."""
    from weir import report
    from weir.metrics.summary import parse_figures

    written = report.summary_picture(run, parse_figures(chart), folder)
    console().print(f"chart: {', '.join(str(path) for path in written)}")
