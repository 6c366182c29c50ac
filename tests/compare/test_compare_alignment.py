"""Alignment of cells, and the remarks on cells that do not align."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare_support import Cell, write_run

import weir
from weir.compare import CompareError
from weir.run import open_run


def _sweep(folder: Path, ccs: tuple[str, ...], rtts: tuple[str, ...], repeats: int = 1, **more: object) -> Path:
    cells = [Cell(factors={"cc": c, "rtt": r}, repeat=k, seed=k) for c in ccs for r in rtts for k in range(repeats)]
    return write_run(folder, cells, **more)  # type: ignore[arg-type]


def test_cells_align_by_value_however_it_is_written(tmp_path: Path) -> None:
    a = _sweep(tmp_path / "a", ("reno", "cubic"), ("100ms", "20ms"))
    b = _sweep(tmp_path / "b", ("cubic", "reno"), ("0.1s", "20ms"))
    found = weir.compare([a, b])
    assert found.labels == ("a", "b")
    assert dict(found.groups[0].factors) == {"cc": "reno", "rtt": "100ms"}
    for group in found.groups:
        assert group.cells["a"][0].factors["cc"] == group.cells["b"][0].factors["cc"]
    assert len(found.groups) == 4
    assert not found.alignment.unaligned


def test_methods_name_the_runs_where_they_differ(tmp_path: Path) -> None:
    a, b = (_sweep(tmp_path / m, ("reno",), ("20ms",), method=m) for m in ("sim", "emul"))
    assert weir.compare([a, b]).labels == ("sim", "emul")
    assert weir.compare([a, b], labels=["mine", None]).labels == ("mine", "emul")


def test_a_factor_with_one_value_in_each_run_tells_them_apart(tmp_path: Path) -> None:
    a, b = _sweep(tmp_path / "a", ("reno",), ("20ms", "100ms")), _sweep(tmp_path / "b", ("cubic",), ("20ms", "100ms"))
    found = weir.compare([a, b])
    assert found.factors == ("rtt",)
    assert "the runs differ in cc: reno (a), cubic (b)" in found.notes
    assert "a → b: flows[*].transport.cc: reno → cubic" in found.notes


def test_what_has_no_counterpart_is_listed_with_its_reason(tmp_path: Path) -> None:
    a, b = _sweep(tmp_path / "a", ("reno", "bic"), ("20ms",)), _sweep(tmp_path / "b", ("reno", "htcp"), ("20ms",))
    found = weir.compare([a, b])
    left = {(u.run, u.cell): u.reason for u in found.alignment.unaligned}
    assert left == {
        ("a", "bic-20ms-r0"): "no other run has such a cell",
        ("b", "htcp-20ms-r0"): left["b", "htcp-20ms-r0"],
    }
    assert any(note.startswith("1 of the cells of a have no counterpart") for note in found.notes)


def test_a_factor_that_one_run_lacks_does_not_align(tmp_path: Path) -> None:
    a = _sweep(tmp_path / "a", ("reno",), ("20ms",))
    b = write_run(tmp_path / "b", [Cell(factors={"rtt": "20ms"})])
    found = weir.compare([a, b])
    assert found.factors == ("rtt",)
    assert "the factor cc is not in every run, so nothing aligns by it (a: reno)" in found.notes
    both = _sweep(tmp_path / "c", ("reno", "cubic"), ("20ms",))
    with pytest.raises(CompareError, match="no cell of one run has a counterpart"):
        weir.compare([both, b])


def test_nothing_in_common_is_an_error_that_shows_the_values(tmp_path: Path) -> None:
    a, b = _sweep(tmp_path / "a", ("reno", "bic"), ("20ms",)), _sweep(tmp_path / "b", ("htcp", "nv"), ("20ms",))
    with pytest.raises(CompareError, match=r"cc: reno, bic \(a\); htcp, nv \(b\)"):
        weir.compare([a, b])


def test_three_runs_of_which_one_lacks_a_cell(tmp_path: Path) -> None:
    a, b = (_sweep(tmp_path / n, ("reno", "bic"), ("20ms",)) for n in "ab")
    c = _sweep(tmp_path / "c", ("reno",), ("20ms",))
    found = weir.compare([a, b, c])
    assert [sorted(g.cells) for g in found.groups] == [["a", "b", "c"], ["a", "b"]]
    assert "c lacks 1 of the 2 cells compared" in found.notes


def test_repeats_pair_by_their_seeds(tmp_path: Path) -> None:
    a, b = (_sweep(tmp_path / n, ("reno",), ("20ms",), repeats=2) for n in "ab")
    other = write_run(
        tmp_path / "c", [Cell(factors={"cc": "reno", "rtt": "20ms"}, repeat=k, seed=9 + k) for k in range(2)]
    )
    (same,), (different,) = weir.compare([a, b]).groups, weir.compare([a, other]).groups
    assert [(x.repeat, y.repeat) for x, y in same.pairs("a", "b")] == [(0, 0), (1, 1)]
    assert different.pairs("a", "c") == ()


def test_repeats_that_both_have_are_pairs_whatever_their_number_and_order(tmp_path: Path) -> None:
    """Seeds 1, 2, 3 against 5, 3, 2, 1 with other numbers: three pairs, by seed."""
    a = [Cell(goodput=[[x, x]], repeat=k, seed=k + 1) for k, x in enumerate((10.0, 20.0, 30.0))]
    b = [
        Cell(goodput=[[x, x]], repeat=k, seed=seed) for k, (seed, x) in enumerate(((5, 99), (3, 31), (2, 21), (1, 11)))
    ]
    found = weir.compare(
        [write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)], metrics=["goodput.mean"], flows=False
    )
    row = found.differences.to_dicts()[0]
    assert (row["n_a"], row["n_b"], row["interval"]) == (3, 3, "paired")
    # every pair differs by 1 Mb/s, so the spread of 10 to 30 Mb/s does not count
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(1e6), pytest.approx(1e6))
    assert "in 1 of 1 cells, a and b share the seeds of only some repeats: these are compared" in found.notes


def test_seeds_that_only_one_run_has_are_no_pairs_and_that_is_said(tmp_path: Path) -> None:
    a = [Cell(goodput=[[x, x]], repeat=k, seed=k) for k, x in enumerate((10.0, 20.0))]
    b = [Cell(goodput=[[x, x]], repeat=k, seed=k + 1) for k, x in enumerate((21.0, 30.0))]
    found = weir.compare([write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)], metrics=["goodput.mean"])
    assert set(found.differences["interval"]) == {"welch"}
    assert any("share fewer than two seeds" in note for note in found.notes)


def test_parts_of_one_run_can_be_compared(tmp_path: Path) -> None:
    run = open_run(_sweep(tmp_path / "a", ("reno", "cubic"), ("20ms", "100ms")))
    found = weir.compare([run.select(cc=cc) for cc in run.factors["cc"]], labels=run.factors["cc"])
    assert found.labels == ("reno", "cubic")
    assert len(found.groups) == 2


def test_bad_calls_are_refused(tmp_path: Path) -> None:
    a = _sweep(tmp_path / "a", ("reno",), ("20ms",))
    with pytest.raises(CompareError, match="at least two runs"):
        weir.compare([a])
    with pytest.raises(CompareError, match="two runs are called 'x'"):
        weir.compare([a, a], labels=["x", "x"])
    b = _sweep(tmp_path / "b", ("reno",), ("20ms",))
    with pytest.raises(CompareError, match="is a distribution"):
        weir.compare([a, b], metrics=["goodput.distribution"])
    with pytest.raises(CompareError, match="names cells"):
        weir.compare([a, b], metrics=["jain{cc: reno}"])
