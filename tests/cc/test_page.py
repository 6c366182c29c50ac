"""docs/congestion-controls.md: its example is built, run and compared, and its table of fields is correct."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from shared import ROOT, Weir
from weir import _weir
from weir.lab import unavailable

PAGE = (ROOT / "docs" / "congestion-controls.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The page's first block in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def mine(here: Path) -> Path:
    """The file that a reader has saved."""
    (here / "my_cc.c").write_text(block("c"), encoding="utf-8")
    (here / "mine.yaml").write_text(block("yaml"), encoding="utf-8")
    return here


def goodput(weir: Weir, run: str) -> dict[str, float]:
    rows = json.loads(weir("show", run, "-m", "goodput.aggregate.mean", "--json").out)["metrics"]
    return {row["cc"]: row["value"] for row in rows}


def test_the_page_begins_with_how_to_write_one() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert headings == [
        "Write one",
        "Run it",
        "Compare it",
        "Judge it",
        "Debug it",
        "In Python",
        "Reference",
        "In the simulator only",
        "In the kernel",
    ]


def test_the_example_runs_in_the_simulator(mine: Path, weir: Weir) -> None:
    assert weir("check", "mine.yaml").code == 0
    ran = weir("run", "mine.yaml", "--method", "sim", "--no-report")
    assert ran.code == 0, ran
    found = goodput(weir, "runs/mine")
    assert found.keys() == {"cubic", "./my_cc.c"}
    assert all(8e6 < value < 10e6 for value in found.values()), found


def test_the_example_builds_without_a_warning_and_lists_its_options(mine: Path, weir: Weir) -> None:
    built = weir("cc", "build", "my_cc.c")
    assert (built.code, built.err) == (0, "")
    listed = weir("cc", "list", "./my_cc.c").out
    assert re.search(r"keep +70 +10 to 99", listed), listed
    assert weir("cc", "build", "my_cc.c", "--sanitize", "-o", "checked.so").code == 0


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_the_example_compiles_for_bpf(mine: Path, weir: Weir) -> None:
    built = weir("cc", "build", "my_cc.c", "--bpf")
    assert built.code == 0, built
    assert "it compiles for BPF" in built.out


def test_the_example_runs_in_the_lab(mine: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")  # the lab is in the default cache
    if (why := unavailable()) is not None:
        pytest.skip(why)
    ran = weir("run", "mine.yaml", "--method", "lab", "--no-report", "-o", "runs/lab")
    assert ran.code == 0, ran
    found = goodput(weir, "runs/lab")
    assert all(8e6 < value < 10e6 for value in found.values()), found


def test_every_field_of_the_page_is_one(mine: Path, weir: Weir) -> None:
    fields = re.findall(r"^\| (\*\*)?`((?:tcp_sk|inet_csk)\(sk\)->\w+|sk->\w+)`", PAGE, re.MULTILINE)
    assert len(fields) > 30
    reads = " ".join(f"(void)({access});" for _, access in fields)
    writes = " ".join(f"{access} = {access};" for bold, access in fields if bold)
    source = mine / "my_cc.c"
    source.write_text(source.read_text().replace("(void)ack;", f"(void)ack; {reads} {writes}"), encoding="utf-8")
    assert weir("cc", "build", "my_cc.c").code == 0
    first_read_only = next(access for bold, access in fields if not bold)
    source.write_text(source.read_text().replace("(void)ack;", f"(void)ack; {first_read_only} = 1;"), encoding="utf-8")
    assert "a congestion control only reads it" in weir("cc", "build", "my_cc.c").err


def test_the_samples_and_events_of_the_page_are_those_of_the_interface(mine: Path, weir: Weir) -> None:
    """Each field and name compiles, in a helper with `sk` as on the page; no field of the header is missing."""
    header = (ROOT / "cc" / "shim" / "sock.h").read_text(encoding="utf-8")
    operations = {"ack_sample": "pkts_acked", "rate_sample": "cong_control"}
    functions, entries = "", ""
    for struct, operation in operations.items():
        body = re.search(rf"^struct {struct} {{\n(.*?)^}};", header, re.MULTILINE | re.DOTALL)
        table = re.search(rf"^\| field of `{struct}` .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
        assert body is not None
        assert table is not None
        fields = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table[0].splitlines()[2:] if row))
        there = {
            name
            for name in re.findall(r"^\t\w+ (\w+)(?:\[\d+\])?;", body[1], re.MULTILINE)
            if not name.startswith("weir_")
        }
        assert set(fields) == there
        more = "u32 ack, int flag, " if operation == "cong_control" else ""
        unused = "(void)ack; (void)flag;" if more else ""
        reads = " ".join(f"(void)sample->{name};" for name in fields)
        functions += f"static void my_{operation}(struct sock *sk, {more}const struct {struct} *sample)\n"
        functions += f"{{ (void)sk; {unused} {reads} }}\n"
        entries += f" OP({operation}, my_{operation})"
    names = re.findall(r"`((?:CA_EVENT|CA_ACK|TCP_CA|TCP_CONG)_\w+)`", PAGE)
    assert {"CA_EVENT_COMPLETE_CWR", "CA_ACK_SLOWPATH", "TCP_CONG_NEEDS_ECN"} <= set(names)
    (helper,) = re.findall(r"`(static u32 since.*?)`", PAGE)
    functions += f"{helper}\n"
    checks = " ".join(f"(void){name};" for name in dict.fromkeys(names)) + " (void)since(sk, 0); (void)HZ;"
    source = mine / "my_cc.c"
    text = source.read_text().replace("(void)ack;", f"(void)ack; {checks}", 1)
    text = text.replace("/* An acknowledgement", f"{functions}/* An acknowledgement", 1)
    text = text.replace("OP(undo_cwnd, tcp_reno_undo_cwnd)", f"OP(undo_cwnd, tcp_reno_undo_cwnd){entries}")
    source.write_text(text, encoding="utf-8")
    built = weir("cc", "build", "my_cc.c")
    assert (built.code, built.err) == (0, ""), built


def test_the_commands_of_the_page_use_one_folder_for_each_run() -> None:
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    folders = re.findall(r"^weir run mine\.yaml .*-o (\S+)", "\n".join(blocks), re.MULTILINE)
    assert folders == ["runs/mine/sim", "runs/mine/lab", "runs/mine/emul"]
    assert "weir compare runs/mine/sim runs/mine/lab" in PAGE


def test_every_control_is_in_the_table_of_solutions() -> None:
    """`docs/solutions.md` says of each solution what weir has: no control is missing there, and none is invented."""
    table = (ROOT / "docs" / "solutions.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`cc: ([a-z0-9-]+)`", table))
    assert named == {cc["name"] for cc in json.loads(_weir.cc_everywhere())}
