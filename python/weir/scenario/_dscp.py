"""Differentiated-services code points, as the language names them."""

from __future__ import annotations

import re
from typing import Any

from weir.language.problem import Log, listing
from weir.language.scalars import Choice, Definitions, Integer
from weir.language.tree import Node
from weir.queues import DSCP_NAMES

__all__ = ["DSCP"]

_ASSURED = re.compile(r"af[0-9]+")


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
        if _ASSURED.fullmatch(text) and text not in DSCP_NAMES:
            raise log.error(node.mark, f"there is no code point `{text}`; {_assured(text)}")
        return DSCP_NAMES[self._name.parse(node, log)]

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [self._number.schema(defs), self._name.schema(defs)]}


def _assured(text: str) -> str:
    """What assured forwarding has instead of ``text``: four classes with three drop precedences each (RFC 2597)."""
    names = [name for name in DSCP_NAMES if name.startswith(text[:3])]
    if not names:
        return "assured forwarding has classes 1 to 4 with drop precedences 1 to 3, from `af11` to `af43`"
    return f"class {text[2]} of assured forwarding has {listing(names, 'and')}"


DSCP = DscpType()
