"""Reads the descriptive texts at the top of a scenario, to show them without executing it."""

from __future__ import annotations

from weir.language.problem import Enough, Invalid, Log
from weir.language.tree import Map, Scalar, read

__all__ = ["texts_in"]


def texts_in(text: str) -> dict[str, str]:
    """Returns the top-level text values of ``text``, such as ``title`` and ``source``, by key.

    Checks only the reader's limits; text that is not YAML within them yields nothing.
    """
    try:
        root = read(text, Log(""))
    except (Invalid, Enough):
        return {}
    entries = root.entries if isinstance(root, Map) else ()
    return {
        entry.key.text: entry.value.text
        for entry in entries
        if isinstance(entry.value, Scalar) and not entry.value.null
    }
