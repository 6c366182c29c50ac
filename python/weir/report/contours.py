"""Lines of equal value over a grid, for charts: marching squares with linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["contours", "isolines", "length"]

Point = tuple[float, float]
Floats = npt.NDArray[np.float64]


def isolines(x: Sequence[float], y: Sequence[float], values: Floats, levels: Sequence[float]) -> pl.DataFrame:
    """The points of the lines of all ``levels`` as rows: ``level``, ``line`` (its name), ``order`` in it, ``x``, ``y``.

    The arguments are those of `contours`.
    """
    rows = [
        (level, f"{level}/{number}", order, *point)
        for level in levels
        for number, line in enumerate(contours(x, y, values, level))
        for order, point in enumerate(line)
    ]
    schema = {"level": pl.Float64, "line": pl.String, "order": pl.Int64, "x": pl.Float64, "y": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def length(line: pl.DataFrame, width: float, height: float) -> float:
    """The length of one line of `isolines`, for axes that are ``width`` and ``height`` long, as a part of them."""
    steps = line.sort("order").select(pl.col("x").diff() / width, pl.col("y").diff() / height).drop_nulls()
    return float(np.hypot(*steps.to_numpy().T).sum())


def contours(x: Sequence[float], y: Sequence[float], values: Floats, level: float) -> list[list[Point]]:
    """The lines along which ``values`` are ``level``; each is a list of points.

    Args:
        x: Coordinates of the rows of ``values``, ascending.
        y: Coordinates of its columns, ascending.
        values: A value for each pair of coordinates; cells with a corner that is not finite have no line.
        level: A corner with this value counts as above it.

    Lines are closed or end at the edge. Where a cell has two lines, the mean of its corners decides which they join.
    """
    parts: dict[Point, list[Point]] = {}
    for row in range(len(x) - 1):
        for column in range(len(y) - 1):
            for a, b in _segments(x, y, values, row, column, level):
                parts.setdefault(a, []).append(b)
                parts.setdefault(b, []).append(a)
    return _joined(parts)


def _segments(
    x: Sequence[float], y: Sequence[float], values: Floats, row: int, column: int, level: float
) -> list[tuple[Point, Point]]:
    corners = [(row, column), (row + 1, column), (row + 1, column + 1), (row, column + 1)]
    heights = [float(values[corner]) for corner in corners]
    if not np.isfinite(heights).all():
        return []
    crossed = []
    for one in range(4):
        other = (one + 1) % 4
        if (heights[one] >= level) != (heights[other] >= level):
            # An edge belongs to two cells: both compute its point in the same order.
            first, second = sorted((one, other), key=lambda corner: corners[corner])
            crossed.append(_between(x, y, corners[first], corners[second], heights[first], heights[second], level))
    if len(crossed) == 2:
        return [] if crossed[0] == crossed[1] else [(crossed[0], crossed[1])]
    if len(crossed) != 4:
        return []
    # A saddle: the edges are those from corner 0 to 1, 1 to 2, 2 to 3, 3 to 0.
    if (sum(heights) / 4 >= level) == (heights[0] >= level):
        return [(crossed[0], crossed[1]), (crossed[2], crossed[3])]
    return [(crossed[3], crossed[0]), (crossed[1], crossed[2])]


def _between(
    x: Sequence[float],
    y: Sequence[float],
    a: tuple[int, int],
    b: tuple[int, int],
    low: float,
    high: float,
    level: float,
) -> Point:
    share = (level - low) / (high - low)
    return (x[a[0]] + share * (x[b[0]] - x[a[0]]), y[a[1]] + share * (y[b[1]] - y[a[1]]))


def _joined(parts: dict[Point, list[Point]]) -> list[list[Point]]:
    lines = []
    # Begin at ends, then take what is left: closed lines.
    for start in sorted(parts, key=lambda point: (len(parts[point]) != 1, point)):
        while parts[start]:
            line = [start]
            while parts[line[-1]]:
                following = parts[line[-1]].pop(0)
                parts[following].remove(line[-1])
                line.append(following)
            lines.append(line)
    return lines
