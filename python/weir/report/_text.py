"""Numbers for people: sensible significant digits, one unit per figure.

This module is independent of charts and pages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from weir.metrics.reference import parse_reference
from weir.metrics.scanner import ExpectError

__all__ = [
    "Unit",
    "count",
    "distinct",
    "greatest",
    "least",
    "metric_unit",
    "natural_key",
    "number",
    "quantity",
    "shares",
    "shortened",
    "unit_for",
]


@dataclass(frozen=True)
class Unit:
    """A display unit: divide by ``factor``; ``suffix`` names a column in it."""

    label: str
    factor: float
    suffix: str
    whole: bool = False
    """Whether it counts things."""

    def text(self, value: float, digits: int = 3) -> str:
        """Formats a value in base units as a number of this unit."""
        return count(value) if self.whole else number(value / self.factor, digits)


_LADDERS: dict[str, tuple[Unit, ...]] = {
    "bit/s": (
        Unit("bps", 1, "bps"),
        Unit("kbps", 1e3, "kbps"),
        Unit("Mbps", 1e6, "mbps"),
        Unit("Gbps", 1e9, "gbps"),
        Unit("Tbps", 1e12, "tbps"),
    ),
    "s": (Unit("ns", 1e-9, "ns"), Unit("µs", 1e-6, "us"), Unit("ms", 1e-3, "ms"), Unit("s", 1, "s")),
    "bytes": (
        Unit("B", 1, "bytes"),
        Unit("kB", 1e3, "kbytes"),
        Unit("MB", 1e6, "mbytes"),
        Unit("GB", 1e9, "gbytes"),
        Unit("TB", 1e12, "tbytes"),
    ),
}
_SAME = {"bps": "bit/s", "b/s": "bit/s", "bit/s": "bit/s", "B": "bytes", "byte": "bytes", "bytes": "bytes", "s": "s"}
_COUNTED = {"count", "packets", "lines"}
_BARE = {"", "1", "-", "ratio", "none"}


def unit_for(largest: float, base: str) -> Unit:
    """Picks the display unit for a figure whose largest value is ``largest`` (in ``base``: bit/s, s, bytes).

    A base without multiples (packets, 1/s, %) is returned as it is.
    """
    ladder = _LADDERS.get(_SAME.get(base, base))
    if ladder is None:
        label = "" if base in _BARE else base
        suffix = re.sub(r"\W+", "_", label.replace("%", "percent").replace("/s", "_per_s")).strip("_")
        return Unit(label, 1, suffix, base in _COUNTED)
    if not math.isfinite(largest) or largest <= 0:
        return next((u for u in ladder if u.factor == 1), ladder[0])
    return max((u for u in ladder if u.factor <= abs(largest) * 1.0001), key=lambda u: u.factor, default=ladder[0])


def shares(name: str) -> bool:
    """Whether the metric ``name``, perhaps with a statistic, is shown in percent."""
    try:
        return parse_reference(name).percent
    except ExpectError:
        return False


def metric_unit(name: str, summary: pl.DataFrame) -> Unit:
    """Picks the display unit of a metric, from its values and their ``unit`` in a frame of `weir.metrics.compute`."""
    if shares(name):
        return Unit("%", 0.01, "percent")
    return unit_for(greatest(summary["value"].abs()), summary["unit"][0])


def number(value: float | None, digits: int = 3) -> str:
    """Formats ``value`` with ``digits`` significant digits, in scientific notation only if far from 1; ``None`` is a
    dash.
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 7 or size < -4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}×10{_superscript(int(exponent))}".replace("-", "−")
    decimals = max(0, digits - 1 - size)
    return f"{round(value, decimals):,.{decimals}f}".replace(",", "\u202f").replace("-", "−")


def count(value: float) -> str:
    """Formats a number of things: all its digits, and decimals only for a mean."""
    if not math.isfinite(value) or not float(value).is_integer() or abs(value) >= 1e15:
        return number(value)
    return f"{int(value):,}".replace(",", "\u202f").replace("-", "−")


def _superscript(value: int) -> str:
    return str(value).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def quantity(value: float | None, base: str, digits: int = 3) -> str:
    """Formats ``value`` (in ``base``) with its best unit: ``941 Mbps``."""
    if value is None or not math.isfinite(value):
        return number(value)
    unit = unit_for(abs(value), base)
    text = unit.text(value, digits)
    if not unit.label:
        return text
    return f"{text}\u202f%" if unit.label == "%" else f"{text} {unit.label}"


def greatest(values: pl.Series) -> float:
    """Maximum of a numeric column without nulls; 0 if there is no value."""
    found = values.max()
    return float(found) if isinstance(found, int | float) else 0.0


def least(values: pl.Series) -> float:
    """Minimum of a numeric column without nulls; 0 if there is no value."""
    found = values.min()
    return float(found) if isinstance(found, int | float) else 0.0


def natural_key(text: str) -> tuple[tuple[int, float, str], ...]:
    """A sort key that orders ``flow[2]`` before ``flow[10]``."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, float(p), "") if p.isdigit() else (1, 0.0, p) for p in parts)


def distinct(texts: Sequence[str]) -> list[str]:
    """Makes ``texts`` unique: a repeated text gets a number."""
    seen: Counter[str] = Counter()
    taken = set(texts)
    found = []
    for text in texts:
        seen[text] += 1
        name = text
        while seen[text] > 1 and name in taken:
            name = f"{text} ({seen[text]})"
            seen[text] += name in taken
        taken.add(name)
        found.append(name)
    return found


def shortened(texts: Sequence[str], most: int) -> list[str]:
    """Shortens different ``texts`` to about ``most`` characters each and keeps the part in which they differ."""
    cut = [t if len(t) <= most else f"{t[: most // 2]}…{t[len(t) - (most - most // 2 - 1) :]}" for t in texts]
    for same in {c for c in cut if cut.count(c) > 1}:
        alike = [i for i, c in enumerate(cut) if c == same]
        differ = _same(min(texts[i] for i in alike), max(texts[i] for i in alike))
        for i in alike:
            cut[i] = _around(texts[i], differ, most)
    return distinct(cut)


def _same(one: str, other: str) -> int:
    """Length of the common prefix of two texts. In a sorted list, the first and the last share the shortest."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _around(text: str, place: int, most: int) -> str:
    """The beginning of a text and the part around ``place``."""
    head = most // 4
    start = max(head, place - most // 4)
    end = start + most - head - 2
    return f"{text[:head]}{'…' * (start > head)}{text[start:end]}{'…' * (end < len(text))}"
