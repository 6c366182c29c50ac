"""``weir revalidate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import console, emit_json, examples, json_option, plural, print_table, verbosity_options
from weir.cli._scenarios import locate, parse_set

if TYPE_CHECKING:
    from weir.study.validation import Regression

__all__ = ["command"]

_EPILOG = examples(
    ("weir revalidate docs/validation/grid-sim-lab.json", "fail if fidelity has fallen, for CI"),
    (
        "weir revalidate docs/validation/grid-sim-lab.json --cells 12 --method sim,lab",
        "execute the reference again, too",
    ),
    ("weir revalidate my.json --set transport.initial_window=2", "verify that a change for the worse is noticed"),
)
_MAX_FAILURES = 12


@click.command(epilog=_EPILOG)
@click.argument("file", metavar="JSON", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--method", "methods", metavar="A,B", help="Execute the reference again, too. Default: A alone.")
@click.option("--cells", type=click.IntRange(1), metavar="N", help="Execute N random cells of it.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the sample.")
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value for A alone; repeatable."
)
@click.option("-j", "--workers", type=click.IntRange(1), help="Number of processes. Default: one for each processor.")
@json_option
@verbosity_options
def command(
    file: Path,
    methods: str | None,
    cells: int | None,
    seed: int,
    overrides: tuple[str, ...],
    workers: int | None,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Execute the cells of a published validation again, and compare the errors with the published ones.

    JSON is the file that `weir validate --document` wrote. It contains the reference's results, so that only the tested
    method runs again. Exits with 1 if errors have grown.
    """
    from weir import engine
    from weir.study import How
    from weir.study.validation import check, read_stored

    found = check(
        read_stored(file).some(cells, seed),
        locate,
        methods=methods,
        overrides=parse_set(overrides),
        how=How(workers, display=lambda: engine.display(quiet=quiet, verbose=verbose > 0)),
    )
    if as_json:
        emit_json(found.to_json())
    else:
        _print(found)
    if found.failures:
        raise click.exceptions.Exit(_errors.FAILED)


def _print(found: Regression) -> None:
    from weir.study.validation import ERRORS, error_text

    out, stored = console(), found.stored
    count = plural(len(stored.cells), "cell")
    out.print(f"{count} of {stored.path}, measured on {stored.data['date']}; {found.same} unchanged", style="bold")
    out.print()
    kinds = {kind.name: kind for kind in ERRORS}
    rows = []
    for change in found.changes:
        sides = [(s.median, s.p90, s.worst) for s in (change.before, change.now)]
        texts = [error_text(kinds[change.name], v) for pair in zip(*sides, strict=True) for v in pair]
        rows.append([change.name, *texts])
    head = ["error", "median: was", "is", "90th percentile: was", "is", "worst: was", "is"]
    print_table(head, rows, right=range(1, 7))
    for note in found.notes:
        out.print(f"note: {note}", style="yellow")
    for text in found.failures[:_MAX_FAILURES]:
        out.print(text, style="red")
    if len(found.failures) > _MAX_FAILURES:
        out.print(f"and {len(found.failures) - _MAX_FAILURES} more", style="red")
