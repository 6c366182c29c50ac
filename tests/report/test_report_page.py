"""The page: its order, its words, its safety, its size."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from reading import Page, page_of, read_page
from synthetic import Cell, Dumbbell, sweep, write_run

import weir
from shared import seal_run
from weir.cli._scenarios import catalogue_folder
from weir.report import build, provenance
from weir.report.bundle import inline_code
from weir.report.tables import SUMMARY
from weir.report.view import RunView
from weir.run import RunWarning, open_run


@pytest.fixture(scope="module")
def grid_page(grid: Path) -> Page:
    return page_of(grid)


@pytest.fixture(scope="module")
def one_page(one: Path) -> Page:
    return page_of(one)


def test_sections_come_in_their_order_with_the_outcome_first(grid_page: Page) -> None:
    ids = [s.attributes["id"] for s in grid_page.all("section")]
    assert ids == ["outcome", "verdicts", "sweep", "tables", "cells", "warnings", "provenance"]
    linked = [a.attributes["href"].removeprefix("#") for a in grid_page.all("a") if a.attributes["href"][1:] in ids]
    assert linked[-len(ids) :] == ids


def test_a_run_of_one_cell_has_no_sweep_and_no_picker(one_page: Page) -> None:
    ids = [s.attributes["id"] for s in one_page.all("section")]
    assert "sweep" not in ids
    assert not [f for f in one_page.all("form") if f.attributes.get("id") == "picker"]


def test_the_headline_counts_the_claims(grid_page: Page) -> None:
    (headline,) = grid_page.all("p", "headline")
    assert " ".join(headline.text.split()) == "2 of 4 claims hold · 1 fails, 1 undecided"


def test_a_verdict_says_claim_source_check_measurement_and_outcome_in_words(grid_page: Page) -> None:
    shown = [e.text for e in grid_page.all("li", "verdict")]
    outcomes = [e.text for e in grid_page.all("span", "mark")]
    assert outcomes == ["fails", "holds", "holds", "undecided"]
    first = shown[0]
    for part in ("Reno stays below 3.5 Gb/s", "RR-6034 fig. 10", "goodput.aggregate.max <= 3.5Gbps", "cc = reno"):
        assert part in first
    assert re.search(r"[\d.]+ Gbps against 3.5 Gbps; the same in all 2 repeats", first)
    assert "Holds in 48 of 48 comparisons" in shown[1]
    assert "no cell of this run has cc = vegas" in shown[3]


def test_summary_tables_have_headers_and_intervals(grid_page: Page) -> None:
    assert all("scope" in e.attributes for e in grid_page.all("th"))
    columns = [e.text for e in grid_page.all("th") if e.attributes["scope"] == "col"]
    assert columns[columns.index("0ms") : columns.index("0ms") + 8] == [
        "0ms",
        "11.5ms",
        "20ms",
        "50ms",
        "75ms",
        "100ms",
        "150ms",
        "200ms",
    ]
    rows = [e.text for e in grid_page.all("th") if e.attributes["scope"] == "row"]
    at = rows.index("reno")
    assert rows[at : at + 6] == ["reno", "bic", "cubic", "highspeed", "htcp", "scalable"]
    intervals = [e.text for e in grid_page.all("span", "interval")]
    assert len(intervals) > 48
    assert all(re.fullmatch(r"=|± <?[\d.]+|\[[\d.]+ [\d.]+\]", text) for text in intervals)


def test_one_repeat_has_no_interval_and_says_so(one_page: Page) -> None:
    assert not one_page.all("span", "interval")
    assert "One repeat" in one_page.by_id("tables").text


def test_only_the_first_cell_is_shown_and_each_can_be_picked(grid_page: Page) -> None:
    cells = grid_page.all("article", "cell")
    assert len(cells) == 48
    assert [("hidden" in c.attributes) for c in cells] == [False] + [True] * 47
    factors = [json.loads(c.attributes["data-factors"]) for c in cells]
    assert factors[0] == {"cc": "reno", "rtt": "0ms"}
    assert len({tuple(f.items()) for f in factors}) == 48
    assert [s.attributes["name"] for s in grid_page.all("select")] == ["cc", "rtt"]


def test_the_page_refers_to_nothing_outside_itself(grid_page: Page) -> None:
    for element in grid_page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset", "background", "formaction", "ping"):
            value = element.attributes.get(name, "#")
            assert value.startswith("#"), f"<{element.tag} {name}={value!r}>"
        assert element.tag not in ("link", "img", "iframe", "object", "embed", "base")
    (style,) = grid_page.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_the_policy_allows_these_scripts_and_this_style_alone(grid_page: Page) -> None:
    (policy,) = [m.attributes["content"] for m in grid_page.all("meta") if "http-equiv" in m.attributes]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in policy
    assert "http" not in policy

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = [s for s in grid_page.all("script") if "type" not in s.attributes]
    assert directives["script-src"].split() == [digest(s.text) for s in scripts]
    assert directives["style-src"] == digest(grid_page.all("style")[0].text)


_EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"&"


def test_untrusted_text_stays_text(tmp_path: Path) -> None:
    cells = [Cell({"cc": "evil", "rtt": "20ms"}), Cell({"cc": "reno", "rtt": "20ms"}, warnings=(_EVIL,))]
    claims = [{"claim": _EVIL, "source": _EVIL, "check": _EVIL}]
    run = write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=10), title=_EVIL, expect=claims)
    manifest = next((run / "cells").glob("cc=evil*")) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"cc": "evil"', f'"cc": {json.dumps(_EVIL)}'))
    page = read_page(build(open_run(seal_run(run))))
    assert "alert(1)</script>" not in page.source
    assert not page.all("img")
    assert len([s for s in page.all("script") if "type" not in s.attributes]) == 2
    assert page.all("h1")[0].text == _EVIL
    assert _EVIL in page.by_id("warnings").text
    assert json.loads(page.all("article", "cell")[0].attributes["data-factors"])["cc"] in (_EVIL, "reno")


def test_the_same_run_gives_the_same_bytes_in_another_process(small: Path, tmp_path: Path) -> None:
    here = build(open_run(small), tmp_path / "here.html").read_bytes()
    assert build(open_run(small), tmp_path / "again.html").read_bytes() == here
    script = f"from weir.report import build; from weir.run import open_run; from pathlib import Path; build(open_run({str(small)!r}), Path({str(tmp_path / 'there.html')!r}))"  # noqa: E501
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=120)
    assert (tmp_path / "there.html").read_bytes() == here


def test_sizes(grid_page: Page, one_page: Page) -> None:
    assert len(grid_page.source) < 10e6
    assert len(one_page.source) < 2e6


def test_writing_leaves_nothing_but_the_page(small: Path, tmp_path: Path) -> None:
    build(open_run(small), tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert build(open_run(small)) == small / "report.html"


def test_warnings_are_listed_and_announced(small: Path) -> None:
    page = page_of(small)
    assert "1 warning." in page.all("div", "notice")[0].text
    assert "the emulator was late by 3 ms" in page.by_id("warnings").text


def test_provenance_holds_the_manifest_and_the_scenario(one_page: Page) -> None:
    text = one_page.by_id("provenance").text
    for part in ("0123456789abcdef", "Linux 6.1.0", "AMD EPYC 7B13", "title:", "seed"):
        assert part in text
    assert re.search(r"[0-9a-f]{64}", text)


@pytest.mark.parametrize("drop", ["flows", "goodput", "samples", "links", "events"])
def test_a_missing_table_costs_its_charts_and_gives_a_warning(tmp_path: Path, drop: str) -> None:
    cells = [Cell({"cc": "reno"}), Cell({"cc": "bic"}, drop_tables=(drop,))]
    run = write_run(tmp_path / "run", cells, bell=Dumbbell(flows=3, duration=20))
    page = read_page(build(open_run(run)))
    assert f"table {drop}" in page.by_id("warnings").text
    charts = {"flows": set(), "goodput": {"goodput-total", "goodput-flows"}, "samples": {"cwnd", "rtt"},
              "links": {"queue", "loss", "queue-delay"}, "events": {"recoveries"}}[drop]  # fmt: skip
    assert not charts & set(page.charts("cell-1-data"))
    assert charts - {"recoveries", "loss"} <= set(page.charts("cell-0-data"))


@pytest.mark.parametrize("dropped", [(0, 1), (1,)], ids=["everywhere", "in one cell"])
def test_metrics_that_do_not_need_a_missing_table_are_summarised(tmp_path: Path, dropped: tuple[int, ...]) -> None:
    cells = [Cell({"cc": cc}, drop_tables=("samples",) * (k in dropped)) for k, cc in enumerate(("reno", "bic"))]
    view = RunView(open_run(write_run(tmp_path / "run", cells, bell=Dumbbell(flows=3, duration=20))))
    view.prepare(SUMMARY)
    assert view.summary("goodput.mean")["value"].is_not_null().sum() == 2
    assert len(view.summary("rtt")) == 2 - len(dropped)


def test_missing_and_failed_cells_are_named(tmp_path: Path) -> None:
    cells = sweep(("reno", "bic", "cubic"), ("20ms", "50ms", "75ms", "100ms"))
    cells[1] = Cell(cells[1].factors, failed=True)
    cells[4] = Cell(cells[4].factors, missing=True)
    run = write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=10))
    with pytest.warns(RunWarning, match="2 of 12 cells are missing"):
        opened = open_run(run)
    page = read_page(build(opened))
    text = page.by_id("warnings").text
    assert "cc=reno,rtt=50ms,r0 has no result: the simulator stopped: out of memory" in text
    assert "cc=bic,rtt=20ms,r0 has no result" in text
    assert len(page.all("article", "cell")) == 10
    assert "–" in [td.text for td in page.all("td")]


def test_an_incomplete_grid_is_not_taken_for_a_zip(tmp_path: Path) -> None:
    cells = sweep(("reno", "bic"), ("20ms", "50ms"))
    cells[1] = Cell(cells[1].factors, failed=True)
    cells[2] = Cell(cells[2].factors, missing=True)
    run = write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=10))
    with pytest.warns(RunWarning):
        opened = open_run(run)
    page = read_page(build(opened))
    assert [s.attributes["name"] for s in page.all("select")] == ["cc", "rtt"]


def test_an_interrupted_run_has_a_report_that_says_so(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run", sweep(("reno",), ("20ms", "50ms")), bell=Dumbbell(flows=2, duration=10), complete=False
    )
    with pytest.warns(RunWarning, match="incomplete"):
        opened = open_run(run)
    page = read_page(build(opened))
    assert "incomplete" in page.by_id("warnings").text
    assert "Its claims are judged when it is complete" in page.by_id("verdicts").text


def test_empty_tables_give_a_page_without_charts(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [Cell(empty=True)], bell=Dumbbell(flows=2, duration=10))
    page = read_page(build(open_run(run)))
    assert "nothing to draw" in page.by_id("cells").text
    assert not [s for s in page.all("script") if s.attributes.get("id") == "cell-0-data"]


def test_datagrams_alone_have_no_window_and_no_round_trip(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=10, protocol="udp"))
    charts = read_page(build(open_run(run))).charts()
    assert "goodput-total" in charts
    assert not {"cwnd", "rtt"} & set(charts)


def test_a_damaged_plan_costs_its_cell_only(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", sweep(("reno", "bic"), ("20ms",)), bell=Dumbbell(flows=2, duration=10))
    (run / "cells" / "cc=bic,rtt=20ms,r0" / "plan.json").write_text('{"title": 1}')
    page = read_page(build(open_run(run, verify=False)))
    assert "cc=bic,rtt=20ms,r0 is left out" in page.by_id("warnings").text
    assert len(page.all("article", "cell")) == 1


def test_a_damaged_table_costs_its_charts_only(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=10))
    file = next((run / "cells").iterdir()) / "links.parquet"
    file.write_bytes(file.read_bytes()[:200] + b"x" * 40)
    page = read_page(build(open_run(run, verify=False)))
    assert "links" in page.by_id("warnings").text
    assert "goodput-total" in page.charts()
    assert "queue" not in page.charts()


def test_nothing_readable_still_gives_a_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=10))
    (next((run / "cells").iterdir()) / "plan.json").write_text("{}")
    page = read_page(build(open_run(run, verify=False)))
    assert "is left out" in page.by_id("warnings").text


def test_one_claim_has_a_headline_of_its_own(tmp_path: Path) -> None:
    claim = {"claim": "All is well", "check": "goodput.mean >= 1000Gbps"}
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=10), expect=[claim])
    assert read_page(build(open_run(run))).all("p", "headline")[0].text == "The claim fails."


SHARE = {"claim": "The link carries 9 Gb/s", "check": "efficiency.capacity.max <= 0.09"}


def _share_of(tmp_path: Path, *capacities: float) -> str:
    """The verdict on a share of the rate of links with these rates."""
    cells = [
        Cell({"rate": f"{rate / 1e9:g}Gbps"}, bell=Dumbbell(flows=2, duration=10, every=1, capacity=rate))
        for rate in capacities
    ]
    claim = {**SHARE, "check": "max(efficiency.capacity.max over rate) <= 0.09"} if len(cells) > 1 else SHARE
    run = write_run(tmp_path / f"run{len(cells)}", cells, bell=Dumbbell(flows=2), expect=[claim])
    return " ".join(read_page(build(open_run(run))).all("li", "verdict")[0].text.split())


def test_a_share_of_the_bottleneck_is_a_rate_too(tmp_path: Path) -> None:
    text = _share_of(tmp_path, 10e9)
    found = re.search(r"([\d.]+) Gbps against 900 Mbps \(([\d.]+) % of 10 Gbps\)", text)
    assert found is not None, text
    assert float(found[1]) == pytest.approx(float(found[2]) / 10, rel=2e-3)
    assert re.search(r"measured ?[\d.]+ Gbps against 900 Mbps; [\d.]+ % against 9 % of the bottleneck's 10 Gbps", text)


def test_a_share_of_several_rates_stays_a_share(tmp_path: Path) -> None:
    text = _share_of(tmp_path, 10e9, 5e9)
    assert re.search(r"[\d.]+ % against 9 %", text)
    assert "bps" not in text.split("check")[0]


def test_what_is_not_printed_is_said(small: Path, one: Path) -> None:
    page = page_of(small)
    said = [" ".join(e.text.split()) for e in page.all("p", "printed")]
    assert said[0].endswith("notes and all comparisons of each verdict are at the end.")
    assert said[1:5] == ["One of 4 cells is printed, the one chosen on the page. The page shows the others."] * 4
    assert said[5].startswith("The scenario's text and the list of plans are not printed")
    assert [e.text.lstrip()[:5] for e in page.all("details", "bulk")] == ["Plans", "Scena"]
    assert not any(e.text.startswith("One of") for e in page_of(one).all("p", "printed"))


def test_provenance_lists_names_and_values_in_words(tmp_path: Path) -> None:
    figures = [{"value": "jain", "title": "Shared?"}, {"value": "rtt.mean", "title": "Late?"}]
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=10), summary=figures)
    text = read_page(build(open_run(run))).by_id("provenance").text
    assert "value jain, title Shared?; value rtt.mean, title Late?" in text
    assert "{'value'" not in text


def test_few_combinations_share_one_table(small: Path) -> None:
    page = page_of(small)
    columns = [e.text for e in page.all("th") if e.attributes["scope"] == "col"]
    at = columns.index("Metric")
    assert columns[at + 1 : at + 5] == ["reno, 20ms", "reno, 100ms", "bic, 20ms", "bic, 100ms"]


def test_factors_swept_in_step_are_one_axis(tmp_path: Path) -> None:
    cells = [Cell({"label": f"path {i}", "rtt": rtt}) for i, rtt in enumerate(("20ms", "50ms", "100ms"))]
    run = write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=10))
    page = read_page(build(open_run(run)))
    assert [s.attributes["name"] for s in page.all("select")] == ["rtt"]
    assert "series" not in page.charts("run")["by-goodput-mean"]["data"]["metric"]


def _sweep(tmp_path: Path, cells: list[Cell]) -> str:
    page = read_page(build(open_run(write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=10)))))
    return dict(zip(*([e.text for e in page.all(tag)] for tag in ("dt", "dd")), strict=False))["Sweep"]


def test_the_sweep_is_counted_as_it_was_made(tmp_path: Path) -> None:
    rows = (("bic-1", "bic", "1"), ("bic-4", "bic", "4"), ("bic-16", "bic", "16"), ("reno-16", "reno", "16"))
    zipped = [Cell({"case": case, "cc": cc, "streams": streams}) for case, cc, streams in rows]
    assert _sweep(tmp_path / "a", zipped) == "4 case (with cc, streams), 1 repeat, 4 cells"
    nameless = [Cell({"cc": cc, "streams": streams}) for _, cc, streams in rows]
    assert _sweep(tmp_path / "b", nameless) == "2 cc, 3 streams in 4 combinations, 1 repeat, 4 cells"
    assert _sweep(tmp_path / "c", sweep(("reno", "bic"), ("20ms", "50ms"), 2)) == "2 cc × 2 rtt, 2 repeats, 4 cells"


def test_past_the_budget_cells_have_tables_only(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.report.page.BUDGET", 10)
    page = read_page(build(open_run(small), tmp_path / "report.html"))
    packed = [s.attributes["id"] for s in page.all("script") if s.attributes.get("type") == "application/gzip"]
    assert packed == ["lead", "run", "cell-0-data"]
    assert "weir report --figures" in page.all("article", "cell")[3].text
    assert "goodput.mean" in page.all("article", "cell")[3].text


def test_the_scenario_introduces_itself(small: Path) -> None:
    page = page_of(small)
    assert page.all("p", "source")[0].text == "RR-6034, section 4.1 · scenarios/A/large-flows.yaml"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("{above}/scenarios/my.yaml", "scenarios/my.yaml"),
        ("{catalogue}/A/large-flows.yaml", "scenarios/A/large-flows.yaml"),
        ("/elsewhere/somebody/my.yaml", "my.yaml"),
        ("../my.yaml", "../my.yaml"),
    ],
)
def test_no_full_path_of_the_scenario_is_shown(tmp_path: Path, path: str, shown: str) -> None:
    run = write_run(tmp_path / "runs" / "one", bell=Dumbbell(flows=2, duration=10))
    manifest = json.loads((run / "manifest.json").read_text())
    file = path.format(above=tmp_path, catalogue=catalogue_folder())
    manifest["scenario"]["path"] = file
    (run / "manifest.json").write_text(json.dumps(manifest))
    page = read_page(build(open_run(seal_run(run))))
    assert page.all("p", "source")[0].text.endswith(f" · {shown}")
    assert f"scenario path{shown}" in "".join(page.by_id("provenance").text.split("\n"))
    assert file == shown or file not in page.source


def test_the_verdict_on_the_smallest_tells_its_value_and_the_next(tmp_path: Path) -> None:
    bells = {cc: Dumbbell(flows=2, duration=10, every=1, passes=(s, s)) for cc, s in (("reno", 0.2), ("bic", 0.8))}
    claims = [
        {"claim": claim, "check": f"{function}(goodput.mean over cc) == 'reno'"}
        for claim, function in (("least", "argmin"), ("most", "argmax"))
    ]
    run = write_run(tmp_path / "run", [Cell({"cc": cc}, bell=bell) for cc, bell in bells.items()], expect=claims)
    rows = [" ".join(e.text.split()) for e in read_page(build(open_run(run))).all("li", "verdict")]
    holds = re.match(r"holds least reno \(([\d.]+) Mbps\), then bic \(([\d.]+) Mbps\)", rows[0])
    assert holds is not None, rows[0]
    least, most = holds.groups()
    assert float(least) < float(most)
    assert f"measuredreno {least} Mbps, bic {most} Mbps" in rows[0]
    assert rows[1].startswith(f"fails most bic ({most} Mbps) against reno ({least} Mbps)")


def test_a_scenario_that_is_not_yaml_any_more_is_shown_as_it_is(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", bell=Dumbbell(flows=2, duration=10))
    (run / "scenario.yaml").write_text("title: [unclosed\n\t: x")
    seal_run(run)
    page = read_page(build(open_run(run)))
    assert "title: [unclosed" in page.by_id("provenance").text


def test_backquotes_are_code() -> None:
    assert inline_code("run `a <b>` & `c`") == "run <code>a &lt;b&gt;</code> &amp; <code>c</code>"
    assert inline_code("it`s <b>") == "it`s &lt;b&gt;"


@pytest.mark.parametrize(("switch", "told"), [("{memory: 50kB}", True), ("fair", False)])
def test_the_facts_tell_of_phases_that_decide(tmp_path: Path, switch: str, told: bool) -> None:
    scenario = tmp_path / "a.yaml"
    scenario.write_text(
        f"title: t\ntopology: {{star: {{hosts: 3, access: {{rate: 1Gbps}}, switch: {switch}}}}}\nworkload:\n"
        "  - {name: one, kind: cbr, between: [h0, h2], wire_rate: 200Mbps, until: 9ms}\n"
        "  - {name: two, kind: cbr, between: [h1, h2], wire_rate: 1Gbps, start: 3us, until: 9ms}\n"
        "measure: {goodput: 1ms, tcp: 0, links: 1ms}\n"
    )
    run = RunView(weir.execute(scenario, tmp_path / "run"))
    facts = dict(provenance.facts(run))
    assert ("Phases" in facts) == told
    assert not told or facts["Phases"].startswith("`one` and `two` send up to 1200 Mb/s at constant rates to the")
    assert not any("phases decide" in text for text in provenance.warnings(run)), "no warning: the run is as asked"
