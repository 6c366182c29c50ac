"""Differences between the plans of two cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PlanDifference", "differing"]

_IGNORED = frozenset({"title"})
_ABSENT = "absent"
_MAX_SHOWN = 60
"""Characters of a value shown."""


@dataclass(frozen=True)
class PlanDifference:
    """A place in the plans, and each plan's value there at the first difference."""

    path: str
    """``flows[*].transport.cc``, without the indices of list items."""
    a: str
    b: str
    count: int
    """Number of differences at this place."""

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.path}: {self.a} → {self.b}{times}"


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[PlanDifference]:
    """The places where two plans differ, each once, in the order of the first plan."""
    found: dict[str, PlanDifference] = {}
    for path, x, y in _walk(a, b, ""):
        before = found.get(path)
        count = 1 if before is None else before.count + 1
        found[path] = (
            PlanDifference(path, x, y, count) if before is None else PlanDifference(path, before.a, before.b, count)
        )
    return list(found.values())


def _walk(a: Any, b: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            if path or key not in _IGNORED:
                yield from _walk(a.get(key, _ABSENT), b.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for x, y in zip(a, b, strict=True):
            yield from _walk(x, y, f"{path}[*]")
    else:
        yield path, _shown(a), _shown(b)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} items"
    text = str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
