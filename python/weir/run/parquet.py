"""Opens the Parquet file of a table; a file with anything else raises a :class:`RunError`.

A file with the right checksum is what weir wrote; only its columns are compared. For any other file, the footer is
checked first, because decoders trust the sizes in it. ``prove_readable`` decodes the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import SEEK_END, BytesIO
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from weir import _memory
from weir._inside import InsideError, open_plain
from weir.run.errors import RunError
from weir.run.printable import printable
from weir.run.tables import TABLES, arrow_schema

__all__ = ["check_footer", "check_memory", "count_rows", "decoding", "prove_readable", "scan"]

_ROWS_PER_BYTE = 4096
"""More than any table reaches: 64 equal rows take at least a byte of each column."""
_CHUNK_BYTES = 1 << 31
_VALUE_BYTES = 8
_SHARE = 4
"""Metrics hold several copies of a table: one that fills more than this part of the memory cannot be evaluated."""


@contextmanager
def decoding(file: Path) -> Iterator[None]:
    """Converts exceptions of decoders on a damaged ``file``, including panics, to :class:`RunError`."""
    try:
        yield
    except InsideError as error:
        raise RunError(file, error.problem, error.expected) from error
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error
    except BaseException as error:
        # Raised by the compiled half of polars; not a subclass of Exception.
        if type(error).__name__ == "PanicException":
            raise _unreadable(file, error) from None
        raise


def scan(file: Path, table: str) -> pl.LazyFrame:
    """The table in ``file``, lazily.

    Raises:
        RunError: it is not Parquet, or lacks the columns of ``table``.
    """
    with decoding(file):
        found = pl.scan_parquet(_source(file), glob=False)
        have = found.collect_schema()
    wanted = _columns(table)
    missing = [name for name in wanted if name not in have]
    renamed = [
        f"{column.formerly} is now {column.name}"
        for column in TABLES[table].columns
        if column.name in missing and column.formerly in have
    ]
    if renamed:
        raise RunError(
            file,
            f"was written by an older version of weir ({', '.join(renamed)})",
            "a run of this version: `weir run` with the same scenario and folder executes its cells again",
        )
    if missing:
        raise RunError(file, f"lacks the columns {', '.join(missing)}", "the columns of `weir schema`")
    for name, kind in wanted.items():
        if have[name] != kind:
            raise RunError(file, f"column {name} is {have[name]}", f"{kind}")
    return found


def _source(file: Path) -> Path | BytesIO:
    """The file for polars: by its name, if that is UTF-8."""
    try:
        str(file).encode()
    except UnicodeEncodeError:
        return BytesIO(file.read_bytes())
    return file


@cache
def _columns(table: str) -> dict[str, pl.DataType]:
    found = pl.from_arrow(arrow_schema(table).empty_table())
    assert isinstance(found, pl.DataFrame)
    return dict(found.schema)


def check_footer(file: Path) -> None:
    """Verifies that the claims in the footer of ``file`` fit the file.

    Raises:
        RunError: it is not Parquet, or claims more rows or bytes than the file can hold.
    """
    with decoding(file), open_plain(file.parent, file.name) as opened:
        footer = pq.read_metadata(opened)
        size = opened.seek(0, SEEK_END)
        groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
        rows = sum(group.num_rows for group in groups)
        if not 0 <= footer.num_rows == rows <= _ROWS_PER_BYTE * size:
            raise RunError(file, f"claims {footer.num_rows} rows in {size} bytes", f"at most {_ROWS_PER_BYTE * size}")
        for group in groups:
            for chunk in (group.column(k) for k in range(group.num_columns)):
                _check_chunk(file, size, group.num_rows, chunk)


def _check_chunk(file: Path, size: int, rows: int, chunk: pq.ColumnChunkMetaData) -> None:
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    ends = (chunk.data_page_offset, begin + chunk.total_compressed_size)
    if begin < 0 or chunk.total_compressed_size < 0 or not all(begin <= end <= size for end in ends):
        raise RunError(file, f"column {printable(chunk.path_in_schema)} lies outside of the file", "a whole file")
    if chunk.num_values != rows or not 0 <= chunk.total_uncompressed_size <= _CHUNK_BYTES:
        raise RunError(
            file,
            f"column {printable(chunk.path_in_schema)} claims {chunk.num_values} values in "
            f"{chunk.total_uncompressed_size} bytes",
            f"{rows} values in at most {_CHUNK_BYTES} bytes",
        )


def prove_readable(file: Path) -> None:
    """Decodes all of ``file`` once, piece by piece.

    Raises:
        RunError: a part cannot be decoded.
    """
    with decoding(file), open_plain(file.parent, file.name) as opened, pq.ParquetFile(opened) as table:
        rows = sum(batch.num_rows for batch in table.iter_batches())
        if rows != table.metadata.num_rows:
            raise RunError(file, f"has {rows} rows", f"the {table.metadata.num_rows} that its footer claims")


def check_memory(file: Path, table: str) -> None:
    """Verifies that the table in ``file`` fits into this machine's memory.

    Equal values cost a file next to nothing: a megabyte can hold billions of rows.

    Raises:
        RunError: it does not.
    """
    with decoding(file), open_plain(file.parent, file.name) as opened:
        rows = pq.read_metadata(opened).num_rows
    most = _memory.machine_bytes() // _SHARE // (_VALUE_BYTES * len(TABLES[table].columns))
    if rows > most:
        raise RunError(file, f"has {rows} rows", f"at most {most}: a quarter of this machine's memory")


def count_rows(file: Path, table: pl.LazyFrame) -> int:
    """The number of rows of the table in ``file``.

    Raises:
        RunError: its footer cannot be read.
    """
    with decoding(file):
        return int(table.select(pl.len()).collect().item())


def _unreadable(file: Path, error: BaseException) -> RunError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return RunError(file, f"not a readable Parquet file ({printable(first)[:200]})", "a table (weir schema)")
