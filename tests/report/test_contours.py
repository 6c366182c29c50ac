"""Lines of equal value over a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir.report.contours import contours, isolines, length

GRID = [float(n) for n in range(6)]


def test_the_line_of_a_plane_is_straight() -> None:
    x, y = np.meshgrid(GRID, GRID, indexing="ij")
    (line,) = contours(GRID, GRID, x + y, 3.5)
    assert all(math.isclose(a + b, 3.5) for a, b in line)
    assert sorted([line[0], line[-1]]) == [(0.0, 3.5), (3.5, 0.0)]


def test_the_line_around_a_hill_is_closed() -> None:
    x, y = np.meshgrid(GRID, GRID, indexing="ij")
    (line,) = contours(GRID, GRID, -np.hypot(x - 2.5, y - 2.5), -1.5)
    assert line[0] == line[-1]
    assert len(line) > 8


def test_lines_of_a_saddle_do_not_cross() -> None:
    lines = contours([0.0, 1.0], [0.0, 1.0], np.array([[1.0, 0.0], [0.0, 1.0]]), 0.6)
    assert sorted(sorted(line) for line in lines) == [[(0.0, 0.4), (0.4, 0.0)], [(0.6, 1.0), (1.0, 0.6)]]
    lines = contours([0.0, 1.0], [0.0, 1.0], np.array([[1.0, 0.0], [0.0, 1.0]]), 0.4)
    assert sorted(sorted(line) for line in lines) == [[(0.0, 0.6), (0.4, 1.0)], [(0.6, 0.0), (1.0, 0.4)]]


def test_nothing_is_drawn_where_values_are_missing() -> None:
    values = np.array([[0.0, 0.0, 0.0], [1.0, np.nan, 1.0], [1.0, 1.0, 1.0]])
    assert contours(GRID[:3], GRID[:3], values, 0.5) == []


def test_the_length_of_a_line_is_a_part_of_the_axes() -> None:
    x, y = np.meshgrid(GRID, GRID, indexing="ij")
    found = isolines(GRID, GRID, x, [1.5])
    assert length(found, 10.0, 2 * (GRID[-1] - GRID[0])) == pytest.approx(0.5), "a vertical line, half of an axis"
    assert length(isolines(GRID, GRID, x + y, [1.0]), 1.0, 1.0) == pytest.approx(2**0.5)


def test_isolines_are_the_contours_of_all_levels_in_their_order() -> None:
    x, y = np.meshgrid(GRID, GRID, indexing="ij")
    found = isolines(GRID, GRID, x + y, [3.5, 20.0, 7.0])
    assert found["level"].unique(maintain_order=True).to_list() == [3.5, 7.0]
    for level in (3.5, 7.0):
        rows = found.filter(level=level)
        (line,) = contours(GRID, GRID, x + y, level)
        assert rows.select("x", "y").rows() == line
        assert rows["order"].to_list() == list(range(len(line)))
