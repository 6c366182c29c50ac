"""A user's congestion control, from C to a run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from test_scenarios import write

from shared import Weir

RENO = Path(__file__).parent.parent.parent / "cc" / "reno" / "reno.c"


def own_source(folder: Path) -> Path:
    path = folder / "my_cc.c"
    path.write_text(RENO.read_text(encoding="utf-8").replace('"reno"', '"my_cc"'), encoding="utf-8")
    return path


def test_build_and_run_without_rebuilding_weir(weir: Weir, here: Path) -> None:
    own_source(here)
    built = weir("cc", "build", "my_cc.c")
    assert built.code == 0
    assert built.out.startswith("./my_cc.so: ")
    assert "in a scenario with `cc: ./my_cc.c`" in built.out
    assert "Next: `weir cc judge ./my_cc.c` runs the shared suite" in built.out
    assert weir("cc", "list", "./my_cc.so").out.startswith("my_cc: ")
    path = write(here)
    path.write_text(path.read_text().replace("[reno, cubic]", "[reno, ./my_cc.so]"))
    ran = weir("run", "two.yaml", "--method", "sim", "--no-report")
    assert ran.code == 0, ran
    rows = json.loads(weir("show", "runs/two", "-m", "goodput.aggregate.mean", "--json").out)["metrics"]
    assert [row["cc"] for row in rows] == ["reno", "./my_cc.so"]
    assert rows[0]["value"] == rows[1]["value"]  # the same source under another name


def test_what_does_not_compile_is_refused_with_the_compilers_words(weir: Weir, here: Path) -> None:
    (here / "bad.c").write_text("int x(\n")
    ran = weir("cc", "build", "bad.c")
    assert ran.code == 2
    assert "bad.c:1:" in ran.err
    assert not (here / "bad.so").exists()


def test_what_bpf_would_refuse_is_refused(weir: Weir, here: Path) -> None:
    source = own_source(here)
    source.write_text(source.read_text().replace("(void)ack;", "(void)ack; tp->packets_out = 0;"))
    ran = weir("cc", "build", "my_cc.c")
    assert ran.code == 2
    assert "packets_out" in ran.err


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_the_list_remembers_what_the_kernel_said_of_this_source(
    weir: Weir, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    source = own_source(here)
    said = weir("cc", "build", "my_cc.c", "--bpf").out
    if "this kernel's verifier accepts it" not in said:
        pytest.skip("this kernel's verifier was not tried")

    def tried() -> bool:
        (about,) = json.loads(weir("cc", "list", "./my_cc.c", "--json").out)
        return bool(about["bpf"]["tried"])

    assert tried()
    assert re.search(r"BPF +yes$", weir("cc", "list", "./my_cc.c").out, re.MULTILINE)
    source.write_text(source.read_text() + "/* edited */\n")
    assert not tried(), "another source"


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_bpf_is_checked_on_demand(weir: Weir, here: Path) -> None:
    own_source(here)
    said = weir("cc", "build", "my_cc.c", "--bpf").out
    assert "it compiles for BPF" in said
    # Whether it was loaded depends on the host, and is reported.
    assert "this kernel's verifier accepts it" in said or "this kernel's verifier was not tried: " in said


def test_without_clang_the_check_says_so(weir: Weir, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_source(here)
    monkeypatch.setenv("WEIR_CLANG", "no-such-clang")
    ran = weir("cc", "build", "my_cc.c", "--bpf")
    assert ran.code == 2
    assert "install clang" in ran.err


def test_headers_are_written_for_an_editor(weir: Weir, here: Path) -> None:
    assert weir("cc", "headers", "h").code == 0
    assert (here / "h/include/weir_cc.h").is_file()


def test_the_list_says_which_controls_the_lab_has(weir: Weir, here: Path) -> None:
    found = {cc["name"]: cc for cc in json.loads(weir("cc", "list", "--json").out)}
    assert found["lp"]["lab"] == "lp"
    assert (found["bic"]["lab"], found["cubic-2005"]["lab"]) == ("bic", None)
    lines = weir("cc", "list").out.splitlines()
    assert lines[0].split()[-2:] == ["linux", "lab"]
    assert any(line.startswith("lp ") and line.endswith("linux:lp") for line in lines)


def test_what_bpf_says_of_a_file_is_no_fact_before_it_was_tried(
    weir: Weir, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    own_source(here)
    told = weir("cc", "list", "./my_cc.c").out
    assert re.search(r"BPF +(not tried: `weir cc build --bpf`|no: )", told), told
    assert "lab's kernel has" not in told
    (about,) = json.loads(weir("cc", "list", "./my_cc.c", "--json").out)
    assert about["bpf"]["tried"] is False
