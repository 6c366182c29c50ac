"""``weir open``."""

from __future__ import annotations

from pathlib import Path

import click

from weir.cli._common import console, examples

__all__ = ["command"]


@click.command(
    epilog=examples(
        ("weir open runs/my.weir.tar.gz", "unpack a run into ./my, and build its report"),
        ("weir open my.weir.tar.gz --out old/my --open", "into another folder, and open the report in the browser"),
    )
)
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder, which must not exist. Default: the run's name."
)
@click.option("--no-report", is_flag=True, help="Do not build report.html.")
@click.option("--open", "open_it", is_flag=True, help="Open the report in the browser.")
def command(archive: Path, out: Path | None, no_report: bool, open_it: bool) -> None:
    """Unpack an archive of a run (`weir hosts archive`), verify it, and build its report.

    An archive may be a stranger's: only what its list names is written, and only into the folder.
    """
    from weir.archive import unpack

    folder = unpack(archive, out)
    console().print(f"run: {folder}")
    if no_report:
        return
    from weir import report
    from weir.cli._runs import open_run

    page = report.build(open_run(folder, quiet=True), folder / "report.html")
    console().print(f"report: {page}", style="bold")
    if open_it:
        click.launch(str(page.absolute()))
