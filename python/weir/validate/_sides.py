"""The two sides of a validation: a method, and what is changed about the scenario for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weir.validate.errors import ValidateError

__all__ = ["Side", "parse_sides"]


@dataclass(frozen=True)
class Side:
    """A method with overrides: ``sim``, ``sim@seed=2``, ``lab@transport.cc=linux:cubic``."""

    text: str
    method: str
    overrides: Mapping[str, str]

    @property
    def folder(self) -> str:
        """A name for its run's folder."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.text).strip("-.")


def parse_sides(text: str) -> tuple[Side, Side]:
    """Reads ``sim,emul``: the method under test, and the one it is measured against.

    Raises:
        ValidateError: it is not two different sides.
    """
    sides = [_side(part.strip()) for part in text.split(",")]
    if len(sides) != 2 or sides[0].text == sides[1].text:
        raise ValidateError(f"{text!r}: expected two methods, such as sim,emul, or sim,sim@seed=2")
    return sides[0], sides[1]


def _side(text: str) -> Side:
    method, *changes = text.split("@")
    overrides = {}
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals or not path:
            raise ValidateError(f"{text!r}: expected METHOD or METHOD@PATH=VALUE, such as sim@seed=2")
        overrides[path] = value
    if not method:
        raise ValidateError(f"{text!r} names no method; expected METHOD or METHOD@PATH=VALUE")
    return Side(text, method, overrides)
