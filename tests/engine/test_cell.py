"""The folder of one cell: further files, and refused names."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.engine._cell import CellWriter


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
