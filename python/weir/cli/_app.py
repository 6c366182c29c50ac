"""The top of the command line: subcommands, common options, and the handling of errors."""

from __future__ import annotations

import importlib
import signal
import sys
from typing import Any

import click

import weir
from weir._terminal import prepare, say, stray
from weir.cli import _errors

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS: dict[str, str] = {
    "run": "Execute a scenario and report on it.",
    "check": "List every mistake in scenarios.",
    "plan": "Show what a scenario would execute, and how long it would take.",
    "show": "Summarise a run on the terminal.",
    "report": "Build the report of a run, and its figures.",
    "compare": "Compare runs: what differs, and by how much.",
    "validate": "Measure one method's error against another.",
    "revalidate": "Check that a published validation still holds.",
    "catalogue": "List the scenarios of weir, or execute them by several methods.",
    "open": "Unpack an archived run, and build its report.",
    "metrics": "List the metrics and their definitions.",
    "schema": "Print the columns of a run's tables, or a JSON schema.",
    "cc": "List, build, load and compare congestion controls.",
    "switch": "Find out what is inside a switch, and fit a model of it.",
    "lab": "Build and use the lab: the real Linux kernel in virtual time.",
    "hosts": "Use real machines: check and reserve them, and give them back.",
    "emulate": "Run a program behind an emulated link, or bridge interfaces.",
    "testbed": "Make hosts on this machine, to rehearse experiments.",
    "clean": "Remove what interrupted runs left on this host.",
    "completion": "Print the completion script of a shell.",
}
"""Each subcommand and its line in the help; the module of the same name defines it as ``command``."""


class _Commands(click.Group):
    """Finds subcommands by name, and imports only the called one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"weir.cli.{cmd_name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would end with 1, which means that a claim failed
            _errors.silence_stdout()
            ctx.exit(_errors.BROKEN_PIPE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_EPILOG = """\b
Examples:
  weir run A/large-flows --quick     a scenario of the catalogue, in its quick version
  weir run my.yaml --workers 8       your own; run it again to continue after an interruption
  weir check my.yaml                 its mistakes, with line and column

\b
Exit codes: 0 success, 1 a claim or a run failed, 2 the input is wrong."""


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.command("weir", cls=_Commands, epilog=_EPILOG, context_settings=_CONTEXT)
@click.version_option(weir.__version__, prog_name="weir", message="%(prog)s %(version)s")
def cli() -> None:
    """weir evaluates transport protocols: one scenario, several methods, one set of metrics."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    prepare()
    _end_as_by_interrupt()
    try:
        _refuse_stray()
        code = cli.main(prog_name="weir", standalone_mode=False)
    except Exception as error:
        code = _errors.report(error)
    except KeyboardInterrupt:
        say("\nweir: interrupted", err=True)
        code = 130
    _leave(code if isinstance(code, int) else 0)


def _end_as_by_interrupt() -> None:
    """Lets SIGTERM and SIGHUP end every command as Ctrl-C does, with what that removes, unless they are ignored."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


def _refuse_stray() -> None:
    """Refuses words that are not UTF-8: a run's files are UTF-8 and could not name them.

    Raises:
        click.UsageError: there is one.
    """
    word = stray(sys.argv[1:])
    if word is not None:
        raise click.UsageError(f"{word} is not UTF-8, which names of files and values have to be; rename the file")


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _errors.silence_stdout()
        code = _errors.BROKEN_PIPE
    sys.exit(code)
