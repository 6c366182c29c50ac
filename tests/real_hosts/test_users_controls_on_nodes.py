"""A user's own congestion control on nodes: compiled here, loaded there, and gone afterwards."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes_support import Nodes, text

from shared import ROOT, Memory, plan_of
from weir import cc
from weir._programs import find
from weir.bpf import BpfError, status
from weir.methods import MethodError, Outcome
from weir.methods.hosts import Hosts

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
VARIABLE = "state->losses += ((const u8 *)tcp_sk(sk))[tcp_sk(sk)->snd_cwnd & 7];"
"""It reads nothing but the socket, but at a place that a kernel's verifier does not know."""


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """A control of a user's, in a C file."""
    try:
        if (why := status().why_not) is not None:
            pytest.skip(why)
    except BpfError as error:
        pytest.skip(str(error))
    return Path(shutil.copy(ROOT / "examples" / "my_cc" / "my_cc.c", tmp_path / "mine.c"))


@pytest.fixture
def method(nodes: Nodes) -> Iterator[Hosts]:
    found = Hosts(nodes.connect).on(str(nodes.inventory()))
    yield found
    found.close()


def execute(method: Hosts, control: Path, options: str = "", until: str = "3s") -> tuple[Memory, Outcome]:
    sink = Memory()
    chosen = f"{{name: {control}, {options}}}" if options else str(control)
    return sink, method.execute(json.dumps(plan_of(text(cc=chosen, until=until))), sink, lambda *_: None)


def mine() -> set[str]:
    """The kernel's names of the control: a kernel has one list for all of its namespaces."""
    return {name for name in AVAILABLE.read_text().split() if name.endswith("_mine")}


def test_it_is_loaded_with_its_options_and_leaves_nothing(nodes: Nodes, method: Hosts, control: Path) -> None:
    plan = plan_of(text(cc=str(control)))
    assert method.obstacle(plan) is None
    assert "mine.c" in str(method.untried(plan))

    sink, outcome = execute(method, control)
    gentle, _ = execute(method, control, "increase: 1, keep: 10")

    assert outcome.partial is None
    about = {entry["name"]: entry for entry in json.loads(sink.text("nodes.json"))}
    name = about["a1"]["congestion_controls"][str(control)]
    assert re.fullmatch(r"w[0-9a-f]+\.[0-9a-f]+_mine", name)
    assert len(mine()) == 2, "options make another one"
    brought = about["a1"]["objects"][str(control)]
    assert brought["source"] == cc.identity(str(control))
    assert re.fullmatch("sha256:[0-9a-f]{64}", brought["object"])
    assert "clang" in brought["compiler"]

    windows = [least(one) for one in (sink, gentle)]
    assert windows[0] > 2 * windows[1], "a loss leaves 70 % or 10 % of the window"

    method.close()
    assert mine() == set()
    assert nodes.journals() == []
    assert nodes.processes() == []
    assert not list(nodes.folder.rglob("weir-cc-*"))


def least(sink: Memory) -> int:
    """The least threshold of slow start after the first loss."""
    samples = sink.columns("samples")
    return min(value for value in samples["ssthresh"] if value)


def test_an_edited_source_and_one_that_does_not_compile_are_refused(method: Hosts, control: Path) -> None:
    plan = plan_of(text(cc=str(control)))
    whole = control.read_text()
    control.write_text(whole + "/* another */\n")
    with pytest.raises(MethodError, match=r"mine\.c was edited since the plan was made"):
        method.execute(json.dumps(plan), Memory(), lambda *_: None)
    assert mine() == set()


def test_a_kernel_that_refuses_it_is_named_with_its_reason(nodes: Nodes, method: Hosts, control: Path) -> None:
    whole = control.read_text()
    assert "state->losses++;" in whole
    control.write_text(whole.replace("state->losses++;", VARIABLE))
    with pytest.raises(MethodError, match=r"a1: cc: .*mine\.c: the kernel's verifier refuses .*ssthresh"):
        execute(method, control)
    assert mine() == set()
    method.close()
    assert nodes.journals() == []


def test_older_kernels_get_another_object(control: Path, tmp_path: Path) -> None:
    """The signature of ``cong_control`` changed in Linux 6.10."""
    rate = Path(shutil.copy(ROOT / "tests" / "bpf" / "every_operation.c", tmp_path / "rate.c"))
    tried = {"new": False, "old": True}
    for name, old in tried.items():
        (tmp_path / name).write_bytes(cc.bpf_object(str(rate), cc.identity(str(rate)), old=old))
    (tmp_path / "none").write_bytes(b"not an object")
    ours = json.loads(subprocess.run([find("weir-bpf"), "status"], capture_output=True, check=True).stdout)
    asked = [{"cc": "rate.c", "object": str(tmp_path / name)} for name in (*tried, "none", "absent")]
    done = subprocess.run(
        [find("weir-bpf"), "hold"], input=json.dumps({"load": asked}), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    right, wrong = answers[:2] if not ours["old_cong_control"] else (answers[1], answers[0])
    assert right == {"loaded": "weir_every", "cc": "rate.c"}
    assert wrong["code"] == "refused"
    assert "the BPF object of rate.c is unusable" in answers[2]["error"]
    assert "No such file" in answers[3]["error"]
