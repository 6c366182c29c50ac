"""Intervals over few repeats: they are Student's, not cut, and the page says over how many repeats they are."""

from __future__ import annotations

from pathlib import Path

from synthetic import Cell, Dumbbell, sweep, write_run

from weir.report.tables import Field, Grid, _spread, summary_tables, wide_interval
from weir.report.view import RunView
from weir.run import open_run


def captions(folder: Path, cells: list[Cell]) -> list[str]:
    bell = Dumbbell(duration=20, every=2)
    grids: list[Grid] = summary_tables(RunView(open_run(write_run(folder, cells, bell=bell))))
    assert grids
    return [grid.caption for grid in grids]


def test_the_number_of_repeats_is_in_every_table(tmp_path: Path) -> None:
    few = captions(tmp_path / "few", sweep(("reno", "bic"), ("20ms", "50ms"), 2))
    large = captions(tmp_path / "large", sweep(("reno", "bic", "cubic"), ("20ms", "50ms", "75ms"), 3))
    assert all("over 2 repeats (Student's t)" in caption for caption in few)
    assert all("over 3 repeats (Student's t)" in caption for caption in large)
    assert len(large) > 1, "a matrix for each metric"


def test_few_repeats_are_explained() -> None:
    assert "With 2 repeats, an interval is ± 12.7 standard errors wide" in wide_interval(2)
    assert "± 4.3 standard errors wide" in wide_interval(3)
    assert [wide_interval(n) for n in (1, 5, 30)] == [""] * 3


def test_an_interval_beyond_a_links_rate_is_not_cut() -> None:
    """Two repeats of 90 and 94 Mb/s at 100 Mb/s: 92 ± 25.4, whose upper end no link carries."""
    field = Field("92.0", _spread(92.0, 92 - 25.4, 92 + 25.4, "92.0"))
    assert field.interval == "± 25.4"


def test_one_repeat_has_no_interval(tmp_path: Path) -> None:
    (first, *_) = captions(tmp_path / "one", sweep(("reno", "bic"), ("20ms",), 1))
    assert "One repeat: no confidence interval." in first
