"""The registry of methods: weir's own, those that other packages register, and any class by its import path.

A package registers a method as an entry point, which every process finds: ``[project.entry-points."weir.methods"]``
with a line ``name = "package.module:Class"``.
"""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from importlib.metadata import entry_points

from weir.methods._errors import UnknownMethodError
from weir.methods._method import Method

__all__ = ["DEFAULT", "GROUP", "METHODS", "get", "names", "registered"]

METHODS: dict[str, str] = {
    "sim": "weir.methods.sim:Sim",
    "lab": "weir.methods.lab:LabMethod",
    "emul": "weir.methods.emul:Emul",
    "hosts": "weir.methods.hosts:Hosts",
}
"""Name and import path of each of weir's methods."""

DEFAULT = "sim"
"""The method if none is named and nothing is chosen: it has no requirements."""

GROUP = "weir.methods"
"""The group of entry points."""


def names() -> tuple[str, ...]:
    """The names of all methods, weir's own first."""
    return (*METHODS, *(name for name in _installed(tuple(sys.path)) if name not in METHODS))


def get(name: str, on: str | None = None) -> Method:
    """The method called ``name``, or the class at the import path ``package.module:Class``.

    Args:
        name: Of the method.
        on: The file of the inventory with its machines, for a method that takes one; others run here.

    Raises:
        UnknownMethodError: no such method, or its module cannot be loaded.
    """
    module, _, attribute = _place(name).partition(":")
    if not attribute:
        raise UnknownMethodError(f"no method {name!r}; there are: {', '.join(names())}")
    try:
        method = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise UnknownMethodError(f"method {name!r} cannot be loaded: {error}") from error
    if not isinstance(method, Method):
        raise UnknownMethodError(f"{name!r} is not a method: it is no subclass of weir.methods.Method")
    return method.on(on) if on is not None and method.takes_inventory else method


def registered(name: str) -> Method | None:
    """The method of that name, if it is registered: a name in an untrusted file loads nothing."""
    if ":" in name:
        return None
    try:
        return get(name)
    except UnknownMethodError:
        return None


def _place(name: str) -> str:
    if name in METHODS or ":" in name:
        return METHODS.get(name, name)
    return _installed(tuple(sys.path)).get(name, name)


@lru_cache(maxsize=1)
def _installed(_path: tuple[str, ...]) -> dict[str, str]:
    """Name and import path of the methods that packages on the path register."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
