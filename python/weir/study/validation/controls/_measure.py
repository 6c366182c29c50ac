"""Executes the cells on every side, and measures the distances of two sides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from weir import lab, study
from weir.compare import Comparison, Group, compare
from weir.run import Cell
from weir.run.tables import TABLES
from weir.study import Grid, How, StudyError, opened
from weir.study.validation.controls._sides import sides

__all__ = ["PAIRS", "Pair", "Row", "Variants", "execute", "factors_of"]

_METRICS = ("goodput.aggregate.mean",)


@dataclass(frozen=True)
class Pair:
    """Two sides that are compared."""

    title: str
    reference: str
    test: str


PAIRS = (
    Pair("weir's against the kernel's", "kernel", "lab"),
    Pair("weir's with as_linux against the kernel's", "kernel", "lab as_linux"),
    Pair("the simulator against the lab, the same source", "lab", "sim"),
    Pair("the simulator with as_linux against the kernel's", "kernel", "sim as_linux"),
)


@dataclass(frozen=True)
class Row:
    """The distance of two sides in one cell; of a pair of values, the reference's is the first."""

    pair: Pair
    factors: Mapping[str, str]
    goodput_bps: tuple[float, float]
    lost: tuple[int, int]
    """Packets of all flows."""
    cwnd: tuple[float, float]
    """Mean over time and flows, packets."""
    distance: float
    """Of the windows' traces, mean over flows; ``docs/comparisons.md``."""
    value_distance: float
    """The same, ignoring when."""
    same: bool
    """Whether every row of every table is equal: samples, losses, goodput, events, links."""

    def to_json(self) -> dict[str, Any]:
        """The row as JSON types."""
        return {
            "reference": self.pair.reference,
            "test": self.pair.test,
            **self.factors,
            "goodput_bps": list(self.goodput_bps),
            "lost_packets": list(self.lost),
            "cwnd_packets": list(self.cwnd),
            "cwnd_distance": self.distance,
            "cwnd_value_distance": self.value_distance,
            "same": self.same,
        }


@dataclass(frozen=True)
class Variants:
    """The compared sides and their distances."""

    comparison: Comparison
    rows: tuple[Row, ...]
    failures: tuple[str, ...]
    """Each failed cell, with its side and its error; no row is about it."""
    date: str
    kernel: str

    def of(self, pair: Pair) -> list[Row]:
        """The rows of one pair of sides."""
        return [row for row in self.rows if row.pair == pair]

    def to_json(self) -> dict[str, Any]:
        """The output of ``weir cc compare --json``."""
        return {
            "format": 1,
            "date": self.date,
            "kernel": self.kernel,
            "commit": self.comparison.runs[0].run.manifest.get("commit"),
            "rows": [row.to_json() for row in self.rows],
            "failures": list(self.failures),
        }


def execute(
    grid: Grid, chosen: Sequence[str], out: Path, how: How | None = None, against: str | None = None
) -> Variants:
    """Executes the missing cells in the folder ``out``, side by side, and measures them.

    ``against`` is the kernel's congestion control with which all chosen ones are compared; ``None``: those of their
    names.

    Raises:
        StudyError: no cell was executed by the kernel's and another.
        weir.scenario.ScenarioError: the scenario is wrong.
        weir.engine.EngineError: an execution was interrupted; complete cells are kept.
        weir.methods.MethodError: there is no lab here.
    """
    done = [
        study.execute(grid.task(side, grid.of(side), out / side.folder), how or How())
        for side in sides(chosen, against)
    ]
    failures = [f"{one.task.side.name}: {text}" for one in done for text in one.failures]
    runs = {one.task.side.name: opened(one.task.folder) for one in done if not one.reason}
    if len(runs) < 2:
        raise StudyError("\n  ".join(["nothing is left to compare; these cells failed:", *failures]))
    comparison = compare(list(runs.values()), labels=list(runs), metrics=_METRICS, phases=[None], flows=False)
    kernel = lab.find()
    version = kernel.version if kernel else ""
    return Variants(comparison, tuple(_rows(comparison)), tuple(failures), study.today(), version)


def _rows(comparison: Comparison) -> list[Row]:
    rows = []
    for pair in PAIRS:
        for group in comparison.groups:
            both = [group.cells.get(label, ()) for label in (pair.reference, pair.test)]
            if len(both[0]) == len(both[1]) > 0:  # a repeat of the other has failed
                rows.append(_row(comparison, pair, group.number, factors_of(group), both))
    return rows


def factors_of(group: Group) -> dict[str, str]:
    """The factors that distinguish a cell, always including the congestion control, which comes first."""
    return {"cc": group.factors["cc"], **group.shown}


def _row(
    comparison: Comparison, pair: Pair, number: int, factors: Mapping[str, str], both: Sequence[Sequence[Cell]]
) -> Row:
    here = (pl.col("cell") == number) & (pl.col("a") == pair.reference) & (pl.col("b") == pair.test)
    goodput = comparison.differences.filter(here & (pl.col("metric") == _METRICS[0])).to_dicts()[0]
    windows = comparison.traces.filter(here & (pl.col("trace") == "cwnd"))
    return Row(
        pair=pair,
        factors=dict(factors),
        goodput_bps=(goodput["a_value"], goodput["b_value"]),
        lost=(_lost(both[0]), _lost(both[1])),
        cwnd=(_mean(windows["a_mean"]), _mean(windows["b_mean"])),
        distance=_mean(windows["distance"]),
        value_distance=_mean(windows["value_distance"]),
        same=all(itertools.starmap(_equal, zip(*both, strict=True))),
    )


def _equal(a: Cell, b: Cell) -> bool:
    both = [name for name in TABLES if a.has(name) and b.has(name)]
    return all(a.table(name).collect().equals(b.table(name).collect()) for name in both)


def _lost(cells: Sequence[Cell]) -> int:
    return sum(int(cell.table("flows").select(pl.col("lost_packets").sum()).collect().item()) for cell in cells)


def _mean(values: pl.Series) -> float:
    found = values.mean()
    return float(found) if isinstance(found, int | float) else math.nan
