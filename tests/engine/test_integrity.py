"""Integrity of a run's files: damaged cells are executed again, everything else is kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import fake
import pytest
from engine_support import leftovers, results

import weir
from shared import forget_checksums
from weir import _weir, engine
from weir.run import DamageError, open_run

TITLES = ("rows=1000", "rows=2000", "rows=3000")


def run(out: Path, **options: object) -> engine.Result:
    return engine.run(fake.scenario(*TITLES), out, method=fake.METHOD, workers=1, **options)  # type: ignore[arg-type]


def flip(file: Path) -> None:
    """Flips a bit in the middle of ``file``."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intact") / "run"
    run(folder)
    return folder


@pytest.fixture
def copy(intact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(intact, tmp_path / "run"))


def test_the_checksum_is_xxh3_of_128_bits(tmp_path: Path) -> None:
    """The values of the reference implementation (Cyan4973/xxHash)."""
    assert _weir.digest_bytes(b"") == "99aa06d3014798d86001c324468d497f"
    assert _weir.digest_bytes(b"abc") == "06b05ab6733a618578af5f94892f3950"
    content = bytes(range(256)) * 1000
    (tmp_path / "file").write_bytes(content)
    assert _weir.digest_file(tmp_path / "file") == (256_000, _weir.digest_bytes(content))


def test_only_a_plain_file_has_a_state_and_a_checksum(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    about = file.stat()
    state = _weir.plain_file(str(file))
    assert state == (about.st_ino, 3, *divmod(about.st_mtime_ns, 10**9))
    assert _weir.digest_plain(str(file)) == (state, _weir.digest_bytes(b"abc"))
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for other in ("link", "folder", "pipe", "none", "file/none"):
        assert _weir.plain_file(str(tmp_path / other)) is None
        assert _weir.digest_plain(str(tmp_path / other)) is None
    assert _weir.plain_file("/dev/zero") is None
    assert _weir.digest_plain("/dev/zero") is None


def test_a_file_that_changes_after_it_was_found_intact_is_compared_again(copy: Path) -> None:
    cell = open_run(copy).cell("c1")
    cell.table("goodput")
    file = copy / "cells" / "c1" / "goodput.parquet"
    flip(file)
    os.utime(file, ns=(0, 1))  # whatever the clock's tick is
    with pytest.raises(DamageError, match=r"goodput\.parquet: is damaged: its content is not what was written"):
        cell.table("goodput")


def test_every_file_of_a_cell_has_a_checksum_and_so_have_the_manifests(intact: Path) -> None:
    for folder in sorted((intact / "cells").iterdir()):
        held = json.loads((folder / "manifest.json").read_text())["checksums"]
        assert held["algorithm"] == "xxh3-128"
        assert {*held["files"], "manifest.json"} == {p.name for p in folder.iterdir()}
    manifest = json.loads((intact / "manifest.json").read_text())
    assert [*manifest["checksums"]["files"]] == ["scenario.yaml"]
    assert all(cell["checksum"] for cell in manifest["cells"])


def test_an_intact_run_is_kept(copy: Path) -> None:
    assert run(copy).executed == 0


def _without_manifest(out: Path) -> None:
    (out / "cells" / "c1" / "manifest.json").unlink()


def _other_plan(out: Path) -> None:
    shutil.copy(out / "cells" / "c0" / "plan.json", out / "cells" / "c1" / "plan.json")


def _not_a_folder(out: Path) -> None:
    shutil.rmtree(out / "cells" / "c1")
    (out / "cells" / "c1").write_text("a file")


@pytest.mark.parametrize(
    "damage",
    [
        lambda out: flip(out / "cells" / "c1" / "goodput.parquet"),
        lambda out: flip(out / "cells" / "c1" / "trace.pcap"),
        lambda out: (out / "cells" / "c1" / "events.parquet").unlink(),
        lambda out: (out / "cells" / "c1" / "manifest.json").write_text("{"),
        lambda out: flip(out / "cells" / "c1" / "manifest.json"),
        _without_manifest,
        _other_plan,
        _not_a_folder,
    ],
)
def test_a_damaged_cell_is_executed_anew_and_the_others_are_kept(
    intact: Path, copy: Path, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(copy)
    assert run(copy).executed == 1
    assert "cell c1 is executed anew" in capsys.readouterr().err
    assert results(copy) == results(intact)
    assert leftovers(copy) == []
    open_run(copy).verify()
    assert run(copy).executed == 0


def test_cells_that_changed_places_are_both_executed_anew(intact: Path, copy: Path) -> None:
    for old, new in (("c0", "x"), ("c1", "c0"), ("x", "c1")):
        (copy / "cells" / old).rename(copy / "cells" / new)
    with pytest.raises(DamageError):
        open_run(copy)
    assert run(copy).executed == 2
    assert results(copy) == results(intact)


@pytest.mark.parametrize("name", ["manifest.json", "scenario.yaml", ".run.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_what_belongs_to_the_run_is_written_again_and_no_cell_is_executed(copy: Path, name: str, how: str) -> None:
    file = copy / name
    if how == "flipped":
        flip(file)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:10])
    else:
        file.unlink()
    assert run(copy).executed == 0
    open_run(copy).verify()
    assert run(copy).executed == 0


def test_a_run_that_does_not_say_which_it_is_any_more_is_left_alone(copy: Path) -> None:
    (copy / ".run.json").write_text("{")
    (copy / "manifest.json").unlink()
    before = results(copy)
    with pytest.raises(engine.FolderError, match=r"\.run\.json cannot be read: .*It says which run this is.*--out"):
        run(copy)
    with pytest.raises(engine.FolderError, match="remove that one"):
        run(copy, fresh=True)
    assert results(copy) == before


def test_cells_of_an_older_version_are_kept_unless_they_cannot_be_read(copy: Path) -> None:
    forget_checksums(copy)
    assert run(copy).executed == 0
    goodput = copy / "cells" / "c1" / "goodput.parquet"
    goodput.write_bytes(goodput.read_bytes()[:-50])
    assert run(copy).executed == 1
    with pytest.warns(weir.run.RunWarning, match="2 of 3 cells have no checksums"):
        open_run(copy)
