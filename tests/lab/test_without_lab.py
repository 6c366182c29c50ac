"""A machine without a lab: the message says so, and everything else works."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from click.testing import CliRunner

from weir import lab, methods
from weir.cli._app import cli
from weir.lab import LabError, _source


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_status_says_why_there_is_none(empty_cache: Path) -> None:
    done = CliRunner().invoke(cli, ["lab", "status"])
    assert done.exit_code == 1
    assert "there is no lab: " in done.output


def test_status_as_json(empty_cache: Path) -> None:
    done = CliRunner().invoke(cli, ["lab", "status", "--json"])
    assert done.exit_code == 1
    assert '"ready": false' in done.output


def test_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert lab.unavailable() == "it needs Linux on x86-64; this is Linux on aarch64"


def test_the_method_cannot_run_and_says_why(empty_cache: Path) -> None:
    why = methods.get("lab").available()
    assert why is not None


def test_a_file_that_is_no_kernel_is_not_one(empty_cache: Path) -> None:
    folder = empty_cache / "weir" / "lab" / "0123"
    folder.mkdir(parents=True)
    (folder / "about.json").write_text("{", encoding="utf-8")
    assert lab.unavailable() is not None


def test_sources_that_are_named_and_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEIR_KERNEL_SOURCE", str(tmp_path / "linux.tar.xz"))
    with pytest.raises(LabError, match="does not exist"):
        _source.find()


def test_sources_of_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="holds no kernel sources"):
        _source.version_of(tmp_path)
    (tmp_path / "Makefile").write_text("all:\n", encoding="utf-8")
    with pytest.raises(LabError, match="not the one of a kernel"):
        _source.version_of(tmp_path)


def test_the_version_of_sources(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 48\nEXTRAVERSION =\n", encoding="utf-8"
    )
    assert _source.version_of(tmp_path) == "6.12.48"


def test_a_nul_in_an_argument_is_refused() -> None:
    with pytest.raises(LabError, match="NUL"):
        lab.Script().add("exec", "a\0b")


def test_a_script_keeps_empty_and_odd_arguments_apart() -> None:
    script = lab.Script()
    script.add("exec", "", "a\nb", "=")
    script.add("cd", "/")
    assert script.encode() == b"=exec\0=\0=a\nb\0==\0\0=cd\0=/\0\0"
