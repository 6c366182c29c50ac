"""Executes the cells on every side, and measures how far two of them are apart."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from weir import engine, lab
from weir.compare import Comparison, Group, compare
from weir.run import Cell
from weir.run.tables import TABLES
from weir.scenario import load
from weir.variants._sides import SIDES, Side
from weir.variants.errors import VariantError

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
    """How far one side is from another in one cell; of a pair of values, the reference's is the first."""

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
    """Every row of every table is equal: samples, losses, goodput, events, links."""

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
    """What was compared, and how far apart it is."""

    comparison: Comparison
    rows: tuple[Row, ...]
    failures: tuple[str, ...]
    date: str
    kernel: str

    def of(self, pair: Pair) -> list[Row]:
        """The rows of one pair of sides."""
        return [row for row in self.rows if row.pair == pair]

    def to_json(self) -> dict[str, Any]:
        """What ``weir cc compare --json`` prints."""
        return {
            "format": 1,
            "date": self.date,
            "kernel": self.kernel,
            "commit": self.comparison.runs[0].run.manifest.get("commit"),
            "rows": [row.to_json() for row in self.rows],
            "failures": list(self.failures),
        }


def execute(
    scenario: Path,
    chosen: Sequence[str],
    out: Path,
    *,
    quick: bool = False,
    overrides: Mapping[str, str] | None = None,
    workers: int | None = None,
    fresh: bool = False,
    display: engine.Display | None = None,
) -> Variants:
    """Executes what the folder ``out`` lacks, side by side, and measures it.

    Raises:
        VariantError: no cell was executed by the kernel's and another.
        weir.scenario.ScenarioError: the scenario is wrong.
        weir.engine.EngineError: an execution was interrupted; what is complete is kept.
        weir.methods.MethodError: there is no lab here.
    """
    folders, failures = {}, []
    for side in SIDES:
        changed = side.overrides(chosen)
        if not changed:
            continue
        settings = {**(overrides or {}), **changed}
        folders[side.name] = _folder(out, side)
        result = engine.run(
            load(scenario, quick=quick, overrides=settings),
            folders[side.name],
            method=side.method,
            workers=workers,
            settings={"quick": quick, "set": settings},
            fresh=fresh,
            display=display,
        )
        failures += [f"{side.name}: {failure.place}: {failure.error.splitlines()[0]}" for failure in result.failures]
    if failures:
        raise VariantError("\n  ".join(["some cells could not be executed:", *failures[:5]]))
    comparison = compare(list(folders.values()), labels=list(folders), metrics=_METRICS, phases=[None], flows=False)
    kernel = lab.find()
    now = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Variants(comparison, tuple(_rows(comparison)), tuple(failures), now, kernel.version if kernel else "")


def _folder(out: Path, side: Side) -> Path:
    return out / side.name.replace(" ", "-")


def _rows(comparison: Comparison) -> list[Row]:
    rows = []
    for pair in PAIRS:
        for group in comparison.groups:
            if pair.reference in group.cells and pair.test in group.cells:
                both = [group.cells[label] for label in (pair.reference, pair.test)]
                rows.append(_row(comparison, pair, group.number, factors_of(group), both))
    return rows


def factors_of(group: Group) -> dict[str, str]:
    """What tells a cell from the others, the congestion control first, be it the only one."""
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
