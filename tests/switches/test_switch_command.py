"""`weir switch characterise`, and a scenario that uses its result."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from weir.cli.switch import command
from weir.scenario import load
from weir.study import switches

SCENARIO = """
title: Two flows over a switch that was measured
topology:
  star: {hosts: 7, access: {rate: 1Gbps}, switch: {file: out/switch.yaml}}
workload:
  - {name: one, kind: cbr, between: [h0, h4], wire_rate: 1Gbps, until: 20ms}
  - {name: two, kind: cbr, between: [h1, h4], wire_rate: 800Mbps, until: 20ms}
"""


def test_a_switch_is_characterised_and_a_scenario_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("memory: {partitioned: {size: 60kB}}\narbiter: {weighted: {weights: {h0: 2}}}\n")
    asked = ["characterise", "./mine.yaml", "-o", "out", "--points", "4", "--no-tcp", "-q"]
    result = CliRunner().invoke(command, [*asked, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["class"], found["arbiter"]["kind"], found["memory"]["kind"]) == ("fair", "weighted", "partitioned")
    assert found["isolines"]["median_error"] < 0.03
    page = Path("out/report.html").read_text()
    assert page.count("<svg") == 3
    assert "weighted" in page
    Path("scenario.yaml").write_text(SCENARIO)
    (cell,) = load("scenario.yaml").cells()
    (switch,) = [node["switch"] for node in cell.plan()["nodes"] if "switch" in node]
    assert switch["memory"]["bytes"] == pytest.approx(60e3, rel=0.05)
    assert [weight["weight"] for weight in switch["arbiter"]["weights"]] == [2, 1, 1, 1]


def test_the_terminal_says_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["characterise", "dlink-dgs1216t", "--points", "3", "--no-tcp"]
    result = CliRunner().invoke(command, asked, catch_exceptions=False)
    assert "round robin" in result.stdout
    assert "512" in result.stdout
    assert Path("runs/switch-dlink-dgs1216t/switch.yaml").exists()


def test_chance_is_told_beside_the_error_of_a_bursty_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        "memory: {partitioned: {size: 100kB}}\narbiter: {bursty: {hold: {exponential: {mean: 300us}}}}\n"
    )
    asked = ["characterise", "./mine.yaml", "--points", "2", "--no-tcp", "-q"]
    result = CliRunner().invoke(command, asked, catch_exceptions=False)
    said = {line.partition(":")[0]: line for line in result.stdout.splitlines()}
    assert "two fitted models with other random numbers differ by" in said["fit"]
    assert "; with 95 %, mean " in said["bursts"]
    assert "ms" not in said["arbiter"], "the bursts have one mean"


@pytest.mark.parametrize(
    ("text", "said"),
    [("memory: {shared: {size: 9kB}}\nbuffer: 3\n", "mine.yaml:2:1: unknown key `buffer`"), (None, "there is no file")],
)
def test_a_bad_model_is_refused_with_its_place(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    result = CliRunner().invoke(command, ["characterise", str(path)])
    assert result.exit_code != 0
    assert said in (result.stderr + str(result.exception))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--between a,b,c --rate 0Mbps", "the least rate of a port is 1Mbps"),
        ("--between a,b,c --rate -5Mbps", "is negative; expected a rate of a port such as"),
        ("--between a,b,c --rate 100", "needs a unit; expected a rate of a port"),
        ("--between a,b,c --rate 100Tbps", "the largest rate of a port is 1Tbps"),
        ("--between a,b,c --overhead -1B", "is negative; expected an overhead of a packet"),
        ("--between a,b,c --overhead 1GB", "the largest overhead of a packet is 10kB"),
        ("--between a,b,c --retries -1", "not in the range 0<=x<=20"),
        ("fair --rate 0Mbps", "the least rate of a port is 1Mbps"),
        ("fair --retries 2", "--retries goes with --between"),
        ("fair --anew", "--anew goes with --between"),
        ("fair --points 0", "not in the range 2<=x<=50"),
        ("fair --seed -1", "not in the range 0<=x"),
        ("fair --intervals 1ms,0ms", "the least time of an interval is 10us"),
        ("fair --intervals 1ms,", "expected a time of an interval such as"),
        ("fair --time 0s", "the least time of a pair of rates is 1ms"),
        ("fair --tcp-rtt -1ms", "is negative; expected a round-trip time"),
        ("fair --tcp-time 0s", "the least time of TCP flows is 100ms"),
    ],
)
def test_a_number_without_sense_is_refused_with_what_was_expected(words: str, expected: str) -> None:
    result = CliRunner().invoke(command, ["characterise", *words.split()])
    assert result.exit_code == 2, result.output
    assert expected in " ".join(result.output.split())


def test_options_enlarge_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("memory: {partitioned: {size: 60kB}}\n")
    more = "--intervals 10ms,0.4ms --time 60ms --tcp-rtt 0ms,20ms --tcp-time 600ms --seed 7"
    asked = ["characterise", "./mine.yaml", "-o", "out", "--points", "2", "-q", "--json", *more.split()]
    result = CliRunner().invoke(command, asked, catch_exceptions=False)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    rates = [one["switch"] for one in found["rates"]]
    assert [one["interval_ns"] for one in rates] == [400_000, 10_000_000] * 5
    assert all(one["least"][0] <= one["mean"][0] <= one["most"][0] for one in rates)
    # Counts of packets in short intervals differ by more than those in long ones.
    assert sum(rates[0]["deviation"]) > sum(rates[1]["deviation"])
    flows = [one["switch"] for one in found["tcp"]]
    assert [one["rtt_ns"] for one in flows] == [0] * 4 + [20_000_000] * 4
    assert all(
        sum(far["goodput_mbps"]) < sum(near["goodput_mbps"]) for near, far in zip(flows, flows[4:], strict=False)
    )
    assert found["seed"] == 7
    written = Path("out/switch.yaml").read_text()
    assert "`weir switch characterise --seed 7`" in written
    assert "# TCP: bic with SACK at 20 ms: " in written


def test_the_whole_programme_of_the_paper_is_one_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, asked = switches.characterise, list[switches.Extent]()

    def small(rig: switches.ModelRig, name: str, *, extent: switches.Extent, **options: Any) -> switches.Characterised:
        asked.append(extent)
        return whole(rig, name, **{**options, "extent": switches.Extent(points=2), "with_tcp": False})

    monkeypatch.setattr(switches, "characterise", small)
    for more in ([], ["--points", "4", "--tcp-rtt", "10ms"]):
        words = ["characterise", "fair", "-o", str(tmp_path), "-q", "--paper", *more]
        assert CliRunner().invoke(command, words, catch_exceptions=False).exit_code == 0
    assert asked[0] == switches.PAPER
    assert (asked[0].intervals_ns, asked[0].second_ns) == ((400_000, 1_000_000, 100_000_000), 20_000_000_000)
    assert asked[1] == replace(switches.PAPER, points=4, tcp_rtts_ns=(10_000_000,))


def test_the_table_of_rates_has_narrow_columns(tmp_path: Path) -> None:
    """A quantity stands once above switch and model, and a pair of values in one line."""
    found = switches.characterise(
        switches.ModelRig("{memory: 60kB}"), "small", extent=switches.Extent(points=2), with_tcp=False
    )
    page = switches.build(found, tmp_path / "report.html").read_text()
    (table,) = re.findall(r'<table class="pairs">.*?</table>', page, re.DOTALL)
    heads = re.findall(r"<th scope=\"col[^>]*>([^<]*)</th>", table)
    assert heads[2:7] == ["Mean", "Deviation", "Least", "Most", "Starvation (ms)"]
    assert heads[7:] == ["switch", "model"] * 5
    assert re.search(r"<td>493, 49\d</td>", table)
    assert "table.pairs :is(th, td) { white-space: nowrap; }" in page


def test_an_interruption_after_the_fit_keeps_the_fitted_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("memory: {partitioned: {size: 60kB}}\n")

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("weir.study.switches._characterise.behaviour", interrupted)
    result = CliRunner().invoke(command, ["characterise", "./mine.yaml", "-o", "out", "-q", "--no-tcp"])
    assert result.exit_code != 0
    kept = Path("out/switch.yaml").read_text()
    assert "# The model was not compared with the switch: weir was interrupted." in kept
    assert "memory: {partitioned: {size: 6" in kept
    assert not Path("out/report.html").exists()
