"""Differentiated-services code points, as the language names them."""

from __future__ import annotations

from typing import Any

from weir.language.problem import Log
from weir.language.scalars import Choice, Definitions, Integer
from weir.language.tree import Node

__all__ = ["DSCP"]

DSCP_NAMES = {
    "default": 0,
    "cs1": 8,
    "af11": 10,
    "af12": 12,
    "af13": 14,
    "cs2": 16,
    "af21": 18,
    "af22": 20,
    "af23": 22,
    "cs3": 24,
    "af31": 26,
    "af32": 28,
    "af33": 30,
    "cs4": 32,
    "af41": 34,
    "af42": 36,
    "af43": 38,
    "cs5": 40,
    "ef": 46,
    "cs6": 48,
    "cs7": 56,
}


class DscpType:
    """A differentiated-services code point, by number or name."""

    what = "a code point from 0 to 63, or a name such as `af11` or `ef`"

    def __init__(self) -> None:
        self._number = Integer(0, 63, "a code point")
        self._name = Choice("a code point", dict.fromkeys(DSCP_NAMES, ""))

    def parse(self, node: Node, log: Log) -> int:
        text = getattr(node, "text", "")
        if text.lstrip("+-").isdigit():
            return self._number.parse(node, log)
        return DSCP_NAMES[self._name.parse(node, log)]

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [self._number.schema(defs), self._name.schema(defs)]}


DSCP = DscpType()
