"""Comparisons of checks as text, with one unit for a figure and its threshold: the papers'."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from weir.metrics.expect import Measurement, Verdict
from weir.metrics.expect.parser import parse_check
from weir.metrics.expect.syntax import Between, Binary, Compare, Logic, Node, Number, Quantified, Within, walk
from weir.run.quantity import ONE, RATE, TIME

__all__ = ["Bottleneck", "compared", "figures"]

_SHARES = "efficiency.capacity"
_BOTH = 2
"""Comparisons of a check that are printed together; of more, the closest alone."""
_RATES = ((1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


@dataclass(frozen=True)
class Bottleneck:
    """What shares of a bottleneck are printed in."""

    rate_bps: int
    """The papers' bottleneck."""
    flows: int = 0
    """Number of flows that the share is of, if the claim is about one of them; 0: the claim is about all."""

    @property
    def unit(self) -> str:
        """The unit of a share."""
        return "Mb/s a flow" if self.flows else "Mb/s"

    @property
    def scale(self) -> float:
        """A share of one, in `unit`."""
        return self.rate_bps / 1e6 / max(self.flows, 1)


@dataclass(frozen=True)
class _Shown(Measurement):
    """A comparison that prints all of its numbers in one unit."""

    scale: float = 1.0
    unit: str = ""

    def show(self, value: float | str) -> str:
        """As of a measurement, in the unit of this one."""
        if isinstance(value, str):
            return value
        return "undefined" if math.isnan(value) else f"{_digits(value * self.scale)} {self.unit}".rstrip()

    def __str__(self) -> str:
        """As of a measurement, with the unit once for numbers that stand together.

        Percentages keep their signs: without, one reads as a ratio.
        """
        return _once(super().__str__(), self.unit)


def compared(verdict: Verdict, bottleneck: Bottleneck, *, named: bool = False, longest: int | None = None) -> str:
    """The deciding comparison; of two that must both hold, both.

    The text of a comparison stands before its figures if the check has several, and if ``named``; but not if it has
    more than ``longest`` characters.
    """
    found = {m.text for m in verdict.measured}
    texts = list(dict.fromkeys(m.text for m in verdict.measured[: verdict.deciding or 1]))
    first = [next(m for m in verdict.measured if m.text == text) for text in texts]
    if len(found) == 1 and not named:
        return _figure(verdict, first[0], bottleneck)
    either = any(isinstance(part, Logic) and part.operator == "or" for part in walk(parse_check(verdict.check)))
    shown = first if len(first) <= _BOTH and not either else first[:1]
    texts = [f"`{m.text}`: " if longest is None or len(m.text) <= longest else "" for m in shown]
    said = [text + _figure(verdict, m, bottleneck) for text, m in zip(texts, shown, strict=True)]
    return "; ".join(dict.fromkeys(said))


def figures(verdict: Verdict, bottleneck: Bottleneck) -> str:
    """The figures of the deciding comparisons alone, each with its interval in brackets: that of the figure against a
    fixed threshold, else that of the margin.
    """
    texts = dict.fromkeys(m.text for m in verdict.measured[: verdict.deciding or 1])
    first = [next(m for m in verdict.measured if m.text == text) for text in texts]
    shown = [_bare(_in_unit(verdict, m, bottleneck)) for m in (first if len(first) <= _BOTH else first[:1])]
    return "; ".join(dict.fromkeys(shown))


def _bare(m: Measurement) -> str:
    if m.outcome == "undecided" and isinstance(m.value, float) and math.isnan(m.value):
        return m.note
    text = m.show(m.value) + (f" against {m.limit}" if m.against else "")
    low, high = (m.low, m.high) if m.fixed else (m.margin_low, m.margin_high)
    if not m.same and not math.isnan(low):
        text += f" ({'' if m.fixed else 'margin '}{m.show(low)} to {m.show(high)})"
    return _once(text, m.unit) if isinstance(m, _Shown) else text


def _once(text: str, unit: str) -> str:
    """The unit once for numbers that stand together, but each with its percent sign."""
    if unit in ("", "%"):
        return text
    for word in (" against ", " ± ", " to "):
        text = text.replace(f" {unit}{word}", word)
    return text


def _figure(verdict: Verdict, m: Measurement, bottleneck: Bottleneck) -> str:
    return str(_in_unit(verdict, m, bottleneck))


def _in_unit(verdict: Verdict, m: Measurement, bottleneck: Bottleneck) -> Measurement:
    """The comparison as it is printed."""
    if isinstance(m.value, str) and isinstance(m.threshold, str) and m.against and m.outcome == "fails":
        m = replace(m, value=f"{m.value}, not {m.threshold}", threshold="")
    m = _of_quotient(m)
    if isinstance(m.value, str) or isinstance(m.threshold, str):
        return m
    known: Mapping[str, object] = {field.name: getattr(m, field.name) for field in fields(Measurement)}
    unit = (bottleneck.scale, bottleneck.unit) if _SHARES in verdict.check else _unit(m)
    return m if unit is None else _Shown(**known, scale=unit[0], unit=unit[1])  # type: ignore[arg-type]


def _unit(m: Measurement) -> tuple[float, str] | None:
    """Factor and unit for value and threshold alike; ``None``: those of the quantity."""
    assert not isinstance(m.value, str)
    assert not isinstance(m.threshold, str)
    if m.dimension == ONE:
        return (100.0, "%") if m.percent or _limit_in_percent(m.text) else (1.0, "")
    ladder = {RATE: _RATES, TIME: _TIMES}.get(m.dimension)
    if ladder is None:
        return None
    # Rates are read in the larger one's unit, times in the threshold's, which is the paper's.
    size = max(abs(m.value), abs(m.threshold)) if m.dimension == RATE or not m.threshold else abs(m.threshold)
    scale, unit = next((step for step in ladder if size >= step[0]), ladder[0] if size == 0 else ladder[-1])
    return 1 / scale, unit


def _limit_in_percent(text: str) -> bool:
    """Whether the check gives its limit in percent: ``goodput.cov <= 1%``."""
    node = _body(text)
    limits: tuple[Node, ...] = ()
    if isinstance(node, Compare | Within):
        limits = (node.right,)
    elif isinstance(node, Between):
        limits = (node.low, node.high)
    return any(isinstance(limit, Number) and limit.percent for limit in limits)


def _body(text: str) -> Node:
    node = parse_check(text)
    while isinstance(node, Quantified):
        node = node.body
    return node


def _of_quotient(m: Measurement) -> Measurement:
    """Of a check such as ``goodput / 6400Mbps between 99% and 101%``: the goodput itself."""
    node = _body(m.text) if m.text else None
    side = node.part if isinstance(node, Between) else node.left if isinstance(node, Compare | Within) else node
    if not isinstance(side, Binary) or side.operator != "/" or not isinstance(by := side.right, Number):
        return m
    if isinstance(m.value, str) or isinstance(m.threshold, str) or not any(by.dimension):
        return m
    scaled = {
        name: getattr(m, name) * by.value
        for name in ("value", "low", "high", "threshold", "margin", "margin_low", "margin_high", "tolerance")
    }
    return replace(m, **scaled, dimension=by.dimension, percent=False)


def _digits(value: float) -> str:
    """Four digits, without an exponent."""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    if value and abs(value) < 1e-4:
        return f"{value:.{3 - math.floor(math.log10(abs(value)))}f}".rstrip("0")
    return f"{value:.4g}"
