"""The lab on a cluster: its kernel travels to a worker that has none, and users' controls do to the simulator."""

from __future__ import annotations

import json
import os
from pathlib import Path

import fake
import pytest
from cluster_support import started
from engine_support import PACKAGE, results

from weir import cc, confine, engine, methods
from weir.cluster._cargo import METHOD, cargoes

ROOT = PACKAGE.parent


def test_the_kernel_travels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if (why := methods.get("lab").available()) is not None:
        pytest.skip(why)
    engine.run(fake.scenario("seconds=1"), tmp_path / "local", method="lab", workers=1)
    (tmp_path / "dask").mkdir()
    with started(tmp_path / "dask", 1) as made:
        assert made.run(tmp_path / "far", "seconds=1", method="lab").failures == ()
        assert "of weir to dask:tcp://" in capsys.readouterr().err
        assert results(tmp_path / "far") == results(tmp_path / "local")
        assert json.loads((tmp_path / "far/cells/c0/lab.json").read_text())["kernel"]
        made.run(tmp_path / "again", "seconds=1", method="lab")
        assert "of weir to" not in capsys.readouterr().err


def test_what_a_lab_needs_is_in_the_cache_and_no_more() -> None:
    if (why := methods.get("lab").available()) is not None:
        pytest.skip(why)
    (cargo,) = (cargo for cargo in cargoes(methods.get("lab")) if cargo.name == METHOD)
    assert all(place.startswith("weir/lab/") for place in cargo.files)
    assert not any("/headers/" in place for place in cargo.files)
    assert sum(path.stat().st_size for path in cargo.files.values()) < 30e6


class UserCell(fake.FakeCell):
    """A cell whose flow has a congestion control of a user's."""

    def plan(self) -> dict[str, object]:
        made = super().plan()
        made["flows"][0]["transport"]["cc"] = self.factors["cc"]
        return made


@pytest.mark.skipif(confine.state().kind == "none", reason="programs cannot be confined here")
def test_a_users_control_travels_as_its_object(tmp_path: Path) -> None:
    source = tmp_path / "my.c"
    source.write_text(
        (ROOT / "cc/reno/reno.c")
        .read_text()
        .replace('WEIR_CC_REGISTER(reno, "reno",', 'WEIR_CC_REGISTER(mine, "mine",')
    )
    assert cc.is_file_name(str(source))
    cells = tuple(UserCell(f"c{n}", "seconds=1", {"cc": str(source)}, seed=n + 1) for n in range(2))
    scenario = fake.FakeScenario(cells)
    local = engine.run(scenario, tmp_path / "local", method="sim", workers=1)
    assert local.failures == ()
    (tmp_path / "dask").mkdir()
    with started(tmp_path / "dask", 1) as made:
        far = made.execute(scenario, tmp_path / "far", method="sim")
        assert far.failures == ()
        assert far.warnings == local.warnings
        assert results(tmp_path / "far") == results(tmp_path / "local")
        assert os.listdir(tmp_path / "dask/cache") == ["weir"]  # noqa: PTH208
