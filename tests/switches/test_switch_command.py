"""`weir switch characterise`, and a scenario that uses its result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weir.cli.switch import command
from weir.scenario import load

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
