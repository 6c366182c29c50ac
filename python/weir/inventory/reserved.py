"""The nodes of an inventory's sets that a scheduler gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weir import reserve
from weir.inventory._types import Inventory, Node, NodeSet
from weir.reserve import Held, Progress, Request

__all__ = ["Progress", "requests", "reserved", "with_known_nodes", "with_nodes"]


def requests(inventory: Inventory) -> dict[str, Request]:
    """What has to be reserved, by the alias of its set."""
    return {each.alias: each.reserve for each in inventory.unreserved if each.reserve is not None}


def with_nodes(inventory: Inventory, held: Mapping[str, Sequence[Held]]) -> Inventory:
    """The inventory with the nodes that reservations gave, by the alias of their set.

    Raises:
        InventoryError: two sets were given one node.
    """
    for alias, nodes in held.items():
        inventory = inventory.with_nodes(alias, [_node(inventory.sets[alias], one) for one in nodes])
    return inventory


@contextlib.contextmanager
def reserved(
    inventory: Inventory, *, patience_s: float | None = None, progress: Progress | None = None
) -> Iterator[Inventory]:
    """The inventory with the nodes of all its sets, reserved as long as the context lasts.

    What ``weir hosts reserve`` keeps for this inventory is taken, and stays reserved.

    Raises:
        ReserveError: a scheduler refuses, or there are no nodes in ``patience_s`` seconds; nothing stays reserved.
        InventoryError: two sets were given one node.
    """
    place = Path(inventory.file)
    with reserve.reserved(requests(inventory), inventory=place, patience_s=patience_s, progress=progress) as held:
        yield with_nodes(inventory, held)


def with_known_nodes(inventory: Inventory) -> Inventory:
    """The inventory with the nodes that ``weir hosts reserve`` keeps for it, and those that need no reservation.

    Reserves nothing.

    Raises:
        ReserveError: a scheduler that keeps nodes is out of reach.
        InventoryError: two sets were given one node.
    """
    asked = requests(inventory)
    kept = reserve.usable(asked, Path(inventory.file))
    held = {}
    for alias, request in asked.items():
        provider = reserve.get(request.by)
        if alias in kept:
            now = reserve.state(kept[alias])
        elif not provider.schedules:
            now = provider.state(request, "")
        else:
            continue
        if now.phase is reserve.Phase.ACTIVE:
            held[alias] = now.nodes
    return with_nodes(inventory, held)


def _node(of: NodeSet, held: Held) -> Node:
    """A node as its set says, and what the scheduler knows better."""
    node = of.node(held.address, held.name)
    return replace(node, port=held.port or node.port, user=held.user or node.user)
