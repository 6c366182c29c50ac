"""``weir cc new``: what it writes is a complete control, and nothing is overwritten."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weir as weir_of
from shared import Weir, environment
from weir import _weir, cc, confine

ROOT = Path(__file__).parent.parent.parent


def compiled_for_bpf(source: Path) -> tuple[str, str]:
    verdict, reason = _weir.cc_check_bpf(_weir.CcSources(source), confine.by())
    return verdict, reason


def test_it_writes_source_readme_and_test(here: Path, weir: Weir) -> None:
    ran = weir("cc", "new", "mine")
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in here.iterdir()) == ["mine.c", "mine.md", "test_mine.py"]
    assert "cc: ./mine.c" in ran.out
    assert "pytest test_mine.py" in ran.out
    assert not any(re.search("@[a-zA-Z]+@", path.read_text()) for path in here.iterdir())


@pytest.mark.parametrize("name", ["x", "a-b_2", "ten-letter"])
def test_the_source_compiles_without_warnings_and_passes_the_trial(here: Path, weir: Weir, name: str) -> None:
    assert weir("cc", "new", name).code == 0
    assert cc.compiled(here / f"{name}.c", here / "built.so") == ""
    about = cc.control(f"./{name}.c").about
    assert (about.name, about.title) == (name, name)
    options = {option.name for option in about.options}
    assert {"increase", "keep", "hystart", "max_ssthresh"} <= options
    (hystart,) = (option for option in about.options if option.name == "hystart")
    assert hystart.max == 3, "SEARCH has room"
    assert about.state_bytes <= 104


_SLOW_START = """
title: The end of slow start
seed: 1
topology:
  dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 50Mbps, queue: 8bdp}, rtt: 60ms}
transport: {cc: {name: ./mine.c, hystart: 0}, buffers: 64MB}
workload:
  - {name: flow, between: pairs, kind: bulk, until: 2s}
sweep:
  transport.cc.hystart: [0, 3]
"""


def test_search_ends_its_slow_start(here: Path, weir: Weir) -> None:
    assert weir("cc", "new", "mine").code == 0
    (here / "start.yaml").write_text(_SLOW_START)
    run = weir_of.execute(here / "start.yaml", here / "run", method="sim")
    without, with_search = run.metrics("retransmissions").sort("hystart")["value"].to_list()
    assert without > 0.01, "without SEARCH, slow start fills the queue"
    assert with_search == 0


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_the_source_compiles_for_bpf(here: Path, weir: Weir) -> None:
    assert weir("cc", "new", "a-b").code == 0
    assert compiled_for_bpf(here / "a-b.c") == ("accepted", "")


def test_the_source_is_formatted_like_those_of_weir(here: Path, weir: Weir) -> None:
    formatter = shutil.which("clang-format", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if formatter is None:
        pytest.skip("needs clang-format")
    assert weir("cc", "new", "mine").code == 0
    asked = [formatter, f"--style=file:{ROOT / '.clang-format'}", "mine.c"]
    assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout == (here / "mine.c").read_text()


def test_its_test_runs_and_finds_a_mistake(here: Path, weir: Weir) -> None:
    assert weir("cc", "new", "mine").code == 0
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    ran = subprocess.run(asked, capture_output=True, text=True, env=environment(), check=False)
    assert ran.returncode == 0, ran.stdout
    assert "5 passed" in ran.stdout
    source = here / "mine.c"
    source.write_text(source.read_text().replace("OPTION(keep, 512,", "OPTION(keep, 800,"))
    ran = subprocess.run(asked, capture_output=True, text=True, env=environment(), check=False)
    assert ran.returncode == 1, ran.stdout
    assert "test_a_loss_takes_half_of_the_window" in ran.stdout


@pytest.mark.parametrize("existing", ["mine.c", "mine.md", "test_mine.py"])
def test_an_existing_file_stays_and_nothing_is_written(here: Path, weir: Weir, existing: str) -> None:
    (here / existing).write_text("precious")
    ran = weir("cc", "new", "mine")
    assert ran.code == 2
    assert f"{existing} already exists" in ran.err
    assert [path.name for path in here.iterdir()] == [existing]
    assert (here / existing).read_text() == "precious"


def test_a_link_to_nothing_exists_too(here: Path, weir: Weir) -> None:
    (here / "mine.c").symlink_to(here / "elsewhere")
    assert weir("cc", "new", "mine").code == 2
    assert not (here / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "at most 10 characters"),
        ("elevenchars", "at most 10 characters"),
        ("../mine", "at most 10 characters"),
        ("Mine", "a-z, 0-9, - and _"),
        ("2fast", "begin with a letter"),
        ("double", "a word of C"),
        ("tcp", "Linux' TCP"),
        ("cubic", "weir has a congestion control called 'cubic'"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(here: Path, weir: Weir, name: str, why: str) -> None:
    ran = weir("cc", "new", name)
    assert ran.code == 2
    assert why in " ".join(ran.err.split())
    assert list(here.iterdir()) == []
