"""``weir check``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import emit_json, examples, json_option, plural, say
from weir.cli._on import inventory_of, on_option, outlook, placings_json, show_placings
from weir.cli._remarks import Said, said
from weir.cli._scenarios import complete_scenario, locate, print_problems

if TYPE_CHECKING:
    from weir.cli._on import Outlook
    from weir.scenario import Problem

__all__ = ["command"]

_MAX_WORK = 150_000
"""Maximum work of compiling a cell (``weir.scenario.Cell.weighed``) a second time, for the methods' remarks."""
_EPILOG = examples(
    ("weir check my.yaml", "list every problem as file:line:column"),
    ("weir check scenarios/*/*.yaml", "check several scenarios"),
    ("weir check my.yaml --json", "print JSON for an editor"),
    ("weir check my.yaml --on nodes.yaml", "and which machine is which host"),
)


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE|NAME...", shell_complete=complete_scenario)
@on_option
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@json_option
def command(files: tuple[str, ...], on: Path | None, quiet: bool, as_json: bool) -> None:
    """List every mistake in scenarios, without executing anything.

    With --on, also which machine of an inventory takes the place of which host, what keeps the scenario from being
    executed there, and what cannot be measured there. It connects to none of them; `weir hosts check` does.

    Errors exit with 2; warnings and notes do not. Notes also say if a method would be unusually slow, or cannot measure
    as often as `measure` asks.
    """
    on, _ = inventory_of(on, {})
    checked = [_check(locate(name), on, quiet=quiet) for name in files]
    problems = [problem for one in checked for problem in one.problems]
    errors = sum(problem.severity == "error" for problem in problems)
    if as_json:
        _emit(checked, on)
    else:
        print_problems([p for p in problems if not quiet or p.severity == "error"])
        for one in checked:
            if one.outlook is not None and not quiet:
                show_placings(one.file, one.outlook)
        if not quiet and not errors:
            say(f"{plural(len(files), 'scenario')}: no errors")
    if errors:
        raise click.exceptions.Exit(_errors.BAD_INPUT)


@dataclass(frozen=True)
class _Checked:
    """What is known of one scenario."""

    file: str
    problems: Sequence[Problem]
    outlook: Outlook | None = None
    """On the machines of an inventory, if one was named."""


def _emit(checked: Sequence[_Checked], on: Path | None) -> None:
    """For programs: the problems; with an inventory also which machine is which host."""
    problems = [asdict(problem) for one in checked for problem in one.problems]
    if on is None:
        emit_json(problems)
        return
    found = [placings_json(one.file, one.outlook) for one in checked if one.outlook is not None]
    emit_json({"problems": problems, "scenarios": found})


def _check(file: Path, on: Path | None, *, quiet: bool) -> _Checked:
    """The problems of the scenario in ``file``; unless ``quiet``, also the methods' remarks, as notes."""
    from weir import scenario

    try:
        loaded = scenario.load(file)
        found = None if on is None else outlook(loaded, on)
        problems = [*loaded.problems, *(() if found is None else found.problems)]
        large = loaded.heaviest > _MAX_WORK
        left_out = "the methods' remarks are left out, because a cell is very large"
        heard = Said([left_out], []) if large else said(loaded.cells())
        problems += [scenario.Problem(str(file), 1, 1, text, "error") for text in heard.unfit]
        if not quiet:
            problems += [scenario.Problem(str(file), 1, 1, text, "info") for text in heard.notes]
    except scenario.ScenarioError as error:
        return _Checked(str(file), error.problems)
    return _Checked(str(file), problems, found)
