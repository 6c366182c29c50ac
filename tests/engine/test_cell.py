"""The folder of one cell: its tables, further files, and refused names."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.engine._cell import CellWriter
from weir.run.tables import TABLES, arrow_schema


def test_further_files_may_be_in_a_folder_of_the_cell(tmp_path: Path) -> None:
    with CellWriter(tmp_path, "0000-r0") as cell:
        cell.open("commands/a[0].out").write(b"one")
        cell.open("note.json").write(b"{}")
        cell.open("commands/a[0].out").write(b"two")
        cell.commit("{}", {})
    folder = tmp_path / "cells" / "0000-r0"
    assert (folder / "commands" / "a[0].out").read_bytes() == b"onetwo"
    assert (folder / "note.json").read_bytes() == b"{}"


@pytest.mark.parametrize("name", ["", ".", "..", "/etc/x", "../x", "a/../x", "a//b", "flows.parquet"])
def test_a_file_stays_within_its_cell_and_is_no_table(tmp_path: Path, name: str) -> None:
    with CellWriter(tmp_path, "0000-r0") as cell, pytest.raises(ValueError, match="not the name of a further file"):
        cell.open(name)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_written_and_read(name: str, tmp_path: Path) -> None:
    schema = arrow_schema(name)
    kinds = {field.name: "a" if pa.types.is_string(field.type) else _one(field.type) for field in schema}
    rows = pa.RecordBatch.from_pylist([kinds, kinds], schema=schema)
    with CellWriter(tmp_path, "0000-r0") as cell:
        cell.write(name, rows)
        cell.commit("{}", {})
    found = pq.read_table(tmp_path / "cells" / "0000-r0" / f"{name}.parquet")
    assert found.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("name", ["samples", "events", "links"])
def test_a_table_has_the_same_bytes_whatever_the_size_of_the_writes(name: str, tmp_path: Path) -> None:
    """Batches that are larger than a row group, batches that end within one, and small ones that are put together."""
    rows = _random_rows(name, 200_000)
    files = set()
    for size in (200_000, 150_001, 20_000, 999):
        with CellWriter(tmp_path, f"{size}") as cell:
            for begin in range(0, rows.num_rows, size):
                cell.write(name, rows.slice(begin, size))
            cell.commit("{}", {})
        files.add((tmp_path / "cells" / f"{size}" / f"{name}.parquet").read_bytes())
    (content,) = files
    assert pa.Table.from_batches([rows]).equals(pq.read_table(pa.BufferReader(content)))


def _random_rows(name: str, count: int) -> pa.RecordBatch:
    """Nullable columns have nulls in the second half only."""
    draw = random.Random(name)
    schema = arrow_schema(name)
    kinds = ["flow_start", "flow_end", "backoff"]
    columns = []
    for field in schema:
        if pa.types.is_dictionary(field.type):
            indices = pa.array(draw.choices(range(len(kinds)), k=count), field.type.index_type)
            columns.append(pa.DictionaryArray.from_arrays(indices, pa.array(kinds)))
            continue
        numbers: list[int | None] = [draw.randrange(200) for _ in range(count)]
        if field.nullable:
            numbers[count // 2 :] = [n if n is not None and n % 3 else None for n in numbers[count // 2 :]]
        columns.append(pa.array(numbers, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _one(kind: pa.DataType) -> object:
    return "flow_start" if pa.types.is_dictionary(kind) else 1
