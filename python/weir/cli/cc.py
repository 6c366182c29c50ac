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


_BUILD = examples(
    ("weir cc build my_cc.c", "writes my_cc.so"),
    ("weir cc build my_cc.c --bpf", "and checks that a kernel could take it"),
)


@command.command(epilog=_BUILD)
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File or folder; by default beside SOURCE.")
@click.option("--bpf", is_flag=True, help="Also check that it compiles for BPF; needs clang.")
def build(source: Path, out: Path | None, bpf: bool) -> None:
    """Build the congestion control in SOURCE, one C file against weir's kernel-like interface, as a shared object.

    It is checked as a registered one is: it writes only the fields that BPF may write and keeps at most 104 bytes.
    """
    from weir import _weir

    try:
        built = _weir.cc_build(source, out or source.with_suffix(".so"))
        described = json.loads(_weir.cc_describe(str(built.absolute())))
        verdict, reason = _weir.cc_check_bpf(source) if bpf else ("accepted", "")
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    shown = built if built.is_absolute() else f"./{built}"
    console().print(f"{shown}: {described['title']} ({described['name']}). In a scenario: `cc: {shown}`")
    if verdict == "no clang":
        raise click.ClickException(f"there is no {reason!r} to check it for BPF; install clang or set WEIR_CLANG")
    if verdict == "refused":
        raise click.ClickException(f"it does not compile for BPF:\n{reason}")
    if bpf:
        console().print("it compiles for BPF too")


@command.command(epilog=examples(("weir cc headers include", "then: cc -Iinclude/include ...")))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def headers(folder: Path) -> None:
    """Write the headers that a congestion control includes below FOLDER, for an editor."""
    from weir import _weir

    try:
        console().print(str(_weir.cc_headers(folder)))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
