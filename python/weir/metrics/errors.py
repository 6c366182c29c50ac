"""Errors of computing metrics."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

__all__ = ["MetricError", "nearest"]

_MAX_COMPARED = 500


class MetricError(Exception):
    """A metric cannot be computed as asked. The message says why and what would work."""


def nearest(word: str, words: Iterable[str]) -> str:
    """`` Did you mean ...?`` with the closest of the first ``words``; empty if none is close."""
    close = difflib.get_close_matches(word, islice(words, _MAX_COMPARED), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
