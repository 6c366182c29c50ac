"""The folder of one cell: further files, and refused names."""

from __future__ import annotations

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


def _one(kind: pa.DataType) -> object:
    return "flow_start" if pa.types.is_dictionary(kind) else 1
