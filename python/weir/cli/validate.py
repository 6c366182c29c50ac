"""``weir validate``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import (
    console,
    emit_json,
    error_console,
    examples,
    json_option,
    plural,
    print_table,
    verbosity_options,
)
from weir.cli._scenarios import complete_scenario, locate, parse_set, slug

if TYPE_CHECKING:
    from weir.engine import Display
    from weir.validate import Regression, Validation

__all__ = ["command"]

_EPILOG = examples(
    ("weir validate --quick", "a dozen cells of the agreement grid, the simulator against this kernel"),
    ("weir validate --document docs/validation", "the whole grid, and its document; resumable"),
    ("weir validate --cells 40 --seed 2", "another sample of it"),
    ("weir validate --random 20 --seed 7", "scenarios outside any grid"),
    ("weir validate validation/grid --pairs 2 --methods sim,lab", "the published grid, against the kernel"),
    ("weir validate --against docs/validation/grid-sim-lab.json", "for a CI job: fails when fidelity falls"),
    ("weir validate --methods sim,sim@seed=2 --quick", "how much of it is chance"),
    ("weir validate my.yaml --methods sim,lab", "your own cells"),
)
_GRID = "validation/agreement"
_MOST_FAILURES = 12


@click.command(epilog=_EPILOG)
@click.argument("scenario", metavar="[FILE|NAME]", default=_GRID, shell_complete=complete_scenario)
@click.option(
    "--methods", metavar="A,B", help="A is measured against B; by default sim,emul (--against: A of the document)."
)
@click.option("--quick", is_flag=True, help="The quick version, a dozen cells that represent all.")
@click.option("--cells", type=click.IntRange(1), metavar="N", help="An even sample of N combinations of factors.")
@click.option(
    "--pairs", type=click.IntRange(1), metavar="N", help="Cells in which every two values of two factors meet N times."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the sample, or of the draws.")
@click.option("--random", "drawn", type=click.IntRange(1), metavar="N", help="N scenarios drawn outside any grid.")
@click.option("--most", metavar="RATE", default="1Gbps", show_default=True, help="Largest rate of a drawn scenario.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value; may be repeated.")
@click.option(
    "--chance", type=click.IntRange(2), metavar="N", help="N seeds of the method A tell which errors are chance."
)
@click.option(
    "--against",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="JSON",
    help="End with 1 if errors are larger than those of a document: its cells executed anew, by A or --methods.",
)
@click.option(
    "--within",
    "limits",
    multiple=True,
    metavar="ERROR=SHARE",
    help="End with 1 if nine cells in ten are not within it.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder of the runs; by default runs/validate/NAME.")
@click.option(
    "--document", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Write NAME.md, its figures and data."
)
@click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a comparison (HTML).")
@click.option("-j", "--workers", type=click.IntRange(1), help="Processes; by default one a processor.")
@click.option("--fresh", is_flag=True, help="Replace runs that the folder holds.")
@click.option("--force", is_flag=True, help="Also cells that this machine does not carry in real time.")
@json_option
@verbosity_options
def command(
    scenario: str,
    methods: str | None,
    quick: bool,
    cells: int | None,
    pairs: int | None,
    seed: int,
    drawn: int | None,
    most: str,
    overrides: tuple[str, ...],
    chance: int | None,
    against: Path | None,
    limits: tuple[str, ...],
    out: Path | None,
    folder: Path | None,
    page: Path | None,
    workers: int | None,
    fresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Execute the same cells by two methods, and measure how far the first is from the second.

    An interrupted validation is continued by the same command; a larger sample takes over the cells of a smaller one.
    """
    from weir import engine, validate

    shown = engine.display(quiet=quiet, verbose=verbose > 0)
    if against is not None:
        _check_against(against, methods, cells, seed, overrides, workers, shown, as_json=as_json)
        return
    allowed = _limits(limits)
    if sum(number is not None for number in (drawn, cells, pairs)) > 1:
        raise click.UsageError("--random, --cells and --pairs all say how many; give one of them")
    methods = methods or "sim,emul"
    name = (
        f"random-{seed}"
        if drawn is not None
        else slug(scenario, version="quick" if quick else "full").removeprefix("validation-")
    )
    sides = validate.parse_sides(methods)
    job = validate.Job(
        name=f"{name}-{sides[0].folder}-{sides[1].folder}",
        scenario=None if drawn is not None else locate(scenario),
        methods=methods,
        quick=quick,
        cells=drawn if drawn is not None else cells,
        pairs=pairs,
        chance=chance,
        seed=seed,
        overrides=parse_set(overrides),
        most_bps=_rate(most),
    )
    place = out or Path("runs") / "validate" / name
    validation = validate.execute(job, place, workers=workers, fresh=fresh, force=force, display=shown)
    if as_json:
        emit_json(validation.to_json())
    else:
        _print(validation, verbose=verbose)
    say = error_console() if as_json else console()
    if folder is not None:
        written = validate.document(validation, folder, _command_line())
        say.print(f"document: {written[0]}", style="bold")
    if page is not None:
        say.print(f"report: {validation.comparison.report(page)}", style="bold")
    beyond = _beyond(validation, allowed)
    for text in beyond:
        say.print(text, style="red")
    if beyond or validation.failures:
        raise click.exceptions.Exit(_errors.FAILED)


def _check_against(
    file: Path,
    methods: str | None,
    cells: int | None,
    seed: int,
    overrides: tuple[str, ...],
    workers: int | None,
    display: Display,
    *,
    as_json: bool,
) -> None:
    """Ends with 1 if errors are larger than the published ones."""
    from weir import validate

    stored = validate.read_stored(file).some(cells, seed)
    found = validate.check(
        stored, locate, methods=methods, overrides=parse_set(overrides), workers=workers, display=display
    )
    if as_json:
        emit_json(found.to_json())
    else:
        _print_regression(found)
    if found.failures:
        raise click.exceptions.Exit(_errors.FAILED)


def _print_regression(found: Regression) -> None:
    from weir.validate import ERRORS, error_text

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


def _limits(texts: tuple[str, ...]) -> dict[str, float]:
    from weir.metrics.errors import nearest
    from weir.run.quantity import ONE, parse_quantity
    from weir.validate import ERRORS

    known = [kind.name for kind in ERRORS]
    found = {}
    for text in texts:
        name, _, amount = text.partition("=")
        quantity = parse_quantity(amount)
        if name not in known:
            raise click.BadParameter(f"no error {name!r}.{nearest(name, known)}", param_hint="--within")
        if quantity is None or quantity.dimension != ONE:
            raise click.BadParameter(f"{text!r}: expected a share, as in {name}=5%", param_hint="--within")
        found[name] = quantity.value
    return found


def _rate(text: str) -> float:
    from weir.run.quantity import RATE, parse_quantity

    quantity = parse_quantity(text)
    if quantity is None or quantity.dimension != RATE or quantity.value <= 10e6:
        raise click.BadParameter(f"{text!r}: expected a rate above 10Mbps, such as 500Mbps", param_hint="--most")
    return quantity.value


def _command_line() -> str:
    """The command that gives this validation again."""
    return shlex.join(["weir", *sys.argv[1:]])


def _print(validation: Validation, *, verbose: int) -> None:
    from weir.validate import ERRORS, error_text, interval_text

    out = console()
    test, reference = validation.sides
    out.print(f"{test.text} against {reference.text}: {plural(len(validation.cells), 'cell')}", style="bold")
    out.print()
    summaries = validation.summary()
    rows = []
    for kind in ERRORS:
        some = summaries.get(kind.name)
        if some is None:
            continue
        numbers = [
            error_text(kind, some.median),
            interval_text(kind, some.median_interval),
            error_text(kind, some.p90),
            interval_text(kind, some.p90_interval),
            error_text(kind, some.worst),
        ]
        aim = "" if some.aim is None else error_text(kind, some.aim.p90)
        within = "" if some.within is None else f"{100 * some.within:.0f} %"
        met = {None: "", True: "yes", False: "no"}[some.met]
        rows.append([kind.name, *numbers, str(some.cells), aim, within, met])
    head = ["error", "median", "95 % interval", "90th percentile", "95 % interval", "worst", "cells", "aim"]
    head += ["within it", "aims met"]
    print_table(head, rows, right=range(1, len(head)))
    _print_worst(validation, len(validation.cells) if verbose else 6)
    if validation.left_out:
        count = plural(len(validation.left_out), "run")
        out.print(
            f"left out: {count} that this machine does not carry, such as {validation.left_out[0]}", style="yellow"
        )
    for failure in validation.failures:
        out.print(f"failed: {failure}", style="red")
    warned = sum(bool(cell.warnings) for cell in validation.cells)
    if warned:
        text = next(cell.warnings[0] for cell in validation.cells if cell.warnings)
        out.print(f"warning: {plural(warned, 'cell')} with warnings, such as: {text}", style="yellow")


def _print_worst(validation: Validation, number: int) -> None:
    from weir.validate import ERRORS, error_text

    numbers = validation.worst("goodput_error", number)
    if not numbers:
        return
    kinds = [kind for kind in ERRORS if kind.name in validation.summary()]
    factors = list(dict.fromkeys(name for cell in validation.cells for name in cell.factors))
    rows = []
    for cell in (validation.cells[i] for i in numbers):
        values = [cell.factors.get(name, "") for name in factors]
        rows.append([*values, *(error_text(kind, cell.errors[kind.name]) for kind in kinds)])
    console().print()
    console().print("cells with the largest errors of goodput", style="bold")
    titles = [kind.name.removesuffix("_error") for kind in kinds]
    print_table([*factors, *titles], rows, right=range(len(factors), len(factors) + len(kinds)))


def _beyond(validation: Validation, limits: dict[str, float]) -> list[str]:
    from weir.validate import ERRORS, error_text

    found = []
    summaries = validation.summary()
    for kind in ERRORS:
        most = limits.get(kind.name)
        if most is None:
            continue
        some = summaries.get(kind.name)
        if some is None:
            found.append(f"{kind.name}: no cell defines it")
        elif some.p90 > most:
            found.append(
                f"{kind.name}: nine cells in ten within {error_text(kind, some.p90)}, not {error_text(kind, most)}"
            )
    return found
