"""``weir run --cell``: one cell, of a scenario or of an existing run, into a run of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from shared import Weir, dumbbell
from weir.cli._one import choose
from weir.run import open_run
from weir.scenario import parse

SWEEP = """
sweep:
  transport.cc: [reno, cubic]
  topology.dumbbell.rtt: [10ms, 0.1s]
repeat: 2
expect:
  - {claim: All cells are there, check: "argmax(goodput.aggregate.mean over rtt) == '10ms'"}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario, and a run of it with a value changed."""
    from shared import called

    folder = tmp_path_factory.mktemp("one")
    (folder / "my.yaml").write_text(dumbbell(SWEEP, workload="name: flows, between: pairs, kind: bulk, until: 1s"))
    changed = ("--set", "topology.dumbbell.bottleneck.queue=20packets")
    ran = called("run", folder / "my.yaml", "--out", folder / "my", "--method", "sim", "--no-report", "-q", *changed)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from shared import called

    copy = Path(shutil.copytree(made, tmp_path / "here"))
    monkeypatch.chdir(copy)
    # A copy's method is not trusted; naming it once makes the run the user's own.
    ran = called("run", "my", "--method", "sim", "--no-report", "-q", "--json")
    assert (ran.code, ran.json["executed"]) == (0, 0), ran.err
    return copy


@pytest.mark.parametrize(
    ("named", "id"),
    [("0003-r1", "0003-r1"), ("cc=cubic,rtt=100ms", "0003-r0"), ("rtt=10ms, repeat=1, cc=reno", "0000-r1")],
)
def test_a_cell_of_a_run_is_executed_beside_it_as_it_was(weir: Weir, folder: Path, named: str, id: str) -> None:  # noqa: A002
    before = {p: p.stat().st_mtime_ns for p in (folder / "my").rglob("*")}
    ran = weir("run", "my", "--cell", named, "--no-report", "-q")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("1 cell executed in ")
    assert ran.out.endswith(f": my-{id}/sim\n")
    run = open_run(folder / f"my-{id}" / "sim")
    assert [cell.id for cell in run.cells] == [id]
    for file in (folder / "my" / "cells" / id).iterdir():
        if file.name != "manifest.json":
            assert file.read_bytes() == (run.cells[0].path / file.name).read_bytes(), file.name
    assert json.loads((run.path / "manifest.json").read_text())["settings"]["cell"] == id
    assert {p: p.stat().st_mtime_ns for p in (folder / "my").rglob("*")} == before


def test_a_cell_of_a_scenario_goes_to_the_folder_of_runs(weir: Weir, folder: Path) -> None:
    ran = weir("run", "my.yaml", "--cell", "0001-r0", "--method", "sim", "--trace", "--no-report", "-q")
    assert ran.code == 0, ran.err
    assert (folder / "runs/my-0001-r0/sim/cells/0001-r0/senders.pcap").is_file()
    elsewhere = weir("run", "my.yaml", "--cell", "0001-r0", "--method", "sim", "--out", "there", "--no-report", "-q")
    assert elsewhere.code == 0, elsewhere.err
    assert (folder / "there/cells/0001-r0").is_dir()


def test_a_second_call_keeps_the_cell_and_a_damaged_one_is_executed_anew(weir: Weir, folder: Path) -> None:
    again = ("run", "my", "--cell", "0002-r0", "--no-report", "-q", "--json")
    assert [weir(*again).json["executed"] for _ in range(2)] == [1, 0]
    table = folder / "my-0002-r0/sim/cells/0002-r0/goodput.parquet"
    table.write_bytes(table.read_bytes()[:-1])
    assert weir(*again).json["executed"] == 1
    assert weir("run", "my-0002-r0/sim", "--no-report", "-q", "--json").json["executed"] == 0


def test_a_copy_of_a_run_takes_its_method_from_the_user(weir: Weir, folder: Path) -> None:
    shutil.copytree("my", "copied")
    before = {p: p.stat().st_mtime_ns for p in Path("copied").rglob("*")}
    for arguments in (("copied",), ("copied", "--cell", "0002-r0"), ("my.yaml", "--out", "copied")):
        ran = weir("run", *arguments, "--no-report", "-q")
        assert (ran.code, ran.out) == (2, "")
        assert "no seal proves that you made it there" in ran.err
        assert "--method" in ran.err
    assert {p: p.stat().st_mtime_ns for p in Path("copied").rglob("*")} == before
    assert not list(folder.glob("copied-*"))
    named = weir("run", "copied", "--method", "sim", "--no-report", "-q", "--json")
    assert (named.code, named.json["executed"], named.json["cells"]) == (0, 0, 8), named.err
    assert weir("run", "copied", "--no-report", "-q", "--json").json["executed"] == 0


def test_what_a_sealed_run_says_of_itself_cannot_be_changed_in_it(weir: Weir, folder: Path) -> None:
    from weir.run.checksums import seal

    state = json.loads(Path("my/.run.json").read_text())
    for changed in ({"identity": {**state["identity"], "method": "emul"}}, {"token": "0" * 32}, {"seal": "0" * 24}):
        Path("my/.run.json").write_text(json.dumps(seal({**state, **changed}, Path("my"), ())))
        ran = weir("run", "my", "--no-report", "-q")
        assert (ran.code, ran.out) == (2, ""), changed
        assert "no seal proves" in ran.err, changed


def test_a_run_goes_on_by_the_name_of_its_folder(weir: Weir, folder: Path) -> None:
    shutil.rmtree(folder / "my" / "cells" / "0001-r1")
    ran = weir("run", "my", "--no-report", "-q", "--json")
    assert (ran.code, ran.json["executed"], ran.json["cells"]) == (0, 1, 8), ran.err
    assert "holds no run" in weir("run", "runs").err or not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("named", "id"),
    [
        ("cc={name: cubic, hystart: 2},rtt=10ms", "0000-r0"),
        ("rtt=20ms, cc={name: cubic,hystart: 2}", "0001-r0"),
        ("cc=cubic hystart: 2, rtt=10ms", "0000-r0"),
        ("cc={name: cubic, hystart: 3, beta: 900},rtt=20ms", "0003-r0"),
        ("cc=cubic hystart: 3, beta: 900,rtt=20ms", "0003-r0"),
        ("rtt=10ms,cc=reno", "0004-r0"),
    ],
)
def test_a_value_with_commas_is_named_as_written_or_as_tables_print_it(named: str, id: str) -> None:  # noqa: A002
    scenario = parse(
        """title: Options
topology: {dumbbell: {pairs: 2, access: {rate: 100Mbps}, bottleneck: {rate: 10Mbps, queue: 1bdp}, rtt: 20ms}}
workload: [{name: f, kind: bulk, between: pairs, until: 1s}]
sweep:
  transport.cc: [{name: cubic, hystart: 2}, {name: cubic, hystart: 3, beta: 900}, reno]
  topology.dumbbell.rtt: [10ms, 20ms]
"""
    )
    assert choose(scenario, named).cell.id == id


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cell", "0009-r0"), "no cell '0009-r0' (0000-r0, 0000-r1"),
        (("--cell", "cc=reno"), "'cc=reno' selects 2 cells (0000-r0, 0001-r0); add rtt"),
        (("--cell", "cd=reno"), "no factor 'cd' (cc, rtt, repeat). Did you mean 'cc'?"),
        (("--cell", "cc=reno,rtt=3s"), "no cell is 'cc=reno,rtt=3s': rtt is 10ms, 0.1s"),
        (("--quick",), "already has its version"),
        (("--set", "transport.cc=reno"), "continues with its own settings; --set needs --cell"),
    ],
)
def test_what_is_no_cell_is_told_and_nothing_is_left(
    weir: Weir, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    before = sorted(p.name for p in folder.iterdir())
    ran = weir("run", "my", *arguments)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert sorted(p.name for p in folder.iterdir()) == before
