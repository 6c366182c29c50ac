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
    ("weir revalidate docs/validation/grid-sim-lab.json", "for a CI job: fails when fidelity falls"),
    ("weir revalidate docs/validation/grid-sim-lab.json --cells 12 --method sim,lab", "the reference anew, too"),
    ("weir revalidate my.json --set transport.initial_window=2", "to see that a change is noticed"),
)
_MOST_FAILURES = 12


@click.command(epilog=_EPILOG)
@click.argument("file", metavar="JSON", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--method", "methods", metavar="A,B", help="Execute the reference anew, too; by default A alone.")
@click.option("--cells", type=click.IntRange(1), metavar="N", help="N of its cells, drawn at random.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the sample.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value for A; repeatable.")
@click.option("-j", "--workers", type=click.IntRange(1), help="Processes; by default one a processor.")
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
    """Execute the cells of a published validation anew, and compare the errors with the published ones.

    JSON is what `weir validate --document` wrote. It holds what the reference measured, so that the method that was
    tested is executed alone. Ends with 1 if errors are larger than they were.
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
    for text in found.failures[:_MOST_FAILURES]:
        out.print(text, style="red")
    if len(found.failures) > _MOST_FAILURES:
        out.print(f"and {len(found.failures) - _MOST_FAILURES} more", style="red")
