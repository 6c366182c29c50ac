"""Output to a terminal contains no control characters, whatever their source."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from shared import Weir, argv, dumbbell, environment
from weir import _terminal
from weir._terminal import json_shown, shown, stray

EVIL = "a\x1b]0;title\x07b\x9b31m\u202ec\u2028d\x7f\ud800"


def acts(text: str) -> set[str]:
    """The characters of ``text`` that control a terminal."""
    return {c for c in text if c not in "\n\t" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028\ud800")}


def test_what_acts_is_written_out_and_the_rest_stays() -> None:
    assert shown(EVIL) == "a\\x1b]0;title\\x07b\\x9b31m\\u202ec\\u2028d\\x7f\\ud800"
    assert shown("é µ א 😀\n\ttab") == "é µ א 😀\n\ttab"
    assert shown(os.fsdecode(b"\xff.yaml")) == "\\xff.yaml"


def test_json_keeps_its_meaning() -> None:
    text = json_shown(json.dumps({EVIL: EVIL}, ensure_ascii=False))
    assert not acts(text)
    assert json.loads(text) == {EVIL: EVIL}


@pytest.mark.parametrize("tty", [False, True])
def test_a_console_shows_text_tables_and_titles(tty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: tty, raising=False)
    monkeypatch.setenv("TERM", "xterm" if tty else "dumb")
    console = _terminal._console(stream)
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    for thing in (EVIL, Text(EVIL), table, Panel(EVIL, title=EVIL)):
        console.print(thing)
    written = stream.getvalue()
    assert "\x1b]" not in written
    assert acts(written) <= ({"\x1b"} if tty else set())  # rich's own colours
    assert "\\x1b]0;title" in written


def test_a_title_and_a_key_with_controls_reach_no_terminal(weir: Weir, here: Path) -> None:
    (here / "evil.yaml").write_text(dumbbell().replace("Tiny", '"\\e]0;x\\a"'), encoding="utf-8")
    (here / "key.yaml").write_text(dumbbell() + '"k\u202ey": 1\n', encoding="utf-8")
    for name, said in (("evil.yaml", "U+001B is not allowed"), ("key.yaml", "k\\u202ey")):
        for command in (["check", name], ["check", name, "--json"], ["plan", name], ["run", name]):
            ran = weir(*command)
            assert ran.code == 2
            assert said in ran.out + ran.err
            assert not acts(ran.out + ran.err)


def test_a_plan_and_a_run_whose_files_were_changed_reach_no_terminal(weir: Weir, here: Path) -> None:
    (here / "tiny.yaml").write_text(dumbbell(), encoding="utf-8")
    assert weir("run", "tiny.yaml", "--method", "sim", "--no-report").code == 0
    manifest = here / "runs/tiny/manifest.json"
    changed = json.loads(manifest.read_text(encoding="utf-8"))

    def infect(value: object) -> object:
        if isinstance(value, dict):
            return {key: infect(item) for key, item in value.items()}
        if isinstance(value, list):
            return [infect(item) for item in value]
        return value + "\x1b]0;x\x07" if isinstance(value, str) and " " in value else value

    changed = infect(changed)
    changed["title"] = "T\x1b]0;x\x07"
    manifest.write_text(json.dumps(changed), encoding="utf-8")
    for command in (["show", "runs/tiny"], ["show", "runs/tiny", "--json"], ["compare", "runs/tiny", "runs/tiny"]):
        ran = weir(*command)
        assert not acts(ran.out + ran.err), ran


def test_names_that_are_not_utf8_are_refused_with_the_name(here: Path) -> None:
    odd = os.fsencode(here) + b"/\xffa.yaml"
    Path(os.fsdecode(odd)).write_text(dumbbell(), encoding="utf-8")
    for words in ([b"check", odd], [b"run", odd], [b"show", b"\xff"], [b"run", b"x.yaml", b"--out", b"\xe9"]):
        command = [os.fsencode(word) for word in argv()] + words
        ran = subprocess.run(command, capture_output=True, env=environment(), check=False, timeout=60)
        assert ran.returncode == 2
        assert ran.stderr.endswith(b"is not UTF-8, which names of files and values have to be; rename the file\n")
        assert b"\\xff" in ran.stderr or b"\\xe9" in ran.stderr
        assert ran.stdout == b""
    assert stray(["lab", "exec", "--", "cat", os.fsdecode(b"\xff")]) is None


def test_a_terminal_without_unicode_gets_escapes(here: Path) -> None:
    (here / "micro.yaml").write_text(dumbbell().replace("20ms", "20µm"), encoding="utf-8")
    plain = environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    ran = subprocess.run(argv("check", "micro.yaml"), capture_output=True, env=plain, check=False, timeout=60, cwd=here)
    assert ran.returncode == 2
    assert b"\\xb5m" in ran.stdout
