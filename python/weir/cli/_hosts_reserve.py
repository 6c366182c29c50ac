"""``weir hosts reserve`` and ``release``, and what is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import (
    console,
    emit_json,
    error_console,
    examples,
    json_option,
    plural,
    print_table,
    time_option,
)

if TYPE_CHECKING:
    from weir.reserve import Reservation, State

__all__ = ["release", "reserve", "show_reserved"]

_INVENTORY = click.argument("inventory", type=click.Path(path_type=Path))
_SETS = click.option("--set", "sets", multiple=True, metavar="ALIAS", help="Only this set. May be repeated.")


@click.command(
    epilog=examples(
        ("weir hosts reserve grid.yaml", "reserve its nodes, and keep them for several runs"),
        ("weir hosts reserve grid.yaml --wait 10min", "give up after ten minutes in the queue"),
        ("weir hosts release grid.yaml", "give them back"),
    )
)
@_INVENTORY
@_SETS
@time_option("--wait", "patience_s", "Give up after this time. Default: wait as long as the scheduler does.")
@click.option("-q", "--quiet", is_flag=True, help="Print only results and problems, no progress.")
@json_option
def reserve(inventory: Path, sets: tuple[str, ...], patience_s: float | None, quiet: bool, as_json: bool) -> None:
    """Reserve the nodes of an INVENTORY, and keep them.

    They stay reserved until `weir hosts release`, or until the time is over that the inventory says. What is reserved
    already is kept. If one set cannot be reserved, or after an interrupt, nothing new stays reserved.
    """
    from weir import reserve as reservations
    from weir.inventory import load
    from weir.inventory.reserved import requests

    asked = _chosen(requests(load(inventory)), sets)
    have = reservations.usable(asked, inventory)
    new: list[Reservation] = []
    try:
        for alias, request in asked.items():
            if alias not in have:
                have[alias] = reservations.reserve(request, alias=alias)
                new.append(have[alias])
        reservations.wait([have[alias] for alias in asked], patience_s, None if quiet else _tell)
        for one in new:
            have[one.alias] = reservations.keep(one, inventory)
        new = []
    finally:
        reservations.release_all(new)
    if not asked and not as_json:
        console().print("nothing to reserve: every set has its nodes")
        return
    _show([have[alias] for alias in asked], as_json)


@click.command(epilog=examples(("weir hosts release grid.yaml", "all that `weir hosts reserve` keeps for it")))
@_INVENTORY
@_SETS
@json_option
def release(inventory: Path, sets: tuple[str, ...], as_json: bool) -> None:
    """Give back the nodes that are kept for an INVENTORY.

    Nodes that a run reserved for itself are not among them: that run releases them.
    """
    from weir import reserve as reservations

    found = [one for one in reservations.kept(inventory) if not sets or one.alias in sets]
    reservations.release_all(found)
    if as_json:
        emit_json({"released": [_facts(one) for one in found]})
        return
    for one in found:
        console().print(f"released {one}")
    if not found:
        console().print(f"nothing is kept for {inventory}")


def show_reserved(inventory: Path | None, as_json: bool) -> None:
    """Shows what is reserved, for one inventory or for all.

    Raises:
        click.BadParameter: there is no such file, and nothing is kept for one that was there.
    """
    from weir import reserve as reservations
    from weir.reserve import remains

    found = remains.find() if inventory is None else reservations.kept(inventory)
    if inventory is not None and not found and not inventory.exists():
        raise click.BadParameter(f"no such run or inventory: {inventory}", param_hint="INVENTORY|DIR")
    if not found and not as_json:
        console().print("nothing is reserved")
        return
    _show(found, as_json)


def _chosen(asked: dict[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    for alias in sets:
        if alias not in asked:
            known = ", ".join(asked) or "none"
            raise click.BadParameter(f"{alias!r} is no set with `reserve`; there are: {known}", param_hint="'--set'")
    return {alias: request for alias, request in asked.items() if not sets or alias in sets}


def _tell(one: Reservation, now: State) -> None:
    """A line for each change."""
    from weir.reserve import Phase

    words = {
        Phase.WAITING: f"waits{f': {now.why}' if now.why else ''}{f', expected at {now.start}' if now.start else ''}",
        Phase.ACTIVE: f"has {plural(len(now.nodes), 'node')}",
        Phase.ENDED: f"ended: {now.why}",
    }
    error_console().print(f"{one} {words[now.phase]}")


def _show(found: Sequence[Reservation], as_json: bool) -> None:
    rows = [(one, _asked(one)) for one in found]
    if as_json:
        emit_json({"reservations": [{**_facts(one), **_said(now)} for one, now in rows]})
        return
    headers = ("set", "by", "id", "state", "left", "nodes", "for")
    print_table(headers, [_row(one, now) for one, now in rows], right=(4,))


def _asked(one: Reservation) -> State | str:
    """What the scheduler says, or why it says nothing."""
    from weir import reserve as reservations

    if not one.identity:
        return "its submission was not answered"
    try:
        return reservations.state(one)
    except reservations.ReserveError as error:
        return str(error)


def _facts(one: Reservation) -> dict[str, Any]:
    kept_for = one.record.inventory
    return {"set": one.alias, "by": one.request.by, "id": one.identity, "name": one.record.name, "for": kept_for}


def _said(now: State | str) -> dict[str, Any]:
    if isinstance(now, str):
        return {"state": "unknown", "why": now, "start": "", "left_s": None, "nodes": []}
    nodes = [{"name": node.name, "address": node.address} for node in now.nodes]
    return {"state": now.phase.value, "why": now.why, "start": now.start, "left_s": now.left_s, "nodes": nodes}


def _row(one: Reservation, now: State | str) -> tuple[str, ...]:
    from weir._duration import clock_text
    from weir.reserve import Phase

    said = _said(now)
    left = "" if said["left_s"] is None else clock_text(said["left_s"])
    active = not isinstance(now, str) and now.phase is Phase.ACTIVE
    text = " ".join(node["name"] for node in said["nodes"]) if active else said["why"]
    used_by = one.record.inventory or ("a run" if one.alive else "nobody: `weir clean`")
    return (one.alias, one.request.by, one.identity, said["state"], left, text, used_by)
