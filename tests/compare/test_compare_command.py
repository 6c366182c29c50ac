"""``weir compare``: its output, exit codes and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compare_support import Cell, write_run

from shared import Weir

Pair = tuple[Path, Path]


def test_the_worst_comes_first_with_values_and_interval(weir: Weir, pair: Pair) -> None:
    ran = weir("compare", *pair, "-m", "goodput.mean")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    head = next(i for i, line in enumerate(lines) if line[:2] == ["cc", "metric"])
    assert lines[head + 1][:3] == ["bic", "goodput.mean", "flow[1]"]
    assert "+20 %" in ran.out
    assert "10 Mbps" in ran.out
    assert "12 Mbps" in ran.out
    assert "fast" in ran.out
    assert "warning: emul: the machine was busy" in ran.out


def test_shares_are_told_in_percent(weir: Weir, pair: Pair) -> None:
    said = weir("compare", *pair, "-m", "utilisation", "--all").out
    assert re.search(r"utilisation .* \d+(\.\d+)? %  +\d+(\.\d+)? % ", said), said


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (("5%",), 1),
        (("25%",), 0),
        (("25%", "goodput.mean=5%"), 1),
        (("5%", "goodput.mean=20%"), 0),
        (("goodput.mean=1Mbps",), 1),
        (("goodput.mean=2Mbps",), 0),
    ],
)
def test_within_decides_the_exit_code(weir: Weir, pair: Pair, limits: tuple[str, ...], code: int) -> None:
    options = [word for limit in limits for word in ("--within", limit)]
    ran = weir("compare", *pair, "-m", "goodput.mean", *options)
    assert ran.code == code
    assert ("larger than allowed" in ran.out) == (code == 1)
    assert weir("compare", *pair, "-m", "goodput.mean", "--json", *options).code == code


def test_a_limited_metric_is_compared_and_must_have_values(weir: Weir, pair: Pair) -> None:
    """It need not be among those that are compared anyway."""
    assert weir("compare", *pair, "--within", "goodput.p50=1%").code == 1
    assert weir("compare", *pair, "--within", "goodput.p50=25%").code == 0
    ran = weir("compare", *pair, "--within", "completion.mean=1%")
    assert ran.code == 2
    assert "completion.mean: no run has a value of it" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--within", "5"), "a limit for all metrics is a share"),
        (("--within", "much"), "'much' is no limit; expected 5%"),
        (("--within", "goodput.mean=5ms"), "expected a share, or a quantity in bit/s"),
        (("--within", "goodpud=5%"), "no metric 'goodpud'. Did you mean 'goodput'?"),
        (("-m", "nonsense"), "no metric 'nonsense'"),
        (("--phase", "nonsense", "-m", "jain"), "no phase 'nonsense'"),
        (("--split", "cc"), "--split takes one RUN"),
    ],
)
def test_bad_input_gives_code_2(weir: Weir, pair: Pair, arguments: tuple[str, ...], said: str) -> None:
    ran = weir("compare", *pair, *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_one_run_is_not_enough_unless_it_is_split(weir: Weir, pair: Pair) -> None:
    assert weir("compare", pair[0]).code == 2
    assert weir("compare", pair[0], "--split", "dd").code == 2
    ran = weir("compare", pair[0], "--split", "cc", "--json")
    assert [run["label"] for run in json.loads(ran.out)["runs"]] == ["reno", "bic"]


def test_a_claim_across_the_split_factor_is_listed_with_the_reason_that_no_part_can_judge_it(
    weir: Weir, tmp_path: Path
) -> None:
    cells = [Cell(goodput=[[10, 10]], factors={"cc": cc}) for cc in ("reno", "bic")]
    claim = {"claim": "bic is faster", "check": "goodput.mean{cc: bic} > goodput.mean{cc: reno}"}
    ran = weir("compare", write_run(tmp_path / "run", cells, expect=[claim]), "--split", "cc")
    head = ran.out.splitlines().index("1 claim cannot be judged on any of the runs:")
    assert "bic is faster: Undecided: no cell of this run has cc = bic." in ran.out.splitlines()[head + 1]


def test_runs_can_be_named(weir: Weir, pair: Pair) -> None:
    ran = weir("compare", f"old={pair[0]}", f"new={pair[1]}", "--json")
    assert [run["label"] for run in json.loads(ran.out)["runs"]] == ["old", "new"]


def test_the_json_keeps_its_keys(weir: Weir, pair: Pair) -> None:
    found = json.loads(weir("compare", *pair, "--json", "--within", "5%").out)
    assert set(found) == {"runs", "factors", "phases", "cells", "unaligned", "notes", "warnings", "differences",
                          "traces", "claims", "limits", "beyond"}  # fmt: skip
    assert set(found["differences"][0]) == {"cell", "cc", "metric", "phase", "flow", "unit", "a", "b", "a_value",
                                            "b_value", "difference", "relative", "ratio", "ci_low", "ci_high", "n_a",
                                            "n_b", "interval", "relative_low", "relative_high",
                                            "floor", "negligible", "censored"}  # fmt: skip
    assert set(found["traces"][0]) == {"cell", "cc", "trace", "member", "unit", "a", "b", "a_mean", "b_mean",
                                       "distance", "value_distance", "n", "noise", "value_noise"}  # fmt: skip
    assert set(found["claims"][0]) == {"claim", "check", "source", "outcomes", "agreed", "agreement"}
    assert found["factors"] == ["cc"]
    assert found["cells"][1]["runs"] == {"sim": ["bic-r0", "bic-r1"], "emul": ["bic-r0", "bic-r1"]}
    assert set(found["beyond"][0]) == {*found["differences"][0], "limit"}


def test_one_metric_can_be_gated_alone(weir: Weir, pair: Pair) -> None:
    assert weir("compare", *pair, "--within", "utilisation=1%").code == 0
    assert weir("compare", *pair, "--within", "goodput.aggregate.mean=1%").code == 1
