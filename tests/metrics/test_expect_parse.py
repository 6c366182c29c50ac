"""Parsing checks: the grammar, the positions of errors, and robustness against crashes and hangs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.metrics.expect import ExpectError, parse
from weir.metrics.expect.syntax import Binary, Call, Compare, Logic, Metric, Number, Quantified, Within
from weir.metrics.reference import parse_reference


@pytest.mark.parametrize(
    "text",
    [
        "goodput.aggregate.max <= 3.5Gbps",
        "goodput.mean@five within 5% of 941Mbps",
        "goodput.mean within 10Mbps of 941 Mbps * 1",
        "goodput.mean{cc: reno} < 0.5 * goodput.mean{cc: htcp}",
        "jain@twelve{cc: cubic, rtt: 100ms} between 0.9 and 1",
        "goodput.mean@twelve(elephants[11]) < goodput.mean@twelve(elephants[0:5], elephants[7])",
        "r2(goodput.mean over level) >= 0.98 and slope(goodput.mean over level) > 0",
        "argmin(goodput.mean over cc) == 'highspeed'",
        'argmax(goodput.mean@five over cc) in {bic, "cubic"}',
        "min over rtt, cc of goodput.mean > 0",
        "min(goodput.mean over rtt) > 0.1 * max(goodput.mean over rtt)",
        "rank(goodput.mean over cc, 'reno') == 1",
        "for each cc, rtt in {0ms, 100ms}: goodput.mean > 1kbps",
        "for some cc: goodput.mean > 1kbps or not (jain < 0.5)",
        "(goodput.mean - goodput.mean{cc: reno}) / goodput.mean >= -20%",
        "min(goodput.mean over flow) >= 0.8 * goodput.mean",
        "1 / slope(goodput.mean over level) > 0",
        "goodput.var@five <= 4Mbps * 4Mbps",
        "abs(goodput.mean - goodput.mean{cc: reno}) < 0",
        "max(goodput.mean, goodput.mean{cc: reno}) >= 1Mbps",
        "goodput.mean.min > 0",
        "goodput.p99@five > 0",
        "median(goodput.mean over repeat) >= 1Mbps",
        "share(goodput.mean > 1Mbps and not jain < 0.5 over repeat) >= 50%",
        "0.5 < share(max(goodput.mean over flow) between 1Mbps and 2Mbps over repeat)",
        "for each cc: median(goodput.mean - goodput.mean{cc: reno} over repeat) > 0",
    ],
)
def test_checks_of_every_form_are_read(text: str) -> None:
    assert parse(text).text == text


def test_precedence_is_that_of_arithmetic_and_logic() -> None:
    node = parse("goodput.mean + 2 * goodput.mean > 1bps and jain > 0 or jain < 1").node
    assert isinstance(node, Logic)
    assert node.operator == "or"
    both = node.parts[0]
    assert isinstance(both, Logic)
    compare = both.parts[0]
    assert isinstance(compare, Compare)
    assert isinstance(compare.left, Binary)
    assert compare.left.operator == "+"
    assert isinstance(compare.left.right, Binary)


def test_subtraction_goes_from_left_to_right() -> None:
    node = parse("goodput.mean - 1bps - 2bps > 0").node
    assert isinstance(node, Compare)
    assert isinstance(node.left, Binary)
    assert isinstance(node.left.left, Binary)
    assert isinstance(node.left.right, Number)
    assert node.left.right.value == 2


def test_units_are_converted_to_base_units() -> None:
    for text, value in [("3.5Gbps", 3.5e9), ("941 Mbps * 1", 941e6), ("64KiB / 1s", 64 * 8 * 1024)]:
        node = parse(f"goodput.mean > {text.replace(' Mbps', 'Mbps')}").node
        assert isinstance(node, Compare)
        part = node.right.left if isinstance(node.right, Binary) else node.right
        assert isinstance(part, Number)
        assert part.value == pytest.approx(value)


def test_percent_of_a_tolerance_is_relative_and_other_units_are_not() -> None:
    relative, absolute = parse("jain within 5% of 0.9").node, parse("jain within 0.05 of 0.9").node
    assert isinstance(relative, Within)
    assert isinstance(absolute, Within)
    assert relative.tolerance.percent
    assert not absolute.tolerance.percent


def test_parts_of_a_metric_come_in_any_order() -> None:
    one = parse("goodput.mean@five{cc: reno}(elephants[1]) > 0").node
    other = parse("goodput.mean(elephants[1]){cc: reno}@five > 0").node
    assert isinstance(one, Compare)
    assert isinstance(other, Compare)
    assert isinstance(one.left, Metric)
    assert isinstance(other.left, Metric)
    assert one.left.reference.key == other.left.reference.key
    assert one.left.reference.factors == (("cc", "reno"),)


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("goodput(elephants).mean", "goodput.mean(elephants)"),
        ("goodput@five.mean", "goodput.mean@five"),
        ("goodput.mean@five.min", "goodput.mean.min@five"),
        ("class.share[class: af].mean@five", "class.share.mean[class: af]@five"),
        ("class.share@five.mean[class: af]", "class.share.mean[class: af]@five"),
    ],
)
def test_a_statistic_may_follow_another_part(text: str, usual: str) -> None:
    found, expected = parse_reference(text), parse_reference(usual)
    assert (found.key, found.name, found.text) == (expected.key, expected.name, text)


def test_what_a_check_names_is_listed() -> None:
    check = parse("for each rtt: goodput.mean@five{cc: reno} < max(jain@twelve over level) * 1bps")
    assert check.metrics == ("goodput.mean", "jain")
    assert check.phases == ("five", "twelve")
    assert set(check.factors) == {"rtt", "cc", "level"}
    assert "goodput" in check.tables
    assert isinstance(check.node, Quantified)


def test_min_with_over_is_a_function_of_a_sweep() -> None:
    node = parse("min over rtt of goodput.mean > 0").node
    assert isinstance(node, Compare)
    assert isinstance(node.left, Call)
    assert node.left.over == ("rtt",)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "found the end; expected a number, a metric"),
        ("goodputt.mean > 1Gbps", 1, "Did you mean 'goodput.mean'"),
        ("goodput.maen > 1Gbps", 1, "no 'maen'.*mean"),
        ("goodput.mean >", 15, "found the end"),
        ("goodput.mean > 1Gbs", 17, "unknown unit 'Gbs'"),
        ("goodput.mean > 18ms", 16, "in bit/s but '18ms' is in seconds"),
        ("goodput.mean", 13, "is not true or false"),
        ("goodput.mean > 1Gbps jain", 22, "found 'jain'"),
        ("goodput.mean{cc reno} > 1", 17, "found 'reno'; expected ':'"),
        ("goodput.mean{cc: reno > 1", 26, "',' or '}'"),
        ("goodput.mean@ > 1", 15, "the name of a phase"),
        ("jain > 5 cubits", 10, "found 'cubits'"),
        ("goodput.mean within of 3", 21, "a tolerance"),
        ("goodput.mean between 1Gbps", 27, "expected 'and'"),
        ("argmin(goodput.mean) == 'a'", 1, "needs a factor"),
        ("argmin(goodput.mean over cc) > 'a'", 1, "no order"),
        ("argmin(goodput.mean over cc) == 3", 1, "compares a word with a number"),
        ("slope(goodput.mean over cc, rtt) > 0", 1, "goes over one factor"),
        ("min(jain + 1 over flow) > 0", 1, "one metric at a time"),
        ("rank(jain over cc) == 1", 1, "wrong number of arguments"),
        ("for all cc: jain > 0", 5, "`each` or `some`"),
        ("for each cc jain > 0", 13, "expected ':'"),
        ("jain@a@b > 0", 7, "second '@'"),
        ("goodput(hi).maen > 0", 1, "metric 'goodput' has no 'maen'"),
        ("goodput(hi).aggregate > 0", 1, "metric 'goodput' has no 'aggregate'"),
        ("goodput.mean(hi).min.max > 0", 1, "at most 2 statistics"),
        ("goodput(hi). > 0", 14, "found '>'; expected a statistic"),
        ("jain[x: 1] > 0", 6, "unexpected 'x'"),
        ("jain == 'a", 9, "does not end"),
        ("jain > 1 > 0", 10, "found '>'"),
        ("(jain > 1", 10, r"expected '\)'"),
        ("jain > 1) and jain", 9, r"found '\)'"),
        ("jain and jain > 0", 1, "'jain' is not true or false"),
        ("jain > (jain > 0)", 9, "is a comparison"),
        ("mean(jain over repeat) > 0", 1, "'mean' does not go over repeats"),
        ("median(jain over repeat, cc) > 0", 1, "repeats are taken alone"),
        ("share(jain over repeat) > 0", 7, "'jain' is not true or false"),
        ("share(jain > 0) > 0", 15, "expected 'over'"),
        ("share(jain > 0 over cc) > 0", 1, "a share is one of repeats"),
        ("share(goodput.mean > 1s over repeat) > 0", 22, "in bit/s but '1s' is in seconds"),
        ("share(median(jain over repeat) > 0 over repeat) > 0", 7, "within another function over repeats"),
        ("share(argmin(jain over cc) == 'a' over repeat) > 0", 31, "'a'\" in a function over repeats"),
        ("jain > 0 and 2 * median(jain over repeat) > 1", 18, "does more with 'median"),
        ("median(jain over repeat) > jain", 1, "alone, on one side of a comparison with a number"),
        ("median(jain over repeat) within 5% of median(jain{cc: a} over repeat)", 1, "does more with"),
    ],
)
def test_errors_say_where_and_what_was_expected(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpectError, match=message) as caught:
        parse(text)
    assert caught.value.column == column


def test_unknown_factors_and_phases_are_found_when_the_scenario_is_known() -> None:
    parse("jain@five{cc: reno} > 0", factors=["cc"], phases=["five"])
    with pytest.raises(ExpectError, match=r"no factor 'ccc'.*'cc'") as caught:
        parse("jain@five{ccc: reno} > 0", factors=["cc"])
    assert caught.value.column == 11
    with pytest.raises(ExpectError, match=r"no phase 'fife'.*'five'") as caught:
        parse("jain@fife > 0", phases=["five"])
    assert caught.value.column == 6


def test_deep_nesting_and_long_texts_are_refused() -> None:
    for text in ["(" * 5000 + "jain", "-" * 3000 + "jain > 0", "not " * 900 + "jain > 0", "jain > 0 and " * 1000]:
        with pytest.raises(ExpectError):
            parse(text)


_PIECES = st.sampled_from(
    [
        *(
            "goodput.mean",
            "jain",
            "max",
            "min",
            "over",
            "of",
            "cc",
            "rtt",
            "1",
            "3.5Gbps",
            "5%",
            "18ms",
            "in",
            "within",
        ),
        *(
            "between",
            "and",
            "or",
            "not",
            "for",
            "each",
            "some",
            "argmin",
            "r2",
            "rank",
            "'reno'",
            "five",
            "elephants[4]",
        ),
        *'(){}[]@:,.+-*/<"#\té',
        *("<=", "==", "alpha"),
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(_PIECES, max_size=25).map(" ".join) | st.lists(_PIECES, max_size=25).map("".join) | st.text(max_size=60)
)
def test_any_text_is_read_or_refused_with_a_column_inside_it(text: str) -> None:
    assert 1 <= _column_of_error(text) <= len(text) + 1


def _column_of_error(text: str) -> int:
    try:
        parse(text)
    except ExpectError as error:
        return error.column
    return 1
