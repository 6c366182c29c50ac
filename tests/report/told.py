"""Expected marks, the run's tables on disk, and the arithmetic shared by readers of charts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from scene import GAP, Point, with_gaps
from shapes import Shape, seen
from synthetic import Cell

from weir.metrics import compute, parse_reference
from weir.report._text import shortened
from weir.report.charts import Medium
from weir.run import Run

__all__ = ["TheCell", "TheRun", "Told", "banded", "buckets", "curve", "envelope", "shown"]

_SECOND = 1e9


@dataclass(frozen=True)
class Told:
    """An expected mark; see `scene.Mark`."""

    panel: str
    kind: str
    points: tuple[Point, ...]
    series: str = ""
    dashed: bool = False
    pale: bool = False
    may_leave: bool = False
    """Whether it may leave the panel."""


@dataclass(frozen=True)
class TheCell:
    """One cell: its tables and plan, read from disk."""

    folder: Path
    cell: Cell
    run: Run
    medium: Medium

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan's document."""
        found: dict[str, Any] = json.loads((self.folder / "plan.json").read_text())
        return found

    def table(self, name: str) -> pl.DataFrame:
        """A table; without rows if it is missing."""
        file = self.folder / f"{name}.parquet"
        return pl.read_parquet(file) if file.is_file() else pl.DataFrame()

    def tested(self, name: str) -> pl.DataFrame:
        """Rows of flows under test, with their name and index among them."""
        frame = self.table(name)
        flows = self.flows
        places = pl.DataFrame(
            {"flow": [i for i, _ in flows], "name": [f["name"] for _, f in flows], "place": range(len(flows))},
            schema={"flow": pl.UInt32, "name": pl.String, "place": pl.Int64},
        )
        return (
            frame
            if frame.is_empty()
            else frame.join(places, on="flow").sort("place", "time_ns" if "time_ns" in frame.columns else "start_ns")
        )

    @property
    def flows(self) -> list[tuple[int, dict[str, Any]]]:
        """Index and plan of the flows under test."""
        return [(i, f) for i, f in enumerate(self.plan["flows"]) if f["role"] == "test"]

    @property
    def ways(self) -> dict[str, list[int]]:
        """The flows under test by direction."""
        found: dict[str, list[int]] = {}
        for way, reverse in (("forward", False), ("reverse", True)):
            flows = [i for i, f in self.flows if bool(f.get("reverse")) == reverse]
            if flows:
                found[way] = flows
        return found

    def looks(self) -> dict[str, tuple[str, list[int]]]:
        """Direction, name in the legend, and flows; one entry without a name if all have the same direction."""
        ways = self.ways
        return {way: (way if len(ways) > 1 else "", flows) for way, flows in ways.items()}

    @property
    def few(self) -> bool:
        """Whether each flow has a panel."""
        return len(self.flows) <= 16

    @property
    def shared(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """The link that all flows of a direction cross: index and plan."""
        links = self.plan["links"]
        name = next(k["name"] for k in links if not k["host_nic"])
        names = {"forward": name, "reverse": f"{name}.reverse"}
        return {way: next((i, k) for i, k in enumerate(links) if k["name"] == names[way]) for way in self.ways}

    @property
    def end_ns(self) -> int:
        """End of the run."""
        return int(self.plan["end_ns"])

    @property
    def phases(self) -> list[tuple[str, float, float]]:
        """Name, start and end of the phases in seconds."""
        return [(p["name"], p["from_ns"] / _SECOND, p["to_ns"] / _SECOND) for p in self.plan["phases"]]

    def interval(self, name: str) -> int:
        """Interval of a table, ns."""
        return int(
            self.plan["measure"][
                {"goodput": "goodput_ns", "samples": "tcp_ns", "links": "links_ns", "delays": "delay_ns"}[name]
            ]
        )

    def width(self, name: str, buckets: int | None = None) -> int:
        """The time that a point represents: whole intervals, as few as fit into the buckets of the medium."""
        interval = self.interval(name)
        most = buckets or self.medium.buckets
        intervals = -(-self.end_ns // interval)
        return interval * -(-intervals // most)

    def metric(self, name: str, *by: str) -> pl.DataFrame:
        """A metric in each phase, over the repeats of this cell."""
        where = dict(self.cell.factors)
        phase = "*" if self.plan["phases"] else None
        ways = ["direction"] if len(self.ways) > 1 and not by else []
        return _computed(self.run, name, (*where, *by, *ways), phase, tuple(where.items()))


@dataclass(frozen=True)
class TheRun:
    """A run and its cells."""

    cells: tuple[TheCell, ...]
    run: Run
    shape: Shape
    medium: Medium

    def metric(self, name: str, *more: str) -> pl.DataFrame:
        """A metric in each phase and cell."""
        phase = "*" if self.cells[0].plan["phases"] else None
        needs = parse_reference(name).metric.tables
        usable = [c for c in self.run.cells if all((c.path / f"{table}.parquet").is_file() for table in needs)]
        part = Run(self.run.path, usable, self.run.manifest, ())
        ways = ["direction"] if any(len(cell.ways) > 1 for cell in self.cells) else []
        return _computed(part, name, (*part.factors, *ways, *more), phase)

    def last(self, name: str) -> list[dict[str, Any]]:
        """The values of a metric of all flows under test in the last phase, one for each combination of factors."""
        needs = parse_reference(name).metric.tables
        usable = [c for c in self.run.cells if all((c.path / f"{table}.parquet").is_file() for table in needs)]
        phases = self.cells[0].plan["phases"]
        if not usable:
            return []
        part = Run(self.run.path, usable, self.run.manifest, ())
        found = _computed(part, name, tuple(part.factors), phases[-1]["name"] if phases else None)
        return found.drop_nulls("value").to_dicts()


_KNOWN: dict[tuple[object, ...], pl.DataFrame] = {}


def _computed(
    run: Run, name: str, by: tuple[str, ...], phase: str | None, where: tuple[tuple[str, str], ...] = ()
) -> pl.DataFrame:
    """A metric of a run, computed once for both media."""
    key = (run.path, tuple(cell.id for cell in run.cells), name, by, phase, where)
    if key not in _KNOWN:
        _KNOWN[key] = compute(run, name, by=list(by), phase=phase, where=dict(where) or None)
    return _KNOWN[key]


def buckets(frame: pl.DataFrame, width: int, values: dict[str, pl.Expr]) -> list[dict[str, float]]:
    """Aggregates of each bucket of time in its order, with ``t``, the mean of its instants in seconds."""
    bucket = (pl.max_horizontal("time_ns", pl.lit(1, pl.UInt64)) - 1) // width
    found = frame.group_by(bucket.alias("bucket")).agg(t=pl.col("time_ns").cast(pl.Float64).mean() / _SECOND, **values)
    return found.sort("bucket").to_dicts()


def curve(panel: str, rows: Iterable[dict[str, Any]], column: str, **look: Any) -> Iterator[Told]:
    """A line through the values that exist."""
    points = with_gaps(GAP if r[column] is None else Point(r["t"], r[column]) for r in rows)
    if points:
        yield Told(panel, "line", points, **look)


def banded(panel: str, rows: Sequence[dict[str, Any]], series: str = "") -> Iterator[Told]:
    """A line with its band."""
    points = with_gaps(GAP if r["mean"] is None else Point(r["t"], r["low"], y2=r["high"]) for r in rows)
    if points:
        yield Told(panel, "area", points, series)
    yield from curve(panel, rows, "mean", series=series)


def envelope(frame: pl.DataFrame, value: pl.Expr, width: int) -> list[dict[str, float]]:
    """Minimum, mean and maximum of each bucket; rows without a value do not count."""
    known = frame.with_columns(value.cast(pl.Float64).alias("v")).drop_nulls("v")
    v = pl.col("v")
    return buckets(known, width, {"low": v.min(), "mean": v.mean(), "high": v.max()})


def shown(names: Sequence[str], most: int) -> dict[str, str]:
    """The display names of a chart: long ones are shortened."""
    return {name: seen(short) for name, short in zip(names, shortened(names, most), strict=True)}
