"""The sides of a study: a method each, with its overrides of the scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from weir import methods
from weir.study.errors import StudyError

__all__ = ["Side", "folder_name", "parse_methods", "parse_sides"]


@dataclass(frozen=True)
class Side:
    """One way to execute every cell: a method with overrides, such as ``sim``, ``sim@seed=2``."""

    name: str
    """The side as written on the command line."""
    method: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Values of the scenario that are changed for this side, by their path."""

    @property
    def folder(self) -> str:
        """Folder name of its run."""
        return folder_name(self.name)

    @property
    def real(self) -> bool:
        """Whether it runs on a real clock, so that the machine influences its results."""
        return methods.get(self.method).clock == "real"


def parse_sides(text: str) -> tuple[Side, Side]:
    """Reads ``sim,emul``: the side under test and its reference.

    Raises:
        StudyError: it is not two different sides.
    """
    sides = [_side(part.strip()) for part in text.split(",")]
    if len(sides) != 2 or sides[0].name == sides[1].name:
        raise StudyError(f"{text!r}: expected two methods, such as sim,emul, or sim,sim@seed=2")
    return sides[0], sides[1]


def _side(text: str) -> Side:
    method, *changes = text.split("@")
    overrides = {}
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals or not path:
            raise StudyError(f"{text!r}: expected METHOD or METHOD@PATH=VALUE, such as sim@seed=2")
        overrides[path] = value
    if not method:
        raise StudyError(f"{text!r} names no method; expected METHOD or METHOD@PATH=VALUE")
    return Side(text, method, overrides)


def parse_methods(text: str) -> tuple[str, ...]:
    """The methods of ``sim,lab,emul``, in that order.

    Raises:
        StudyError: there is none, or one is repeated.
        weir.methods.UnknownMethodError: a method does not exist.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or len(set(names)) < len(names):
        raise StudyError(f"{text!r} does not name one method, or several different ones, such as sim,lab,emul")
    for name in names:
        methods.get(name)
    return names


def folder_name(text: str) -> str:
    """Converts ``text`` to a folder name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
