"""The option ``--cluster``, and what happens without Dask."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_support import Cluster

from shared import Weir, dumbbell
from weir import cluster

SCENARIO = dumbbell()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no kind of cluster; there are: dask:ADDRESS"),
        ("spark:x", "'spark' is no kind of cluster"),
        ("dask", "expected dask:ADDRESS"),
        ("dask:", "expected dask:ADDRESS"),
    ],
)
def test_what_is_no_cluster(text: str, said: str) -> None:
    with pytest.raises(cluster.ClusterError, match=said):
        cluster.parse(text)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler answers there"),
        ("nowhere.invalid:8786", "no Dask scheduler answers there"),
        ("missing.json", "there is no file missing.json"),
        ("ftp://127.0.0.1:1", "--cluster dask:ftp://127.0.0.1:1: "),
        ("tls://127.0.0.1:1", "--cluster dask:tls://127.0.0.1:1: "),
    ],
)
def test_an_address_where_nobody_is(weir: Weir, tmp_path: Path, at: str, said: str) -> None:
    (tmp_path / "one.yaml").write_text(SCENARIO)
    begin = time.monotonic()
    ran = weir("run", tmp_path / "one.yaml", "--method", "sim", "--out", tmp_path / "r", "--cluster", f"dask:{at}")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    assert time.monotonic() - begin < 60
    assert not (tmp_path / "r").exists()


def test_the_command(weir: Weir, two: Cluster, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SCENARIO)
    ran = weir(
        "run", tmp_path / "one.yaml", "--method", "sim", "--out", tmp_path / "r", "--cluster", f"dask:{two.address}"
    )
    assert ran.code == 0, ran.err
    assert "1 cell executed in" in ran.out


def test_a_method_with_a_real_clock_is_refused_before_anything_is_reached(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SCENARIO)
    ran = weir("run", tmp_path / "one.yaml", "--method", "emul", "--out", tmp_path / "r", "--cluster", "dask:nowhere:1")
    assert ran.code == 2
    assert "method 'emul' cannot run on a cluster: its clock is real" in ran.err


def test_without_the_extra_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = pytest.raises(cluster.ClusterError, match=r"pip install 'weir\[cluster\]'")
    with said, cluster.connect(cluster.parse("dask:x:1")):
        raise AssertionError("there is no Dask")


def test_nobody_else_imports_dask(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SCENARIO)
    code = (
        "import sys; from weir.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "import weir.cluster\n"
        "assert 'weir.engine._run' in sys.modules\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)\n"
    )
    arguments = ["run", str(tmp_path / "one.yaml"), "--method", "sim", "--out", str(tmp_path / "r"), "--no-report"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
