"""Every chart, drawn by Vega and read back, shows the values of the tables: in the right panel, with the right look."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scene import Mark, Point, Scene, read_scene
from shapes import SHAPES
from synthetic import write_run
from tabled import READERS, changed, reader_of
from told import TheCell, TheRun, Told

from weir.report.charts import CELL_CHARTS, CHARTS, RUN_CHARTS, Chart, Drawing, Medium, RunChart
from weir.report.figures import PAPER
from weir.report.page import medium
from weir.report.spec import rows_of, set_width, specification
from weir.report.view import RunView
from weir.run import Run, RunWarning, open_run

_NEAR = 2e-3
"""Error of four digits and a pixel's fraction, as a share of the largest value."""
_COLOUR = 0.04
"""Error of a value read from a colour."""


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Writes and opens the run of a shape, once."""

    @cache
    def written(name: str) -> Run:
        shape = SHAPES[name]
        folder = tmp_path_factory.mktemp("shape") / "run"
        write_run(folder, shape.cells, bell=shape.bell, complete=shape.complete)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)
            return open_run(folder)

    return written


@pytest.fixture(scope="session")
def views(runs: Any) -> Any:
    """The view of a run, with the metrics of its charts; both media share it."""

    @cache
    def seen(name: str) -> RunView:
        view = RunView(runs(name))
        view.prepare(list(dict.fromkeys(chart.needs[0] for chart in _charts(name) if _of_metric(chart))))
        return view

    return seen


def _of_metric(chart: Chart) -> bool:
    """Whether a chart is one of several about a metric."""
    return chart.name.startswith(("by-", "behind-"))


def _scene(chart: Chart, drawing: Drawing, drawn: Medium) -> Scene:
    spec = specification(chart, drawing, drawn)
    spec["datasets"] = {name: rows_of(frame) for name, frame in drawing.data.items()}
    set_width(spec, 800, drawing.columns, 8)
    return read_scene(spec)


def test_every_chart_has_a_reader_and_every_reader_a_chart() -> None:
    names = [chart.name for chart in CHARTS]
    assert [name for name in names if reader_of(name) is None] == []
    used = {reader_of(name) for name in names}
    assert [name for name, reader in READERS.items() if reader not in used] == []


@pytest.mark.parametrize("drawn", [PAPER, medium(1)], ids=["paper", "page"])
@pytest.mark.parametrize("name", SHAPES)
def test_charts_of_the_run_show_what_its_tables_say(name: str, drawn: Medium, runs: Any, views: Any) -> None:
    run = runs(name)
    told = _the_run(name, run, drawn)
    view, found = views(name), []
    for chart in _charts(name):
        metric = (chart.needs[0],) if _of_metric(chart) else ()
        marks = changed(chart.name, told.cells[0], reader_of(chart.name)(told, *metric))  # type: ignore[misc]
        found += _problems(chart, chart.draw(view, drawn), marks, drawn)
    assert found == []


@pytest.mark.parametrize("drawn", [PAPER, medium(1)], ids=["paper", "page"])
@pytest.mark.parametrize("name", SHAPES)
def test_charts_of_a_cell_show_what_its_tables_say(name: str, drawn: Medium, runs: Any, views: Any) -> None:
    run = runs(name)
    told = _the_run(name, run, drawn)
    view, found = views(name), []
    for cell in told.cells if len(told.cells) <= 2 else told.cells[1:2]:
        seen = next(v for v in view.combinations if v.cell.factors == cell.cell.factors)
        for chart in CELL_CHARTS:
            marks = changed(chart.name, cell, reader_of(chart.name)(cell))  # type: ignore[misc]
            found += _problems(chart, chart.draw(seen, drawn), marks, drawn)
    assert found == []


def test_the_time_shown_enlarges_the_sequence(views: Any) -> None:
    page, chart = medium(1), next(chart for chart in CELL_CHARTS if chart.name == "sequence")
    drawing = chart.draw(views("a trace").combinations[0], page)
    assert drawing is not None
    spec = specification(chart, drawing, page)
    spec["datasets"] = {name: rows_of(frame) for name, frame in drawing.data.items()}
    window = {"tmin": 2.0295, "tmax": 2.0605}
    spec["params"] = [{**param, "value": window[param["name"]]} for param in spec["params"]]
    set_width(spec, 800, drawing.columns, 8)
    marks = [mark for mark in read_scene(spec).marks if mark.panel == "#0"]
    assert not any(mark.outside for mark in marks)
    times = [point.x for mark in marks for point in mark.points]
    numbers = [point.y for mark in marks for point in mark.points]
    lost = {3 * number for number in range(10, 21) if number % 3 == 1}
    wanted = [2 + i / 1000 for i in range(30, 61) if i not in lost]
    assert sorted(times) == pytest.approx(wanted, abs=1e-4)  # type: ignore[type-var]  # numbers
    assert min(numbers) == pytest.approx(10, abs=0.1)  # type: ignore[type-var]  # numbers
    assert max(numbers) == pytest.approx(20, abs=0.1)  # type: ignore[type-var]  # numbers


def _charts(name: str) -> Iterator[RunChart]:
    """The charts of the run; of several made by one function, two, except for a few shapes of runs."""
    made: Counter[object] = Counter()
    for chart in RUN_CHARTS:
        function = getattr(chart.draw, "func", chart.draw)
        made[function] += 1
        if made[function] <= 2 or name in ("grid", "grid of repeats", "transfers", "delays, a grid"):
            yield chart


def _the_run(name: str, run: Run, drawn: Medium) -> TheRun:
    shape = SHAPES[name]
    cells = tuple(TheCell(Path(run.path / "cells" / c.id), c, run, drawn) for c in shape.drawn)
    return TheRun(cells, run, shape, drawn)


def _problems(chart: Chart, drawing: Drawing | None, told: list[Told], drawn: Medium) -> Iterator[str]:
    """Differences between the drawing and the tables."""
    if drawing is None or not told:
        if drawing is not None or told:
            yield f"{chart.name}: {'not drawn' if drawing is None else 'drawn without data'}"
        return
    try:
        scene = _scene(chart, drawing, drawn)
    except AssertionError as error:
        yield f"{chart.name}: {error}"
        return
    if len(set(scene.panels)) < len(scene.panels):
        yield f"{chart.name}: two panels are called the same"
    want, have = _sorted(told), _sorted(scene.marks)
    for key in have.keys() - want.keys():
        yield f"{chart.name}: {key} is drawn, but not in the tables"
    for key in want.keys() - have.keys():
        yield f"{chart.name}: {key} is not drawn"
    scale = _Scale(told)
    for key in want.keys() & have.keys():
        left = list(have[key])
        for mark in want[key]:
            fits = [m for m in left if scale.same(mark, m)]
            if not fits:
                yield f"{chart.name}: {key}: {scale.why(mark, left)}"
                break
            left.remove(fits[0])
        else:
            if left:
                yield f"{chart.name}: {key}: drawn twice"
    allowed = {_key(t) for t in told if t.may_leave}
    for mark in scene.marks:
        if mark.outside and _key(mark) not in allowed:
            yield f"{chart.name}: {_key(mark)} leaves its panel"


Key = tuple[str, str, str, bool, bool]


def _key(mark: Told | Mark) -> Key:
    return mark.panel, mark.kind, mark.series, mark.dashed, mark.pale


def _sorted(marks: Any) -> dict[Key, list[Any]]:
    """The marks by panel and look; positions that form no path are grouped."""
    found: dict[Key, list[Any]] = {}
    for mark in marks:
        found.setdefault(_key(mark), []).append(mark)
    return {
        key: group
        if key[1] in ("line", "area")
        else [Told(*key[:2], tuple(p for m in group for p in m.points), *key[2:])]
        for key, group in found.items()
    }


class _Scale:
    """Compares positions, as exactly as the largest value of each coordinate in the chart allows."""

    def __init__(self, told: list[Told]) -> None:
        points = [p for t in told for p in t.points]
        self.most = {
            name: max((abs(v) for p in points if isinstance(v := getattr(p, name), int | float)), default=0.0)
            for name in ("x", "y", "x2", "y2", "size")
        }

    def same(self, told: Told, mark: Told | Mark) -> bool:
        if len(told.points) != len(mark.points):
            return False
        if told.kind in ("line", "area"):
            return all(self._near(a, b) for a, b in zip(told.points, mark.points, strict=True))
        return not self._unmatched(told.points, mark.points)

    def why(self, told: Told, marks: list[Any]) -> str:
        if not any(len(m.points) == len(told.points) for m in marks):
            return f"{len(told.points)} points expected, {[len(m.points) for m in marks]} drawn"
        best = next(m for m in marks if len(m.points) == len(told.points))
        pairs = zip(told.points, best.points, strict=True)
        off = next(((a, b) for a, b in pairs if not self._near(a, b)), None)
        return f"expected {off[0]}, drawn {off[1]}" if off else "other places are drawn"

    def _unmatched(self, told: tuple[Point, ...], drawn: tuple[Point, ...]) -> list[Point]:
        at: dict[Any, list[Point]] = {}
        for point in drawn:
            at.setdefault(self._place(point), []).append(point)
        left = []
        for point in told:
            near = [q for place in self._around(point) for q in at.get(place, ()) if self._near(point, q)]
            if near:
                at[self._place(near[0])].remove(near[0])
            else:
                left.append(point)
        return left

    def _place(self, point: Point) -> Any:
        return point.x if isinstance(point.x, str) else round(point.x / (self.most["x"] * 2 * _NEAR or 1))

    def _around(self, point: Point) -> list[Any]:
        place = self._place(point)
        return [place] if isinstance(place, str) else [place - 1, place, place + 1]

    def _near(self, told: Point, drawn: Point) -> bool:
        if told.text != drawn.text:
            return False
        for name, most in self.most.items():
            a, b = getattr(told, name), getattr(drawn, name)
            if a is ...:
                continue
            if not isinstance(a, int | float) or not isinstance(b, int | float):
                if a != b:
                    return False
                continue
            if name == "size":
                if abs(min(a, b) - b) > _COLOUR * most:  # the brightest colour stands for all larger values
                    return False
            elif abs(a - b) > _NEAR * max(most, 1e-12):
                return False
        return True


def test_the_comparison_sees_what_is_wrong() -> None:
    points = (Point(1.0, 2.0), Point(2.0, 4.0))
    told = [Told("a", "line", points)]
    scale = _Scale(told)
    for other in (
        (Point(1.0, 2.0), Point(2.0, 4.1)),
        (Point(1.0, 2.0), Point(2.1, 4.0)),
        (Point(2.0, 4.0), Point(1.0, 2.0)),
        points[:1],
        (*points, Point(3.0, 4.0)),
    ):
        assert not scale.same(told[0], Told("a", "line", other))
    assert scale.same(told[0], Told("a", "line", (Point(1.0001, 2.0), Point(2.0, 4.001))))
    dots = Told("a", "symbol", points)
    assert scale.same(dots, Told("a", "symbol", points[::-1]))
    assert not scale.same(dots, Told("a", "symbol", (points[0], points[0])))
    assert Counter(map(_key, [*told, dots])) == {
        ("a", "line", "", False, False): 1,
        ("a", "symbol", "", False, False): 1,
    }
