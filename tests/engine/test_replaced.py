"""``--fresh``: the run that is there goes when the new one begins, and not before."""

from __future__ import annotations

from pathlib import Path

import fake
import pytest
from engine_support import results

from weir import engine
from weir._inside import Folder
from weir.engine import _before
from weir.engine._folder import _OURS


def run(out: Path, *titles: str, **options: object) -> engine.Result:
    return engine.run(fake.scenario(*titles), out, method=fake.METHOD, **options)  # type: ignore[arg-type]


def hidden(out: Path) -> list[str]:
    """What a replacement leaves, if it leaves anything."""
    return sorted(path.name for path in out.iterdir() if path.name in _before.NAMES)


@pytest.mark.parametrize("trouble", ["refuse", "bug", "die", "full"])
def test_what_cannot_begin_replaces_nothing(tmp_path: Path, trouble: str) -> None:
    run(tmp_path / "r", "rows=10", "rows=20")
    before = results(tmp_path / "r")
    (tmp_path / "r" / "report.html").write_text("a page")
    with pytest.raises(engine.EngineError):
        run(tmp_path / "r", f"rows=0 {trouble}", f"rows=0 {trouble}", fresh=True)
    assert results(tmp_path / "r") == before
    assert (tmp_path / "r" / "report.html").read_text() == "a page"
    assert hidden(tmp_path / "r") == []
    assert run(tmp_path / "r", "rows=10", "rows=20").executed == 0, "it is whole"


def test_the_message_names_the_reason_and_says_that_the_run_is_kept(tmp_path: Path) -> None:
    run(tmp_path / "r", "rows=10")
    with pytest.raises(engine.EngineError, match=r"run before is kept: flows\[0\]: no such congestion control"):
        run(tmp_path / "r", "rows=0 refuse", fresh=True)


def test_what_the_machine_cannot_carry_replaces_nothing(tmp_path: Path) -> None:
    engine.run(fake.scenario("rows=10"), tmp_path / "r", method="fake:Small")
    before = results(tmp_path / "r")
    with pytest.raises(fake.MethodError, match="cannot carry"):
        engine.run(fake.scenario("seconds=20"), tmp_path / "r", method="fake:Small", fresh=True)
    assert results(tmp_path / "r") == before


def test_a_run_that_began_replaces_the_other_even_if_it_fails_later(tmp_path: Path) -> None:
    run(tmp_path / "r", "rows=10", "rows=20")
    result = run(tmp_path / "r", "rows=5", "rows=0 refuse", fresh=True)
    assert [failure.cell for failure in result.failures] == ["c1"]
    assert sorted(path.name for path in (tmp_path / "r" / "cells").iterdir()) == ["c0"]
    assert hidden(tmp_path / "r") == []


@pytest.mark.parametrize("instant", ["moving away", "before the first cell", "moving back"])
def test_a_process_killed_before_the_run_began_has_replaced_nothing(tmp_path: Path, instant: str) -> None:
    out = tmp_path / "r"
    run(out, "rows=10")
    before = results(out)
    with Folder(out) as folder:
        _before.put_aside(folder, _OURS)
        if instant != "before the first cell":  # some entries are in the folder, others not yet or not any more
            folder.move(".before", folder, ".aside")
            with folder.inner(".aside") as aside:
                for name in (".run.json", "cells") if instant == "moving away" else (".run.json",):
                    aside.move(name, folder, name)
        else:
            folder.write(".run.json", (out / ".before" / ".run.json").read_bytes())
            folder.write("scenario.yaml", b"title: New\n")
    assert run(out, "rows=10").executed == 0
    assert results(out) == before
    assert hidden(out) == []


def test_a_removal_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "r"
    run(out, "rows=10")
    (out / ".replaced" / "cells").mkdir(parents=True)
    assert run(out, "rows=10").executed == 0
    assert hidden(out) == []
