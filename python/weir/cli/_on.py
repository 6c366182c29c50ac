"""The option ``--on``: the inventory of the machines on which a method executes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from weir.inventory import Node
    from weir.language import Problem
    from weir.scenario import Scenario

__all__ = [
    "Outlook",
    "Placing",
    "inventory_of",
    "method_on",
    "on_option",
    "outlook",
    "placings_json",
    "require_use",
    "show_placings",
]

_SETTING = "on"
_SUBJECTS = {
    "links": "links and their queues",
    "classes": "classes of queues",
    "delays": "one-way delays",
    "delay_bins": "one-way delays",
}
"""What tables that a method may not write are about."""
_UNWRITTEN = frozenset({"classes"})
"""Tables that most plans do not ask for."""

on_option = click.option(
    "--on",
    metavar="INVENTORY",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Machines on which it is executed, over SSH (docs/hosts.md).",
)


def inventory_of(on: Path | None, settings: Mapping[str, Any]) -> tuple[Path | None, dict[str, Any]]:
    """The inventory that the user named, or that of the run with ``settings``; and the settings without it.

    Raises:
        weir.inventory.InventoryError: it is wrong.
    """
    from weir import inventory

    rest = {name: value for name, value in settings.items() if name != _SETTING}
    if on is None and isinstance(settings.get(_SETTING), str):
        on = Path(settings[_SETTING])
    if on is not None:
        inventory.load(on)
    return on, rest


def method_on(on: Path | None) -> str | None:
    """The method that takes an inventory, if there is one to take."""
    from weir import methods

    if on is None:
        return None
    known = ((name, methods.registered(name)) for name in methods.names())
    return next((name for name, method in known if method is not None and method.takes_inventory), None)


def require_use(on: Path | None, names: Sequence[str]) -> None:
    """Refuses an inventory that no method would use, and a method without one.

    Raises:
        click.UsageError: so it is.
    """
    from weir import methods

    taking = [name for name in names if methods.get(name).takes_inventory]
    if on is not None and not taking:
        raise click.UsageError(f"--on: method {', '.join(names)} runs on this machine, and takes no inventory")
    if on is None and taking:
        raise click.UsageError(f"method {taking[0]} needs machines: name their inventory, --on INVENTORY")


@dataclass(frozen=True)
class Placing:
    """Which machine takes the place of which host, in some cells of a scenario."""

    nodes: Mapping[str, Node]
    """By the names of hosts with flows."""
    cells: tuple[str, ...]
    """The cells in which it is so, by id."""


@dataclass(frozen=True)
class Outlook:
    """What is known of a scenario on the machines of an inventory, without asking them."""

    problems: tuple[Problem, ...] = ()
    placings: tuple[Placing, ...] = ()
    unseen: tuple[str, ...] = ()
    """Tables that the method does not write there."""


def outlook(scenario: Scenario, on: Path) -> Outlook:
    """Whether ``scenario`` can be executed on the machines of the inventory ``on``, where, and what is not measured."""
    from weir import methods
    from weir.inventory import InventoryError
    from weir.language import Problem

    name = method_on(on)
    assert name is not None
    method = methods.get(name, str(on))
    problems: dict[Problem, None] = {}
    placed: dict[tuple[tuple[str, str], ...], tuple[Mapping[str, Node], list[str]]] = {}
    for cell in scenario.cells():
        plan = cell.plan()
        why = method.obstacle(plan)
        try:
            nodes = method.nodes(plan)
        except InventoryError as error:
            problems.update(dict.fromkeys(error.problems))
            why = None if why == str(error) else why
        else:
            key = tuple((host, node.name) for host, node in nodes.items())
            placed.setdefault(key, (nodes, []))[1].append(cell.id)
        if why is not None:
            problems[Problem(scenario.file, 1, 1, f"on {on}: {why}")] = None
    unseen = tuple(sorted(methods.TABLES - method.tables - _UNWRITTEN))
    problems.update(dict.fromkeys(_undecided(scenario, name, unseen)))
    return Outlook(tuple(problems), tuple(Placing(nodes, tuple(ids)) for nodes, ids in placed.values()), unseen)


def _undecided(scenario: Scenario, name: str, unseen: Collection[str]) -> Iterator[Problem]:
    """A note for each claim whose metrics read tables that nobody writes."""
    from weir.language import Problem
    from weir.metrics.expect import parse

    for claim in scenario.expect:
        missing = sorted(set(parse(claim.check).tables) & set(unseen))
        if missing:
            text = f"method {name} cannot decide this claim: it does not measure {_subjects(missing)}"
            yield Problem(scenario.file, claim.line, 1, text, "info")


def _subjects(tables: Collection[str]) -> str:
    """What the rows of ``tables`` are about, for people."""
    return ", ".join(dict.fromkeys(_SUBJECTS.get(table, f"table {table}") for table in sorted(tables)))


def show_placings(scenario: str, found: Outlook) -> None:
    """Prints which machine is which host, and what is not measured there."""
    from weir.cli._common import plural, print_table, say

    for placing in found.placings:
        cells = "" if len(found.placings) == 1 else f" in {plural(len(placing.cells), 'cell')} ({placing.cells[0]} ...)"
        say(f"{scenario}: nodes in the place of hosts{cells}")
        rows = [(host, node.name, node.set, node.address) for host, node in placing.nodes.items()]
        print_table(("host", "node", "set", "address"), rows)
    if found.unseen:
        say(f"not measured there: {_subjects(found.unseen)}; metrics of them are undefined")


def placings_json(scenario: str, found: Outlook) -> dict[str, Any]:
    """The same for programs."""
    placings = [
        {
            "cells": list(placing.cells),
            "hosts": [
                {"host": host, "node": node.name, "set": node.set, "address": node.address}
                for host, node in placing.nodes.items()
            ],
        }
        for placing in found.placings
    ]
    return {"file": scenario, "nodes": placings, "unmeasured": list(found.unseen)}
