"""The scenarios of the catalogue load, name their sources, and have small quick versions."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from shared import of_catalogue
from weir.cli._scenarios import catalogue_files
from weir.cli.catalogue import command
from weir.engine._estimate import estimate
from weir.hosts.rates import packets_per_s
from weir.plan import typed
from weir.scenario import Scenario

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "catalogue.md"
FILES = catalogue_files()
GRID = "7500 runs (7500 cells, 1 repeats) will take long"
"""Of the report's grid, whose cells are short."""
REQUIRED = ("A/large-flows", "E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "E11", "E12", "E13", "demo")
OTHER_CLAIMS = {"E8/parallel-streams": ("E10",), "E8/other-users": ("E10",)}
"""Claims that a scenario judges although another one is named after them."""
CLAIMS_OF_A = {f"A{n}" for n in range(1, 13)}
MAX_QUICK_PACKETS = 150_000_000
"""Limit for one scenario: about half a minute on one processor of 2020."""
MAX_PACKETS_PER_S = 25_000
"""Limit for one real-time cell, with acknowledgements: the capacity of a small virtual machine."""
MAX_REAL_TIME_S = 1740
"""Limit for all real-time versions together, which run one after another."""
MAX_PACKETS = 1_050_000_000
"""Limit for all quick versions together, which a CI job runs."""


def _known() -> dict[str, str]:
    with (HERE / "claims.tsv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["claim"] for row in csv.DictReader(file, delimiter="\t")}


def _ids(scenario: Scenario) -> set[str]:
    return {claim.basis.get("id", "") for claim in scenario.expect}


def _packets(scenario: Scenario) -> int:
    return sum(estimate(cell.plan()).packets for cell in scenario.cells())


@pytest.fixture(scope="module")
def scenarios() -> dict[str, Scenario]:
    return {name: of_catalogue(name) for name in FILES}


def test_the_catalogue_has_what_it_promises() -> None:
    for wanted in REQUIRED:
        assert any(name == wanted or name.startswith(f"{wanted}/") for name in FILES), wanted


@pytest.mark.parametrize("name", FILES)
def test_each_says_where_it_comes_from_and_why(name: str, scenarios: dict[str, Scenario]) -> None:
    scenario = scenarios[name]
    assert re.search(r"RR-6034|thesis|\b(19|20)\d\d\b", scenario.source), "a publication, with its year"
    assert len(scenario.rationale.split()) >= 60, "what it asks, what the set-up was, what is different here"
    assert "quick version" in scenario.rationale, "what the quick version changes"
    assert scenario.tags
    assert scenario.expect
    problems = [p.message for p in scenario.problems if p.severity != "info"]
    assert problems == ([GRID] if name == "C/isolines" else [])


@pytest.mark.parametrize("name", FILES)
def test_each_claim_names_one_of_the_papers_and_its_place(name: str, scenarios: dict[str, Scenario]) -> None:
    known = _known()
    for claim in scenarios[name].expect:
        assert re.search("section|figure|table", claim.source), claim.claim
        if name == "demo":  # a setting of its own: the verdicts on the paper's claims are those of A/large-flows
            assert "id" not in claim.basis
            continue
        identifier = claim.basis["id"]
        assert claim.claim.startswith(f"{identifier}: ")
        assert identifier in known
        own = name.partition("/")[0]
        assert identifier.startswith(own) or identifier in OTHER_CLAIMS[name]


def test_every_claim_of_paper_a_is_decided(scenarios: dict[str, Scenario]) -> None:
    assert _ids(scenarios["A/large-flows"]) == CLAIMS_OF_A


@pytest.mark.parametrize("name", FILES)
def test_the_quick_version_compiles_and_is_small(name: str, scenarios: dict[str, Scenario]) -> None:
    quick = scenarios[name].quick()
    assert quick.expect, "it decides something"
    assert _packets(quick) <= MAX_QUICK_PACKETS


def test_all_quick_versions_together_are_small(scenarios: dict[str, Scenario]) -> None:
    assert sum(_packets(scenario.quick()) for scenario in scenarios.values()) <= MAX_PACKETS


@pytest.mark.parametrize("name", FILES)
def test_the_version_for_real_time_is_small_and_says_what_it_does_not_judge(
    name: str, scenarios: dict[str, Scenario]
) -> None:
    scenario = scenarios[name]
    small = scenario.realtime()
    assert small is not scenario.quick()
    assert "version for real time" in scenario.rationale
    assert len(small.expect) + len(small.unjudged) == len(scenario.expect) + len(scenario.unjudged)
    assert all(claim.reason for claim in small.unjudged)
    for cell in small.cells():
        plan = cell.plan()
        assert packets_per_s(typed(plan))[0] <= MAX_PACKETS_PER_S
        assert {flow["transport"].get("stack", "linux") for flow in plan["flows"]} == {"linux"}, "as kernels are"


def test_the_versions_for_real_time_take_minutes(scenarios: dict[str, Scenario]) -> None:
    plans = [cell.plan() for scenario in scenarios.values() for cell in scenario.realtime().cells()]
    assert sum(plan["end_ns"] for plan in plans) <= MAX_REAL_TIME_S * 10**9


@pytest.mark.parametrize("name", FILES)
def test_the_full_version_compiles(name: str, scenarios: dict[str, Scenario]) -> None:
    cells = scenarios[name].cells()
    for cell in (cells[0], cells[-1]):
        assert cell.plan()["flows"]


def test_the_large_flows_are_those_of_the_report(scenarios: dict[str, Scenario]) -> None:
    scenario = scenarios["A/large-flows"]
    assert len(scenario.factors["cc"]) == 6
    assert len(scenario.factors["rtt"]) == 8
    plan = scenario.cells()[0].plan()
    assert len(plan["flows"]) == 12
    assert [flow["start_ns"] // 10**9 for flow in plan["flows"]] == list(range(0, 2400, 200))
    assert {flow["stop_ns"] // 10**9 for flow in plan["flows"]} == {2800}
    bottleneck = next(link for link in plan["links"] if link["name"] == "bottleneck")
    assert bottleneck["rate_bps"] == 10 * 10**9


def test_the_demo_is_at_full_scale(scenarios: dict[str, Scenario]) -> None:
    scenario = scenarios["demo"]
    assert len(scenario.factors["cc"]) == 6
    assert len(scenario.factors["rtt"]) == 2
    full = next(link for link in scenario.cells()[0].plan()["links"] if link["name"] == "bottleneck")
    assert full["rate_bps"] == 10 * 10**9


def test_the_document_lists_every_scenario_and_every_claim_known_to_fail(scenarios: dict[str, Scenario]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, scenario in scenarios.items():
        assert f"`{name}`" in text
        for claim in scenario.expect:
            if claim.expected == "fails":
                assert f"{claim.claim}" in text, (
                    f"{name}: {claim.claim} is known to fail, and the document says nothing"
                )


def test_the_command_lists_them_with_their_sources() -> None:
    listed = json.loads(CliRunner().invoke(command, ["--json"], catch_exceptions=False).output)
    assert [entry["name"] for entry in listed] == list(FILES)
    assert all(entry["source"] and entry["claims"] for entry in listed)
