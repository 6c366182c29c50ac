"""``weir clean --on``: machines are restored from their journals, and hooks undo what they did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._common import console, emit_json, plural, print_table

if TYPE_CHECKING:
    from weir.hosts.relay import Relay
    from weir.inventory import Node

__all__ = ["clean_nodes"]


def clean_nodes(on: Path, *, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Restores every node of the inventory ``on``, has hooks undo what they did, and prints what was undone.

    Raises:
        weir.inventory.InventoryError: it is wrong.
        click.exceptions.Exit: a node could not be cleaned.
    """
    from concurrent.futures import ThreadPoolExecutor

    from weir import inventory
    from weir.hosts.ssh import connect_all

    held = inventory.load(on)
    with connect_all(held.nodes) as made:
        python = {node.name: node for node in held.nodes}
        with ThreadPoolExecutor(16) as pool:
            wanted = [(python[name], place, everything, dry_run) for name, place in made.places.items()]
            found = list(pool.map(lambda one: _clean(*one), wanted))
    found += [{"node": name, "undone": [], "removed": [], "error": str(error)} for name, error in made.failed.items()]
    hooks = _undo(on, everything=everything, dry_run=dry_run)  # last: a node's end may be what a hook undoes
    if as_json:
        emit_json({"nodes": found, "hooks": hooks, "dry_run": dry_run})
    else:
        _print(found, dry_run=dry_run)
        _print_hooks(hooks, dry_run=dry_run)
    if any(one["error"] for one in (*found, *hooks)):
        raise click.exceptions.Exit(_errors.FAILED)


def _clean(node: Node, place: Relay, everything: bool, dry_run: bool) -> dict[str, Any]:
    from weir.deploy import Keeper, describe
    from weir.methods import MethodError

    undone: list[str] = []
    removed: list[str] = []
    error = None
    try:
        keeper = Keeper(place, node.python)
        if dry_run:
            status = keeper.status()
            if status["lives"] and not everything:
                claim = status["claim"]
                raise MethodError(f"it is in use by {claim.get('by', 'another experiment')}, since {claim.get('at')}")
            changes = reversed(status["changes"])
        else:
            changes = keeper.restore(force=everything)
        undone = [describe(entry["change"]) for entry in changes]
        removed = keeper.ask("uninstall", dry=dry_run)["removed"]
    except MethodError as why:
        error = str(why)
    return {"node": node.name, "undone": undone, "removed": removed, "error": error}


def _undo(on: Path, *, everything: bool, dry_run: bool) -> list[dict[str, Any]]:
    """What hooks of lost runs had to undo, and those of stages that were called alone."""
    from weir.stages import HookError, remains

    hooks = []
    for remain in remains.find(on):
        if remain.alive and not everything:
            continue
        calls, error = remain.lines(), None
        if not dry_run:
            try:
                remain.clean()
            except HookError as why:
                error = str(why)
        hooks.append({"run": None if remain.run is None else str(remain.run), "calls": calls, "error": error})
    return hooks


def _print_hooks(hooks: list[dict[str, Any]], *, dry_run: bool) -> None:
    word = "would call" if dry_run else "called"
    for one in hooks:
        of = f", for {one['run']}" if one["run"] else ""
        console().print(f"{word} {'; '.join(one['calls'])}{of}", markup=False)
        if one["error"]:
            console().print(one["error"], style="red", markup=False)


def _print(found: list[dict[str, Any]], *, dry_run: bool) -> None:
    words = ("would undo", "would remove") if dry_run else ("undone", "removed")
    rows = [
        (one["node"], one["error"] or "; ".join(one["undone"]) or "nothing to undo", ", ".join(one["removed"]))
        for one in found
    ]
    print_table(("node", *words), rows)
    if dry_run:
        dirty = sum(bool(one["undone"] or one["removed"]) for one in found if not one["error"])
        console().print(f"{plural(dirty, 'node')} would be cleaned; nothing was done")
    else:
        console().print(f"{plural(sum(not one['error'] for one in found), 'node')} clean")
