"""Contents of the charts: extremes, many flows, completion, units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reading import page_of, read_page
from synthetic import Cell, Dumbbell, sweep, write_run

from shared import seal_run
from weir.metrics import open_run, parse_reference
from weir.report import build, charts
from weir.report.charts import CHARTS
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
    assert "Drawn: all. Not drawn, because all curves are nearly the same there: five (" in item["notes"][0]
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
