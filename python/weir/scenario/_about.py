"""The texts at the top of a scenario, for whoever shows it and does not execute it."""

from __future__ import annotations

from ._problem import Enough, Invalid, Log
from ._yaml import Map, Scalar, read

__all__ = ["texts_in"]


def texts_in(text: str) -> dict[str, str]:
    """The values at the top level of ``text`` that are texts, such as ``title`` and ``source``, by their keys.

    Nothing is checked beyond the bounds of the reader; what is no YAML within them has no texts.
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
