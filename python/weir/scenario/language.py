"""The building blocks of the language, for other files of the same form: YAML with positions, types, problems."""

from __future__ import annotations

from ._problem import NOWHERE, About, Enough, Invalid, Log, Mark, Problem, choose, gather, listing
from ._scalars import DELAY, DURATION, NAME, RATE, TEXT, Choice, Definitions, Integer, Text, Type, expected
from ._spec import ListOf, MapOf, OneOrEach, ShapeOf, Spec, Struct, key
from ._units import show_duration, show_rate
from ._yaml import MAX_BYTES, Entry, Map, Node, Scalar, Seq, describe, read

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
