"""The declarations of elements, from ``weir-elements``."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from weir import _weir

__all__ = ["Element", "Form", "Key", "elements"]


class Key(Struct, frozen=True, kw_only=True):
    """A key of the scenario language."""

    name: str
    field: str
    """The field of the plan that it sets, a path such as ``codel.target_ns``."""
    kind: dict[str, Any]
    """Its ``type``, with its limits."""
    default: str | None
    """The value of an omitted key, as a scenario would write it."""
    optional: bool
    """Whether it may be omitted and then has no value."""
    meaning: str

    @property
    def type(self) -> str:
        """Its type: ``time``, ``number``, ``ecn`` and so on (``Kind`` of ``weir-elements``)."""
        return str(self.kind["type"])


class Form(Struct, frozen=True, kw_only=True):
    """A notation of an element in a scenario."""

    name: str
    title: str
    keys: tuple[Key, ...]


class Element(Struct, frozen=True, kw_only=True):
    """The declaration of a link's element."""

    name: str
    """Its kind in plans."""
    place: str
    """``mtu``, ``loss``, ``queue``, ``transmitter`` or ``delay``."""
    title: str
    source: str
    random: bool
    """Whether it draws random numbers while a plan runs."""
    plain: bool
    """A queue: first in, first out, and drops only packets that exceed its limit."""
    classes: tuple[str, ...]
    """Classes into which a queue sorts packets by itself; empty if it has none, or if the plan names them."""
    forms: tuple[Form, ...]


@cache
def _all() -> tuple[Element, ...]:
    return msgspec.json.decode(_weir.elements(), type=tuple[Element, ...])


def elements(place: str | None = None) -> tuple[Element, ...]:
    """The elements, in the order in which a packet passes them; those at ``place``, if given."""
    return tuple(one for one in _all() if place in (None, one.place))
