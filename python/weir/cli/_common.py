"""Shared parts of the subcommands: options and output."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from weir._terminal import console, error_console, json_shown, say, shown

__all__ = [
    "confidence_option",
    "console",
    "emit_json",
    "error_console",
    "examples",
    "json_option",
    "json_text",
    "plural",
    "print_table",
    "renamed",
    "say",
    "shown",
    "time_option",
    "unconfined_option",
    "verbosity_options",
    "verify_option",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def examples(*lines: tuple[str, str]) -> str:
    """The end of a subcommand's help: examples with explanations."""
    width = max(len(command) for command, _ in lines)
    return "\b\nExamples:\n" + "\n".join(f"  {command:<{width}}  {meaning}" for command, meaning in lines)


def verbosity_options(function: Function) -> Function:
    """Adds ``-q`` and ``-v`` as the arguments ``quiet: bool`` and ``verbose: int``."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only results and problems, no progress.")
    verbose = click.option("-v", "--verbose", count=True, help="Print more details; -vv: stack traces.")
    return quiet(verbose(function))


def json_option(function: Function) -> Function:
    """Adds ``--json`` as the argument ``as_json: bool``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def renamed(old: str, new: str, *, flag: bool = False) -> Callable[[Function], Function]:
    """Refuses the option ``old`` and names its replacement ``new``; ``flag``: it had no value."""

    def refuse(_ctx: click.Context, _param: click.Parameter, given: object) -> None:
        if given:
            raise click.UsageError(f"{old} is called {new}")

    name = "renamed" + old.replace("-", "_")  # differs from the name of the parameter that replaced it
    option = {"is_flag": True} if flag else {"metavar": "..."}
    return click.option(old, name, hidden=True, is_eager=True, expose_value=False, callback=refuse, **option)


def time_option(name: str, parameter: str, text: str) -> Callable[[Function], Function]:
    """Adds an option for a time such as ``10min``; the argument is in seconds, or ``None``."""
    return click.option(name, parameter, type=_Time(), metavar="TIME", help=text)


class _Time(click.ParamType[float]):
    """A positive time, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from weir.run.quantity import TIME, parse_quantity

        quantity = parse_quantity(str(value))
        if quantity is None or quantity.dimension != TIME or quantity.value <= 0:
            self.fail(f"{value!r}: expected a time such as 10min", param, ctx)
        return quantity.value


def unconfined_option(function: Function) -> Function:
    """Adds ``--unconfined``, which sets an environment variable for this command and its child processes."""
    return click.option(
        "--unconfined",
        is_flag=True,
        expose_value=False,
        callback=_unconfine,
        help="Run programs without confinement, with your rights; see docs/security.md.",
    )(function)


def _unconfine(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    from weir.confine import UNCONFINED

    if asked:
        before = os.environ.get(UNCONFINED, "")
        os.environ[UNCONFINED] = "1"
        ctx.call_on_close(lambda: os.environ.update({UNCONFINED: before}))


def confidence_option(function: Function) -> Function:
    """Adds ``--confidence`` as the argument ``level: float``."""
    return click.option(
        "--confidence",
        "level",
        type=_Level(),
        default="95%",
        show_default=True,
        metavar="SHARE",
        help="Confidence level of intervals, and of verdicts over repeats.",
    )(function)


class _Level(click.ParamType[float]):
    """A confidence level: ``95%`` or ``0.95``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from weir.run.quantity import ONE, parse_quantity

        found = parse_quantity(str(value))
        if found is None or found.dimension != ONE or not 0.5 <= found.value < 1:
            self.fail(f"{value!r}: expected a share of at least 50% and less than 100%, such as 95%", param, ctx)
        return found.value


def verify_option(function: Function) -> Function:
    """Adds ``--no-verify`` as the argument ``verify: bool``."""
    text = "Do not compare files with their checksums; leave out unreadable cells."
    return click.option("--no-verify", "verify", flag_value=False, default=True, help=text)(function)


def emit_json(value: Any) -> None:
    """Prints ``value`` as JSON; NaN and infinity become null."""
    say(json_text(value))


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """``value`` as JSON without characters that control a terminal; NaN and infinity are null."""
    text = json.dumps(_finite(value), indent=indent, ensure_ascii=False, default=str, allow_nan=False)
    return json_shown(text)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), styles: Sequence[str] = ()
) -> None:
    """Prints aligned columns; ``right`` are the numeric columns, ``styles`` apply from the first column on."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    numbers = set(right)
    for index, header in enumerate(headers):
        style = styles[index] if index < len(styles) else ""
        table.add_column(header, justify="right" if index in numbers else "left", style=style, overflow="fold")
    for row in rows:
        table.add_row(*map(shown, row))  # before it is measured
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    say("\n".join(line.rstrip() for line in captured.get().splitlines()))


def plural(count: int, noun: str) -> str:
    """``1 cell`` or ``2 cells``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
