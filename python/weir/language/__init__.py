"""The language of weir's files: YAML with positions, types that parse and give their JSON schema, problems with places.

Scenarios are written in it (:mod:`weir.scenario`), and inventories of machines (:mod:`weir.inventory`). A file is data:
nothing of it is executed or evaluated, and what it could exhaust has a limit.
"""

from __future__ import annotations

from weir.language.problem import (
    NOWHERE,
    About,
    Enough,
    Invalid,
    Log,
    Mark,
    Problem,
    ProblemsError,
    choose,
    gather,
    listing,
)
from weir.language.scalars import DELAY, DURATION, NAME, RATE, TEXT, Choice, Definitions, Integer, Text, Type, expected
from weir.language.spec import ListOf, MapOf, OneOrEach, ShapeOf, Spec, Struct, key
from weir.language.tree import MAX_BYTES, Entry, Map, Node, Scalar, Seq, describe, read
from weir.language.units import show_duration, show_rate

__all__ = [
    "DELAY",
    "DURATION",
    "MAX_BYTES",
    "NAME",
    "NOWHERE",
    "RATE",
    "TEXT",
    "About",
    "Choice",
    "Definitions",
    "Enough",
    "Entry",
    "Integer",
    "Invalid",
    "ListOf",
    "Log",
    "Map",
    "MapOf",
    "Mark",
    "Node",
    "OneOrEach",
    "Problem",
    "ProblemsError",
    "Scalar",
    "Seq",
    "ShapeOf",
    "Spec",
    "Struct",
    "Text",
    "Type",
    "choose",
    "describe",
    "expected",
    "gather",
    "key",
    "listing",
    "read",
    "show_duration",
    "show_rate",
]
