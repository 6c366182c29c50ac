"""A method of another package gets everything that weir's own get: no code has a list of methods."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shared import Ran, called, dumbbell
from weir import methods
from weir.metrics import open_run
from weir.run import RunError

HERE = Path(__file__).parent
TINY = dumbbell(
    workload="name: flows, between: pairs, kind: bulk, until: 3s",
    bottleneck="rate: 5Mbps, queue: 60packets",
    more="""\
realtime: {workload.flows.until: 2s}
expect:
  - {claim: they share it, check: jain >= 0.7}
sweep:
  transport.cc: [reno, cubic]
""",
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario, on a machine with an installed package that registers the method ``fluid``."""
    installed = tmp_path / "site" / "outside-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    lines = ["[weir.methods]", "fluid = fluid_method:Fluid", "undeclared = fluid_method:Undeclared",
             "gone = fluid_method:Gone"]  # fmt: skip
    (installed / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path


@pytest.fixture
def weir(here: Path) -> Callable[..., Ran]:
    """Runs the command line there."""
    assert here.is_dir()
    return called


def test_it_is_found_where_it_is_installed_and_nowhere_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert methods.names() == (*methods.METHODS, "fluid", "undeclared", "gone")
    assert methods.get("fluid").title == "a fluid model"
    assert methods.order()[0] == "fluid", "by its precedence"
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path != str(here / "site")])
    assert methods.names() == tuple(methods.METHODS)
    with pytest.raises(methods.UnknownMethodError, match="no method 'fluid'; there are: sim, lab, emul"):
        methods.get("fluid")


@pytest.mark.usefixtures("here")
def test_a_name_in_a_file_loads_what_is_registered_only() -> None:
    assert methods.registered("fluid") is not None
    assert methods.registered("fluid_method:Fluid") is None
    assert methods.registered("gone") is None
    assert methods.registered("nothing") is None


def test_it_is_chosen_by_what_it_says_of_itself(weir: Callable[..., Ran], here: Path) -> None:
    ran = weir("run", "tiny.yaml", "--no-report")
    assert ran.code == 0, ran
    assert ran.err == "method fluid: a fluid model; about 1 s. --method chooses another\n"
    assert json.loads((here / "runs/tiny/manifest.json").read_text())["method"] == "fluid"
    assert "they share it" in ran.out


def test_a_run_says_that_it_has_no_table_acks(weir: Callable[..., Ran], here: Path) -> None:
    """Only `weir check` did, and the reader of the run said that the manifest names the file."""
    (here / "acks.yaml").write_text(TINY.replace("measure: {", "measure: {acks: true, "))
    ran = weir("run", "acks.yaml", "--method", "fluid", "--no-report")
    assert ran.code == 0, ran
    assert "warning: the method records no table `acks`: `measure.acks` is without effect (2 like this" in ran.out
    with pytest.raises(RunError, match="the method that executed this cell does not record it"):
        open_run(here / "runs" / "acks").table("acks")
    assert weir("run", "tiny.yaml", "--method", "fluid", "--no-report").code == 0
    with pytest.raises(RunError, match="did not ask for it; expected a run with `measure"):
        open_run(here / "runs" / "tiny").table("acks")


def test_what_it_cannot_carry_is_said_and_another_is_taken(weir: Callable[..., Ran], here: Path) -> None:
    calls = "name: calls, between: pairs, kind: cbr, rate: 1Mbps, packet: 200B, until: 2s"
    (here / "calls.yaml").write_text(dumbbell(workload=calls, transport="cc: reno"))
    refused = weir("run", "calls.yaml", "--method", "fluid")
    assert refused.code == 2
    assert "method 'fluid' cannot execute this: a fluid has no cbr traffic" in refused.err
    table = weir("plan", "calls.yaml").out
    assert re.search(r"^ +fluid +a fluid has no cbr traffic$", table, re.MULTILINE)
    assert "the fluid cannot: a fluid has no cbr traffic" in table


def test_estimates_are_its_own(weir: Callable[..., Ran]) -> None:
    found = json.loads(weir("plan", "tiny.yaml", "--method", "fluid", "--json").out)
    assert [(cell["seconds"], cell["memory_bytes"]) for cell in found] == [(0.5, 7_000_000)] * 2
    table = weir("plan", "tiny.yaml").out
    assert re.search(r"^\* +fluid +1 s +can execute it here$", table, re.MULTILINE)
    assert re.search(r"^ +gone +method 'gone' cannot be loaded: .*'Gone'", table, re.MULTILINE)
    assert "method fluid: queues are empty in it" in weir("check", "tiny.yaml").out


def test_its_runs_are_reported_and_compared(weir: Callable[..., Ran], here: Path) -> None:
    ran = weir("run", "tiny.yaml", "--method", "sim,fluid", "--out", "both", "--no-verdict", "-q")
    assert ran.code == 0, ran
    page = (here / "both/fluid/report.html").read_text(encoding="utf-8")
    assert "<dt>Method</dt><dd>fluid</dd>" in page
    assert "<dt>Fluid time</dt>" in page
    assert "<dt>Simulated time</dt>" in (here / "both/sim/report.html").read_text(encoding="utf-8")
    compared = weir("compare", "both/sim", "both/fluid", "-m", "goodput.aggregate.mean", "--json").json
    rows = compared["differences"]
    assert {(row["a"], row["b"]) for row in rows} == {("sim", "fluid")}
    assert all(4.2e6 < row[value] < 5e6 for row in rows for value in ("a_value", "b_value"))


def test_it_is_validated_against_another(weir: Callable[..., Ran], here: Path) -> None:
    found = weir("validate", "tiny.yaml", "--method", "fluid,sim", "--document", "doc", "-q", "--json").json
    assert found["methods"] == ["fluid", "sim"]
    assert 0 < found["goodput_error"]["worst"] < 0.1
    assert found["goodput_error"]["aim"] == {"median": 0.02, "p90": 0.05}, "those of a reference in virtual time"
    assert "queue_delay_error" not in found, "it has none"
    (data,) = (here / "doc").glob("*.json")
    again = weir("revalidate", data, "-q")
    assert again.code == 0, again
    assert "2 unchanged" in again.out


def test_the_catalogue_is_executed_by_it(weir: Callable[..., Ran]) -> None:
    ran = weir("catalogue", "tiny.yaml", "--method", "sim,fluid", "--out", "o", "--seeds", 0, "--no-verdict", "--json")
    assert ran.code == 0, ran
    (scenario,) = ran.json["scenarios"]
    assert [claim["outcome"] for claim in scenario["claims"]] == ["holds"]
    assert scenario["claims"][0]["agreement"] == "all"
    assert "tiny.yaml by fluid; about 0:0" in ran.err


def test_a_table_that_is_not_declared_is_an_error(weir: Callable[..., Ran]) -> None:
    ran = weir("run", "tiny.yaml", "--method", "undeclared", "--no-report")
    assert ran.code == 1
    assert "wrote the table goodput, which it does not declare" in ran.err
