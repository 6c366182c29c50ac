"""The summary of a run: the few figures that its scenario wants on top, with their values.

A figure is an expression in the language of checks whose value is a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.metrics.errors import MetricError
from weir.metrics.expect import ExpectError, Value, parse_number, tabulate_all
from weir.run import Run

__all__ = ["Figure", "Summarised", "figures_of", "parse_figures", "parts", "summarise"]


@dataclass(frozen=True)
class Figure:
    """An expression, and its title."""

    value: str
    title: str = ""

    @property
    def name(self) -> str:
        """The title, or the expression without one."""
        return self.title or self.value


@dataclass(frozen=True)
class Summarised:
    """A figure with its values."""

    figure: Figure
    values: tuple[Value, ...]
    """One for each combination of the factors that the expression leaves free, in the order of the sweep."""
    reason: str = ""
    """Why it has no values."""

    @property
    def known(self) -> tuple[Value, ...]:
        """The values that are defined."""
        return tuple(v for v in self.values if math.isfinite(v.value))

    def to_json(self) -> dict[str, Any]:
        """The figure as JSON types; undefined numbers are ``None``, values in the unit of ``unit``."""

        def number(value: Value, base: float) -> float | None:
            return value.amount(base) if math.isfinite(base) else None

        rows = [
            {
                "factors": dict(v.factors),
                "value": number(v, v.value),
                "ci": [number(v, v.low), number(v, v.high)],
                "repeats": v.repeats,
                "censored": v.censored,
                "note": v.note,
            }
            for v in self.values
        ]
        unit = self.values[0].unit if self.values else ""
        return {"value": self.figure.value, "title": self.figure.title, "unit": unit, "values": rows,
                "reason": self.reason}  # fmt: skip


def figures_of(run: Run) -> tuple[Figure, ...]:
    """The figures of the run's scenario, in its order."""
    entries = run.intended.get("summary", ())
    return tuple(Figure(str(e["value"]), str(e.get("title") or "")) for e in entries if isinstance(e, Mapping))


def parse_figures(text: str) -> tuple[Figure, ...]:
    """Reads expressions separated by commas; commas in brackets separate nothing.

    Raises:
        MetricError: one cannot be read, or its value is no number.
    """
    found = tuple(Figure(part.strip()) for part in parts(text))
    for figure in found:
        try:
            parse_number(figure.value)
        except ExpectError as error:
            raise MetricError(f"{figure.value!r}, {error}") from error
    return found


def parts(text: str) -> list[str]:
    """``text`` cut at the commas outside brackets and quotes."""
    found, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0 and not quote:
            found.append("")
        else:
            found[-1] += sign
    return found


def summarise(run: Run, figures: Sequence[Figure], level: float = 0.95) -> tuple[Summarised, ...]:
    """The values of ``figures`` in ``run``, computed in one pass over its tables.

    Raises:
        ValueError: ``level`` is not between 0 and 1.
    """
    found = tabulate_all(run, [figure.value for figure in figures], level=level)
    return tuple(
        Summarised(figure, (), str(values)) if isinstance(values, MetricError) else Summarised(figure, tuple(values))
        for figure, values in zip(figures, found, strict=True)
    )
