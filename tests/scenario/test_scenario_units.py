"""Quantities: exact values, and malformed ones."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.language.units import DURATION, PROBABILITY, RATE, SIZE, Quantity, parse_amount, show_duration, show_rate

ALL_UNITS = ("bytes", "packets", "ns", "bdp")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (RATE, "1Gbps", 10**9),
        (RATE, "100Mbps", 10**8),
        (RATE, "64kbps", 64_000),
        (RATE, "1Gbit/s", 10**9),
        (RATE, "2.5 Gbps", 2_500_000_000),
        (RATE, "1e-3Gbps", 10**6),
        (RATE, "0", 0),
        (DURATION, "11.5ms", 11_500_000),
        (DURATION, "20us", 20_000),
        (DURATION, "20µs", 20_000),
        (DURATION, "2h", 7_200 * 10**9),
        (DURATION, "400ns", 400),
        (DURATION, "0.1us", 100),
        (DURATION, "1d", 86_400 * 10**9),
        (SIZE, "50MB", 50_000_000),
        (SIZE, "64KiB", 65_536),
        (SIZE, "1500B", 1500),
        (SIZE, "1.5KiB", 1536),
    ],
)
def test_values_are_exact(kind: Quantity, text: str, value: int) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (RATE, "100", "`100` needs a unit; expected a rate such as `100Mbps` (units: bps, kbps, "),
        (RATE, "1gbps", "`gbps` is not a unit of a rate; did you mean `Gbps`?"),
        (RATE, "1Gb/s", "did you mean `Gbps`?"),
        (RATE, "2000Tbps", "out of range; the largest rate is 100Tbps"),
        (DURATION, "1m", "did you mean `min`?"),
        (DURATION, "-1s", "is negative"),
        (DURATION, "0.4ns", "too small; a duration is a whole number of ns"),
        (DURATION, "1,5s", "write a decimal point"),
        (DURATION, "", "is not a duration"),
        (DURATION, "١s", "is not a duration"),
        (DURATION, "1s\n", "is not a unit"),
        (DURATION, "1e999999999s", "out of range"),
        (SIZE, "1Mb", "did you mean `MB`?"),
        (SIZE, "inf", "is not a size"),
        (SIZE, "0x10B", "is not a unit"),
    ],
)
def test_what_is_wrong_is_said(kind: Quantity, text: str, message: str) -> None:
    with pytest.raises(ValueError, match="|".join(re.escape(part) for part in message.split("|"))):
        kind.parse(text)


@given(st.sampled_from([RATE, DURATION, SIZE]), st.integers(0, 10**9), st.data())
def test_a_whole_number_of_a_unit_is_read_exactly(kind: Quantity, n: int, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(sorted(kind.units)))
    value = n * kind.units[unit]
    if value <= kind.most:
        assert kind.parse(f"{n}{unit}") == value


@given(st.integers(0, 10**12))
def test_decimals_are_not_rounded_by_floating_point(ns: int) -> None:
    assert DURATION.parse(f"{ns // 1000}.{ns % 1000:03d}us") == ns


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for parse in (RATE.parse, DURATION.parse, SIZE.parse, PROBABILITY.parse, lambda t: parse_amount(t, ALL_UNITS)):
        with suppress(ValueError):
            assert parse(text) is not None


@pytest.mark.parametrize(
    ("text", "value"), [("1%", 0.01), ("100%", 1.0), ("0", 0.0), ("0.25", 0.25), ("1e-5", 1e-5), ("1e-5%", 1e-7)]
)
def test_probabilities(text: str, value: float) -> None:
    assert PROBABILITY.parse(text) == value


@pytest.mark.parametrize("text", ["1", "1.5", "101%", "-1%", "5", "%", "1 percent", "nan"])
def test_what_is_no_probability(text: str) -> None:
    with pytest.raises(ValueError, match="probability"):
        PROBABILITY.parse(text)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("100packets", 100, "packets"),
        ("1packet", 1, "packets"),
        ("0.5bdp", Fraction(1, 2), "bdp"),
        ("100ms", 10**8, "ns"),
        ("64KiB", 65_536, "bytes"),
        ("0", 0, "bytes"),
    ],
)
def test_amounts_keep_their_unit(text: str, value: Fraction, unit: str) -> None:
    amount = parse_amount(text, ALL_UNITS)
    assert (amount.value, amount.unit) == (value, unit)


def test_an_amount_has_only_the_units_that_make_sense() -> None:
    with pytest.raises(ValueError, match="not a unit of a size here"):
        parse_amount("10ms", ("bytes", "bdp"))


def test_quantities_in_messages() -> None:
    assert [show_duration(n) for n in (0, 15, 11_500_000, 2_000_000_000)] == ["0ns", "15ns", "11.5ms", "2s"]
    assert [show_rate(n) for n in (12, 64_000, 10**9, 2.5e12)] == ["12bps", "64kbps", "1Gbps", "2.5Tbps"]
