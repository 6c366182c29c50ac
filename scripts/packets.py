"""Compares two runs packet by packet: the rows of table ``acks``, for each cell that both have.

    weir run examples/packets.yaml --method sim,lab
    .venv/bin/python scripts/packets.py runs/packets/sim runs/packets/lab

A row is an acknowledgement or a transmission. Two rows are equal if packet, packets delivered,
window and threshold are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import polars as pl

import weir
from weir.run import ReadError

COLUMNS = ["flow", "kind", "packet", "delivered_packets", "cwnd", "ssthresh"]
"""What equal rows have in common."""


class Compared(NamedTuple):
    """Two tables ``acks`` of one cell."""

    rows: int
    """Of the longer one."""
    equal: int
    """From the first row on."""
    apart_ns: int
    """Largest distance of the times of the equal rows."""


def compared(one: pl.DataFrame, other: pl.DataFrame) -> Compared:
    """Compares two tables ``acks`` row by row."""
    shorter = min(len(one), len(other))
    pairs = zip(one.select(COLUMNS).rows()[:shorter], other.select(COLUMNS).rows()[:shorter], strict=True)
    equal = next((number for number, (a, b) in enumerate(pairs) if a != b), shorter)
    times = [frame["time_ns"].head(equal).cast(pl.Int64) for frame in (one, other)]
    apart = (times[0] - times[1]).abs().max() if equal else 0
    return Compared(max(len(one), len(other)), equal, int(str(apart)))


def _acks(cell: weir.Cell) -> pl.DataFrame:
    table = cell.table("acks")
    if table is None:
        raise SystemExit(f"cell {cell.id} has no table acks; the scenario needs `measure: {{acks: true}}`")
    frame = table.collect()
    assert isinstance(frame, pl.DataFrame)
    return frame


def main() -> int:
    """Prints a line for each cell."""
    if len(sys.argv) != 3:
        print(f"usage: {sys.argv[0]} RUN RUN", file=sys.stderr)
        return 2
    try:
        runs = [weir.open(Path(word)) for word in sys.argv[1:]]
    except ReadError as error:
        print(error, file=sys.stderr)
        return 2
    others = {cell.id: cell for cell in runs[1].cells}
    print(f"{'cell':32}{'rows':>8}{'equal':>8}  times within")
    for cell in runs[0].cells:
        if cell.id in others:
            found = compared(_acks(cell), _acks(others[cell.id]))
            name = ", ".join(str(value) for value in cell.factors.values()) or cell.id
            print(f"{name:32}{found.rows:8}{found.equal:8}  {found.apart_ns / 1e3:.3f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
