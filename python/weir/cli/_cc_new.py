"""``weir cc new``."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from weir.cli._common import console, examples

__all__ = ["command"]

_EXAMPLES = examples(("weir cc new mine", "write mine.c, mine.md and test_mine.py"), ("pytest test_mine.py", "test it"))


@click.command("new", epilog=_EXAMPLES)
@click.argument("name")
def command(name: str) -> None:
    """Write a new congestion control called NAME into the current folder: C source, README and test.

    The source is a complete control, additive increase and multiplicative decrease, in the style of weir's own. Replace
    its algorithm by yours. Existing files are never overwritten. NAME has at most 10 characters.
    """
    from weir.cc import write_skeleton

    source, readme, test = (path.name for path in write_skeleton(name, Path()))
    out = console()
    out.print(f"{source}: the control; a scenario beside it uses it with `cc: ./{source}`")
    out.print(f"{readme}: its README")
    out.print(f"{test}: its test; run it with weir's Python: {_shown(sys.executable)} -m pytest {test}")


def _shown(program: str) -> str:
    """The path as one would write it here."""
    path = os.path.relpath(program)
    return shlex.quote(path if len(path) < len(program) else program)
