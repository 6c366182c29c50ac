"""``weir cc``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from weir.cli._common import console, emit_json, examples, json_option, print_table

__all__ = ["command"]

_EPILOG = examples(
    ("weir cc list", "what a scenario may name"),
    ("weir cc list cubic", "one, with its options"),
    ("weir cc build my_cc.c", "then in a scenario: `cc: ./my_cc.so`"),
)


@click.group(epilog=_EPILOG)
def command() -> None:
    """List congestion controls, or build one of your own without rebuilding weir."""


@command.command("list", epilog=examples(("weir cc list", "all"), ("weir cc list ./my_cc.so", "your own")))
@click.argument("name", required=False)
@json_option
def list_(name: str | None, as_json: bool) -> None:
    """List the registered congestion controls, or describe one: its source and options."""
    from weir import _weir

    try:
        found = json.loads(_weir.cc_list() if name is None else f"[{_weir.cc_describe(name)}]")
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        emit_json(found)
    elif name is not None:
        _describe(found[0])
    else:
        rows = [(cc["name"], cc["title"], str(cc["year"]), cc["source"], _options(cc)) for cc in found]
        print_table(("name", "title", "year", "source", "options"), rows, styles=("bold",))


def _options(cc: dict[str, object]) -> str:
    options = cc["options"]
    assert isinstance(options, list)
    return ", ".join(option["name"] for option in options)


def _describe(cc: dict[str, object]) -> None:
    out = console()
    out.print(f"{cc['name']}: {cc['title']}", style="bold")
    out.print(f"  source  {cc['source']} ({cc['year']})")
    out.print(f"  state   {cc['state_bytes']} of 104 bytes")
    options = cc["options"]
    assert isinstance(options, list)
    if options:
        out.print()
        rows = [(o["name"], str(o["default"]), f"{o['min']} to {o['max']}", o["doc"]) for o in options]
        print_table(("option", "default", "range", "what it does"), rows)


@command.command(
    epilog=examples(("weir cc build my_cc.c", "writes my_cc.so"), ("weir cc build x.c -o y.so", "elsewhere"))
)
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="Where; by default beside SOURCE.")
def build(source: Path, out: Path | None) -> None:
    """Build the congestion control in SOURCE, one C file against weir's kernel-like interface, as a shared object.

    It is checked as a registered one is: it writes only the fields that BPF may write and keeps at most 104 bytes.
    """
    from weir import _weir

    target = out or source.with_suffix(".so")
    try:
        described = json.loads(_weir.cc_build(str(source), str(target)))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    shown = target if target.is_absolute() else f"./{target}"
    console().print(f"{shown}: {described['title']} ({described['name']}). In a scenario: `cc: {shown}`")
