"""The warnings of a run as they are printed: by ``weir run`` and ``weir show``, grouped, with a count."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared import Weir, dumbbell
from weir.cli._warnings import alike

_SWEEP = "sweep:\n  topology.dumbbell.rtt: [10ms, 20ms, 30ms]\n"


@pytest.mark.parametrize("title", ["warn", "quiet"])
def test_run_and_show_print_what_the_cells_warn_of(weir: Weir, here: Path, title: str) -> None:
    (here / "a.yaml").write_text(dumbbell(_SWEEP, title=f"{title} rows=7"), encoding="utf-8")
    ran = weir("run", "a.yaml", "--method", "fake:Fake", "-o", "out", "--no-report", "-q", "-j", "1")
    shown, each = weir("show", "out"), weir("show", "out", "-v")
    assert (ran.code, shown.code, each.code) == (0, 0, 0), ran.err + shown.err
    expected = "warning: a warning (3 like this, in 3 cells)\n"
    for text in (ran.out, shown.out):
        assert (expected in text) == (title == "warn")
        assert text.count("warning") == (2 if title == "warn" else 0)
    assert each.out.count(": a warning\n") == (3 if title == "warn" else 0)


def test_what_differs_in_numbers_only_is_one() -> None:
    warnings = [
        "0000-r0: flow a[1]: 12 datagrams dropped",
        "0001-r0: flow a[12]: 3 datagrams dropped",
        "0001-r0: flow a[2]: 1.5 datagrams dropped",
        "0001-r0: another thing: with a colon",
        "the machine: was busy",
    ]
    groups = alike(warnings, {"0000-r0", "0001-r0"})
    assert [(group.text, group.count, list(group.cells)) for group in groups] == [
        ("flow a[1]: 12 datagrams dropped", 3, ["0000-r0", "0001-r0"]),
        ("another thing: with a colon", 1, ["0001-r0"]),
        ("the machine: was busy", 1, []),
    ]
    assert [group.line(2, whole=False) for group in groups] == [
        "warning: flow a[1]: 12 datagrams dropped (3 like this, in 2 cells)",
        "warning: another thing: with a colon (cell 0001-r0)",
        "warning: the machine: was busy",
    ]


def test_a_long_one_is_cut() -> None:
    (group,) = alike(["x" * 1000], ())
    assert len(group.line(1, whole=False)) < 320
    assert group.line(1, whole=False).endswith("xxx...")
    assert group.line(1, whole=True) == f"warning: {'x' * 1000}"
