"""``weir emulate`` with a requirement missing: one message that names it, exit code 2, nothing left."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from shared import Weir
from weir import _programs, methods
from weir.hosts import needs

PROGRAMS = ("weir-emu", "weir-agent")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, a TUN device and every tool, whoever runs the tests: each test removes one."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "_TUN", Path(os.devnull))
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that can be executed here."""
    for name in PROGRAMS:
        shutil.copy("/bin/true", tmp_path / name)
    monkeypatch.setenv("WEIR_BIN", str(tmp_path))
    return tmp_path


def elf(machine: int) -> bytes:
    """The beginning of a 64-bit program for another processor."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, machine) + bytes(44)


def broken(weir: Weir, *arguments: str) -> str:
    ran = weir("emulate", *(arguments or ("--", "true")))
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert "internal error" not in ran.err
    assert ran.err.count("\n") == 1, "one line"
    return ran.err


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_not_there(weir: Weir, root: None, programs: Path, name: str) -> None:
    (programs / name).unlink()
    assert f"{programs / name} is missing: `make setup`" in broken(weir)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_folder_of_that_name(weir: Weir, root: None, programs: Path, name: str) -> None:
    (programs / name).unlink()
    (programs / name).mkdir()
    assert f"{programs / name} is missing" in broken(weir)


def test_a_program_that_is_not_executable(weir: Weir, root: None, programs: Path) -> None:
    (programs / "weir-emu").chmod(0o644)
    assert f"{programs / 'weir-emu'} is not executable" in broken(weir)


def test_a_program_for_another_processor(weir: Weir, root: None, programs: Path) -> None:
    (programs / "weir-emu").write_bytes(elf(183))
    assert "weir-emu cannot run here: it is built for AArch64, this machine runs " in broken(weir)


def test_a_file_that_is_no_program(weir: Weir, root: None, programs: Path) -> None:
    (programs / "weir-agent").write_bytes(b"not a program\n")
    assert "weir-agent cannot run here: it is not a program" in broken(weir)


def test_a_bridge_needs_the_emulator_only(weir: Weir, root: None, programs: Path) -> None:
    (programs / "weir-agent").unlink()
    assert "there is no interface 'nowhere0'" in broken(weir, "--between", "nowhere0", "nowhere1")
    assert "'a/b' on this host; one in a namespace, NAMESPACE/IF, needs --switch" in broken(
        weir, "--between", "a/b,c/d"
    )
    for name in ("", ".", "..", "lo/statistics", "../net/lo"):
        assert f"there is no interface {name!r}" in broken(weir, "--between", name, "lo")
    assert "expected two interfaces, found 'lo' twice" in broken(weir, "--between", "lo", "lo")
    (programs / "weir-emu").unlink()
    assert "weir-emu is missing" in broken(weir, "--between", "nowhere0", "nowhere1")


def test_what_the_machine_lacks(
    weir: Weir, root: None, programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "ip" else f"/sbin/{name}")
    assert "ip missing: install iproute2" in broken(weir)
    monkeypatch.setattr(needs, "_TUN", tmp_path / "net" / "tun")
    assert "tun is missing: load the kernel module tun; ip missing" in broken(weir)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "it needs root" in broken(weir)


def test_this_machines_programs_and_scripts_are_taken(programs: Path) -> None:
    assert _programs.find("weir-emu") == programs / "weir-emu"
    (programs / "weir-agent").write_text("#!/bin/sh\n")
    assert _programs.find("weir-agent") == programs / "weir-agent"


def test_the_same_of_a_run(root: None, programs: Path) -> None:
    (programs / "weir-agent").write_bytes(elf(40))
    assert "weir-agent cannot run here: it is built for Arm" in (methods.get("emul").available() or "")
