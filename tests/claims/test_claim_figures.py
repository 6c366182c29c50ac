"""Figures of claims beyond one metric over a factor: named curves, drop profiles, maps, differences, inverses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weir.scenario import Scenario, parse
from weir.study.claims import Claim, Pages, Papers, Plan, State, Store, Unit, execute, is_current, states, work_of
from weir.study.claims._charts import (
    _columns,
    _distribution,
    _labelled,
    _read_values,
    _scale,
    _ticks,
    _told_lines,
    draw,
)
from weir.study.claims._curves import profiles, read_curves, read_profiles
from weir.study.claims._grids import _numbered
from weir.study.claims._maps import read_map
from weir.study.claims._messages import read_messages
from weir.study.claims._papers import Drawn, Figure, Recorded, Table

UNIT = Unit("B/small", "full", "sim")
TEXT = """
title: Two classes
seed: 3
topology:
  dumbbell:
    pairs: 2
    access: {rate: 20Mbps}
    bottleneck:
      rate: 10Mbps
      queue:
        wrr:
          classes:
            af: {dscp: af11, weight: 70%, priority: high, queue: 100packets}
            be: {weight: 30%, queue: 100packets}
    rtt: 20ms
workload:
  - {name: af, between: "pairs[0]", kind: cbr, rate: 9700kbps, dscp: af11, until: 2s}
  - {name: be, between: "pairs[1]", kind: cbr, rate: 9700kbps, until: 2s}
measure: {goodput: 100ms, tcp: 0, links: 100ms}
sweep:
  topology.dumbbell.rtt: [10ms, 40ms]
  zip:
    - slope: gentle
      topology.dumbbell.bottleneck.queue.wrr.classes.af.queue:
        red: {size: 100packets, min: 20packets, max: 80packets, max_p: 2%, gentle: false}
    - {slope: none, topology.dumbbell.bottleneck.queue.wrr.classes.af.queue: 100packets}
expect:
  - {id: B8, claim: fills the link, check: utilisation.mean >= 0.5, source: section 1}
"""
AF, BE = "class.share.mean[class: af]", "class.share.mean[class: be]"
RECORDED = Recorded(
    UNIT.scenario,
    (AF, BE),
    (Drawn("af", "class.share[class: af]", points=10, scale=0.01), Drawn("be", "class.share[class: be]", points=10)),
)
TABLE = Table(
    "t", "B", "Differences", UNIT.scenario, AF, "slope", "rtt", {"none": [40.0]}, ("40ms",), ("B8",),
    scale=0.01, digits=1, minus=BE, where={"slope": ["none"]},
)  # fmt: skip


def _figure(kind: str, **options: Any) -> Figure:
    return Figure("f", "B", "The figure", kind, UNIT.scenario, ("B8",), options=options)


def _papers(*figures: Figure) -> Papers:
    claim = Claim("B8", "B", "section 1", "It shares.", "70:30")
    return Papers(
        {"B": "DataTAG"}, {"B": ""}, {"sim": ("full",)}, (claim,), {UNIT.scenario: RECORDED}, figures, (TABLE,), {}
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scenario, Store]:
    """The scenario and its stored results."""
    folder = tmp_path_factory.mktemp("figures")
    scenario = parse(TEXT, "<small>")
    store = Store(folder / "results")
    assert execute(Plan([work_of(UNIT, scenario, RECORDED, store)], 1), store, folder / "runs") == []
    return scenario, Store(folder / "results")


@pytest.fixture(scope="module")
def state(stored: tuple[Scenario, Store]) -> State:
    """The results beside the scenario."""
    scenario, store = stored
    return states(_papers(), {UNIT.scenario: scenario}, store)[UNIT]


def test_curves_have_the_stored_values_in_the_middle_of_their_intervals(state: State) -> None:
    figure = _figure("curves", curves=["af", "be"], unit="Share", steps={"af": [[0, 2, 70]]})
    frame = read_curves(figure, state, state.used["0001-r0"])
    assert frame is not None
    assert frame["curve"].unique(maintain_order=True).to_list() == ["af", "be"]
    assert frame["x"].to_list()[:2] == pytest.approx([0.1, 0.3])
    full = frame.filter(frame["x"] > 0.6)
    assert full.filter(full["curve"] == "af")["value"].to_list() == pytest.approx([70] * 7, rel=0.02)
    later = replace(state.used["0001-r0"], repeat=1)
    assert read_curves(figure, state, later) is None
    svg = draw(figure, _papers(figure), state).svg()
    assert all(f">{name}<" in svg for name in ("af", "be", "weir", "paper"))


def test_a_profile_rises_between_the_thresholds_of_the_plan(state: State) -> None:
    figure = _figure("profiles", by="slope", axis="Fill", unit="Drops")
    frame = read_profiles(figure, state, state.used["0000-r0"])
    assert frame is not None
    assert frame["x"].to_list() == pytest.approx([0, 25, 100])
    assert frame["value"].to_list() == pytest.approx([0, 0, 2])
    assert read_profiles(figure, state, state.used["0001-r0"]) is None, "drop-tail has no profile"
    drawn = profiles(figure, [({"slope": "gentle"}, frame), ({"slope": "gentle"}, frame)], None)
    assert drawn.data["curves"]["x"].to_list() == pytest.approx([0, 25, 100]), "once, however many cells have it"


def test_a_map_marks_the_cells_whose_metric_is_below_one(state: State) -> None:
    maps = [{"metric": AF, "unit": "AF", "scale": 0.01}, {"metric": "utilisation.mean", "unit": "All"}]
    figure = _figure("map", maps=maps, over="rtt", by="slope", axis="RTT", side="Slope", outlined=BE)
    frame = read_map(figure, state, state.used["0001-r0"])
    assert frame is not None
    assert frame["panel"].to_list() == ["AF", "All"]
    assert frame["value"].to_list()[0] == pytest.approx(70, rel=0.05)
    assert frame["outlined"].to_list() == [1, 1]
    assert frame["dotted"].to_list() == [0, 0]
    svg = draw(figure, _papers(figure), state).svg()
    assert all(f">{name}<" in svg for name in ("AF", "All", "10ms", "40ms", "gentle", "none"))


def test_values_may_be_differences_and_inverses(state: State) -> None:
    result = state.used["0001-r0"]
    assert result.number(AF, BE) == pytest.approx(result.number(AF) - result.number(BE))  # type: ignore[operator]
    assert result.number(AF, "jain") is None
    figure = _figure("factor", metric=AF, inverse=True, over="rtt", by="slope", axis="RTT", unit="1")
    frame = _read_values(figure, state, result)
    assert frame is not None
    assert frame["value"].item() == pytest.approx(1 / result.values[AF])  # type: ignore[operator]


def test_a_table_has_the_cells_of_its_factors_only(stored: tuple[Scenario, Store]) -> None:
    scenario, store = stored
    page = Pages(_papers(), {UNIT.scenario: scenario}, store).paper("B")
    assert "| none, paper | 40.0 |" in page
    (ours,) = (line for line in page.splitlines() if line.startswith("| none, `B/small`"))
    assert float(ours.split("**")[1]) == pytest.approx(40, abs=4)
    assert "| gentle, `B/small`" not in page


MESSAGES = """
title: Ten messages, each after the acknowledgement of the last
topology:
  dumbbell: {pairs: 1, access: {rate: 100Mbps}, bottleneck: {rate: 100Mbps, queue: 1MB}, rtt: 20ms}
transport: {cc: reno, initial_window: 3}
workload:
  - {name: ping, between: pairs, kind: transfer, size: 100kB, count: 10, keep_connection: true}
duration: 5s
sweep:
  zip: [{case: slow, transport.initial_window: 3}, {case: ideal, transport.initial_window: 100}]
expect:
  - {id: B8, claim: all complete, check: completion.unfinished <= 0, source: section 1}
"""


def test_a_ping_pong_has_a_point_for_each_message_at_the_time_of_its_answer(tmp_path: Path) -> None:
    scenario, store = parse(MESSAGES, "<messages>"), Store(tmp_path / "results")
    recorded = Recorded(UNIT.scenario, (), (Drawn("messages", "transfers"),))
    assert execute(Plan([work_of(UNIT, scenario, recorded, store)], 1), store, tmp_path / "runs") == []
    state = states(_papers(), {UNIT.scenario: scenario}, Store(tmp_path / "results"))[UNIT]
    figure = _figure("messages", by="case", back_s=0.01)
    slow, ideal = (read_messages(figure, state, state.used[cell]) for cell in ("0000-r0", "0001-r0"))
    assert slow is not None
    assert ideal is not None
    # 100 kB in 70 packets of 1538 B take 8.6 ms at 100 Mb/s, and 10 ms for the way; the answer takes as long.
    assert ideal["value"][-1] == pytest.approx(0.8 / 0.0186, rel=0.03)
    # Before: a handshake, and once the wait for an acknowledgement of the first 64 KB.
    first = 0.02 + 0.02 - 65_535 * 8 / 100e6
    assert ideal["x"].to_list()[-2:] == pytest.approx([first + 0.0372 * 9, first + 0.0372 * 10], rel=0.15)
    assert slow["x"][-1] > ideal["x"][-1], "slow start takes round trips"
    assert len(slow) == len(ideal) == 10
    svg = draw(figure, _papers(figure), state).svg()
    assert all(f">{name}<" in svg for name in ("slow", "ideal"))


def test_titles_of_panels_name_a_switch_that_is_on_or_off() -> None:
    frame = pl.DataFrame({"value": [1.0]})
    both = [({"switch": "a", "sack": word}, frame) for word in ("true", "false")]
    assert list(_labelled(both, ["switch", "sack"])["panel"]) == ["a, with SACK", "a, without SACK"]


@pytest.mark.parametrize(("panels", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 3)])
def test_panels_fill_their_rows(panels: int, columns: int) -> None:
    assert _columns([str(n) for n in range(panels)]) == columns


def test_a_congestion_control_has_the_same_look_whatever_others_a_figure_has() -> None:
    known = ("reno", "bic", "scalable")
    few, many = (_scale(names, "color", known).to_dict() for names in (["scalable", "reno"], list(known)))
    assert dict(zip(few["domain"], few["range"], strict=True))["scalable"] == many["range"][2]
    assert _scale(["clean", "lossy"], "color", known).to_dict()["domain"] == ["clean", "lossy"]


def test_an_isoline_is_numbered_once_for_each_level() -> None:
    rows = [
        (level, f"{level}/{line}", order, 100.0 * order, 50.0 * order)
        for level in (0.5, 0.99)
        for line in (0, 1)
        for order in range(4 + line)
    ]
    lines = pl.DataFrame(rows, schema=["level", "line", "order", "x", "y"], orient="row")
    found = _numbered(lines).drop_nulls("number")
    assert found.select("line", "number").rows() == [("0.5/1", "0.5"), ("0.99/1", "0.99")]
    corner = lines.with_columns(pl.when(pl.col("level") == 0.5).then(pl.col("x", "y") / 10).otherwise(pl.col("x", "y")))
    assert _numbered(corner).drop_nulls("number")["number"].to_list() == ["0.99"], "a number covers a short line"


def test_flows_have_a_legend_if_they_are_few(state: State) -> None:
    figure = _figure("flows", panels="slope")

    def of(count: int) -> str:
        curves = {f"flow{n}[0]": [1.0, 2.0] for n in range(count)}
        held = {name: replace(one, drawn={"flows": {"end_s": 2, "curves": curves}}) for name, one in state.held.items()}
        return draw(figure, _papers(figure), replace(state, held=held)).svg()

    assert ">flow0<" in of(2)
    assert ">flow1<" in of(2)
    assert "flow0<" not in of(12)


def test_a_figure_has_the_values_of_other_scenarios_beside_its_own(state: State) -> None:
    figure = replace(
        _figure("factor", metric=AF, over="rtt", by="slope", axis="Round trip", unit="Share"),
        others={"B/other": "another queue"},
    )
    alone = draw(figure, _papers(figure), state, {state.unit: state}).svg()
    other = Unit("B/other", "full", "sim")
    beside = draw(figure, _papers(figure), state, {state.unit: state, other: replace(state, unit=other)}).svg()
    assert "another queue" not in alone
    assert "another queue" in beside


def test_a_figure_is_current_as_long_as_it_shows_the_stored_values(state: State, tmp_path: Path) -> None:
    figure = _figure("factor", metric=AF, over="rtt", by="slope", axis="Round trip", unit="Share")
    file = tmp_path / "figure.svg"
    assert not is_current(file, draw(figure, _papers(figure), state))
    file.write_text(draw(figure, _papers(figure), state).svg(), encoding="utf-8")

    def with_value(factor: float) -> State:
        one = state.used["0000-r0"]
        value = {**one.values, AF: factor * float(one.values[AF])}
        return replace(state, held={**state.held, "0000-r0": replace(one, values=value)})

    assert is_current(file, draw(figure, _papers(figure), with_value(1 + 1e-13))), "the last digits do not count"
    assert not is_current(file, draw(figure, _papers(figure), with_value(1.001)))
    assert not is_current(file, draw(replace(figure, title="Another"), _papers(figure), state))


def test_lines_of_the_papers_text_span_the_figure(state: State) -> None:
    bounds: list[dict[str, Any]] = [{"name": "a bound", "at": 70}, {"slope": 2.0, "start": 1.0}]
    figure = _figure("factor", metric=AF, scale=0.01, over="rtt", by="slope", axis="RTT", unit="Share", lines=bounds)
    points = pl.DataFrame({"x": [40.0, 10.0]})
    ends = _told_lines(bounds, points).select("line", "x", "value", "label").rows()
    assert ends == [
        (0, 10.0, 70.0, None),
        (0, 40.0, 70.0, "a bound"),
        (1, 10.0, 21.0, None),
        (1, 40.0, 81.0, None),
    ]
    assert ">a bound<" in draw(figure, _papers(figure), state).svg()
    bare = replace(figure, options={**figure.options, "lines": []})
    assert "a bound" not in draw(bare, _papers(bare), state).svg()


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    assert _ticks(pl.Series([0.02, 0.0, 300.0]), log=True).to_dict()["values"] == [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
    assert _ticks(pl.Series([0.02, 300.0]), log=False, count=4).to_dict() == {"tickCount": 4}


def test_panels_of_distributions_have_one_scale_and_the_limits_of_the_claim() -> None:
    figure = _figure("distribution", panels="cc", limits=[20, 40])
    frames = [
        ({"cc": name}, pl.DataFrame({"x": [0.0, 50.0, 99.0], "value": [1.0, top, 2.0]}))
        for name, top in (("reno", 80.0), ("bic", 12.0))
    ]
    drawing = _distribution(figure, frames, None)
    limits = drawing.data["bins"].drop_nulls("limit").group_by("panel", maintain_order=True).agg("limit")
    assert limits.rows() == [("reno", [20.0, 40.0]), ("bic", [20.0, 40.0])]
    text = str(drawing.spec)
    assert "sqrt" in text
    assert "'y': 'independent'" not in text
