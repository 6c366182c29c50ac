"""Opens a run: cells, manifests, plans, and the tables as lazy polars frames.

A run is a folder with ``cells/<id>/`` in it; a single cell folder is a run of one cell. A run without
``manifest.json`` was interrupted: it opens with a :class:`RunWarning` and whatever cells are complete.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import polars as pl

from weir.run.errors import RunError
from weir.run.plan import Plan, read_plan
from weir.run.quantity import ONE, parse_quantity, same_value
from weir.run.tables import TABLES, arrow_schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from weir.metrics.expect import Verdict

__all__ = ["Cell", "Run", "RunWarning", "open_run"]

_RESERVED = frozenset({"cell", "repeat"})


class RunWarning(UserWarning):
    """A run can be read but not all of it, or not all of it can be trusted."""


@dataclass(frozen=True)
class Cell:
    """One execution: one combination of factor values, one repeat."""

    id: str
    path: Path
    factors: Mapping[str, str]
    """Value of each swept parameter by its short name, as the scenario writes it."""
    repeat: int
    manifest: Mapping[str, Any]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the numbers of this cell untrustworthy."""
        return tuple(self.manifest.get("warnings", ()))

    @cached_property
    def plan(self) -> Plan:
        """The plan that was executed.

        Raises:
            RunError: it is missing or not a plan.
        """
        return read_plan(self.path / "plan.json")

    def has(self, name: str) -> bool:
        """Whether the cell should have table ``name``: one that not each method can fill may be missing."""
        return not TABLES[name].optional or (self.path / f"{name}.parquet").is_file()

    def table(self, name: str) -> pl.LazyFrame:
        """Table ``name`` of this cell, unread.

        Raises:
            RunError: no such table, or its file is missing or not Parquet.
        """
        if name not in TABLES:
            raise RunError(self.path, f"no table {name!r}", ", ".join(TABLES))
        file = self.path / f"{name}.parquet"
        if not file.is_file():
            expected = "a run that records it" if TABLES[name].optional else "a complete cell folder"
            raise RunError(file, "the table is missing", expected)
        scan = pl.scan_parquet(file)
        self._check_columns(name, file, scan)
        return scan

    @staticmethod
    def _check_columns(name: str, file: Path, scan: pl.LazyFrame) -> None:
        try:
            have = set(scan.collect_schema().names())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise RunError(
                file, f"not a readable Parquet file ({_first_line(error)})", "a table (weir schema)"
            ) from error
        missing = [c.name for c in TABLES[name].columns if c.name not in have]
        if missing:
            raise RunError(file, f"lacks the columns {', '.join(missing)}", "the columns of `weir schema`")


class Run:
    """A run, opened for reading; see :func:`open_run`."""

    def __init__(self, path: Path, cells: Iterable[Cell], manifest: Mapping[str, Any], notes: Iterable[str]) -> None:
        self.path = path
        self.cells: tuple[Cell, ...] = tuple(cells)
        self.manifest = manifest
        """``manifest.json`` of the run; empty if it was interrupted."""
        self.notes: tuple[str, ...] = tuple(notes)
        """What opening it found: interrupted, unreadable cells, missing repeats."""

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {len(self.cells)} cells, factors: {', '.join(self.factors) or 'none'})"

    @property
    def complete(self) -> bool:
        """Whether every cell was executed and the manifest written."""
        return bool(self.manifest)

    @cached_property
    def factors(self) -> Mapping[str, tuple[str, ...]]:
        """The values of each swept parameter: in numeric order where they are quantities, else of the sweep."""
        values: dict[str, dict[str, None]] = {}
        for cell in self.cells:
            for name, value in cell.factors.items():
                values.setdefault(name, {})[value] = None
        return {name: _ordered(found) for name, found in values.items()}

    @cached_property
    def repeats(self) -> tuple[int, ...]:
        """Numbers of the repeats present."""
        return tuple(sorted({cell.repeat for cell in self.cells}))

    @cached_property
    def scenario(self) -> str | None:
        """Text of the scenario, or ``None`` if it was not kept."""
        file = self.path / "scenario.yaml"
        return file.read_text(encoding="utf-8") if file.is_file() else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that makes a number of this run untrustworthy, each once."""
        found = [*self.notes, *self.manifest.get("warnings", ())]
        found += [f"{cell.id}: {text}" for cell in self.cells for text in cell.warnings]
        return tuple(dict.fromkeys(found))

    def cell(self, id: str) -> Cell:  # noqa: A002
        """The cell called ``id``.

        Raises:
            RunError: there is none.
        """
        for cell in self.cells:
            if cell.id == id:
                return cell
        raise RunError(self.path, f"no cell {id!r}", f"one of the {len(self.cells)} folders in cells/")

    def plan(self, cell: Cell | str | None = None) -> Plan:
        """The plan of a cell; without one, of the first cell.

        Raises:
            RunError: no such cell, or its plan cannot be read.
        """
        if cell is None:
            return self.cells[0].plan
        return (self.cell(cell) if isinstance(cell, str) else cell).plan

    def select(self, where: Mapping[str, object] | None = None, **factors: object) -> Run:
        """The cells whose factors have these values (a list means any of them), as a run.

        Raises:
            RunError: the run has no such factor, or no cell is left.
        """
        wanted = {**(where or {}), **factors}
        for name in wanted:
            if name not in self.factors:
                raise RunError(
                    self.path, f"no factor {name!r}", ", ".join(self.factors) or "no factor: it is not a sweep"
                )
        cells = [cell for cell in self.cells if all(_matches(cell.factors.get(n), w) for n, w in wanted.items())]
        if not cells:
            raise RunError(self.path, f"no cell has {wanted}", f"values out of {dict(self.factors)}")
        return Run(self.path, cells, self.manifest, self.notes)

    def table(self, name: str) -> pl.LazyFrame:
        """Table ``name`` of all cells, unread, with columns ``cell``, ``repeat`` and one column a factor put before it.

        A factor whose name is taken by a column of the table becomes ``<name>_factor``.

        Raises:
            RunError: no such table, or a cell's file is missing or damaged.
        """
        taken = _RESERVED | {c.name for c in TABLES[name].columns} if name in TABLES else _RESERVED
        frames = []
        for cell in self.cells:
            keys = [pl.lit(cell.id).alias("cell"), pl.lit(cell.repeat, pl.UInt32).alias("repeat")]
            for factor in self.factors:
                label = f"{factor}_factor" if factor in taken else factor
                keys.append(pl.lit(cell.factors.get(factor), pl.String).alias(label))
            frames.append(cell.table(name).select(*keys, pl.all()))
        if not frames:
            return pl.from_arrow(arrow_schema(name).empty_table()).lazy()  # type: ignore[union-attr]
        return pl.concat(frames)

    @overload
    def metrics(
        self, *names: str, as_: Literal["polars"] = "polars", **options: Unpack[MetricOptions]
    ) -> pl.DataFrame: ...
    @overload
    def metrics(self, *names: str, as_: Literal["pandas"], **options: Unpack[MetricOptions]) -> pd.DataFrame: ...
    @overload
    def metrics(self, *names: str, as_: Literal["arrow"], **options: Unpack[MetricOptions]) -> pa.Table: ...
    def metrics(self, *names: str, as_: str = "polars", **options: Unpack[MetricOptions]) -> Any:
        """Metrics of this run as a tidy frame; see :func:`weir.metrics.compute` for the options and columns.

        >>> run.metrics("goodput.mean", "jain", by=["cc", "rtt"], phase="twelve")  # doctest: +SKIP

        Raises:
            MetricError: no such metric, phase, factor or flow, or a table it needs was not recorded.
            RunError: a table cannot be read.
        """
        from weir.metrics import compute  # a run is readable without the metrics

        frame = compute(self, *names, **options)
        if as_ == "polars":
            return frame
        if as_ == "pandas":
            return frame.to_pandas()
        if as_ == "arrow":
            return frame.to_arrow()
        raise ValueError(f"as_={as_!r}: expected 'polars', 'pandas' or 'arrow'")

    def series(
        self,
        name: str,
        *,
        phase: str | None = None,
        flows: str | None = None,
        where: Mapping[str, object] | None = None,
    ) -> pl.DataFrame:
        """A metric of this run as a function of time; see :func:`weir.metrics.series`.

        Raises:
            MetricError: no such metric, phase or flow; or it is no function of time.
            RunError: a table cannot be read.
        """
        from weir.metrics import series

        return series(self, name, phase=phase, flows=flows, where=where)

    def evaluate(
        self,
        expression: str,
        *,
        where: Mapping[str, object] | None = None,
        phase: str | None = None,
        level: float = 0.95,
    ) -> pl.DataFrame:
        """An expression at each combination of the factors that it leaves free; ``docs/checks.md`` has the language.

        >>> run.evaluate("3TB / goodput.aggregate@late")  # doctest: +SKIP

        Args:
            expression: a metric, arithmetic, a function over a factor, or a comparison.
            where: factor values to keep; a list means any of them.
            phase: of metrics that name none; default: the whole run.
            level: of the confidence intervals.

        Returns:
            The run's factors (null where the expression does not depend on them), ``expression``, ``unit`` (``bit/s``,
            ``s``, ``B``, ``1``, or a product of powers), ``value`` (mean over repeats), ``word`` (of a comparison its
            outcome, of ``argmin`` and ``argmax`` the value of the factor), ``n`` (repeats), ``ci_low``, ``ci_high``
            (null with one repeat), ``censored`` (the true value is larger), ``note`` (why it is undefined).

        Raises:
            MetricError: the expression cannot be read, or it has no value in any cell.
            RunError: a table cannot be read.
        """
        from weir.metrics.expect import frame_of, tabulate

        return frame_of(self, expression, tabulate(self, expression, where=where, phase=phase, level=level))

    def check(self, check: str, *, where: Mapping[str, object] | None = None, level: float = 0.95) -> Verdict:
        """The verdict on a claim: it holds, fails or is undecided; ``docs/checks.md`` says by what.

        >>> run.check("jain@late >= 0.9", where={"cc": "reno"}).outcome  # doctest: +SKIP
        'holds'

        Raises:
            ExpectError: the check cannot be read.
        """
        from weir.metrics.expect import Expectation, evaluate, parse

        parse(check)
        return evaluate(self, [Expectation(check, where=where)], level)[0]

    def verdicts(self, level: float = 0.95) -> list[Verdict]:
        """The verdicts on the claims of the run's own scenario, in their order."""
        from weir.metrics.expect import evaluate

        return evaluate(self, self.manifest.get("expect", ()), level)


class MetricOptions(TypedDict, total=False):
    """Options of :meth:`Run.metrics`; :func:`weir.metrics.compute` says what they mean."""

    by: str | Sequence[str] | None
    phase: str | Sequence[str] | None
    flows: str | Sequence[str] | None
    where: Mapping[str, object] | None
    level: float
    interval: Literal["t", "bootstrap"]


def open_run(path: str | Path) -> Run:
    """Opens a run folder, or a single cell folder, for reading.

    An interrupted run opens with a :class:`RunWarning`; a cell folder that cannot be read is left out with one.

    Raises:
        RunError: there is no such folder, it is not a run, or no cell of it is complete.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise RunError(folder, "there is no such folder", "the folder of a run")
    if (folder / "plan.json").is_file():
        return Run(folder, [_open_cell(folder)], _read_manifest(folder), ())
    if not (folder / "cells").is_dir():
        raise RunError(folder, "is not a run", "a folder cells/ in it, or a cell folder with plan.json")
    return _open_sweep(folder)


def _open_sweep(folder: Path) -> Run:
    cells, notes = [], []
    for entry in sorted((folder / "cells").iterdir()):
        if not (entry / "manifest.json").is_file():
            continue  # a temporary sibling of a cell that was not finished
        try:
            cells.append(_open_cell(entry))
        except RunError as error:
            notes.append(f"cell left out: {error}")
    manifest: Mapping[str, Any] = {}
    if (folder / "manifest.json").is_file():
        manifest = _read_manifest(folder)
        notes += _missing(manifest, cells)
    else:
        notes.append(f"the run is incomplete: it has {len(cells)} cells and no manifest.json; `weir run` continues it")
    if not cells:
        raise RunError(folder, "no cell is complete", "at least one folder in cells/ with manifest.json and plan.json")
    for note in notes:
        warnings.warn(f"{folder}: {note}", RunWarning, stacklevel=4)
    order = {name: place for place, name in enumerate(_listed(manifest))}
    cells.sort(key=lambda cell: order.get(cell.id, len(order)))  # stable: the rest stay in the order of their folders
    return Run(folder, cells, manifest, notes)


def _missing(manifest: Mapping[str, Any], cells: list[Cell]) -> list[str]:
    have = {cell.id for cell in cells}
    wanted = _listed(manifest)
    lost = [name for name in wanted if name not in have]
    return [f"{len(lost)} of {len(wanted)} cells are missing: {', '.join(lost[:5])}"] if lost else []


def _listed(manifest: Mapping[str, Any]) -> list[str]:
    return [str(entry.get("id")) for entry in manifest.get("cells", ()) if isinstance(entry, Mapping)]


def _open_cell(folder: Path) -> Cell:
    manifest = _read_manifest(folder)
    if not (folder / "plan.json").is_file():
        raise RunError(folder / "plan.json", "the cell has no plan", "plan.json beside its tables")
    factors = manifest.get("factors", {})
    repeat = manifest.get("repeat", 0)
    if not isinstance(factors, Mapping) or not isinstance(repeat, int):
        raise RunError(folder / "manifest.json", "factors or repeat are malformed", "a mapping and a number")
    return Cell(str(manifest.get("id", folder.name)), folder, {k: str(v) for k, v in factors.items()}, repeat, manifest)


def _read_manifest(folder: Path) -> Mapping[str, Any]:
    file = folder / "manifest.json"
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(file, "there is no manifest", "a complete folder") from error
    except (OSError, ValueError) as error:
        raise RunError(file, f"cannot be read: {error}", "a JSON object") from error
    if not isinstance(manifest, dict):
        raise RunError(file, "is not a JSON object", "a manifest")
    return manifest


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _sort_key(value: str) -> tuple[int, tuple[int, int], float, str]:
    """Orders factor values: quantities by size, before words in the order of their letters."""
    quantity = parse_quantity(value)
    return (1, ONE, 0.0, value) if quantity is None else (0, quantity.dimension, quantity.value, "")


def _ordered(values: Iterable[str]) -> tuple[str, ...]:
    found = list(values)
    keys = [_sort_key(v) for v in found]
    if any(key[0] for key in keys):
        return tuple(found)
    return tuple(value for _, value in sorted(zip(keys, found, strict=True)))


def _matches(have: str | None, wanted: object) -> bool:
    options = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
    return have is not None and any(same_value(have, str(option)) for option in options)
