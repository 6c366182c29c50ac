"""``weir cc compare``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import console, emit_json, error_console, examples, json_option, print_table, verbosity_options
from weir.cli._scenarios import locate, parse_set

if TYPE_CHECKING:
    from weir.study.validation.controls import Variants

__all__ = ["command"]

_SCENARIO = "validation/variants"
_EXAMPLES = examples(
    ("weir cc compare --quick", "all that both have, in about a minute"),
    ("weir cc compare bic htcp", "only these"),
    ("weir cc compare ./my_cc.c", "your own, in the lab and in the simulator"),
    ("weir cc compare ./my_cc.c --with linux:westwood", "and one of the kernel's"),
    ("weir cc compare --document docs/validation", "also write the document"),
)


@click.command("compare", epilog=_EXAMPLES)
@click.argument("chosen", metavar="[NAME]...", nargs=-1)
@click.option("--with", "reference", metavar="linux:NAME", help="Also compare with this control of the kernel.")
@click.option("--quick", is_flag=True, help="Execute short runs at one round-trip time.")
@click.option(
    "--scenario", default=_SCENARIO, metavar="FILE", help="Execute this scenario instead; it must sweep transport.cc."
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value; repeatable.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder of the runs. Default: runs/cc-compare.")
@click.option(
    "--document",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write variants.md with figures and data into DIR.",
)
@click.option("-j", "--workers", type=click.IntRange(1), help="Number of processes. Default: one for each processor.")
@click.option("--fresh", is_flag=True, help="Replace the runs in the folder.")
@json_option
@verbosity_options
def command(
    chosen: tuple[str, ...],
    reference: str | None,
    quick: bool,
    scenario: str,
    overrides: tuple[str, ...],
    out: Path | None,
    folder: Path | None,
    workers: int | None,
    fresh: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Compare weir's congestion controls with the kernel's of the same names, trace by trace, in the lab.

    NAME is one of weir's, or the path of your own C file. Your own is compared between the lab and the simulator, and
    with the kernel's control given by --with. The default is all controls of the scenario.

    weir executes the same plans with `linux:NAME`, with `NAME` as its paper defines it, and with its option `as_linux`;
    the last two also in the simulator. The plans have scripted losses, two flows that share a queue, random losses,
    outages, pauses and marks. Needs the lab (`weir lab status`).

    Exits with 1 if a cell failed; the tables are then about the others.
    """
    from weir import engine
    from weir.study import Grid, How, StudyError
    from weir.study.validation import controls

    file, changes = locate(scenario), parse_set(overrides)
    try:
        names = controls.names(chosen) if chosen else controls.named_in(file, changes, quick=quick)
    except StudyError as error:
        raise click.BadParameter(str(error), param_hint="NAME" if chosen else "--scenario") from error
    against = _against(reference, chosen)
    place = out or Path("runs") / "-".join(filter(None, ["cc-compare", "quick" if quick else "", against]))
    grid = Grid(file, quick=quick, overrides=changes, claims=True)
    how = How(workers, fresh, display=lambda: engine.display(quiet=quiet, verbose=verbose > 0))
    found = controls.execute(grid, names, place, how, against)
    if as_json:
        emit_json(found.to_json())
    else:
        _print(found, reference)
    if folder is not None:
        written = controls.document(found, folder, shlex.join(["weir", *sys.argv[1:]]))
        (error_console() if as_json else console()).print(f"document: {written[0]}", style="bold")
    if found.failures:
        raise click.exceptions.Exit(_errors.FAILED)


def _against(reference: str | None, chosen: tuple[str, ...]) -> str | None:
    """The kernel's congestion control named by --with."""
    from weir.study import StudyError
    from weir.study.validation import controls

    if reference is None:
        return None
    if not chosen:
        raise click.UsageError("--with needs a NAME to compare with it")
    try:
        return controls.kernels(reference)
    except StudyError as error:
        raise click.BadParameter(str(error), param_hint="--with") from error


def _print(found: Variants, reference: str | None) -> None:
    from weir.study.validation.controls import HEAD, PAIRS, fields

    for pair in PAIRS:
        rows = found.of(pair)
        if rows:
            title = pair.title
            if reference is not None:
                title = title.replace("the kernel's", reference).replace("weir's", "in the lab, the chosen one")
            console().print(title, style="bold")
            factors = list(rows[0].factors)
            body = [[*row.factors.values(), *(text.strip("*") for text in fields(row))] for row in rows]
            print_table((*factors, *HEAD), body, right=range(len(factors), len(factors) + len(HEAD)))
            console().print()
    for failure in found.failures:
        console().print(f"failed: {failure}", style="red", markup=False, highlight=False)
