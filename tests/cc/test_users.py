"""Users' controls in scenarios: built on demand, never stale, and distinguished from each other."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cc_support import EXAMPLE, foreign, variant

import weir as package
from shared import Weir, dumbbell
from weir import cc
from weir.cli import _choice
from weir.methods import MethodError, get
from weir.scenario import load


def scenario(folder: Path, name: str = "./mine.c", *more: str, file: str = "s.yaml") -> Path:
    path = folder / file
    path.write_text(dumbbell(transport=f"cc: {name}", more="".join(more)))
    return path


def goodput(weir: Weir, run: str = "runs/s") -> dict[str, float]:
    rows = json.loads(weir("show", run, "-m", "goodput.aggregate.mean", "--json").out)["metrics"]
    return {row.get("cc", ""): row["value"] for row in rows}


def test_a_c_file_is_built_when_it_is_needed_and_nothing_is_left_beside_it(here: Path, weir: Weir) -> None:
    variant(here)
    scenario(here)
    assert weir("check", "s.yaml").code == 0
    assert weir("run", "s.yaml", "--method", "sim", "--no-report").code == 0
    assert sorted(path.name for path in here.iterdir()) == ["mine.c", "runs", "s.yaml"]


def test_a_source_that_was_edited_is_executed_anew_and_nothing_else(here: Path, weir: Weir) -> None:
    source = variant(here)
    scenario(here, "reno", "sweep: {transport.cc: [reno, ./mine.c]}\n")
    run = ("run", "s.yaml", "--method", "sim", "--no-report")
    assert "2 cells executed" in weir(*run).out
    before = goodput(weir)
    assert "0 cells executed" in weir(*run).out
    source.write_text(source.read_text().replace("OPTION(keep, 70,", "OPTION(keep, 20,"))
    assert "1 cell executed" in weir(*run).out
    after = goodput(weir)
    assert after["reno"] == before["reno"]
    assert after["./mine.c"] != before["./mine.c"]


def test_a_header_beside_it_belongs_to_it(here: Path) -> None:
    variant(here, before='#include "mine.h"')
    (here / "mine.h").write_text("enum { MINE = 1 };\n")
    first = cc.identity("./mine.c")
    assert cc.control("./mine.c").identity == first
    (here / "mine.h").write_text("enum { MINE = 2 };\n")
    assert cc.identity("./mine.c") != first
    assert cc.object_of("./mine.c").is_file()


def test_the_same_source_elsewhere_is_the_same(here: Path) -> None:
    variant(here)
    (here / "b").mkdir()
    variant(here / "b")
    assert cc.identity("./mine.c") == cc.identity("./b/mine.c")


def test_an_object_older_than_its_source_is_refused_everywhere(here: Path, weir: Weir) -> None:
    source = variant(here)
    assert weir("cc", "build", "mine.c").code == 0
    scenario(here, "./mine.so")
    assert weir("check", "s.yaml").code == 0
    os.utime(source)  # the content counts, not the time
    assert weir("check", "s.yaml").code == 0
    source.write_text(source.read_text() + "/* edited */\n")
    for command in ("check", "plan", "run"):
        ran = weir(command, "s.yaml")
        assert ran.code == 2
        assert "mine.so was built from another version of mine.c: run `weir cc build mine.c` again" in ran.out + ran.err
    assert weir("cc", "build", "mine.c").code == 0
    assert weir("check", "s.yaml").code == 0


def test_an_object_and_its_source_are_one_control(here: Path, weir: Weir) -> None:
    variant(here)
    assert weir("cc", "build", "mine.c").code == 0
    assert cc.identity("./mine.so") == cc.identity("./mine.c")


def test_plans_and_manifests_say_which_source_it_was(here: Path, weir: Weir) -> None:
    variant(here)
    scenario(here)
    assert weir("run", "s.yaml", "--method", "sim", "--no-report").code == 0
    (cell,) = (here / "runs/s/cells").iterdir()
    transports = [flow["transport"] for flow in json.loads((cell / "plan.json").read_text())["flows"]]
    assert {t["cc_source"] for t in transports} == {cc.identity("./mine.c")}
    for manifest in (json.loads((cell / "manifest.json").read_text()), package.open("runs/s").manifest["cells"][0]):
        assert manifest["controls"] == {"./mine.c": cc.identity("./mine.c")}


def test_a_run_says_that_its_control_was_not_confined(here: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    variant(here)
    scenario(here)
    monkeypatch.setenv("WEIR_UNCONFINED", "1")
    assert weir("run", "s.yaml", "--method", "sim", "--no-report").code == 0
    assert any("were not confined" in warning for warning in package.open("runs/s").warnings)


def test_a_comparison_says_that_a_control_was_edited_between_the_runs(here: Path, weir: Weir) -> None:
    source = variant(here)
    scenario(here, "reno", "sweep: {transport.cc: [reno, ./mine.c]}\n")
    for out in ("a", "b"):
        assert weir("run", "s.yaml", "--method", "sim", "--no-report", "-o", out).code == 0
        source.write_text(source.read_text() + "/* edited */\n")
    notes = [note for note in package.compare(["a", "b"]).notes if "not the same congestion control" in note]
    assert len(notes) == 1
    assert notes[0].startswith("./mine.c is not the same congestion control in both runs: its source is sha256:")


def test_two_versions_of_one_name_run_side_by_side(here: Path, weir: Weir) -> None:
    for name, kept in (("old", 70), ("new", 20)):
        (here / name).mkdir()
        variant(here / name).write_text(EXAMPLE.read_text().replace("OPTION(keep, 70,", f"OPTION(keep, {kept},"))
    scenario(here, "reno", "sweep: {transport.cc: [./old/mine.c, ./new/mine.c]}\n")
    assert weir("run", "s.yaml", "--method", "sim", "--no-report").code == 0
    found = goodput(weir)
    assert found["./old/mine.c"] != found["./new/mine.c"]


def test_the_order_of_flows_does_not_decide_which_version_a_flow_gets(here: Path, weir: Weir) -> None:
    """Both versions in one cell, whose two flows share a queue."""
    for name, kept in (("old", 90), ("new", 10)):
        (here / name).mkdir()
        variant(here / name).write_text(EXAMPLE.read_text().replace("OPTION(keep, 70,", f"OPTION(keep, {kept},"))
    text = dumbbell().replace(
        "  - {name: flows, between: pairs, kind: bulk, until: 3s}",
        "  - {name: old, between: pairs, kind: bulk, until: 9s, transport: {cc: ./old/mine.c}}\n"
        "  - {name: new, between: pairs, kind: bulk, until: 9s, transport: {cc: ./new/mine.c}}",
    )
    (here / "s.yaml").write_text(text.replace("pairs: 2", "pairs: 1"))
    assert weir("run", "s.yaml", "--method", "sim", "--no-report").code == 0
    flows = package.open("runs/s").cells[0].table("flows").collect()
    old, new = (
        flows["delivered_bytes"].to_list()[:2] if "delivered_bytes" in flows else flows["acked_bytes"].to_list()[:2]
    )
    assert old > 1.2 * new


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{name: ./mine.c, kept: 50}", "10:40: `kept` is not an option of `./mine.c`; did you mean `keep`?"),
        ("{name: ./mine.c, keep: 100}", "10:40: `keep` of `./mine.c` is 10 to 99, not 100"),
        ("./absent.c", "10:17: there is no file `absent.c`"),
        ("./absent.so", "10:17: there is no file `absent.so`; `weir cc build` makes it, or name its C file"),
    ],
)
def test_options_and_their_bounds_are_known_to_check(here: Path, weir: Weir, settings: str, said: str) -> None:
    variant(here)
    scenario(here, settings)
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert said in ran.out, ran


def test_what_does_not_compile_is_told_at_its_place_in_the_scenario(here: Path, weir: Weir) -> None:
    variant(here, "tp->snd_cwnd = tp->snd_cwnd * 0.7;")
    scenario(here)
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert "s.yaml:10:17: mine.c does not compile as a congestion control: mine.c:39: floating point, which" in ran.out


def test_the_simulator_says_beforehand_what_it_cannot_and_the_lab_takes_no_source_for_granted(here: Path) -> None:
    variant(here)
    foreign(here, EXAMPLE.read_text(), "mine.so")
    plan = load(scenario(here, "./mine.so")).cells()[0].plan()
    assert get("sim").obstacle(plan) is None  # type: ignore[attr-defined]
    why = get("lab").obstacle(plan)  # type: ignore[attr-defined]
    assert "`weir cc build` did not make it" in why
    assert _choice.Outlook(load(here / "s.yaml").cells())("sim").obstacle is None


def test_a_build_says_what_the_compiler_warns_of(here: Path, weir: Weir) -> None:
    variant(here, "u32 unused;")
    ran = weir("cc", "build", "mine.c")
    assert ran.code == 0
    assert "mine.c:39:" in ran.err
    assert "unused" in ran.err


def test_a_build_is_tried_before_it_replaces_another(here: Path, weir: Weir) -> None:
    variant(here)
    assert weir("cc", "build", "mine.c").code == 0
    before = (here / "mine.so").read_bytes()
    variant(here, "tp->snd_cwnd += 100 / (tp->snd_ssthresh - tp->snd_cwnd);")
    ran = weir("cc", "build", "mine.c")
    assert ran.code == 2
    assert "cong_avoid of ./mine.c divides by zero at ./mine.c:39" in ran.err
    assert (here / "mine.so").read_bytes() == before
    assert sorted(path.name for path in here.iterdir()) == ["mine.c", "mine.so"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("static const u32 table[4] = {1, 2, 3, 4}; if (table[tp->snd_cwnd & 7] > 9) tp->snd_cwnd_cnt++;",
         "an index out of bounds"),
        ("s32 sum = 0x7ffffffe + (s32)tp->snd_cwnd; tp->snd_cwnd_cnt += sum & 1;",
         "a sum that its signed type cannot hold"),
        ("s32 product = 0x3fffffff * (s32)tp->snd_cwnd; tp->snd_cwnd_cnt += product & 1;",
         "a product that its signed type cannot hold"),
        ("tp->snd_cwnd_cnt += (1u << (tp->snd_cwnd + 30)) & 1;",
         "a shift by as many bits as the type has or more, by a negative number, or"),
        ("tp->snd_cwnd_cnt += 100 / (tp->snd_ssthresh - tp->snd_cwnd);",
         "a division by zero, or of the least integer by -1"),
    ],
)  # fmt: skip
def test_a_sanitized_build_ends_at_the_line_of_what_is_undefined_and_says_what_it_is(
    here: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch, compiler: str, does: str, said: str
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"this machine has no {compiler}")
    monkeypatch.setenv("CC", compiler)
    variant(here, does)
    ran = weir("cc", "build", "mine.c", "--sanitize", "-o", "other.so")
    assert ran.code == 2
    assert f"cong_avoid of ./mine.c runs into undefined behaviour of C ({said}" in ran.err
    assert ") at ./mine.c:39" in ran.err
    assert not (here / "other.so").exists()


def test_a_build_that_is_not_sanitized_goes_on_where_c_is_undefined(here: Path, weir: Weir) -> None:
    variant(here, "static const u32 table[4] = {1, 2, 3, 4}; if (table[tp->snd_cwnd & 7] > 9) tp->snd_cwnd_cnt++;")
    assert weir("cc", "build", "mine.c").code == 0


def test_a_control_is_described_once_for_each_state_of_its_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = variant(here, before="/* of this test alone */")
    asked = []
    described = cc.describe
    monkeypatch.setattr("weir.cc.describe", lambda *a: asked.append(a) or described(*a))
    cc.control("./mine.c")
    cc.control("./mine.c")
    source.write_text(source.read_text() + "/* edited */\n")
    cc.control("./mine.c")
    assert len(asked) == 2


def test_a_process_that_is_not_there_for_it_loads_nothing(here: Path) -> None:
    variant(here)
    plan = load(scenario(here)).cells()[0].plan()
    with pytest.raises(MethodError, match="loaded only by a worker"):
        get("sim").execute(json.dumps(plan), None, lambda *_: None)  # type: ignore[arg-type]
    from weir import _weir

    with pytest.raises(ValueError, match="a shared object is a program, and this process loads none"):
        _weir.cc_describe(str(cc.object_of("./mine.c")))
