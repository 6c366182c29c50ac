"""Secrets without a dot in their name: behind links, in weir's own state, in a working folder, in other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from weir import confine
from weir.confine import Policy


def run(arguments: list[str], policy: Policy | None = None) -> subprocess.CompletedProcess[str]:
    command = confine.command(arguments, policy)
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with dot files that are links, and one that is no secret."""
    for name in ("dotfiles", ".ssh/here", "snap/browser"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("dotfiles/netrc", ".ssh/here/key", "snap/browser/cookies", "notes"):
        (tmp_path / name).write_text(f"content of {name}", encoding="utf-8")
    (tmp_path / ".netrc").symlink_to("dotfiles/netrc")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", [".netrc", "dotfiles/netrc", ".ssh/here/key", "snap/browser/cookies"])
def test_secrets_of_the_home_are_hidden(home: Path, name: str) -> None:
    assert (home / name).read_text(encoding="utf-8")
    assert run(["cat", str(home / name)]).stdout == ""
    assert run(["cat", str(home / "notes")]).stdout == "content of notes"


def test_the_key_of_weir_is_hidden_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state" / "weir").mkdir(parents=True)
    (tmp_path / "state" / "weir" / "key").write_text("secret", encoding="utf-8")
    (tmp_path / "state" / "other").write_text("seen", encoding="utf-8")
    assert run(["cat", str(tmp_path / "state" / "weir" / "key")]).stdout == ""
    assert run(["cat", str(tmp_path / "state" / "other")]).stdout == "seen"


def test_a_hidden_working_folder_stays_hidden(home: Path) -> None:
    done = run(["true"], Policy(work=home / ".ssh" / "here"))
    assert done.returncode == confine.FAILED
    assert f"{home}/.ssh/here: this folder holds secrets" in done.stderr
    assert run(["true"], Policy(work=home)).returncode == 0


def test_tickets_of_kerberos_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "krb5cc_1000").write_text("secret", encoding="utf-8")
    (tmp_path / "other").write_text("seen", encoding="utf-8")
    assert run(["cat", str(tmp_path / "krb5cc_1000")]).stdout == ""
    assert run(["cat", str(tmp_path / "other")]).stdout == "seen"


def test_what_holds_secrets_is_not_writable(home: Path) -> None:
    done = run(["sh", "-c", f"echo mine >> {home}/.ssh/here/key"], Policy(write=[home]))
    assert done.returncode == confine.FAILED
    assert f"{home}: this folder holds {home}/.netrc, which is hidden" in done.stderr
    assert (home / ".ssh" / "here" / "key").read_text(encoding="utf-8") == "content of .ssh/here/key"
    (home / "results").mkdir()
    assert run(["sh", "-c", f"echo mine > {home}/results/file"], Policy(write=[home / "results"])).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="what only root may read")
def test_private_files_of_the_root_folder_are_hidden() -> None:
    with tempfile.NamedTemporaryFile(dir="/", prefix="weir-swapfile-", mode="w") as file:  # mode 600
        file.write("secret")
        file.flush()
        assert run(["cat", file.name]).stdout == ""
        os.fchmod(file.fileno(), 0o644)
        assert run(["cat", file.name]).stdout == "secret"


_WATCH = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.inotify_init1(0), ctypes.get_errno())"


def test_nothing_is_watched() -> None:
    assert run([sys.executable, "-c", _WATCH]).stdout == "-1 1\n"  # EPERM
    done = subprocess.run([sys.executable, "-c", _WATCH], capture_output=True, text=True, check=True)
    assert not done.stdout.startswith("-1")


def test_command_lines_of_others_are_hidden_from_who_is_alone() -> None:
    script = f"import os; print(open('/proc/self/cmdline').read() != ''); open('/proc/{os.getpid()}/cmdline')"
    done = run([sys.executable, "-c", script], Policy(alone=True))
    assert done.stdout == "True\n"
    assert "PermissionError" in done.stderr or "FileNotFoundError" in done.stderr


def test_the_environment_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("WEIR_BIN", "/somewhere")
    given = confine.environment(PYTHONPATH="/here")
    assert "secret" not in given.values()
    assert (given["WEIR_BIN"], given["PYTHONPATH"], given["PATH"]) == ("/somewhere", "/here", os.environ["PATH"])
