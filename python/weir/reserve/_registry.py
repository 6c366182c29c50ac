"""The registry of providers: weir's own, and those that other packages register as entry points ``weir.reserve``."""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from importlib.metadata import entry_points

from weir.reserve._provider import Provider
from weir.reserve.errors import RequestError

__all__ = ["GROUP", "PROVIDERS", "get", "names"]

PROVIDERS: dict[str, str] = {
    "static": "weir.reserve.static:Static",
    "slurm": "weir.reserve.slurm:Slurm",
    "oar": "weir.reserve.oar:Oar",
    "command": "weir.reserve.command:Command",
    "enoslib": "weir.reserve.enoslib:Enoslib",
}
"""Name and import path of each of weir's providers."""

GROUP = "weir.reserve"
"""The group of entry points."""


def names() -> tuple[str, ...]:
    """The names of all providers, weir's own first."""
    return (*PROVIDERS, *(name for name in _installed(tuple(sys.path)) if name not in PROVIDERS))


def get(name: str) -> Provider:
    """The provider called ``name``.

    Raises:
        RequestError: there is none, or its module cannot be loaded.
    """
    place = PROVIDERS.get(name) or _installed(tuple(sys.path)).get(name)
    if place is None:
        raise RequestError("by", f"no provider {name!r}; there are: {', '.join(names())}")
    module, _, attribute = place.partition(":")
    try:
        provider = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise RequestError("by", f"provider {name!r} cannot be loaded: {error}") from error
    if not isinstance(provider, Provider):
        raise RequestError("by", f"{place!r} is no subclass of weir.reserve.Provider")
    return provider


@lru_cache(maxsize=1)
def _installed(_path: tuple[str, ...]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
