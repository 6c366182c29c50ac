"""Inventories: the machines of an experiment, how they are reached and reserved, and what is between them.

An inventory is YAML 1.2, described in ``docs/hosts.md`` and ``docs/schema/inventory.schema.json``. It is data: never
executed, never evaluated, and without secrets. It may name executables for stages of an experiment, which a run then
executes (:mod:`weir.stages`); reading it executes none. A scenario does not know where it runs:
:meth:`Inventory.bind` gives each host of its plan a node.
"""

from __future__ import annotations

from weir.inventory._bind import roles_of, used_hosts
from weir.inventory._errors import InventoryError
from weir.inventory._language import schema
from weir.inventory._load import load, parse
from weir.inventory._types import STAGES, Connection, EmulatorNode, Hook, Inventory, Network, Node, NodeSet, Part, Role

__all__ = [
    "STAGES",
    "Connection",
    "EmulatorNode",
    "Hook",
    "Inventory",
    "InventoryError",
    "Network",
    "Node",
    "NodeSet",
    "Part",
    "Role",
    "load",
    "parse",
    "roles_of",
    "schema",
    "used_hosts",
]
