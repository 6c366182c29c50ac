"""``weir report``."""

from __future__ import annotations

from pathlib import Path

import click

from weir._inside import FILE, FOLDER, expect
from weir.cli._common import console, examples, plural, verbosity_options, verify_option

__all__ = ["command"]

_EPILOG = examples(
    ("weir report runs/A-large-flows", "write report.html into the run's folder"),
    ("weir report runs/A-large-flows --open", "and open it in the browser"),
    ("weir report runs/A-large-flows --figures", "also write every figure as SVG and PDF, for a paper"),
)


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--figures", is_flag=True, help="Also write every figure as SVG and PDF, with its data as CSV.")
@click.option("--only", multiple=True, metavar="CHART", help="With --figures: write only this chart; repeatable.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the output. Default: DIR.")
@click.option("--open", "open_it", is_flag=True, help="Open the report in the browser.")
@verify_option
@verbosity_options
def command(
    folder: Path,
    figures: bool,
    only: tuple[str, ...],
    out: Path | None,
    open_it: bool,
    verify: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Build the report of the run in DIR: one HTML file that works offline."""
    from weir import report
    from weir.cli._runs import open_run

    run = open_run(folder, quiet=quiet, verify=verify)
    target = out or folder
    target.mkdir(parents=True, exist_ok=True)
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
