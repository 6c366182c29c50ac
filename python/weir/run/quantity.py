"""Quantities in scenarios and claims: ``3.5Gbps``, ``18ms``, ``64KiB``, ``5%``, ``1.2``.

A quantity is a number in base units (bit, second) and the exponents of these units, so that claims that compare
different dimensions are detected. Counts (packets, events, round trips) have no dimension.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = [
    "ONE",
    "RATE",
    "SIZE",
    "TIME",
    "UNITS",
    "Dimension",
    "Quantity",
    "format_quantity",
    "format_share",
    "parse_quantity",
    "same_value",
]

Dimension = tuple[int, int]
"""Exponents of bit and second."""

ONE: Dimension = (0, 0)
RATE: Dimension = (1, -1)
SIZE: Dimension = (1, 0)
TIME: Dimension = (0, 1)

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _units() -> dict[str, tuple[float, Dimension]]:
    units: dict[str, tuple[float, Dimension]] = {
        "%": (0.01, ONE),
        "ns": (1e-9, TIME),
        "us": (1e-6, TIME),
        "µs": (1e-6, TIME),
        "ms": (1e-3, TIME),
        "s": (1.0, TIME),
        "min": (60.0, TIME),
        "h": (3600.0, TIME),
        "/s": (1.0, (0, -1)),
        "Hz": (1.0, (0, -1)),
        "/min": (1 / 60, (0, -1)),
        "packets": (1.0, ONE),
        "RTT": (1.0, ONE),
    }
    for prefix, scale in _PREFIXES.items():
        for rate in ("bps", "bit/s", "b/s"):
            units[prefix + rate] = (scale, RATE)
        units[prefix + "B"] = (8 * scale, SIZE)
        units[prefix + "bit"] = (scale, SIZE)
        units[prefix + "B/s"] = (8 * scale, RATE)
    for prefix, scale in _BINARY.items():
        units[prefix + "B"] = (8 * scale, SIZE)
    return units


UNITS: dict[str, tuple[float, Dimension]] = _units()
"""Unit -> its size in base units, and its dimension."""

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")


@dataclass(frozen=True)
class Quantity:
    """``value`` in base units (bit, second) and its dimension."""

    value: float
    dimension: Dimension


def parse_quantity(text: str) -> Quantity | None:
    """The quantity written as ``text``, or ``None`` if it is a word or its unit is unknown."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, unit = match.groups()
    scale, dimension = UNITS.get(unit, (1.0, ONE)) if not unit or unit in UNITS else (math.nan, ONE)
    return None if math.isnan(scale) else Quantity(float(number) * scale, dimension)


def same_value(one: str, other: str) -> bool:
    """Whether two factor values are the same word, or the same quantity differently written (``0.1s``, ``100ms``)."""
    if one == other:
        return True
    a, b = parse_quantity(one), parse_quantity(other)
    return (
        a is not None and b is not None and a.dimension == b.dimension and math.isclose(a.value, b.value, rel_tol=1e-9)
    )


def format_quantity(value: float, dimension: Dimension, digits: int = 4) -> str:
    """Formats ``value`` (base units) for people: ``941.5 Mbps``, ``18 ms``, ``0.93``."""
    if math.isnan(value):
        return "undefined"
    if dimension == TIME:
        return _scaled(value, digits, [(3600.0, "h", 7200.0), (1.0, "s", 1.0), (1e-3, "ms", 1e-3), (1e-6, "us", 0.0)])
    if dimension in (RATE, SIZE):
        scale, unit = (1.0, "bps") if dimension == RATE else (8.0, "B")
        steps = [(scale * s, p + unit, scale * s) for p, s in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))]
        return _scaled(value, digits, [*steps, (scale, unit, 0.0)])
    if dimension == (-1, 1):
        steps = [
            (scale, unit, scale)
            for scale, unit in ((1.0, "s/bit"), (1e-3, "ms/bit"), (1e-6, "us/bit"), (1e-9, "ns/bit"))
        ]
        return _scaled(value, digits, [*steps, (1e-12, "ps/bit", 0.0)])
    if dimension == ONE and (float(value).is_integer() or abs(value) >= 10**digits) and abs(value) < 1e15:
        return f"{value:.0f}"  # a count
    suffix = {ONE: "", (0, -1): " /s", (2, -2): " (bit/s)²"}.get(dimension, f" bit^{dimension[0]} s^{dimension[1]}")
    return f"{value:.{digits}g}{suffix}"


def format_share(value: float, digits: int = 4) -> str:
    """Formats a share of a whole for people: ``94.15 %``."""
    return "undefined" if math.isnan(value) else f"{100 * value:.{digits}g} %"


def _scaled(value: float, digits: int, steps: list[tuple[float, str, float]]) -> str:
    for scale, unit, least in steps:
        if abs(value) >= least and value != 0:
            return f"{value / scale:.{digits}g} {unit}"
    unit = "s" if steps[-1][1] == "us" else steps[-1][1]
    return f"{value:.{digits}g} {unit}"
