"""``weir validate`` with the simulator against itself, on tiny cells."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from small_machine import DISTURBED

from shared import Ran, called, dumbbell
from weir.study import How
from weir.study.validation import Job, execute

TINY = dumbbell(
    bottleneck="rate: 5Mbps, queue: 30packets, loss: 1%",
    more="""\
sweep:
  transport.cc: [reno, cubic]
  topology.dumbbell.rtt: [20ms, 40ms]
repeat: 2
""",
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs ``weir validate`` in a folder that holds the tiny scenario."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return partial(called, "validate")


OTHER = ("--method", "sim,sim@seed=2", "-q")


def test_errors_as_json_have_the_shape_that_the_document_promises(run: Callable[..., Ran]) -> None:
    found = json.loads(run("tiny.yaml", *OTHER, "--json").out)
    assert found["methods"] == ["sim", "sim@seed=2"]
    assert len(found["cells"]) == 4
    for name in (
        "goodput_error",
        "utilisation_error",
        "jain_error",
        "loss_error",
        "queue_delay_error",
        "cwnd_distance",
    ):
        assert {"median", "p90", "worst", "cells"} <= found[name].keys()
        assert 0 <= found[name]["median"] <= found[name]["p90"] <= found[name]["worst"]
        values = [cell["errors"][name] for cell in found["cells"]]
        assert max(values) == pytest.approx(found[name]["worst"])
    assert found["cwnd_distance"]["worst"] > 0, "other losses, other windows"
    cell = found["cells"][0]
    assert set(cell["factors"]) == {"cc", "rtt"}
    assert cell["repeats"] == 2
    assert cell["point"]["cc"] == "reno"
    assert cell["point"]["lossy"] is True
    test, reference = cell["values"]["goodput.aggregate.mean"]
    assert cell["errors"]["goodput_error"] == pytest.approx(abs(test - reference) / reference)


def test_a_method_against_itself_has_no_error(run: Callable[..., Ran]) -> None:
    found = json.loads(run("tiny.yaml", "--method", "sim,sim@seed=1", "-q", "--json", "--cells", "2").out)
    assert found["goodput_error"]["worst"] == 0
    assert found["cwnd_distance"]["worst"] == 0
    assert len(found["cells"]) == 2


def test_a_larger_sample_keeps_what_a_smaller_one_executed(run: Callable[..., Ran], tmp_path: Path) -> None:
    run("tiny.yaml", *OTHER, "--cells", "1")
    manifests = sorted((tmp_path / "runs" / "validate" / "tiny" / "sim" / "cells").glob("*/manifest.json"))
    before = [path.stat().st_mtime_ns for path in manifests]
    assert len(before) == 2
    assert len(json.loads(run("tiny.yaml", *OTHER, "--json").out)["cells"]) == 4
    assert [path.stat().st_mtime_ns for path in manifests] == before
    assert len(json.loads(run("tiny.yaml", *OTHER, "--json", "--cells", "1").out)["cells"]) == 1


@pytest.mark.parametrize(("limit", "code"), [("cwnd_distance=200%", 0), ("cwnd_distance=0.01%", 1)])
def test_within_decides_the_exit_code(run: Callable[..., Ran], limit: str, code: int) -> None:
    ran = run("tiny.yaml", *OTHER, "--cells", "1", "--within", limit)
    assert ran.code == code
    assert ("nine cells in ten" in ran.out) == (code == 1)


def test_the_document_has_its_tables_figures_and_data(run: Callable[..., Ran], tmp_path: Path) -> None:
    assert run("tiny.yaml", *OTHER, "--document", "doc").code == 0
    text = (tmp_path / "doc" / "tiny-sim-sim-seed-2.md").read_text(encoding="utf-8")
    assert text.startswith("# sim against sim@seed=2\n")
    assert "weir validate tiny.yaml --method sim,sim@seed=2" in text
    assert text.count("| reno | 20ms |") >= 1
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / "doc" / line.partition("](")[2].removesuffix(")")).is_file()
    assert "![" in text
    assert str(tmp_path) not in text
    table = text.partition("## Goodput by congestion control")[2].partition("## The largest errors")[0]
    assert [line.split(" | ")[:2] for line in table.splitlines()[4:] if line] == [["| reno", "2"], ["| cubic", "2"]]
    data = json.loads((tmp_path / "doc" / "tiny-sim-sim-seed-2.json").read_text(encoding="utf-8"))
    assert data["format"] == 1
    assert data["command"].startswith("weir validate")


SMALL = ("--method", "sim,small_machine:SmallMachine", "-q")


def test_what_the_machine_does_not_carry_is_left_out_of_both(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    found = json.loads(run("tiny.yaml", *SMALL, "--json").out)
    assert {cell["factors"]["rtt"] for cell in found["cells"]} == {"20ms"}
    assert len(found["left_out"]) == 2 * 2
    assert "rtt 40ms: 2e+07 nanoseconds (there are 1.5e+07)" in found["left_out"][0]
    assert len(list((tmp_path / "runs" / "validate" / "tiny" / "sim" / "cells").iterdir())) == 2 * 2
    assert len(json.loads(run("tiny.yaml", *SMALL, "--json", "--force").out)["cells"]) == 4
    none = run("tiny.yaml", *SMALL, "--set", "topology.dumbbell.rtt=50ms")
    assert none.code == 2
    assert "can carry none of the cells" in none.err


def test_a_document_says_whether_fidelity_fell(run: Callable[..., Ran], tmp_path: Path) -> None:
    revalidated = partial(called, "revalidate")
    run("tiny.yaml", "--method", "sim,sim@transport.processing=0s", "-q", "--document", "doc", "--set", "repeat=1")
    (data,) = (tmp_path / "doc").glob("*.json")
    same = revalidated(str(data), "-q")
    assert same.code == 0
    assert "4 cells of" in same.out
    assert "4 unchanged" in same.out
    sabotage = ("--set", "transport.initial_window=1", "--set", "transport.stack=linux-2.6")
    worse = revalidated(str(data), "-q", "--cells", "2", *sabotage)
    assert worse.code == 1
    assert "rose from" in worse.out
    found = revalidated(str(data), "-q", "--cells", "1", "--json")
    assert json.loads(found.out)["failures"] == []


def test_what_chance_makes_is_told_by_further_seeds(run: Callable[..., Ran]) -> None:
    arguments = ("tiny.yaml", *OTHER, "--json", "--cells", "2", "--set", "repeat=1")
    (plain, known) = (json.loads(run(*arguments, *more).out) for more in ((), ("--seeds", "4")))
    assert all(cell["chance"] == {} for cell in plain["cells"]), "one repeat tells nothing"
    assert plain["goodput_error"]["beyond_by_chance"] is None
    assert any(value > 0 for cell in known["cells"] for value in cell["chance"].values())
    for cell in known["cells"]:
        assert 0 <= cell["chance"]["goodput_error"] < 2
        assert cell["errors"] == pytest.approx(plain["cells"][known["cells"].index(cell)]["errors"], nan_ok=True)
    assert known["goodput_error"]["beyond_by_chance"] >= 0


def test_pairs_of_values_decide_the_cells(run: Callable[..., Ran]) -> None:
    found = json.loads(run("tiny.yaml", *OTHER, "--json", "--pairs", "1", "--set", "repeat=1").out)
    assert len(found["cells"]) == 4, "two factors of two values: every pair is every cell"


REAL = ("--method", "sim,small_machine:Disturbed", "-q", "--json")


@pytest.fixture
def disturbed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a method whose first execution of each cell is disturbed."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    folder = tmp_path / "disturbed"
    folder.mkdir()
    monkeypatch.setenv(DISTURBED, str(folder))
    return folder


def test_what_a_real_clock_disturbed_is_executed_again_and_said(run: Callable[..., Ran], disturbed: Path) -> None:
    found = json.loads(run("tiny.yaml", *REAL, "--cells", "2").out)
    assert len(found["rejected"]) == 2 * 2
    assert "the emulator was late" in found["rejected"][0]
    assert found["goodput_error"]["worst"] == 0, "what was disturbed is not in the result"
    assert [cell["warnings"] for cell in found["cells"]] == [[], []]
    assert found["centre"] == "median"
    again = json.loads(run("tiny.yaml", *REAL, "--cells", "2").out)
    assert again["rejected"] == [], "nothing was executed"


def test_what_stays_disturbed_keeps_its_warning(run: Callable[..., Ran], disturbed: Path, tmp_path: Path) -> None:
    (disturbed / "always").touch()
    arguments = ("tiny.yaml", *REAL, "--cells", "1", "--document", "doc")
    found = json.loads(run(*arguments, "--set", "repeat=1").out)
    assert len(found["rejected"]) == 2, "it is not tried for ever"
    assert found["cells"][0]["warnings"] == ["the emulator was late"]
    assert found["goodput_error"]["worst"] > 0.5
    (document,) = (tmp_path / "doc").glob("*.md")
    text = document.read_text(encoding="utf-8")
    assert "2 executions were rejected for a warning of their own and repeated" in text
    assert "1 cells carry warnings" in text


def test_one_disturbed_repeat_of_three_does_not_count(run: Callable[..., Ran], disturbed: Path) -> None:
    (disturbed / "always").touch()
    arguments = ("tiny.yaml", *REAL, "--cells", "1", "--set", "repeat=3")
    run(*arguments)
    (disturbed / "always").unlink()
    cells = sorted(Path("runs/validate/tiny").glob("small_machine*/cells/*-r[12]"))
    assert len(cells) == 2
    for cell in cells:
        shutil.rmtree(cell)
    job = Job("tiny", Path("tiny.yaml"), "sim,small_machine:Disturbed", cells=1, overrides={"repeat": "3"}, again=0)
    (found,) = execute(job, Path("runs/validate/tiny"), How(1)).cells
    assert found.warnings == ("the emulator was late",)
    assert found.errors["goodput_error"] < 0.1, "the median of three"


def test_random_draws_are_executed(run: Callable[..., Ran]) -> None:
    found = json.loads(
        run(
            *("--draws", "2", "--seed", "3", "--max-rate", "20Mbps", "--cc", "vegas", "--name", "mine"),
            *("--method", "sim,sim@seed=2", "-q", "--json"),
        ).out
    )
    assert found["name"].startswith("mine-sim-")
    assert found["draws"] == {"seed": 3, "most_bps": 20e6, "ccs": ["vegas"]}
    assert {cell["factors"]["cc"] for cell in found["cells"]} == {"vegas"}
    assert [cell["factors"]["draw"] for cell in found["cells"]] == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tiny.yaml", "--method", "sim"), "expected two methods"),
        (("tiny.yaml", "--method", "sim,smi"), "no method 'smi'"),
        (("nothing.yaml",), "there is no file 'nothing.yaml'"),
        (("--draws", "2", "--cells", "3"), "give only one of --draws, --cells and --pairs"),
        (("tiny.yaml", "--cc", "vegas"), "--cc needs --draws"),
        (("tiny.yaml", "--name", "../a"), "'../a': expected letters, digits and hyphens"),
        (("--draws", "2", "--cc", "vega"), "vega"),
        (("tiny.yaml", "--pairs", "2", "--cells", "3"), "give only one of --draws, --cells and --pairs"),
        (("tiny.yaml", "--within", "godput_error=3%"), "Did you mean 'goodput_error'?"),
        (("tiny.yaml", "--within", "goodput_error=3ms"), "expected a share"),
        (("--draws", "2", "--max-rate", "5Mbps"), "expected a rate above 10Mbps"),
    ],
)
def test_bad_input_gives_code_2(run: Callable[..., Ran], arguments: tuple[str, ...], said: str) -> None:
    ran = run(*arguments, "-q")
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("file", "said"),
    [("nothing.json", "nothing.json: No such file"), ("tiny.yaml", "tiny.yaml is not JSON")],
)
def test_what_is_no_validation_gives_code_2(run: Callable[..., Ran], file: str, said: str) -> None:
    assert run is not None
    ran = called("revalidate", file, "-q")
    assert ran.code == 2
    assert said in ran.err
