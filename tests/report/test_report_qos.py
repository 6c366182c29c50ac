"""The tables of classes and of changes, the marks at changes, and remarks on cells without a class."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reading import read_page
from synthetic import Cell, Dumbbell, write_run

from shared import seal_run
from weir import scenario
from weir.report import build
from weir.report._text import unit_for
from weir.report.changes import Changes, changes_of
from weir.report.charts import CELL_CHARTS, Drawing, summary
from weir.report.figures import PAPER
from weir.report.page import medium
from weir.report.qos import qos_tables
from weir.report.tables import Grid
from weir.report.view import RunView
from weir.run import open_run
from weir.run.plan import plan_of

_BELL = Dumbbell(flows=3, duration=12, every=2, step=0.5, queue_bytes=2e6, capacity=1e9, access=8e8)
_CLASSES = replace(_BELL, classes=("be", "af"), phase_names=())


def _grid(folder: Path, title: str) -> Grid:
    (cell,) = RunView(open_run(folder)).combinations
    return next(grid for grid in qos_tables(cell) if grid.title == title)


def test_the_table_of_classes_has_what_the_table_of_the_run_says(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", bell=_CLASSES)
    (part,) = _grid(folder, "Classes").parts
    assert part.title == "bottleneck"
    assert [column.partition(" (")[0] for column in part.columns] == [
        "Share", "Throughput", "Loss", "Delay, mean", "Delay, 99th percentile of intervals' means",
    ]  # fmt: skip
    units = [re.findall(r"\(([^()]*)\)", column)[-1] for column in part.columns]
    frame = pl.read_parquet(next((folder / "cells").iterdir()) / "classes.parquet")
    for number, (name, fields) in enumerate(part.rows):
        own = frame.filter(pl.col("class") == number)
        bits, packets = 8 * own["out_bytes"].sum(), own["out_packets"].sum()
        known = own.drop_nulls("queue_delay_ns")
        mean = (known["queue_delay_ns"] * known["out_packets"]).sum() / known["out_packets"].sum() / 1e9
        wanted = [
            (bits + 8 * 38 * packets) / (1e9 * 12),
            bits / 12,
            own["drop_packets"].sum() / own["in_packets"].sum(),
            mean,
        ]
        factors = {"%": 0.01, **{u.label: u.factor for base in ("bit/s", "s") for u in _units(base)}}
        assert name == ("be", "af")[number]
        for field, unit, value in zip(fields, units, wanted, strict=False):
            assert float(field.text) * factors[unit] == pytest.approx(value, rel=0.01)
        assert float(fields[4].text) > float(fields[3].text)


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """A run whose bottleneck has the class ``tenant`` with two inside, of 75 and 25 % of its 80, and then 40 %."""
    folder = write_run(tmp_path / "run", bell=replace(_CLASSES, classes=("gold", "silver", "be")))
    plan = next((folder / "cells").iterdir()) / "plan.json"
    document = json.loads(plan.read_text())
    (number,) = [k for k, link in enumerate(document["links"]) if link["name"] == "bottleneck"]
    queue = document["links"][number]["queue"]
    gold, silver, be = queue["classes"]
    inner = {"kind": "wfq", "limit": queue["limit"]}
    inner["classes"] = [{**gold, "weight_ppm": 750_000}, {**silver, "weight_ppm": 250_000}]
    tenant = {"name": "tenant", "members": {"dscp": [1, 2]}, "weight_ppm": 800_000, "queue": inner}
    be = {**be, "members": {"rest": True}, "weight_ppm": 200_000}
    document["links"][number]["queue"] = {
        "kind": "wrr", "limit": queue["limit"], "burst_bytes": 3076, "classes": [tenant, be],
    }  # fmt: skip
    shares = {"kind": "shares", "shares": [400_000, 600_000]}
    document["changes"] = [{"at_ns": 6 * 10**9, "link": number, "change": shares}]
    plan.write_text(json.dumps(document))
    seal_run(folder)
    return folder


def test_a_class_with_classes_inside_has_a_row_of_all_of_them(nested: Path) -> None:
    (part,) = _grid(nested, "Classes").parts
    assert [name for name, _ in part.rows] == ["tenant (all)", "tenant.gold", "tenant.silver", "be"]
    share, throughput, loss = ([float(fields[k].text) for _, fields in part.rows] for k in range(3))
    for whole, gold, silver, _ in (share, throughput):
        assert whole == pytest.approx(gold + silver, rel=0.01)
    assert min(loss[1:3]) <= loss[0] <= max(loss[1:3])
    assert "The row (all) of a class with classes inside" in _grid(nested, "Classes").caption


def test_the_guaranteed_share_is_a_dashed_line_that_changes(nested: Path) -> None:
    (cell,) = RunView(open_run(nested)).combinations
    drawing = _drawn(cell, "classes")
    rows = drawing.data["classes"]
    for name, before, after in (("tenant.gold", 0.6, 0.3), ("tenant.silver", 0.2, 0.1), ("be", 0.2, 0.6)):
        own = rows.filter(pl.col("class") == name)
        assert set(own.filter(pl.col("time_s") < 6)["guaranteed"].round(9)) == {before}
        assert set(own.filter(pl.col("time_s") > 6)["guaranteed"].round(9)) == {after}
    assert "Dashed: the share that the class is guaranteed, by its weight, quantum or rate." in drawing.notes
    (dashes,) = [layer["mark"] for layer in drawing.spec["layer"] if layer["mark"].get("strokeDash") == [4, 3]]
    # The value of an interval is at its end: it must hold from the value before, not until the next.
    assert dashes["interpolate"] == "step-before"
    changed = rows.filter((pl.col("class") == "be") & (pl.col("guaranteed") > 0.5))["time_s"].min()
    last = rows.filter((pl.col("class") == "be") & (pl.col("time_s") < changed))["time_s"].max()
    assert last == pytest.approx(6)


def test_classes_without_guarantees_have_no_dashed_lines(tmp_path: Path) -> None:
    (cell,) = RunView(open_run(write_run(tmp_path / "run", bell=_CLASSES))).combinations
    drawing = _drawn(cell, "classes")
    assert "guaranteed" not in drawing.data["classes"].columns
    assert not any("Dashed" in note for note in drawing.notes)


def _units(base: str) -> list[Any]:
    return [unit_for(10.0**k, base) for k in range(-9, 12)]


def test_each_link_and_phase_has_its_classes(tmp_path: Path) -> None:
    bell = replace(_BELL, flows=6, every=1, uploads=1, classes=("be", "af"))
    parts = _grid(write_run(tmp_path / "run", bell=bell), "Classes").parts
    links = ("bottleneck", "bottleneck.reverse")
    assert [part.title for part in parts] == [f"{link}, {phase}" for link in links for phase in ("five", "all")]


def test_a_report_has_the_classes_and_leads_with_their_shares(tmp_path: Path) -> None:
    page = read_page(build(open_run(write_run(tmp_path / "run", bell=_CLASSES))))
    (lead,) = page.all("div", "lead")
    assert lead.attributes["data-only"] == "classes"
    titles = [e.text for e in page.all("summary")]
    assert titles.index("Metrics") < next(i for i, t in enumerate(titles) if t.startswith("Classes "))
    assert {"classes", "class-delay"} <= page.charts().keys()


def test_claims_about_classes_lead_with_their_chart(tmp_path: Path) -> None:
    charts = {
        "class.share[class: af] >= 0": "classes",
        "class.delay[class: af] >= 0s": "class-delay",
        "goodput.mean >= 0bps": "goodput-total",
    }
    for number, (check, chart) in enumerate(charts.items()):
        folder = write_run(tmp_path / str(number), bell=_CLASSES, expect=[{"claim": "a claim", "check": check}])
        (lead,) = read_page(build(open_run(folder))).all("div", "lead")
        assert lead.attributes["data-only"] == chart


_SCENARIO = """\
title: Changes
topology:
  dumbbell:
    pairs: 1
    access: {{rate: 100Mbps}}
    bottleneck: {{rate: 20Mbps, queue: {queue}}}
    rtt: 40ms
transport: {{cc: cubic}}
workload:
  - {{name: a, kind: bulk, between: pairs, dscp: af11, until: 20s}}
  - {{name: b, kind: bulk, between: pairs, until: 20s}}
changes: {changes}
"""
_WRR = "{wrr: {classes: {af: {dscp: af11, weight: 80%, queue: 1bdp}, be: {weight: 20%, queue: 1bdp}}}}"
_DRR = "{drr: {classes: {af: {dscp: af11, quantum: 9kB, queue: 1bdp}, be: {quantum: 3kB, queue: 1bdp}}}}"
_HTB = """{htb: {classes: {
  tenant: {dscp: af11, rate: 12Mbps, ceil: 16Mbps, queue: {htb: {classes: {af: {rate: 10Mbps, queue: 1bdp}}}}},
  be: {rate: 8Mbps, ceil: 20Mbps, queue: {tbf: {rate: 7Mbps, queue: 1bdp}}}}}}"""


def _changes(queue: str, *changes: str) -> Changes:
    text = _SCENARIO.format(queue=queue, changes=f"[{', '.join(changes)}]")
    plan = plan_of(Path("plan.json"), scenario.parse(text).cells()[0].plan())
    return changes_of(plan, plan.end_ns)


def _texts(changes: Changes) -> list[tuple[str, float, str]]:
    return [(one.label, one.at_s, change.text) for one in changes.instants for change in one.changes]


def test_changes_of_shares_are_told_class_by_class() -> None:
    found = _changes(_WRR, "{at: 10s, link: bottleneck, weights: {af: 30%, be: 70%}}")
    assert _texts(found) == [("A", 10, "weights af 30 %, be 70 %")]
    found = _changes(_DRR, "{at: 10s, link: bottleneck, quanta: {be: 6kB}}")
    assert _texts(found) == [("A", 10, "quanta af 9.00 kB, be 6.00 kB")]


def test_changes_of_token_buckets_tell_the_rates_that_change_then() -> None:
    first = "{at: 4s, link: bottleneck, class_rates: {be: {rate: 4Mbps, ceil: 6Mbps}, tenant.af: 5Mbps}}"
    second = "{at: 8s, link: bottleneck, class_rates: {be.queue: 3Mbps}}"
    assert _texts(_changes(_HTB, first, second)) == [
        ("A", 4, "tenant.af: rate 5.00 Mbps, be: rate 4.00 Mbps, ceil 6.00 Mbps"),
        ("B", 8, "be.queue: rate 3.00 Mbps"),
    ]


def test_changes_of_a_path_at_one_instant_share_a_letter() -> None:
    found = _changes(
        "1bdp",
        "{at: 0s, link: bottleneck, rate: 10Mbps}",
        "{at: 5s, link: [bottleneck, bottleneck.reverse], delay: 30ms}",
        "{at: 5s, link: bottleneck, rate: 0}",
        "{at: 6s, link: bottleneck, loss: 1%}",
        "{at: 7s, link: bottleneck, loss: none}",
    )
    assert _texts(found) == [
        ("", 0, "rate 10.0 Mbps"),
        ("A", 5, "delay 30.0 ms (fixed)"),
        ("A", 5, "delay 30.0 ms (fixed)"),
        ("A", 5, "rate 0, an outage"),
        ("B", 6, "losses (bernoulli, p 0.01)"),
        ("C", 7, "no losses"),
    ]
    assert [one.label for one in found.marked] == ["A", "B", "C"]


def test_a_course_of_rates_is_told_and_not_marked(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", bell=replace(_BELL, changes=(3,)))
    plan = next((folder / "cells").iterdir()) / "plan.json"
    document = json.loads(plan.read_text())
    trace = [
        {"at_ns": 10**8 * k, "link": 3, "change": {"kind": "rate", "rate_bps": 10**9 - k * 10**6}} for k in range(60)
    ]
    document["changes"] = sorted([*document["changes"], *trace], key=lambda one: one["at_ns"])
    plan.write_text(json.dumps(document))
    seal_run(folder)
    (cell,) = RunView(open_run(folder)).combinations
    assert [one.label for one in cell.changes.marked] == ["A"]
    drawing = _drawn(cell, "queue")
    assert "Not marked, because too many: changes of the rate of bottleneck (60 times)." in drawing.notes
    assert "Dotted: changes of links, listed in the table Changes: A, delay and losses at 3 s." in drawing.notes
    last = _grid(folder, "Changes").parts[0].rows[-1]
    assert (last[0], [field.text for field in last[1]]) == ("–", ["0", "bottleneck", "rate, 60 times until 5.9 s"])


def _drawn(cell: Any, name: str) -> Drawing:
    drawing = next(chart for chart in CELL_CHARTS if chart.name == name).draw(cell, PAPER)
    assert drawing is not None
    return drawing


def test_marks_add_no_data_set(tmp_path: Path) -> None:
    """So the names of a figure's CSV files do not depend on changes."""
    names = []
    for changes in ((), (3.0, 5.0)):
        folder = write_run(tmp_path / f"run{len(changes)}", bell=replace(_CLASSES, changes=changes))
        (cell,) = RunView(open_run(folder)).combinations
        names.append([list(_drawn(cell, name).data) for name in ("queue", "goodput-flows", "classes")])
    assert names[0] == names[1]


def test_changes_that_differ_between_the_cells_are_not_marked_in_the_grid(tmp_path: Path) -> None:
    cells = [Cell({"cc": "reno"}), Cell({"cc": "bic"}, bell=replace(_BELL, changes=(4,)))]
    page = read_page(build(open_run(write_run(tmp_path / "run", cells, bell=_BELL))))
    item = page.charts("run")["goodput-grid"]
    assert "Changes of links are not marked, because they differ between the cells." in item["notes"]
    assert "at_s" not in json.dumps(item["spec"])
    assert "at_s" in json.dumps(page.charts("cell-1-data")["goodput-total"]["spec"])


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A sweep one of whose cells has other classes, and one has none."""
    queues = {"wrr": ("be", "af"), "htb": ("be", "tenant.af"), "plain": ()}
    cells = [Cell({"queue": name}, bell=replace(_BELL, classes=classes)) for name, classes in queues.items()]
    figures = [{"value": "class.share[class: af]", "title": "Share of af"}]
    folder = write_run(tmp_path_factory.mktemp("without") / "run", cells, summary=figures)
    return RunView(open_run(folder))


_LACKS = ["link 'bottleneck' has no class 'af'; its classes are be, tenant.af", "classes"]


def test_rows_without_the_class_stay_and_a_remark_says_why(without: RunView) -> None:
    drawing = summary.CHART.draw(without, medium(3))
    assert drawing is not None
    rows = drawing.data["summary"]
    assert rows["row"].to_list() == ["wrr", "htb", "plain"]
    assert rows["value"].is_null().to_list() == [False, True, True]
    (other, none) = (note for note in drawing.notes if note.startswith("Share of af: no value for "))
    assert other == f"Share of af: no value for htb: {_LACKS[0]}."
    assert none.startswith("Share of af: no value for plain: ")
    assert _LACKS[1] in none


def test_on_paper_the_remark_is_below_the_figure(without: RunView) -> None:
    drawing = summary.CHART.draw(without, PAPER)
    assert drawing is not None
    title = drawing.spec["title"]
    assert title["orient"] == "bottom"
    assert f"Share of af: no value for htb: {_LACKS[0]}." in " ".join(title["text"])
