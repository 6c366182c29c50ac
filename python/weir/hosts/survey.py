"""The facts of all nodes of an inventory, asked at one time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from weir.hosts.distances import Distance, measure
from weir.hosts.facts import Facts, gather
from weir.hosts.place import PlaceError
from weir.hosts.ssh import PATIENCE_S, connect_all
from weir.inventory import Inventory, Node

__all__ = ["Survey", "survey"]

_AT_ONCE = 32

Progress = Callable[[Node, str], None]
"""Is told of each node that it was ``reached``, ``asked``, or is ``missing``."""


@dataclass
class Survey:
    """What nodes are, by name; and why of others nothing is known."""

    facts: dict[str, Facts] = field(default_factory=dict)
    failed: dict[str, PlaceError] = field(default_factory=dict)
    distances: list[Distance] = field(default_factory=list)


def _silent(_node: Node, _state: str) -> None:
    pass


def survey(
    inventory: Inventory,
    *,
    tools: Iterable[str] = (),
    programs: Mapping[str, str] | None = None,
    parameters: Iterable[str] = (),
    patience_s: float = PATIENCE_S,
    progress: Progress = _silent,
) -> Survey:
    """Reaches and asks the nodes of ``inventory``; arguments as of :func:`weir.hosts.facts.gather`.

    Then measures the round-trip times that the inventory names. Changes nothing on any node.
    """
    wanted = {node.name: node for node in inventory.nodes}
    words, names = ("ip", "tc", *tools), [*parameters]
    found = Survey()

    def reached(node: Node, error: PlaceError | None) -> None:
        progress(node, "reached" if error is None else "missing")

    with connect_all(wanted.values(), reached, patience_s) as connections:
        found.failed |= connections.failed
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ask") as pool:
            asked = {
                pool.submit(gather, place, wanted[name].python, tools=words, programs=programs, parameters=names): name
                for name, place in connections.places.items()
            }
            for future in as_completed(asked):
                name = asked[future]
                try:
                    found.facts[name] = future.result()
                except PlaceError as error:
                    found.failed[name] = error
                progress(wanted[name], "asked" if name in found.facts else "missing")
        found.distances = measure(inventory, found.facts, connections.places)
    return found
