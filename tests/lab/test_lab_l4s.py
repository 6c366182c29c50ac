"""The code points that a kernel's flows send: the column of docs/l4s.md, and what a DualPI2 queue makes of them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from shared import assert_share, execute, marking, marks_of, plan_of
from weir.lab import Kernel

_PAGE = Path(__file__).parents[2] / "docs" / "l4s.md"
_CODE_POINTS = {"T": "ECT(0)", "L": "ECT(1)", "": "Not-ECT"}


def _rows() -> list[tuple[str, str, str, str]]:
    """Control, `ecn`, code point by a kernel, and class with `any_ect: true`, of each row of the page."""
    found = []
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        fields = [field.strip().strip("`") for field in line.strip("|").split("|")]
        if len(fields) == 9 and fields[1] in ("true", "false"):
            found.append((fields[0], fields[1], fields[3], fields[5]))
    return found


def _plan(rows: list[tuple[str, str, str, str]], queue: str, more: str = "") -> dict[str, Any]:
    flows = "\n".join(
        f'  - {{name: f{k}, kind: bulk, between: "pairs[{k}]", transport: {{cc: {cc}, ecn: {ecn}}}, until: 1s}}'
        for k, (cc, ecn, _, _) in enumerate(rows)
    )
    return plan_of(
        "title: Code points\n"
        f"topology: {{dumbbell: {{pairs: {len(rows)}, access: {{rate: 100Mbps}}, bottleneck: {{rate: 20Mbps, "
        f"queue: {queue}}}, rtt: 10ms}}}}\n"
        f"workload:\n{flows}\nmeasure: {{goodput: 100ms, links: 100ms{more}}}\n"
    )


def test_a_kernel_sends_the_code_points_of_the_page(kernel: Kernel) -> None:
    rows = _rows()
    assert len(rows) == 12
    sink, _ = execute("lab", _plan(rows, "{step: {threshold: 5ms}}", ", trace: {}"))
    sent: defaultdict[int, set[str]] = defaultdict(set)
    for line in csv.DictReader(io.StringIO(sink.text("packets.csv"))):
        if line["event"] == "sent" and line["kind"] == "data" and "R" not in line["flags"]:
            sent[int(line["flow"])].add(_CODE_POINTS[re.sub("[^TL]", "", line["flags"])])
    assert [sent[k] for k in range(len(rows))] == [{code_point} for _, _, code_point, _ in rows]


@pytest.mark.parametrize("name", ["prague", "cubic"])
def test_a_kernels_packets_have_the_class_of_the_page(kernel: Kernel, name: str) -> None:
    rows = [row for row in _rows() if row[0] == name and row[1] == "true"]
    asked = _plan(rows, "{dualpi2: {any_ect: true}}")
    sink, _ = execute("lab", asked)
    columns = sink.columns("classes")
    counted = {"l4s": 0, "classic": 0}
    for link, number, size in zip(columns["link"], columns["class"], columns["in_bytes"], strict=True):
        if asked["links"][link]["name"] == "bottleneck":
            counted[("l4s", "classic")[number]] += size
    assert max(counted, key=lambda one: counted[one]) == rows[0][3]
    assert min(counted.values()) < 0.02 * max(counted.values())


def test_random_marks_in_the_lab_are_the_emulators(kernel: Kernel) -> None:
    """All marks are the first flow's: the packets of the other one cannot carry any, and pass."""
    asked = plan_of(marking(until="2s"))
    sink, _ = execute("lab", asked)
    assert json.loads(sink.files["lab.json"].getvalue())["links"] == "weir-emu"
    found = marks_of(sink, asked)
    assert found[1] > 1000
    assert_share(found, 0.1)
