"""``weir validate``."""

from __future__ import annotations

import re
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
    renamed,
    verbosity_options,
)
from weir.cli._scenarios import complete_scenario, locate, parse_set, slug

if TYPE_CHECKING:
    from weir.study.validation import Validation

__all__ = ["command"]

_EPILOG = examples(
    ("weir validate --quick", "the simulator against this kernel, a dozen cells of the agreement grid"),
    ("weir validate --document docs/validation", "the whole grid, with its document; the same command continues"),
    ("weir validate --cells 40 --seed 2", "another sample of the grid"),
    ("weir validate --draws 20 --seed 7", "scenarios outside any grid"),
    (
        "weir validate validation/grid --pairs 2 --method sim,lab",
        "the published grid, against the kernel in virtual time",
    ),
    ("weir validate --method sim,sim@seed=2 --quick", "the effect of chance alone"),
    ("weir validate my.yaml --method sim,lab", "your own cells"),
)
_GRID = "validation/agreement"
_SIDES = "sim,emul"


@click.command(epilog=_EPILOG)
@click.argument("scenario", metavar="[FILE|NAME]", default=_GRID, shell_complete=complete_scenario)
@click.option("--method", "methods", metavar="A,B", default=_SIDES, show_default=True, help="Measure A against B.")
@click.option("--quick", is_flag=True, help="Execute the quick version, a dozen representative cells.")
@click.option(
    "--cells", type=click.IntRange(1), metavar="N", help="Execute an even sample of N combinations of factors."
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    metavar="N",
    help="Execute cells in which any two values of two factors meet N times.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the sample or of the draws."
)
@click.option("--draws", type=click.IntRange(1), metavar="N", help="Execute N random scenarios outside any grid.")
@click.option(
    "--max-rate", metavar="RATE", default="1Gbps", show_default=True, help="Largest rate of a random scenario."
)
@click.option("--cc", "ccs", metavar="A,B", help="Congestion controls of random scenarios.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value; repeatable.")
@click.option("--seeds", type=click.IntRange(2), metavar="N", help="Execute A with N seeds to find errors by chance.")
@click.option(
    "--within",
    "limits",
    multiple=True,
    metavar="ERROR=SHARE",
    help="Exit with 1 unless nine cells in ten are within it.",
)
@click.option("--name", "named", metavar="NAME", help="Name of the results. Default: the scenario's.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder of the runs. Default: runs/validate/NAME.")
@click.option(
    "--document",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write NAME.md with figures and data into DIR.",
)
@click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a comparison as HTML.")
@click.option("-j", "--workers", type=click.IntRange(1), help="Number of processes. Default: one for each processor.")
@click.option("--fresh", is_flag=True, help="Replace the runs in the folder.")
@click.option("--force", is_flag=True, help="Execute even cells that this machine cannot carry in real time.")
@renamed("--methods", "--method")
@renamed("--random", "--draws")
@renamed("--most", "--max-rate")
@renamed("--chance", "--seeds")
@renamed("--against", "a command of its own: weir revalidate FILE")
@json_option
@verbosity_options
def command(
    scenario: str,
    methods: str,
    quick: bool,
    cells: int | None,
    pairs: int | None,
    seed: int,
    draws: int | None,
    max_rate: str,
    ccs: str | None,
    overrides: tuple[str, ...],
    seeds: int | None,
    limits: tuple[str, ...],
    named: str | None,
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
    """Execute the same cells by two methods, and measure the first method's error against the second.

    The same command continues an interrupted validation. A larger sample reuses the cells of a smaller one.
    """
    from weir import engine
    from weir.study import CCS, How, parse_sides
    from weir.study import validation as package

    allowed = _limits(limits)
    if sum(number is not None for number in (draws, cells, pairs)) > 1:
        raise click.UsageError("give only one of --draws, --cells and --pairs")
    if ccs is not None and draws is None:
        raise click.UsageError("--cc needs --draws; a scenario's own controls are --set 'sweep.transport.cc=[A, B]'")
    name = named or (
        f"random-{seed}"
        if draws is not None
        else slug(scenario, version="quick" if quick else "full").removeprefix("validation-")
    )
    if named is not None and not re.fullmatch("[A-Za-z0-9][A-Za-z0-9-]*", named):
        raise click.BadParameter(f"{named!r}: expected letters, digits and hyphens", param_hint="--name")
    sides = parse_sides(methods)
    job = package.Job(
        name=f"{name}-{sides[0].folder}-{sides[1].folder}",
        scenario=None if draws is not None else locate(scenario),
        methods=methods,
        quick=quick,
        cells=draws if draws is not None else cells,
        pairs=pairs,
        chance=seeds,
        seed=seed,
        overrides=parse_set(overrides),
        most_bps=_rate(max_rate),
        ccs=CCS if ccs is None else tuple(name.strip() for name in ccs.split(",")),
    )
    place = out or Path("runs") / "validate" / name
    how = How(workers, fresh, force, display=lambda: engine.display(quiet=quiet, verbose=verbose > 0))
    validation = package.execute(job, place, how)
    if as_json:
        emit_json(validation.to_json())
    else:
        _print(validation, verbose=verbose)
    say = error_console() if as_json else console()
    if folder is not None:
        written = package.document(validation, folder, _command_line())
        say.print(f"document: {written[0]}", style="bold")
    if page is not None:
        say.print(f"report: {validation.comparison.report(page)}", style="bold")
    beyond = _beyond(validation, allowed)
    for text in beyond:
        say.print(text, style="red")
    if beyond or validation.failures:
        raise click.exceptions.Exit(_errors.FAILED)


def _limits(texts: tuple[str, ...]) -> dict[str, float]:
    from weir.metrics.errors import nearest
    from weir.run.quantity import ONE, parse_quantity
    from weir.study.validation import ERRORS

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
        raise click.BadParameter(f"{text!r}: expected a rate above 10Mbps, such as 500Mbps", param_hint="--max-rate")
    return quantity.value


def _command_line() -> str:
    """The command that repeats this validation."""
    return shlex.join(["weir", *sys.argv[1:]])


def _print(validation: Validation, *, verbose: int) -> None:
    from weir.study.validation import ERRORS, error_text, summary_texts

    out = console()
    test, reference = validation.sides
    out.print(f"{test.name} against {reference.name}: {plural(len(validation.cells), 'cell')}", style="bold")
    out.print()
    summaries = validation.summary()
    rows = []
    for kind in ERRORS:
        some = summaries.get(kind.name)
        if some is None:
            continue
        numbers = summary_texts(kind, some)
        aim = "" if some.aim is None else error_text(kind, some.aim.p90)
        within = "" if some.within is None else f"{100 * some.within:.0f} %"
        met = {None: "", True: "yes", False: "no"}[some.met]
        chance = "" if some.by_chance is None else str(some.by_chance)
        rows.append([kind.name, *numbers, str(some.cells), aim, within, met, chance])
    head = ["error", "median", "95 % interval", "90th percentile", "95 % interval", "worst", "cells", "aim"]
    head += ["within it", "aims met", "beyond by chance"]
    if not any(some.by_chance is not None for some in summaries.values()):  # without --seeds
        head, rows = head[:-1], [row[:-1] for row in rows]
    print_table(head, rows, right=range(1, len(head)))
    _print_worst(validation, len(validation.cells) if verbose else 6)
    if validation.left_out:
        count = plural(len(validation.left_out), "run")
        out.print(f"left out: {count} that this machine cannot carry, such as {validation.left_out[0]}", style="yellow")
    for failure in validation.failures:
        out.print(f"failed: {failure}", style="red")
    warned = sum(bool(cell.warnings) for cell in validation.cells)
    if warned:
        text = next(cell.warnings[0] for cell in validation.cells if cell.warnings)
        out.print(f"warning: {plural(warned, 'cell')} with warnings, such as: {text}", style="yellow")


def _print_worst(validation: Validation, number: int) -> None:
    from weir.study.validation import ERRORS, error_text

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
    from weir.study.validation import ERRORS, error_text

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
