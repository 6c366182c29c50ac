"""``scripts/packets.py``: two tables ``acks``, row by row."""

from __future__ import annotations

import sys

import polars as pl
import pytest

from shared import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from packets import COLUMNS, compared


def _rows(*windows: int, late_ns: int = 0) -> pl.DataFrame:
    rows = [{"time_ns": 1000 * k + late_ns, **dict.fromkeys(COLUMNS, k), "cwnd": w} for k, w in enumerate(windows)]
    return pl.DataFrame(rows, schema={"time_ns": pl.UInt64, **dict.fromkeys(COLUMNS, pl.UInt32)})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (_rows(10, 11, 12), _rows(10, 11, 12, late_ns=7), (3, 3, 7)),
        (_rows(10, 11, 12), _rows(10, 12, 12), (3, 1, 0)),
        (_rows(10, 11), _rows(10, 11, 12, 13), (4, 2, 0)),
        (_rows(9), _rows(10), (1, 0, 0)),
    ],
)
def test_rows_are_equal_up_to_the_first_difference(
    one: pl.DataFrame, other: pl.DataFrame, expected: tuple[int, int, int]
) -> None:
    assert compared(one, other) == expected
