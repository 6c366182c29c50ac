"""Contents of the charts: extremes, many flows, completion, units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from reading import page_of, read_page
from synthetic import Cell, Dumbbell, sweep, write_run

from shared import seal_run
from weir.metrics import open_run, parse_reference
from weir.report import build, charts, lead, theme
from weir.report.charts import CHARTS, RUN_CHARTS
from weir.report.figures import PAPER
from weir.report.view import RunView
from weir.run import TABLES


def _legend_sizes(spec: Any) -> list[int]:
    """Number of entries of every categorical colour scale."""
    if isinstance(spec, list):
        return [n for part in spec for n in _legend_sizes(part)]
    if not isinstance(spec, dict):
        return []
    found = []
    for channel in ("color", "shape", "strokeDash"):
        scale = spec.get(channel, {}).get("scale", {}) if isinstance(spec.get(channel), dict) else {}
        if spec.get(channel, {}) and "range" in scale:
            found.append(len(scale["range"]))
    return found + [n for value in spec.values() for n in _legend_sizes(value)]


def test_the_registry_names_every_chart_once_with_a_caption_and_existing_needs() -> None:
    names = [c.name for c in CHARTS]
    assert len(set(names)) == len(names)
    for chart in CHARTS:
        assert chart.caption.endswith(".")
        assert chart.needs
        for need in chart.needs:
            if need not in TABLES:
                parse_reference(need)


def test_no_two_metrics_share_a_title() -> None:
    titles = [(chart.title, chart.needs[0]) for chart in CHARTS if chart.name.startswith("by-")]
    titles += [(title, name) for name, title in lead._WORDS.items()]
    titles += [(title, name) for name, title in (*lead._USUAL.items(), *lead._OF_ONE_CELL.items())]
    metrics: dict[str, set[str]] = {}
    for title, name in titles:
        metrics.setdefault(title, set()).add(name.removesuffix(".mean"))  # utilisation is its mean over time
    assert {title: found for title, found in metrics.items() if len(found) > 1} == {}
    assert metrics["Normalised deviation of goodput"] == {"goodput.normalised_sd"}


@pytest.mark.parametrize("medium", [theme.PAGE, theme.PAPER])
def test_labels_of_an_axis_do_not_merge(medium: str) -> None:
    axis = theme.config(medium)["axis"]
    assert axis["labelOverlap"] == "greedy"
    assert axis["labelSeparation"] >= 3, "labels that touch read as one: 0 and 11.5 as 011.5"


def test_every_chart_file_is_registered() -> None:
    folder = Path(charts.__file__).parent
    text = Path(charts.__file__).read_text()
    for file in folder.glob("[!_]*.py"):
        assert f"{file.stem}." in text, file.stem


def test_thinning_keeps_the_extremes_of_the_aggregate(one: Path) -> None:
    item = page_of(one).charts()["goodput-total"]
    table = pl.read_parquet(next((one / "cells").iterdir()) / "goodput.parquet")
    rates = table.group_by("time_ns").agg(pl.col("delivered_bytes").sum() * 8 / 0.1)["delivered_bytes"]
    assert len(item["data"]["total"]["mean"]) <= 600 < len(rates)
    assert max(item["data"]["total"]["high"]) == pytest.approx(rates.max() / 1e9, rel=1e-3)
    assert min(item["data"]["total"]["low"]) == pytest.approx(rates.min() / 1e9, rel=1e-3)
    assert "mean of 2 samples (200 ms), the band their extremes" in item["notes"][0]


def test_a_short_series_is_not_thinned(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=20))
    item = read_page(build(open_run(run))).charts()["goodput-total"]
    assert item["notes"] == []
    assert item["data"]["total"]["low"] == item["data"]["total"]["high"]


def test_twelve_flows_have_a_panel_each(one: Path) -> None:
    items = page_of(one).charts()
    for name in ("goodput-flows", "cwnd"):
        spec = items[name]["spec"]
        assert spec["facet"]["sort"] == [f"elephants[{i}]" for i in range(12)]
        assert set(items[name]["data"]["series"]["name"]) == set(spec["facet"]["sort"])


def test_two_hundred_flows_have_bands_and_a_map_and_no_long_legend(many: Path) -> None:
    items = page_of(many).charts()
    for name in ("goodput-flows", "cwnd"):
        assert set(items[name]["data"]) == {"bands", "heat"}
        assert set(items[name]["data"]["heat"]["row"]) == set(range(200))
        assert len(items[name]["data"]["heat"]["row"]) <= 200 * 101
        bands = pl.DataFrame(items[name]["data"]["bands"], strict=False)
        assert (bands["p05"] <= bands["p50"]).all()
        assert (bands["p50"] <= bands["p95"]).all()
    assert len(items["recoveries"]["data"]["events"]["row"]) <= 200 * 101
    for item in items.values():
        assert max(_legend_sizes(item["spec"]), default=0) <= 12, item["name"]


def test_the_bands_are_the_percentiles_over_the_flows(many: Path) -> None:
    item = page_of(many).charts()["goodput-flows"]
    heat, bands = pl.DataFrame(item["data"]["heat"], strict=False), pl.DataFrame(item["data"]["bands"], strict=False)
    last = heat.filter(pl.col("to_s") == heat["to_s"].max())["value"]
    assert bands["p50"][-1] == pytest.approx(last.median(), rel=2e-3)
    assert bands["p95"][-1] == pytest.approx(last.quantile(0.95, "linear"), rel=2e-3)


def test_a_numeric_factor_is_the_axis_and_a_name_the_colour(grid: Path) -> None:
    item = page_of(grid).charts("run")["by-goodput-mean"]
    rows = pl.DataFrame(item["data"]["metric"], strict=False)
    assert sorted(set(rows["x"])) == [0, 11.5, 20, 50, 75, 100, 150, 200]
    assert item["csv"]["x"] == "rtt (ms)"
    assert set(rows["series"]) == {"reno", "bic", "cubic", "highspeed", "htcp", "scalable"}
    assert list(dict.fromkeys(rows["panel"])) == ["all"]
    same = "Drawn: all. Not drawn, because every cc has nearly the same value at each rtt: five (858 to 953 over rtt)."
    assert item["notes"][0] == same
    known = open_run(grid).metrics("goodput.mean@all", where={"cc": "bic", "rtt": "50ms"}).row(0, named=True)
    drawn = rows.filter(series="bic", x=50, panel="all").row(0, named=True)
    for here, there in (("value", "value"), ("low", "ci_low"), ("high", "ci_high")):
        assert drawn[here] == pytest.approx(known[there] / 1e6, rel=1e-3)


def test_names_alone_become_rows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [Cell({"cc": c}) for c in ("reno", "bic")], bell=Dumbbell(flows=2, duration=10))
    item = read_page(build(open_run(run))).charts("run")["by-goodput-mean"]
    assert set(item["data"]["metric"]["series"]) == {"reno", "bic"}
    assert "x" not in item["data"]["metric"]


def test_further_factors_become_panels(tmp_path: Path) -> None:
    cells = [
        Cell({"cc": c, "rtt": r, "buffers": b})
        for c in ("reno", "bic")
        for r in ("20ms", "50ms", "75ms")
        for b in ("4MB", "50MB")
    ]
    run = write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=10))
    item = read_page(build(open_run(run))).charts("run")["by-goodput-mean"]
    assert set(item["data"]["metric"]["panel"]) == {"all, buffers 4MB", "all, buffers 50MB"}


def test_unfinished_transfers_keep_the_curve_below_the_top(tmp_path: Path) -> None:
    bell = Dumbbell(flows=4, duration=12, every=1, sizes=(0, 10_000_000, 200_000_000, 900_000_000, 900_000_000))
    run = write_run(tmp_path / "run", sweep(("reno", "bic"), ("20ms",)), bell=bell)
    page = read_page(build(open_run(run)))
    item = page.charts()["completion"]
    percent = item["data"]["completion"]["percent"]
    assert percent == sorted(percent)
    assert 0 < percent[-1] < 100
    assert "completion-sweep" in page.charts("run")
    assert "by-completion-mean" in page.charts("run")


def test_distribution_shares_sum_to_the_whole(one: Path) -> None:
    rows = pl.DataFrame(page_of(one).charts()["goodput-distribution"]["data"]["distribution"], strict=False)
    for total in rows.group_by("phase").agg(pl.col("share_percent").sum())["share_percent"]:
        assert total == pytest.approx(100, rel=1e-2)


def test_synchronised_losses_show(one: Path) -> None:
    shares = page_of(one).charts()["recoveries"]["data"]["shares"]["share"]
    assert max(shares) > 50  # the synthetic flows back off together, two in three
    assert max(shares) <= 100


def test_a_metric_that_is_zero_everywhere_is_a_remark(grid: Path) -> None:
    page = page_of(grid)
    assert open_run(grid).metrics("timeouts.rate")["value"].to_list() == [0.0] * 48
    assert "by-timeouts-rate" not in page.charts("run")
    assert "Not drawn, because zero in every cell and phase: Timeouts." in page.by_id("sweep").text


def test_the_page_draws_the_mean_goodput_alone_if_each_cell_has_as_many_flows(grid: Path, tmp_path: Path) -> None:
    charts = page_of(grid).charts("run")
    assert (
        "The aggregate goodput is this mean times 5 (five), 12 (all); it is not drawn."
        in charts["by-goodput-mean"]["notes"]
    )
    assert not {"by-goodput-aggregate-mean", "behind-goodput-aggregate-mean"} & charts.keys()
    cells = [
        Cell({"cc": cc, "streams": str(n)}, bell=Dumbbell(flows=n, duration=10, every=0.5, phase_names=()))
        for cc in ("reno", "bic")
        for n in (1, 4)
    ]
    other = read_page(build(open_run(write_run(tmp_path / "run", cells)))).charts("run")
    assert "by-goodput-aggregate-mean" in other
    assert not any("aggregate" in note for note in other["by-goodput-mean"]["notes"])


def test_figures_for_papers_have_both_goodputs(grid: Path) -> None:
    chart = next(chart for chart in RUN_CHARTS if chart.name == "by-goodput-aggregate-mean")
    assert chart.draw(RunView(open_run(grid)), PAPER) is not None


def test_a_cell_without_a_value_is_named_with_the_reason(tmp_path: Path) -> None:
    lossless = Dumbbell(flows=2, duration=20, every=1, capacity=1e12)
    busy = Dumbbell(flows=2, duration=20, every=1, capacity=1e9, queue_bytes=1e5)
    cells = [
        Cell({"cc": cc, "rtt": rtt}, bell=lossless if (cc, rtt) == ("reno", "50ms") else busy)
        for cc in ("reno", "bic")
        for rtt in ("20ms", "50ms")
    ]
    page = read_page(build(open_run(write_run(tmp_path / "run", cells, bell=busy))))
    item = page.charts("run")["by-loss-synchronisation"]
    assert len(item["data"]["metric"]["value"]) == 3
    lacking = "No value for reno, rtt 50ms: no flow lost a packet there while two or more were active."
    assert item["notes"] == [lacking]


def test_panels_of_very_different_sizes_have_scales_of_their_own(tmp_path: Path) -> None:
    def panels(passes: tuple[float, ...], name: str) -> dict[str, Any]:
        bell = Dumbbell(flows=2, duration=20, every=1, groups=("download", "call"), passes=passes, phase_names=())
        run = write_run(tmp_path / name, sweep(("reno", "htcp"), ("20ms", "100ms")), bell=bell)
        found: dict[str, Any] = read_page(build(open_run(run))).charts("run")["by-goodput-mean"]
        return found

    unlike, alike = panels((1.0, 0.01), "unlike"), panels((1.0, 0.9), "alike")
    assert unlike["spec"]["resolve"]["scale"] == {"y": "independent"}
    assert "each panel has its own scale" in unlike["spec"]["title"]["text"]
    assert "scale" not in alike["spec"].get("resolve", {})
    assert "own scale" not in alike["spec"]["title"]["text"]


def test_a_row_with_a_gap_has_no_axis_in_the_gap(one: Path, tmp_path: Path) -> None:
    bell = Dumbbell(flows=6, duration=60, every=2)
    run = write_run(tmp_path / "run", bell=bell)
    plan = next((run / "cells").iterdir()) / "plan.json"
    document = json.loads(plan.read_text())
    document["phases"].append({"name": "third", "from_ns": 30_000_000_000, "to_ns": 60_000_000_000})
    plan.write_text(json.dumps(document))
    seal_run(run)
    three, two = read_page(build(open_run(run))).charts(), page_of(one).charts()
    for name in ("goodput-distribution", "flow-shares"):
        assert three[name]["columns"] == 3
        assert three[name]["spec"]["resolve"]["axis"] == {"x": "independent"}
        assert two[name]["columns"] == 2
        assert "axis" not in two[name]["spec"].get("resolve", {})


def _mixed(tmp_path: Path, kind: str) -> Path:
    """A sweep of two flows, of which the second has another kind of workload."""
    run = write_run(tmp_path / kind, sweep(("reno", "htcp"), ("20ms", "100ms")), bell=Dumbbell(flows=2, duration=20))
    for plan in run.glob("cells/*/plan.json"):
        document = json.loads(plan.read_text())
        if kind == "cbr":
            document["flows"][1]["source"] = {"kind": "cbr", "rate_bps": 10**8}
        plan.write_text(json.dumps(document))
    return seal_run(run)


def test_fairness_among_unlike_flows_is_called_that(tmp_path: Path) -> None:
    for kind in ("bulk", "cbr"):
        page = read_page(build(open_run(_mixed(tmp_path, kind))))
        run, cell = page.charts("run"), page.charts()
        said = "unlike flows (bulk, cbr), for which equal shares are no aim."
        for item in (run["by-jain"], cell["fairness-time"]):
            assert any(said in note for note in item["notes"]) == (kind == "cbr")
        assert kind == "bulk" or "behind-jain" not in run


def test_delay_that_the_bottleneck_does_not_explain_is_told(one: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=20, every=1, capacity=1e12))
    for table in run.glob("cells/*/samples.parquet"):
        frame = pl.read_parquet(table)
        late = pl.when(pl.col("time_ns") > 10**9).then(pl.col("srtt_ns") * 3).otherwise(pl.col("srtt_ns"))
        columns = frame.with_columns(late.cast(frame.schema["srtt_ns"]).alias("srtt_ns")).to_arrow()
        pq.write_table(columns.cast(pq.read_schema(table)), table)
    notes = read_page(build(open_run(seal_run(run)))).charts()["rtt"]["notes"]
    assert any("above the smallest, and the bottleneck's queue explains only" in note for note in notes)
    assert not any("explains only" in note for note in page_of(one).charts()["rtt"]["notes"])


def test_a_thousand_flows_fit(tmp_path: Path) -> None:
    bell = Dumbbell(flows=1000, duration=10, every=0.002, step=0.2, access=1e7, capacity=1e9, queue_bytes=2.5e6)
    path = build(open_run(write_run(tmp_path / "run", bell=bell)))
    assert path.stat().st_size < 5e6


def test_the_capacity_of_the_one_bottleneck_is_drawn_with_its_changes(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=12, duration=20, every=0.5))
    plan = next((run / "cells").iterdir()) / "plan.json"
    document = json.loads(plan.read_text())
    document["changes"] = [{"at_ns": 5_000_000_000, "link": 12, "change": {"kind": "rate", "rate_bps": 5_000_000_000}}]
    plan.write_text(json.dumps(document))
    seal_run(run)
    item = read_page(build(open_run(run))).charts()["goodput-total"]
    assert item["data"]["capacity"] == {"time_s": [0, 5, 20], "rate": [10, 5, 5]}
