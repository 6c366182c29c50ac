"""``weir clean``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import click

from weir.cli import _errors
from weir.cli._clean_nodes import clean_nodes
from weir.cli._common import console, emit_json, examples, json_option, plural
from weir.cli._on import on_option

__all__ = ["command"]

_EPILOG = examples(
    ("weir clean", "remove what ended runs left on this host, and in runs/"),
    ("weir clean --dry-run", "only list it"),
    ("weir clean --on nodes.yaml", "undo on machines what lost experiments changed there"),
    ("weir clean results/tuesday", "also remove unfinished cells of the run there"),
)


@click.command(epilog=_EPILOG)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", type=click.Path(path_type=Path))
@on_option
@click.option("--all", "everything", is_flag=True, help="Also remove things of active runs, which then fail.")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@json_option
def command(folders: tuple[Path, ...], on: Path | None, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Remove what runs left behind: reserved nodes, namespaces, processes, congestion controls, unfinished cells.

    Runs clean up after themselves, even if they are killed. This command is for cases in which that failed. It keeps
    finished cells, everything that active runs need, and everything that weir did not make. A FOLDER is a run or
    contains several. Default: runs.

    With --on, it cleans the machines of an inventory instead of this one: each has a journal of what weir changes
    there, with the values before, and is restored from that alone. weir's programs in ~/.cache/weir are removed.
    Hooks of the inventory then undo what they did for runs that are no more. Machines that an active experiment uses
    are kept, unless --all is given.
    """
    if on is not None:
        if folders:
            raise click.UsageError("--on cleans machines, a FOLDER is of this one: one at a time")
        clean_nodes(on, everything=everything, dry_run=dry_run, as_json=as_json)
        return
    from weir.engine import remove_unfinished, unfinished
    from weir.hosts.remains import find, remove
    from weir.reserve import remains as reservations

    found, nodes = find(), reservations.find()
    chosen = [remain for remain in found if everything or not remain.alive]
    given_back = [one for one in nodes if everything or not one.alive]
    in_use = len(found) + len(nodes) - len(chosen) - len(given_back)
    partial = unfinished(folders or (Path("runs"),))
    acts: list[tuple[_Thing, Callable[[], None]]] = [
        *((_Thing("reservation", str(one)), functools.partial(reservations.release, one)) for one in given_back),
        *((_Thing(remain.kind, remain.name), functools.partial(remove, remain)) for remain in chosen),
        *(
            (_Thing("unfinished cells", str(folder)), functools.partial(remove_unfinished, folder))
            for folder in partial
        ),
    ]
    removed, failures = ([thing for thing, _ in acts], []) if dry_run else _remove(acts)
    if as_json:
        items = [{"kind": thing.kind, "name": thing.name} for thing in removed]
        emit_json({"removed": items, "dry_run": dry_run, "in_use": in_use, "failures": failures})
    else:
        _print([*map(str, removed)], failures, dry_run=dry_run)
        if in_use:
            console().print(f"{plural(in_use, 'thing')} kept for active runs; --all removes them, too")
    if failures:
        raise click.exceptions.Exit(_errors.FAILED)


class _Thing(NamedTuple):
    """An object to remove."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {'of ' if self.kind == 'unfinished cells' else ''}{self.name}"


def _remove(acts: Iterable[tuple[_Thing, Callable[[], None]]]) -> tuple[list[_Thing], list[str]]:
    """Removes objects; returns the removed ones, and for the others the reason."""
    from weir.engine import EngineError
    from weir.methods import MethodError

    removed, failures = [], []
    for thing, act in acts:
        try:
            act()
        except (EngineError, MethodError, OSError) as error:
            failures.append(f"{thing}: {error}")
        else:
            removed.append(thing)
    return removed, failures


def _print(names: list[str], failures: list[str], *, dry_run: bool) -> None:
    word = "would remove" if dry_run else "removed"
    for name in names:
        console().print(f"{word} {name}")
    for failure in failures:
        console().print(f"could not remove {failure}", style="red")
    if not names and not failures:
        console().print("nothing to remove")
