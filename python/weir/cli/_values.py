"""Prints values with their intervals on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weir.cli._common import console, print_table
from weir.cli._factors import short_names, told_factors

if TYPE_CHECKING:
    from weir.metrics.expect import Value
    from weir.metrics.summary import Summarised
    from weir.run import Run

__all__ = ["Column", "expression_column", "metric_columns", "print_columns", "summary_column"]


@dataclass(frozen=True)
class Column:
    """A metric or an expression at each combination of its factors."""

    name: str
    factors: tuple[str, ...]
    cells: Mapping[tuple[str, ...], str]
    """Text by the values of ``factors``."""
    rows: Sequence[Mapping[str, Any]]
    """The same as rows for programs."""
    notes: Sequence[str] = ()


def metric_columns(rows: Sequence[Mapping[str, Any]], factors: Sequence[str]) -> list[Column]:
    """Columns from rows of :func:`weir.metrics.compute`, by all ``factors``."""
    found = []
    for name in dict.fromkeys(row["metric"] for row in rows):
        own = [row for row in rows if row["metric"] == name]
        cells = {tuple(str(row[factor]) for factor in factors): _metric(row) for row in own}
        found.append(Column(name, tuple(factors), cells, own))
    return found


def expression_column(run: Run, text: str, values: Sequence[Value], phase: str | None) -> Column:
    """The column of an expression."""
    from weir.metrics.expect import frame_of

    factors = tuple(values[0].factors)
    cells = {tuple(value.factors.values()): _expression(value) for value in values}
    notes = [f"{_place(value)}{value.note}" for value in values if value.note]
    frame = frame_of(run, text, list(values)).rename({"expression": "metric"})
    rows = [{**row, "phase": phase, "sd": None} for row in frame.to_dicts()]
    return Column(text, factors, cells, rows, notes)


def summary_column(run: Run, one: Summarised) -> Column:
    """The column of a figure of the summary, under its title."""
    if one.reason:
        return Column(one.figure.name, (), {(): "-"}, [], [one.reason])
    column = expression_column(run, one.figure.value, one.values, None)
    return replace(column, name=one.figure.name)


def print_columns(columns: Sequence[Column], level: float) -> None:
    """Prints one table per set of factors, and a legend of its signs."""
    from weir.metrics.expect import percent

    out = console()
    for factors in dict.fromkeys(column.factors for column in columns):
        own = [column for column in columns if column.factors == factors]
        keys = dict.fromkeys(key for column in own for key in column.cells)
        told = told_factors(factors, list(keys))
        names = [short_names(key[i] for key in keys) for i in range(len(factors))]
        lines = [(*(names[i][key[i]] for i in told), *(column.cells.get(key, "-") for column in own)) for key in keys]
        right = range(len(told), len(told) + len(own))
        print_table((*(factors[i] for i in told), *(column.name for column in own)), lines, right=right)
        for column in own:
            for note in dict.fromkeys(column.notes):
                out.print(f"{column.name}: {note}", style="dim")
        out.print()
    cells = [text for column in columns for text in column.cells.values()]
    legend = []
    if any("±" in text or "[" in text for text in cells):
        legend.append(f"± or [from to]: {percent(level)} interval of the mean over repeats")
    if any(text.endswith(_SAME) for text in cells):
        legend.append(f"{_SAME.strip()}: the same in all repeats")
    if legend:
        out.print("; ".join(legend), style="dim")


_SAME = " ="


def _metric(row: Mapping[str, Any]) -> str:
    from weir.metrics.reference import parse_reference
    from weir.metrics.registry import UNIT
    from weir.run.quantity import format_quantity, format_share

    size, dimension = UNIT.get(row["unit"], (1.0, (0, 0)))
    percent = parse_reference(row["metric"]).percent

    def show(value: float) -> str:
        return format_share(value) if percent else format_quantity(value * size, dimension)

    if row["value"] is None:
        return "-"
    text = f"≥ {show(row['value'])}" if row["censored"] else show(row["value"])
    if row["ci_low"] is None or row["ci_high"] is None:
        return text
    return text + _spread(row["value"], row["ci_low"], row["ci_high"], show)


def _expression(value: Value) -> str:
    if value.word is not None:
        return value.word
    if value.value != value.value:
        return "-"
    text = f"≥ {value.show(value.value)}" if value.censored else value.show(value.value)
    if value.low != value.low:
        return text
    return text + _spread(value.value, value.low, value.high, value.show)


def _spread(value: float, low: float, high: float, show: Any) -> str:
    """Half the width of the interval or, if a bound cuts it and it is asymmetric, both ends."""
    if low == high:
        return _SAME
    down, up = value - low, high - value
    if abs(up - down) <= 1e-6 * (up + down):
        return f" ± {show((up + down) / 2)}"
    return f" [{show(low)} {show(high)}]"


def _place(value: Value) -> str:
    place = ", ".join(f"{name} = {v}" for name, v in value.factors.items())
    return f"{place}: " if place else ""
