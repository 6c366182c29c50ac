"""Compilers do not protect the host: attempts to execute code or read secrets fail confined, and work unconfined."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from cc_support import EXAMPLE, variant

from shared import Weir, dumbbell
from weir import _weir, cc, confine

SECRET = "TOPSECRET-4711"


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a secret in it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / ".secret").write_text(f'#define OTHER "{SECRET}"\n')
    monkeypatch.setenv("HOME", str(folder))
    return folder


def flags() -> list[str]:
    """The compiler's options."""
    parts = (part.rpartition("\n")[2] for part in _weir.cc_recipe(False).split("\0"))
    return [part for part in parts if part.startswith("-")]


@pytest.mark.parametrize("name", ["@args.c", "-fplugin=x.c", "-c.c", "a b.c", "x'\";.c"])
def test_the_name_of_a_source_is_no_option_of_the_compiler(here: Path, weir: Weir, name: str) -> None:
    variant(here, name=name)
    (here / "real.txt").write_text(EXAMPLE.read_text())
    (here / "args.c").write_text("-wrapper sh,./w.sh -x c real.txt\n")
    (here / "w.sh").write_text(f'touch {here}/executed\nexec "$@"\n')
    quoted = '"' + f"./{name}".replace("\\", "\\\\").replace('"', '\\"') + '"'
    (here / "s.yaml").write_text(dumbbell(transport=f"cc: {quoted}"))
    ran = weir("check", "s.yaml")
    assert ran.code == 0, ran
    assert not (here / "executed").exists()


def test_those_options_would_be_taken_from_a_file_of_such_a_name(here: Path) -> None:
    (here / "args.c").write_text("-wrapper sh,./w.sh -x c real.txt\n")
    (here / "real.txt").write_text("int x;\n")
    (here / "w.sh").write_text('touch executed\nexec "$@"\n')
    subprocess.run(["cc", "-c", "@args.c"], cwd=here, check=False, capture_output=True, timeout=60)
    assert (here / "executed").exists()


def test_a_precompiled_header_is_not_taken_for_a_header(here: Path) -> None:
    (here / "x.h").write_text('#define TITLE "precompiled"\n')
    options = [flag for flag in flags() if flag not in ("-shared",) and not flag.startswith("-Wl")]
    subprocess.run(["cc", *options, "-x", "c-header", "x.h", "-o", "x.h.gch"], check=True, timeout=60)
    (here / "x.h").write_text('#define TITLE "header"\n')
    text = '#include "x.h"\n' + variant(here).read_text().replace('ABOUT("My AIMD"', "ABOUT(TITLE")
    (here / "mine.c").write_text(text)
    (here / "title.c").write_text('#include "x.h"\nconst char title[] = TITLE;\n')
    made = subprocess.run(["cc", *options, "-S", "-o", "-", "title.c"], capture_output=True, text=True, check=True)
    if "precompiled" not in made.stdout:
        pytest.skip("this compiler does not take precompiled headers for headers")
    assert cc.control("./mine.c").about.title == "header"


READS = {
    "incbin": '__asm__(".pushsection .rodata\\n.incbin \\"FILE\\"\\n.popsection");',
    "include": '#include "FILE"\nstatic const char other[] __attribute__((used)) = OTHER;',
}


@pytest.mark.parametrize("how", READS)
def test_a_secret_gets_neither_into_the_object_nor_into_messages(here: Path, home: Path, weir: Weir, how: str) -> None:
    variant(here, before=READS[how].replace("FILE", str(home / ".secret")))
    ran = weir("cc", "build", "mine.c")
    assert ran.code == 2, ran
    assert "mine.c" in ran.err
    assert SECRET not in ran.out + ran.err
    assert not list(here.glob("*.so"))


def test_a_compiler_that_is_not_confined_would_read_it(here: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variant(here, before=READS["incbin"].replace("FILE", str(home / ".secret")))
    monkeypatch.setenv(confine.UNCONFINED, "1")
    assert SECRET.encode() in cc.object_of("./mine.c").read_bytes()


def test_a_compiler_that_cannot_be_confined_is_not_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variant(here, before="/* of this test alone */")
    monkeypatch.setattr(confine, "state", lambda: confine.State("none", why="of a test"))
    with pytest.raises(cc.ControlError, match="cannot be confined here: of a test"):
        cc.object_of("./mine.c")


@pytest.mark.parametrize("name", ["../out.h", ".hidden.h", "linked.h", "x.h.gch"])
def test_a_header_elsewhere_is_not_found_and_the_message_says_why(here: Path, weir: Weir, name: str) -> None:
    folder = here / "cc"
    folder.mkdir()
    for file in (here / "out.h", folder / ".hidden.h", folder / "x.h.gch"):
        file.write_text(f'#error "{SECRET}"\n')
    (folder / "linked.h").symlink_to(here / "out.h")
    variant(folder, before=f'#include "{name}"')
    ran = weir("cc", "build", "cc/mine.c")
    assert ran.code == 2
    assert f'"{name}" is ' in ran.err, ran
    assert SECRET not in ran.err


TOO_MUCH = {
    "memory": (
        "#define A(x) x x x x x x x x\n#define B(x) A(A(A(x)))\n#define C(x) B(B(B(x)))\nstatic int n = C(0 +) 0;",
        "compiling it takes too much: a compiler has 60 s of processor time, 2 GiB of memory and 64 MiB for each file",
    ),
    "a file": ('__asm__(".pushsection .rodata\\n.fill 100000000\\n.popsection");', "compiling it takes too much"),
    "an object": ('__asm__(".pushsection .rodata\\n.fill 20000000\\n.popsection");', "its object has more than 8 MiB"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_a_compiler_takes_is_bounded_and_nothing_is_kept(here: Path, weir: Weir, what: str) -> None:
    text, expected = TOO_MUCH[what]
    variant(here, before=text)
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./mine.c"))
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert expected in ran.out, ran
    assert not [path for path in cc.cache().rglob("*") if path.is_file() and path.stat().st_size > 8 << 20]


@pytest.mark.parametrize("include", ["#include <FILE>", '#include "FILE"', '/**/ #include "FILE"'])
def test_a_header_that_no_hash_knows_is_refused(here: Path, weir: Weir, include: str) -> None:
    (here / "out.h").write_text("enum { OUT = 1 };\n")
    (here / "cc").mkdir()
    variant(here / "cc", before=include.replace("FILE", str(here / "out.h")))
    ran = weir("cc", "build", "cc/mine.c")
    assert ran.code == 2
    assert f"it includes {here / 'out.h'}, that is neither below the folder of the source" in ran.err, ran


def test_a_header_behind_a_comment_belongs_to_the_source(here: Path) -> None:
    variant(here, before='/**/ #include "t.h"')
    (here / "t.h").write_text("enum { T = 1 };\n")
    first = cc.object_of("./mine.c")
    (here / "t.h").write_text("enum { T = 2 };\n")
    assert cc.object_of("./mine.c") != first


def test_the_compilers_own_headers_may_be_included(here: Path) -> None:
    variant(here, before="#include <limits.h>\n#include <stdalign.h>")
    assert cc.control("./mine.c").about.name == "my_cc"


SAID = {
    "an error in a macro of weir's": (
        "(void)ack;",
        "(void)ack; tp->snd_cwnd = max(nowhere, 2U);",
        r"mine\.c:\d+:\d+: error: .nowhere. undeclared",
    ),
    "no options": ("WEIR_CC_OPTIONS(MY_OPTIONS)", "", r"mine\.c:\d+: it declares no options: write WEIR_CC_OPTIONS"),
    "too much state": ("u32 losses;", "u32 losses[30];", r"private state exceeds 104 bytes: it has 120"),
    "no registration": ("WEIR_CC_REGISTER(my_cc,", "//", r"it has no line WEIR_CC_REGISTER\("),
    "no undo": ("\\\n\tOP(undo_cwnd, tcp_reno_undo_cwnd)", "", r"\./mine\.c: .* no undo_cwnd .*tcp_reno_undo_cwnd"),
    "a default": ("OPTION(keep, 70,", "OPTION(keep, 7,", r"option keep is 7, outside of its range 10 to 99"),
    "a long identifier": ("REGISTER(my_cc,", "REGISTER(my_control1,", r"my_control1 has more than 10 characters"),
    "an option called name": ("OPTION(increase,", "OPTION(name,", r"an option cannot be called name"),
}


@pytest.mark.parametrize("what", SAID)
def test_a_mistake_is_told_with_what_to_do(here: Path, weir: Weir, what: str) -> None:
    old, new, expected = SAID[what]
    text = EXAMPLE.read_text().replace(old, new)
    text = text.replace("OPT(sk, increase)", "OPT(sk, name)") if "OPTION(name," in text else text
    text = text.replace("OPT(sk, increase)", "2").replace("OPT(sk, keep)", "70") if what == "no options" else text
    (here / "mine.c").write_text(text)
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./mine.c"))
    assert EXAMPLE.read_text() != text
    checked, built = weir("check", "s.yaml"), weir("cc", "build", "mine.c")
    assert (checked.code, built.code) == (2, 2)
    assert re.search(expected, checked.out), checked
    assert re.search(expected, built.err), built


def test_a_control_without_options_says_so(here: Path) -> None:
    text = EXAMPLE.read_text().replace("OPT(sk, increase)", "2").replace("OPT(sk, keep)", "70")
    begin, end = text.index("#define MY_OPTIONS"), text.index("WEIR_CC_OPTIONS(")
    (here / "mine.c").write_text(f"{text[:begin]}#define MY_OPTIONS(OPTION)\n{text[end:]}")
    assert cc.control("./mine.c").about.options == ()
