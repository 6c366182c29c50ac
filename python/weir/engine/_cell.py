"""The folder of one cell: tables streamed into a temporary folder that is moved into place when complete."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from weir._inside import FILE, FOLDER, Folder, expect
from weir._remove import remove_quietly
from weir.engine._files import sync, write_atomic, write_json
from weir.engine._folder import PARTIAL
from weir.run.checksums import FORMAT, seal
from weir.run.manifest import MANIFEST, read_cell_manifest
from weir.run.tables import TABLES, arrow_schema

__all__ = ["CellWriter", "place"]

_ROWS = 1 << 16
"""Rows of a row group. Fixed, so that a file does not depend on the size of the writes."""

_PLAN = "plan.json"
_OWN_NAMES = frozenset({_PLAN, MANIFEST, *(f"{name}.parquet" for name in TABLES)})
"""Names of files that the sink writes itself; a method may not open them."""
_DICTIONARY = frozenset({"kind", "min_rtt_ns", "probe"})
"""Columns of few different values."""
_PLAIN = frozenset(
    {
        *("ssthresh", "timeouts"),
        *(f"{way}_{unit}" for way in ("in", "out", "drop") for unit in ("packets", "bytes")),
        *("mark_packets", "queue_bytes", "queue_packets", "queue_max_bytes", "queue_delay_ns", "queue_delay_max_ns"),
    }
)
"""Columns of numbers that compress better as they are: they seldom change, or up and down. Of all others, the
differences between rows are stored (docs/speed.md)."""
_SCHEMAS = {name: arrow_schema(name) for name in TABLES}


class CellWriter:
    """The sink of one cell.

    A context manager for one use: leaving it without :meth:`commit` removes everything written.
    """

    def __init__(self, run: Path, cell_id: str, inside: Path | None = None) -> None:
        """Creates the temporary folder of cell ``cell_id`` in the folder ``run``, or in ``inside`` if given.

        Raises:
            OSError: it cannot be created.
        """
        self._final = run / "cells" / cell_id
        self._folder = run / PARTIAL / f"{cell_id}-{os.getpid()}" if inside is None else inside / cell_id
        self._tables: dict[str, _TableFile] = {}
        self._files: dict[str, BinaryIO] = {}
        self._completed = False
        if inside is None:
            expect(run / PARTIAL, FOLDER)
        self._folder.mkdir(parents=True)

    def __enter__(self) -> CellWriter:
        """Opens every mandatory table, so that empty ones exist too."""
        try:
            for name, table in TABLES.items():
                if not table.optional:
                    self._create(name)
        except BaseException:
            self._abort()
            raise
        return self

    def _create(self, name: str) -> _TableFile:
        self._tables[name] = _TableFile(self._folder / f"{name}.parquet", _SCHEMAS[name])
        return self._tables[name]

    def __exit__(self, *_: object) -> None:
        """Removes everything that was not committed."""
        self._abort()

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        """Appends ``rows``; see :class:`weir.methods.Sink`."""
        file = self._tables.get(table) or self._create(table)
        file.write(rows)

    def open(self, name: str) -> BinaryIO:
        """Opens a further file of the cell; see :class:`weir.methods.Sink`."""
        parts = Path(name).parts
        usable = parts and Path(*parts).as_posix() == name and not {"/", ".."} & {*parts}
        if not usable or parts[0] in _OWN_NAMES:
            raise ValueError(f"{name!r} is not the name of a further file")
        if name not in self._files:
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[name] = path.open("wb")
        return self._files[name]

    @property
    def written(self) -> frozenset[str]:
        """The tables that have rows."""
        return frozenset(name for name, file in self._tables.items() if file.filled)

    def commit(self, plan: str, manifest: Mapping[str, Any]) -> None:
        """Completes the cell and moves its folder into place.

        Raises:
            OSError: something could not be written; leaving the context removes the folder.
        """
        self.complete(plan, manifest)
        place(self._folder, self._final)

    def complete(self, plan: str, manifest: Mapping[str, Any]) -> None:
        """Closes and syncs every file; another process moves the folder (:func:`place`).

        Raises:
            OSError: as :meth:`commit`.
        """
        for table in self._tables.values():
            table.close()
        for file in self._files.values():
            file.close()
        names = (_PLAN, *(f"{t}.parquet" for t in self._tables), *self._files)
        write_atomic(self._folder / _PLAN, plan, durable=False)
        sealed = seal({"format": FORMAT, **manifest}, self._folder, names)
        write_json(self._folder / MANIFEST, sealed, durable=False)
        sync([self._folder, *(self._folder / name for name in (*names, MANIFEST))])
        self._completed = True

    def _abort(self) -> None:
        for table in self._tables.values():
            table.discard()
        for file in self._files.values():
            _close_quietly(file)
        if not self._completed:
            remove_quietly(self._folder)


def place(folder: Path, final: Path) -> None:
    """Moves a complete cell from ``folder`` to ``final``: the files that its manifest names, and nothing else.

    A method's programs, or a user's congestion control, could have left others; no reader would read them, but they
    would travel with the run.

    Raises:
        weir.run.ReadError: its manifest is malformed.
        weir._inside.InsideError: a named file is not a plain file, or a link is in the way.
        OSError: it cannot be moved.
    """
    with Folder(folder.parent) as source, Folder(final.parent.parent) as run:
        with source.inner(folder.name) as cell:
            checksums = read_cell_manifest(folder, verify=True).checksums
            _tidy(cell, {MANIFEST, *(checksums.files if checksums is not None else ())})
        with run.inner(final.parent.name, make=True) as cells:
            cells.remove(final.name)
            source.move(folder.name, cells, final.name)


def _tidy(folder: Folder, keep: set[str], above: str = "") -> None:
    """Removes everything in ``folder`` except ``keep``, which are paths relative to the cell."""
    for name in folder.names():
        path = f"{above}{name}"
        if path in keep:
            folder.expect(name, FILE)
        elif folder.kind(name) == FOLDER and any(kept.startswith(f"{path}/") for kept in keep):
            with folder.inner(name) as inner:
                _tidy(inner, keep, f"{path}/")
        else:
            folder.remove(name)


class _TableFile:
    """One Parquet file that grows by whole row groups."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._filled = False
        # A Python file, because its errors carry the errno that distinguishes a full disk.
        self._file = path.open("wb")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            max_rows_per_page=_ROWS,  # one page of each column: a page costs a compressor
            use_dictionary=[name for name in schema.names if name in _DICTIONARY],
            column_encoding={
                name: "PLAIN" if name in _PLAIN else "DELTA_BINARY_PACKED"
                for name in schema.names
                if name not in _DICTIONARY
            },
        )

    @property
    def filled(self) -> bool:
        """Whether anything was written."""
        return self._filled

    def write(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows == 0:
            return
        self._filled = True
        if not rows.schema.equals(self._schema):
            raise ValueError(f"rows of another schema: {rows.schema} instead of {self._schema}")
        self._pending.append(rows)
        self._rows += rows.num_rows
        if self._rows >= _ROWS:
            self._flush(keep_rest=True)

    def _flush(self, *, keep_rest: bool) -> None:
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        whole = table.num_rows - table.num_rows % _ROWS if keep_rest else table.num_rows
        if whole:
            self._writer.write_table(table.slice(0, whole), row_group_size=_ROWS)
        self._pending = table.slice(whole).to_batches()
        self._rows = table.num_rows - whole

    def close(self) -> None:
        self._flush(keep_rest=False)
        self._writer.close()
        self._file.close()

    def discard(self) -> None:
        # The writer would write a footer when it is collected; closing the file first makes that fail here, silently.
        _close_quietly(self._writer)
        _close_quietly(self._file)


def _close_quietly(file: Any) -> None:
    try:
        file.close()
    except (OSError, ValueError, pa.ArrowException):
        return
