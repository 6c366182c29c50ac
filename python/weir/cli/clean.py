"""``weir clean``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import console, emit_json, examples, json_option, plural

if TYPE_CHECKING:
    from weir.methods._remains import Remain

__all__ = ["command"]

_EPILOG = examples(
    ("weir clean", "what ended runs left on this host, and in runs/"),
    ("weir clean --dry-run", "what that would be"),
    ("weir clean results/tuesday", "unfinished cells of the run there, too"),
)


@click.command(epilog=_EPILOG)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Also what belongs to runs that still go; they fail.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
def command(folders: tuple[Path, ...], everything: bool, dry_run: bool, as_json: bool) -> None:
    """Remove what runs left behind: namespaces, processes, congestion controls, unfinished cells.

    Runs remove what they made, also when they are killed; this is for when even that was prevented. Finished cells,
    what runs need that still go, and whatever weir did not make are left alone. A FOLDER is one run or holds several;
    by default it is runs.
    """
    from weir.engine import remove_unfinished, unfinished
    from weir.methods._remains import find

    found = find()
    chosen = [remain for remain in found if everything or not remain.alive]
    partial = unfinished(folders or (Path("runs"),))
    failures = [] if dry_run else _remove(chosen)
    for folder in () if dry_run else partial:
        remove_unfinished(folder)
    if as_json:
        items = [{"kind": r.kind, "name": r.name} for r in chosen] + [
            {"kind": "unfinished cells", "name": str(folder)} for folder in partial
        ]
        emit_json({"removed": items, "dry_run": dry_run, "in_use": len(found) - len(chosen), "failures": failures})
    else:
        _print([*map(str, chosen), *(f"unfinished cells of {folder}" for folder in partial)], failures, dry_run=dry_run)
        if len(chosen) < len(found):
            console().print(f"{plural(len(found) - len(chosen), 'thing')} left to runs that still go: --all takes them")
    if failures:
        raise click.exceptions.Exit(_errors.FAILED)


def _remove(remains: list[Remain]) -> list[str]:
    """Removes ``remains``; what went wrong."""
    from weir.methods import MethodError
    from weir.methods._remains import remove

    failures = []
    for remain in remains:
        try:
            remove(remain)
        except (MethodError, OSError) as error:
            failures.append(f"{remain}: {error}")
    return failures


def _print(names: list[str], failures: list[str], *, dry_run: bool) -> None:
    word = "would remove" if dry_run else "removed"
    for name in names:
        console().print(f"{word} {name}")
    for failure in failures:
        console().print(f"could not remove {failure}", style="red")
    if not names:
        console().print("nothing to remove")
