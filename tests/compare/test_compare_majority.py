"""Agreement: the majority, the odd one out, and cases with neither."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.compare import agreement, apart, of_figures, of_outcomes, tolerance_of
from weir.compare._majority import Tolerance

TEN_PERCENT = Tolerance(0.1)


@pytest.mark.parametrize(
    ("outcomes", "text", "odd"),
    [
        ("holds holds holds", "all agree", ()),
        ("fails fails fails", "all agree", ()),
        ("holds fails holds", "sim and emul agree; lab differs", ("lab",)),
        ("fails holds holds", "lab and emul agree; sim differs", ("sim",)),
        ("holds holds undecided", "sim and lab agree", ()),
        ("holds fails undecided", "they disagree", ()),
        ("holds undecided undecided", "not decided by two", ()),
        ("undecided undecided undecided", "not decided by two", ()),
    ],
)
def test_verdicts(outcomes: str, text: str, odd: tuple[str, ...]) -> None:
    said = dict(zip(("sim", "lab", "emul"), outcomes.split(), strict=True))
    assert agreement(said) == text
    assert of_outcomes(said).odd == odd


def test_of_two_that_differ_nobody_is_odd() -> None:
    found = of_outcomes({"sim": "holds", "lab": "fails"})
    assert (found.kind, found.odd, found.together) == ("split", (), ())


@pytest.mark.parametrize(
    ("figures", "kind", "together", "odd"),
    [
        ((100, 101, 99), "all", ("sim", "lab", "emul"), ()),
        ((100, 101, 150), "majority", ("sim", "lab"), ("emul",)),
        ((50, 100, 104), "majority", ("lab", "emul"), ("sim",)),
        ((100, 109, 118), "split", (), ()),  # a chain: the middle one agrees with both
        ((10, 100, 1000), "split", (), ()),
        ((100, 100, None), "all", ("sim", "lab"), ()),
        ((100, math.nan, 200), "split", (), ()),
        ((100, None, math.nan), "alone", (), ()),
        ((0, 0, 0), "all", ("sim", "lab", "emul"), ()),
        ((0, 0, 1), "majority", ("sim", "lab"), ("emul",)),
    ],
)
def test_figures(figures: tuple[float | None, ...], kind: str, together: tuple[str, ...], odd: tuple[str, ...]) -> None:
    found = of_figures(dict(zip(("sim", "lab", "emul"), figures, strict=True)), TEN_PERCENT)
    assert (found.kind, found.together, found.odd) == (kind, together, odd)


def test_of_four_two_against_two_have_no_majority() -> None:
    found = of_figures({"a": 1.0, "b": 1.0, "c": 2.0, "d": 2.0}, TEN_PERCENT)
    assert found.kind == "split"
    found = of_figures({"a": 1.0, "b": 1.0, "c": 2.0, "d": 3.0}, TEN_PERCENT)
    assert found.kind == "split", "half is no majority"


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=5), st.floats(0, 0.5))
def test_whoever_agrees_is_within_the_tolerance_in_any_order(values: list[float], relative: float) -> None:
    tolerance = Tolerance(relative)
    figures = {f"m{n}": value for n, value in enumerate(values)}
    found = of_figures(figures, tolerance)
    together = [figures[label] for label in found.together]
    assert all(tolerance.covers(a, b) for a in together for b in together)
    assert set(found.together) | set(found.odd) in (set(), set(figures))
    for order in list(permutations(figures.items()))[:6]:
        again = of_figures(dict(order), tolerance)
        assert (again.kind, set(again.odd)) == (found.kind, set(found.odd))


def test_absolute_tolerances_are_for_what_is_near_zero() -> None:
    assert tolerance_of("jain").covers(0.97, 0.99)
    assert not tolerance_of("jain").covers(0.95, 0.99)
    assert tolerance_of("link.loss").covers(0.0, 0.00009)
    assert not tolerance_of("link.loss").covers(0.001, 0.002)
    assert tolerance_of("my.own") == Tolerance(0.05)


def test_distances() -> None:
    assert apart(90.0, 110.0) == pytest.approx(0.2)
    assert apart(-1.0, 1.0) == pytest.approx(2.0)
    assert apart(0.0, 0.0) == 0.0
    assert apart(0.0, 1e-5, floor=1e-4) == pytest.approx(0.1)
    assert apart(None, 1.0) is None
    assert apart(math.nan, 1.0) is None
