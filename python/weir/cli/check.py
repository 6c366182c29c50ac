"""``weir check``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import emit_json, examples, json_option, plural, say
from weir.cli._on import inventory_of, obstacles, on_option
from weir.cli._remarks import remarks
from weir.cli._scenarios import complete_scenario, locate, print_problems

if TYPE_CHECKING:
    from weir.scenario import Problem

__all__ = ["command"]

_MAX_WORK = 150_000
"""Maximum work of compiling a cell (``weir.scenario.Cell.weighed``) a second time, for the methods' remarks."""
_EPILOG = examples(
    ("weir check my.yaml", "list every problem as file:line:column"),
    ("weir check scenarios/*/*.yaml", "check several scenarios"),
    ("weir check my.yaml --json", "print JSON for an editor"),
)


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE|NAME...", shell_complete=complete_scenario)
@on_option
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@json_option
def command(files: tuple[str, ...], on: Path | None, quiet: bool, as_json: bool) -> None:
    """List every mistake in scenarios, without executing anything.

    With --on, also whether each scenario can be executed on the machines of an inventory: which host of it has which
    role, and what the method cannot do. It connects to none of them; `weir hosts check` does.

    Errors exit with 2; warnings and notes do not. Notes also say if a method would be unusually slow, or cannot measure
    as often as `measure` asks.
    """
    on, _ = inventory_of(on, {})
    problems = [problem for name in files for problem in _problems(locate(name), on, quiet=quiet)]
    errors = sum(problem.severity == "error" for problem in problems)
    if as_json:
        emit_json([asdict(problem) for problem in problems])
    else:
        print_problems([p for p in problems if not quiet or p.severity == "error"])
        if not quiet and not errors:
            say(f"{plural(len(files), 'scenario')}: no errors")
    if errors:
        raise click.exceptions.Exit(_errors.BAD_INPUT)


def _problems(file: Path, on: Path | None, *, quiet: bool) -> Iterator[Problem]:
    """The problems of the scenario in ``file``; unless ``quiet``, also the methods' remarks, as notes."""
    from weir import scenario

    try:
        loaded = scenario.load(file)
        yield from loaded.problems
        yield from (scenario.Problem(str(file), 1, 1, text, "error") for text in obstacles(loaded.cells(), on))
        if quiet:
            return
        large = loaded.heaviest > _MAX_WORK
        said = ["the methods' remarks are left out, because a cell is very large"] if large else remarks(loaded.cells())
        yield from (scenario.Problem(str(file), 1, 1, text, "info") for text in said)
    except scenario.ScenarioError as error:
        yield from error.problems
