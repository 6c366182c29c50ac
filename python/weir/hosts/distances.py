"""The round-trip times between sets of nodes, as the nodes see them, beside what an inventory says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir.hosts import _connect
from weir.hosts.facts import Facts
from weir.hosts.place import Place, PlaceError
from weir.inventory import Connection, Inventory, Node

__all__ = ["PORT", "Distance", "measure", "tolerance_ns"]

_PROGRAM = Path(_connect.__file__)
PORT = 9_990
"""That of calibrations: nothing listens there before a run, so the other kernel refuses at once."""
_TIMES = 7
_PATIENCE_S = 40.0
_SHARE = 0.1
_LEAST_NS = 1_000_000


def tolerance_ns(rtt_ns: int) -> float:
    """By how much a measured round-trip time may differ from ``rtt_ns``, ns.

    A tenth, because times in inventories are written with two digits; and 1 ms, which switches, the interrupts of
    network cards and the schedulers of both ends take.
    """
    return _SHARE * rtt_ns + _LEAST_NS


@dataclass(frozen=True)
class Distance:
    """The round-trip time between two nodes of sets that an inventory connects."""

    between: tuple[str, str]
    """The sets."""
    nodes: tuple[str, str]
    """Their names."""
    said_ns: int
    """By the inventory."""
    rtt_ns: int | None
    """The shortest that was measured; ``None``: the other does not answer."""

    @property
    def holds(self) -> bool:
        """Whether it does not contradict the inventory."""
        return self.rtt_ns is None or abs(self.rtt_ns - self.said_ns) <= tolerance_ns(self.said_ns)


def measure(inventory: Inventory, facts: Mapping[str, Facts], places: Mapping[str, Place]) -> list[Distance]:
    """Measures each connection of ``inventory`` that has a round-trip time, between one node of each set.

    Connections between nodes of which nothing is known are left out.
    """
    return [
        found
        for connection in inventory.connections
        if connection.rtt_ns is not None and (found := _of(connection, inventory, facts, places)) is not None
    ]


def _of(
    connection: Connection, inventory: Inventory, facts: Mapping[str, Facts], places: Mapping[str, Place]
) -> Distance | None:
    one, other = connection.between
    known = [node for node in inventory.nodes if node.name in facts and node.name in places]
    first = next((node for node in known if node.set == one), None)
    last = next((node for node in reversed(known) if node.set == other and node is not first), None)
    if first is None or last is None:
        return None
    assert connection.rtt_ns is not None
    address = _address(last, facts[last.name])
    return Distance(
        connection.between, (first.name, last.name), connection.rtt_ns, _ask(places[first.name], first.python, address)
    )


def _address(node: Node, facts: Facts) -> str:
    """The address of ``node`` in the experiment, as far as it is known before one."""
    if node.experiment_address is not None:
        return node.experiment_address
    interface = facts.interface(node.interface, None)
    return (interface.addresses or (None,))[0] or node.address if interface is not None else node.address


def _ask(place: Place, python: str, address: str) -> int | None:
    asked = json.dumps({"to": [address], "port": PORT, "times": _TIMES}).encode()
    try:
        program = place.put("weir-connect.py", _PROGRAM.read_bytes())
        ran = place.run_python(program, given=asked, timeout_s=_PATIENCE_S, python=python)
        (said,) = json.loads(place.required(ran, (program,)))
    except (PlaceError, ValueError, TypeError):
        return None
    return said if isinstance(said, int) and said > 0 else None
