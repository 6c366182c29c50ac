"""``weir check``."""

from __future__ import annotations

from dataclasses import asdict

import click

from weir.cli import _errors
from weir.cli._common import emit_json, examples, json_option, plural, say
from weir.cli._scenarios import complete_scenario, locate, print_problems

__all__ = ["command"]

_EPILOG = examples(
    ("weir check my.yaml", "every problem as file:line:column"),
    ("weir check scenarios/*/*.yaml", "several"),
    ("weir check my.yaml --json", "for an editor"),
)


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE|NAME...", shell_complete=complete_scenario)
@click.option("-q", "--quiet", is_flag=True, help="Errors only.")
@json_option
def command(files: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """List everything that is wrong with scenarios, all at once; nothing is executed.

    Errors end with exit code 2; warnings and notes do not.
    """
    from weir.scenario import check

    problems = [problem for name in files for problem in check(locate(name))]
    errors = sum(problem.severity == "error" for problem in problems)
    if as_json:
        emit_json([asdict(problem) for problem in problems])
    else:
        print_problems([p for p in problems if not quiet or p.severity == "error"])
        if not quiet and not errors:
            say(f"{plural(len(files), 'scenario')}: no errors")
    if errors:
        raise click.exceptions.Exit(_errors.BAD_INPUT)
