"""Opens a run: cells, manifests, plans, and the tables as lazy polars frames.

A run is a folder with ``cells/<id>/`` in it; a single cell folder is a run of one cell. A run without ``manifest.json``
was interrupted: it opens with a :class:`RunWarning` and its complete cells.

Files are compared with the checksums in the manifests when they are read, each once per process
(``weir.run.checksums``).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import polars as pl

from weir._inside import FOLDER, InsideError, exists, expect, read_plain
from weir.run.bounds import check_intervals
from weir.run.checksums import Checksum, Checksums, checksum_of_bytes, damage
from weir.run.documents import read_document
from weir.run.errors import DamageError, ReadError, RunError
from weir.run.manifest import MANIFEST, Listed, RunManifest, read_begun, read_cell_manifest, read_run_manifest
from weir.run.parquet import check_footer, check_memory, count_rows, prove_readable, scan
from weir.run.plan import MEASURE, Plan, plan_of
from weir.run.printable import printable
from weir.run.quantity import ONE, parse_quantity, same_value
from weir.run.tables import TABLES, arrow_schema

__all__ = ["Cell", "Run", "RunWarning", "open_cell", "open_run"]

_RESERVED = frozenset({"cell", "repeat"})
_PLAN = "plan.json"
_ACKS = "acks"
_FEW = 5
_MAX_NAMED = 8
_MAX_SCENARIO = 1 << 22
"""Bytes of the longest possible scenario (``weir.scenario``)."""


class RunWarning(UserWarning):
    """A run can be read, but a part of it is missing or untrustworthy."""


@dataclass(frozen=True)
class Cell:
    """One execution: one combination of factor values, one repeat."""

    id: str
    path: Path
    factors: Mapping[str, str]
    """Value of each swept parameter by its short name, as the scenario writes it."""
    repeat: int
    manifest: Mapping[str, Any]
    checksums: Checksums | None = None
    """The checksums of its files; ``None``: not known, or not asked for."""
    verify: bool = False
    """Whether a file without a checksum is decoded once, to verify that it can be."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that make the numbers of this cell untrustworthy."""
        return tuple(self.manifest.get("warnings", ()))

    @property
    def partial(self) -> str | None:
        """Why the cell ended before its plan did; ``None``: it is complete."""
        found = self.manifest.get("partial")
        return None if found is None else str(found)

    @cached_property
    def plan(self) -> Plan:
        """The plan that was executed.

        Raises:
            RunError: it is missing or not a plan.
            DamageError: it does not match its checksum.
        """
        file = self.path / _PLAN
        wanted = None if self.checksums is None else self.checksums.files.get(_PLAN)
        content, raw = self._document(file, wanted)
        if wanted is not None and checksum_of_bytes(content) != wanted:
            raise self._damaged(file, "is damaged: its content is not what was written")
        return plan_of(file, raw)

    def _document(self, file: Path, wanted: Checksum | None) -> tuple[bytes, dict[str, Any]]:
        try:
            return read_document(file)
        except RunError as error:
            if wanted is None:
                raise
            raise self._damaged(file, f"is damaged: it {error.problem}") from error

    def _damaged(self, file: Path, problem: str) -> DamageError:
        return DamageError(file, f"{problem} (cell {printable(self.id)})")

    def has(self, name: str) -> bool:
        """Whether the cell should have table ``name``: methods omit optional ones, and say which they cannot fill."""
        if name in self.manifest.get("unobserved", ()):
            return False
        file = self.path / f"{name}.parquet"
        there = exists(file) if self.checksums is None else file.name in self.checksums.files
        return there or not TABLES[name].optional

    def table(self, name: str) -> pl.LazyFrame:
        """Table ``name`` of this cell, lazily.

        Raises:
            RunError: no such table, or its file is missing or not Parquet; or the plan has more intervals of it than
                a reader may hold.
            DamageError: the file does not match its checksum.
        """
        if name not in TABLES:
            raise RunError(self.path, f"no table {name!r}", ", ".join(TABLES))
        file = self.path / f"{name}.parquet"
        if not self._check(file):
            if not exists(file):
                raise self._absent(file)
            check_footer(file)
            if self.verify:
                prove_readable(file)
        found = scan(file, name)
        check_memory(file, name)
        if name in MEASURE:
            check_intervals(self.path / _PLAN, self.plan, name, lambda: count_rows(file, found))
        return found

    def readable_table(self, name: str) -> pl.LazyFrame:
        """Table ``name`` for readers of all of it: a file without a checksum is decoded once, even without ``verify``.

        Raises:
            RunError: as :meth:`table`, or a part of it cannot be decoded.
            DamageError: the file does not match its checksum.
        """
        found = self.table(name)
        if self.checksums is None and not self.verify:
            prove_readable(self.path / f"{name}.parquet")
        return found

    def damaged(self) -> list[str]:
        """The damage of the cell's files: those that are missing or do not match their checksums.

        Without checksums, those that cannot be read.
        """
        if self.checksums is not None:
            return self.differing(content=True)
        return [f"{printable(error.path.name)}: {error.problem}" for error in self._unreadable()]

    def differing(self, *, content: bool) -> list[str]:
        """Files that differ from their checksums; without ``content``, only those missing or of another size."""
        wanted = self.checksums.files if self.checksums is not None else {}
        found = ((name, damage(self.path, name, one, content=content)) for name, one in wanted.items())
        return [f"{printable(name)} {problem}" for name, problem in found if problem is not None]

    def _unreadable(self) -> Iterator[ReadError]:
        for read in (partial(getattr, self, "plan"), *(partial(self.table, name) for name in TABLES if self.has(name))):
            try:
                read()
            except ReadError as error:
                yield error

    def _absent(self, file: Path) -> RunError:
        """What to say of a table that the cell was written without."""
        name = file.stem
        if name in self.manifest.get("unobserved", ()):
            problem = "the table is missing: the method that executed this cell does not record it"
            return RunError(file, problem, "a run by a method that does")
        if name == _ACKS and self.plan.typed.measure.acks is None:
            return RunError(file, "the table is missing: the scenario did not ask for it", "a run with `measure.acks`")
        if TABLES[name].optional:
            return RunError(file, "the table is missing", "a run that records it")
        return RunError(file, "the table is missing", "a complete cell folder")

    def _check(self, file: Path) -> bool:
        """Compares ``file`` with its checksum; returns whether there is one.

        Raises:
            DamageError: it differs.
            RunError: the cell was written without such a file.
        """
        if self.checksums is None:
            return False
        wanted = self.checksums.files.get(file.name)
        if wanted is None:
            raise self._absent(file)
        problem = damage(self.path, file.name, wanted)
        if problem is not None:
            raise self._damaged(file, problem)
        return True


class Run:
    """A run, opened for reading; see :func:`open_run`."""

    def __init__(
        self,
        path: Path,
        cells: Iterable[Cell],
        manifest: Mapping[str, Any],
        notes: Iterable[str],
        begun: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.cells: tuple[Cell, ...] = tuple(cells)
        self.manifest = manifest
        """``manifest.json`` of the run; empty if it was interrupted."""
        self.notes: tuple[str, ...] = tuple(notes)
        """Remarks from opening it: interrupted, unreadable cells, missing repeats."""
        self.intended: Mapping[str, Any] = manifest or begun or {}
        """``title``, ``method``, ``settings``, ``summary`` and ``cells`` of the complete run: from its manifest, or
        from the file that an interrupted run began with; empty if an older version wrote it."""

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {len(self.cells)} cells, factors: {', '.join(self.factors) or 'none'})"

    @property
    def complete(self) -> bool:
        """Whether every cell was executed and the manifest written."""
        return bool(self.manifest)

    @cached_property
    def factors(self) -> Mapping[str, tuple[str, ...]]:
        """The values of each swept parameter: in numeric order if they are quantities, else in the sweep's."""
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
        """Text of the scenario, or ``None`` if it was not kept.

        Raises:
            RunError: it is no plain file, or larger than a scenario may be.
        """
        file = self.path / "scenario.yaml"
        if not exists(file):
            return None
        try:
            return read_plain(file, _MAX_SCENARIO).decode("utf-8", "replace")
        except InsideError as error:
            raise RunError(file, error.problem, error.expected) from error

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings that make a number of this run untrustworthy, each once."""
        found = [*self.notes, *self.manifest.get("warnings", ())]
        found += [f"{cell.id}: {text}" for cell in self.cells for text in cell.warnings]
        return tuple(dict.fromkeys(found))

    def verify(self) -> None:
        """Compares every file of every cell with its checksum, including files that nobody reads.

        Raises:
            DamageError: a file does not match its checksum.
        """
        _refuse_damaged(self.path, self.cells, content=True)

    def cell(self, id: str) -> Cell:  # noqa: A002
        """The cell called ``id``.

        Raises:
            RunError: it does not exist.
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

    def select(self, where: Mapping[str, object] | None = None, **factors: object) -> Self:
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
        return self.with_cells(cells)

    def with_cells(self, cells: Iterable[Cell]) -> Self:
        """The run with these cells alone."""
        return type(self)(self.path, cells, self.manifest, self.notes, self.intended)

    def table(self, name: str) -> pl.LazyFrame:
        """Table ``name`` of all cells, lazily, preceded by the columns ``cell``, ``repeat`` and one per factor.

        If the table has a column with a factor's name, the factor becomes ``<name>_factor``.

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


def open_run(path: str | Path, *, verify: bool = True) -> Run:
    """Opens a run folder, or a single cell folder, for reading.

    An interrupted run opens with a :class:`RunWarning`, and so does one of a version that wrote no checksums.

    Args:
        path: the folder.
        verify: compares each file that is read with its checksum. Without, a damaged cell is left out with a
            :class:`RunWarning` if it cannot be read, and gives other figures if it can.

    Raises:
        RunError: there is no such folder, it is not a run, or no cell of it is complete.
        DamageError: a manifest, or a file that a manifest names, does not match its checksum, or is missing.
    """
    folder = Path(path)
    if not folder.is_dir():
        problem = "is a file" if folder.is_file() else "there is no such folder"
        raise RunError(folder, problem, "the folder of a run")
    if exists(folder / _PLAN):
        return _open_one(folder, verify)
    cells = folder / "cells"
    if exists(cells):
        _expect(cells, FOLDER)
    else:
        raise RunError(folder, "is not a run", _what_instead(folder))
    return _open_sweep(folder, verify)


def _what_instead(folder: Path) -> str:
    """Suggests what to name instead of ``folder``: the runs in it, which several methods may have left there."""
    with contextlib.suppress(OSError):
        inner = sorted(entry for entry in folder.iterdir() if exists(entry / "cells"))
        if inner:
            return "one of the runs in it: " + ", ".join(printable(entry) for entry in inner[:_MAX_NAMED])
    return "a folder cells/ in it, or a cell folder with plan.json"


def _open_one(folder: Path, verify: bool) -> Run:
    cell = open_cell(folder, verify=verify)
    _refuse_damaged(folder, [cell])
    notes = _notes_on_checksums([cell], verify)
    _warn(folder, notes)
    return Run(folder, [cell], cell.manifest, notes)


def _why_none(manifest: RunManifest | None) -> str:
    """The first error of a run whose cells have all failed."""
    said = manifest.raw.get("warnings") if manifest is not None else None
    failed = [str(text) for text in said if ": failed: " in str(text)] if isinstance(said, list) else []
    return f", because all failed; the first: {failed[0]}" if failed else ""


def _open_sweep(folder: Path, verify: bool) -> Run:
    manifest = read_run_manifest(folder, verify=verify) if exists(folder / MANIFEST) else None
    cells, notes = _open_cells(folder, manifest, verify)
    if not cells:
        expected = "at least one folder in cells/ with manifest.json and plan.json"
        raise RunError(folder, f"no cell is complete{_why_none(manifest)}", expected)
    if verify:
        _refuse_damaged(folder, cells, *_missing_files(folder, manifest))
    begun = read_begun(folder, verify=verify) if manifest is None else {}
    notes += _notes_on_cells(manifest, cells, begun) + _notes_on_checksums(cells, verify)
    cells, partial = _without_partial(cells)
    notes += partial
    _warn(folder, notes)
    listed = [str(one["id"]) for one in begun.get("cells", ())] if manifest is None else [c.id for c in manifest.cells]
    order = {name: place for place, name in enumerate(listed)}
    cells.sort(key=lambda cell: order.get(cell.id, len(order)))  # stable: the rest stay in the order of their folders
    return Run(folder, cells, {} if manifest is None else manifest.raw, notes, begun)


def _open_cells(folder: Path, manifest: RunManifest | None, verify: bool) -> tuple[list[Cell], list[str]]:
    """The cells that can be opened, and remarks on the others."""
    cells: list[Cell] = []
    notes: list[str] = []
    listed = {one.id: one for one in manifest.cells} if manifest is not None else {}
    for entry in sorted((folder / "cells").iterdir()):
        if not entry.is_symlink() and not exists(entry / MANIFEST):
            continue  # a temporary sibling of an unfinished cell; a listed cell that is missing is reported below
        if manifest is not None and manifest.checksums is not None and entry.name not in listed:
            notes.append(f"cells/{printable(entry.name)} is left out: the run has no such cell")
            continue
        try:
            _expect(entry, FOLDER)
            cells.append(_like(open_cell(entry, verify=verify), cells))
        except RunError as error:
            if verify:
                raise DamageError(error.path, error.problem) from error
            notes.append(f"cell left out: {error}")
            continue
        if verify:
            _check_identity(entry, cells[-1], listed.get(entry.name))
    return cells, notes


def _expect(path: Path, kind: str) -> None:
    """Raises RunError if ``path`` is not of that ``kind``, such as a link to it."""
    try:
        expect(path, kind)
    except InsideError as error:
        raise RunError(path, error.problem, error.expected) from error


def _like(cell: Cell, others: Sequence[Cell]) -> Cell:
    """Returns ``cell`` if it has the same factors as the others: a sweep gives them to every cell.

    Raises:
        RunError: it has others.
    """
    if others and cell.factors.keys() != others[0].factors.keys():
        has, wanted = (printable(", ".join(sorted(one.factors)) or "none") for one in (cell, others[0]))
        raise RunError(cell.path / MANIFEST, f"has the factors {has}", f"those of the other cells: {wanted}")
    return cell


def _check_identity(folder: Path, cell: Cell, listed: Listed | None) -> None:
    """Verifies that the cell in ``folder`` is the one that was written there.

    Raises:
        DamageError: it is another cell, or of another execution.
    """
    own = None if cell.checksums is None else cell.checksums.manifest
    if own is not None and cell.id != folder.name:
        raise DamageError(folder / MANIFEST, f"is that of cell {printable(cell.id)}")
    if listed is not None and listed.digest not in (None, own):
        raise DamageError(folder / MANIFEST, "is that of another execution than the run's manifest names")


def _missing_files(folder: Path, manifest: RunManifest | None) -> list[str]:
    """Files that the run's manifest names and that are missing, or not files."""
    if manifest is None or manifest.checksums is None:
        return []
    found = []
    for name, wanted in manifest.checksums.files.items():
        problem = damage(folder, name, wanted)
        found += [] if problem is None else [f"{printable(name)} {problem}"]
    for one in manifest.cells:
        if one.digest is not None and not (folder / "cells" / one.id / MANIFEST).is_file():
            found.append(f"cells/{printable(one.id)}/{MANIFEST} is missing")
    return found


def open_cell(folder: Path, *, verify: bool = True) -> Cell:
    """Opens the folder of one cell; see :func:`open_run`.

    Raises:
        RunError: it lacks its manifest or its plan, or the manifest is malformed.
        DamageError: the manifest is not what was written.
    """
    found = read_cell_manifest(folder, verify=verify)
    if not exists(folder / _PLAN):
        raise RunError(folder / _PLAN, "the cell has no plan", "plan.json beside its tables")
    return Cell(found.id, folder, found.factors, found.repeat, found.raw, found.checksums, verify)


def _refuse_damaged(folder: Path, cells: Iterable[Cell], *others: str, content: bool = False) -> None:
    """Raises DamageError if a file is missing or has another size; with ``content``, if its checksum differs."""
    found = list(others)
    for cell in cells:
        found += [f"{printable(cell.path.relative_to(folder))}/{text}" for text in cell.differing(content=content)]
    if found:
        more = f", and {len(found) - _FEW} more" if len(found) > _FEW else ""
        raise DamageError(folder, f"{', '.join(found[:_FEW])}{more}")


def _notes_on_cells(manifest: RunManifest | None, cells: Sequence[Cell], begun: Mapping[str, Any]) -> list[str]:
    if manifest is None:
        of = f" of {len(begun['cells'])}" if begun.get("cells") else ""
        return [f"the run is incomplete: it has {len(cells)}{of} cells and no manifest.json; `weir run` continues it"]
    have = {cell.id for cell in cells}
    lost = [printable(one.id) for one in manifest.cells if one.id not in have]
    return [f"{len(lost)} of {len(manifest.cells)} cells are missing: {', '.join(lost[:_FEW])}"] if lost else []


def _without_partial(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """Leaves out the cells that ended early, unless there are no others; remarks on them."""
    complete = [cell for cell in cells if cell.partial is None]
    ended = [cell for cell in cells if cell.partial is not None]
    if not ended:
        return cells, []
    count = f"{len(ended)} of {len(cells)} cells ended early" if len(cells) > 1 else "the only cell ended early"
    first = f"{printable(ended[0].id)}: {printable(ended[0].partial or '')}"
    used = "no figure includes them" if complete else "every figure is of less than the plan"
    return complete or cells, [f"PARTIAL: {count} ({first}); {used}; the same `weir run` executes them anew"]


def _notes_on_checksums(cells: Sequence[Cell], verify: bool) -> list[str]:
    bare = sum(cell.checksums is None for cell in cells)
    if not verify or not bare:
        return []
    which = "the run has" if bare == len(cells) else f"{bare} of {len(cells)} cells have"
    return [f"{which} no checksums, as an older version of weir wrote it: damage would not be noticed"]


def _warn(folder: Path, notes: Iterable[str]) -> None:
    for note in notes:
        warnings.warn(f"{printable(folder)}: {note}", RunWarning, stacklevel=4)


def _sort_key(value: str) -> tuple[int, tuple[int, int], float, str]:
    """Sort key of factor values: quantities by size, before words in alphabetical order."""
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
