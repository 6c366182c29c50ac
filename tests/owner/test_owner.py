"""Proof that an object on this host is weir's: a tag with a seal that nobody else can make."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir import _owner, _seal
from weir._owner import Tag, find, new, parse
from weir.bpf import _record


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of its own, with its own key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    _seal._kept_key.cache_clear()
    yield tmp_path / "state" / "weir"
    _seal._kept_key.cache_clear()


def test_a_tag_is_read_back(state: Path) -> None:
    tag = new()
    assert parse(str(tag)) == tag
    assert find(f"weir-{tag}-h12") == tag
    assert find(f"weir-lab-{tag}", "weir-lab-", "") == tag
    assert tag.alive
    assert new() != tag


def test_only_the_whole_of_a_tag_is_one(state: Path) -> None:
    text = str(new())
    forged = [
        *(text[:-1], text + "0", text + "\n", " " + text, "0" + text, text.upper(), text.replace("-", "_"), ""),
        *("2026-11-22", "1f-3c2a-0", f"1f-3c2a-0-{'0' * 24}", f"{text}-{text}"),
    ]
    assert [text for text in forged if parse(text) is not None] == []
    for name in (
        "weir-mine",
        f"weir-{text}",
        f"weir-{text}-",
        f"weir-{text}-h0-x",
        f"weir-{text}-h0\n",
        f"x-{text}-h0",
    ):
        assert find(name) is None, name


def test_another_number_or_instant_needs_another_seal(state: Path) -> None:
    pid, start, count, seal = str(new()).split("-")
    assert parse(f"{int(pid, 16) + 1:x}-{start}-{count}-{seal}") is None
    assert parse(f"{pid}-{int(start, 16) + 1:x}-{count}-{seal}") is None
    assert parse(f"{pid}-{start}-{int(count, 16) + 1:x}-{seal}") is None


def test_a_tag_of_another_key_is_none(state: Path) -> None:
    text = str(new())
    (state / "key").unlink()
    _seal._kept_key.cache_clear()
    assert parse(text) is None


def test_the_key_is_kept_and_nobody_elses(state: Path) -> None:
    text = str(new())
    assert (state / "key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in state.iterdir()] == ["key"]
    _seal._kept_key.cache_clear()
    assert parse(text) is not None


@pytest.mark.parametrize("what", ["open to others", "too short", "too long", "a link", "a folder", "a pipe"])
def test_a_key_that_others_could_know_is_not_used(state: Path, what: str) -> None:
    text = str(new())
    key = state / "key"
    content = key.read_bytes()
    match what:
        case "open to others":
            key.chmod(0o644)
        case "too short":
            key.write_bytes(content[:-1])
        case "too long":
            key.write_bytes(content + b"x")
        case "a link":
            key.rename(state / "real")
            key.symlink_to("real")
        case "a folder":
            key.unlink()
            key.mkdir()
        case _:
            key.unlink()
            os.mkfifo(key)
    _seal._kept_key.cache_clear()
    assert parse(text) is None
    assert parse(str(new())) is not None  # for as long as this process lives


def test_where_no_key_can_be_kept_tags_still_work(state: Path) -> None:
    state.parent.mkdir(parents=True)
    state.write_text("no folder")
    assert parse(str(new())) is not None


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def test_a_process_is_known_by_its_whole_variable(state: Path) -> None:
    tag = new()
    values = {str(tag): tag, f"{tag}x": None, "2026-11-22": None}
    for value, wanted in values.items():
        with subprocess.Popen(["sleep", "60"], env={"WEIR_RUN": value, "PATH": os.environ["PATH"]}) as process:
            while "sleep" not in Path(f"/proc/{process.pid}/comm").read_text() or not _environment(process.pid):
                time.sleep(0.001)  # execve names the process before its environment can be read
            assert _owner.of_process(process.pid) == wanted
            process.kill()


def test_temporary_folders_are_private_and_go(state: Path, tmp_path: Path) -> None:
    with _owner.temporary_folder(tmp_path, "build-") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert find(folder.name, "build-", "") is not None
        (folder / "file").write_text("")
    assert not folder.exists()


def test_a_pin_is_weirs_only_while_it_is_the_one_that_was_made(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_BPFFS", str(tmp_path / "bpf"))
    pins = _record.folder()
    pins.mkdir(parents=True)
    (pins / "weir_cubic").write_text("")
    (pins / "mine").write_text("")
    _record.note("weir_cubic")
    assert [name for name in ("weir_cubic", "mine", "none") if _record.is_ours(name)] == ["weir_cubic"]
    (pins / "another").write_text("")
    (pins / "another").replace(pins / "weir_cubic")
    assert not _record.is_ours("weir_cubic")
    record = state / "pins" / "weir_cubic"
    _record.note("weir_cubic")
    record.write_text(record.read_text().replace("pin weir_cubic", "pin mine"))
    record.rename(record.with_name("mine"))
    assert not _record.is_ours("mine")


def test_a_dead_owner_is_told_from_a_live_one(state: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not Tag(ended.pid, 1, 0).alive
    mine = new()
    assert not Tag(mine.pid, mine.start + 1, 0).alive
