"""Numbers for people, and looks that stay apart."""

from __future__ import annotations

import math

import pytest

from weir.report import theme
from weir.report._text import distinct, natural_key, number, quantity, shortened, unit_for


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (941.3e6, "941"), (0.95312, "0.953"), (12.0, "12.0"), (0, "0"), (1234.5, "1\u202f234"), (0.000123, "0.000123"),
    ],
)  # fmt: skip
def test_significant_digits(value: float, text: str) -> None:
    assert number(value if value < 1e6 else value / 1e6) == text


def test_far_from_one_and_undefined() -> None:
    assert number(3.2e9, 2) == "3.2×10⁹"
    assert number(-3.2e-7, 2) == "−3.2×10⁻⁷"
    assert number(None) == number(math.nan) == "–"
    assert number(math.inf) == "∞"


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (9.84e9, "bit/s", "9.84 Gbps"), (784e6, "bit/s", "784 Mbps"), (0.0115, "s", "11.5 ms"),
        (2800, "s", "2\u202f800 s"), (12.5e6, "bytes", "12.5 MB"),
        (0.95, "1", "0.950"), (12, "packets", "12 packets"),
        (12_345_678, "packets", "12\u202f345\u202f678 packets"), (2.5, "count", "2.50 count"), (0, "bit/s", "0 bps"),
    ],
)  # fmt: skip
def test_quantities(value: float, base: str, text: str) -> None:
    assert quantity(value, base) == text


def test_one_unit_for_a_figure() -> None:
    assert unit_for(10e9, "bit/s").suffix == "gbps"
    assert unit_for(0, "s").label == "s"
    assert unit_for(1e9, "bit/s").label == "Gbps"


def test_names_in_their_natural_order() -> None:
    names = ["flow[10]", "flow[2]", "flow[1]"]
    assert sorted(names, key=natural_key) == ["flow[1]", "flow[2]", "flow[10]"]


def test_names_are_told_apart_also_when_they_look_alike() -> None:
    assert distinct(["a", "b", "a", "a", "a (2)"]) == ["a", "b", "a (3)", "a (4)", "a (2)"]
    assert distinct(["x", "y"]) == ["x", "y"]
    assert distinct([]) == []


def test_long_names_keep_what_tells_them_apart() -> None:
    assert shortened(["reno", "cubic"], 8) == ["reno", "cubic"]
    assert shortened(["abcdefghij", "short"], 7) == ["abc…hij", "short"]
    same = [f"{'a' * 40}{i}{'b' * 40}" for i in range(3)]
    found = shortened(same, 24)
    assert [name.strip("a…b") for name in found] == ["0", "1", "2"]
    assert all(len(name) <= 24 for name in found)
    assert len(set(shortened(["c" * 50, "c" * 51], 10))) == 2


def test_every_category_looks_different_in_colour_and_in_black_and_white() -> None:
    names = [str(i) for i in range(49)]
    looks = theme.categories(names)
    pairs = {(c, tuple(d)) for c, d in zip(looks["color"]["range"], looks["strokeDash"]["range"], strict=True)}
    assert len(pairs) == 49
    seven = theme.categories(names[:7])
    assert len({tuple(d) for d in seven["strokeDash"]["range"]}) == 7
    assert len(set(seven["shape"]["range"])) == 7
