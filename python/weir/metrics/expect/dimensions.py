"""Type-checks a check before any run exists: dimensions must match, functions get suitable arguments."""

from __future__ import annotations

from typing import Literal

from weir.metrics.expect.syntax import (
    LABELS,
    MEMBERS,
    REPEAT,
    Between,
    Binary,
    Call,
    Compare,
    Logic,
    Metric,
    Negative,
    Node,
    Not,
    Number,
    OneOf,
    Quantified,
    Text,
    Within,
    walk,
)
from weir.metrics.reference import Reference
from weir.metrics.registry import UNIT
from weir.metrics.scanner import ExpectError
from weir.run.quantity import ONE, Dimension

__all__ = ["Type", "check_types", "dimension_of", "is_percent", "kind_of", "reference_dimension", "reference_scale"]

Type = Dimension | Literal["unknown", "text", "truth"]
"""A dimension; a number whose dimension depends on a factor's values; a word; or a truth value."""

_NAMES = {"text": "a word", "truth": "a comparison", "unknown": "a number"}
_UNITS: dict[Dimension, str] = {
    (1, -1): "bit/s",
    (0, 1): "seconds",
    (1, 0): "bytes",
    ONE: "a plain number",
    (0, -1): "1/s",
    (2, -2): "(bit/s)²",
}


def check_types(node: Node) -> None:
    """Verifies a whole check.

    Raises:
        ExpectError: it is not a comparison, or compares different dimensions.
    """
    if _type(node) != "truth":
        raise ExpectError(f"{node.text!r} is not true or false", node.column + len(node.text), "a comparison")


def kind_of(node: Node) -> Type:
    """The type of ``node``.

    Raises:
        ExpectError: it combines different dimensions.
    """
    return _type(node)


def dimension_of(node: Node) -> Dimension | None:
    """The dimension of a value, or ``None`` if it is a word or depends on a factor's values."""
    kind = _type(node)
    return kind if isinstance(kind, tuple) else None


def is_percent(node: Node) -> bool:
    """Whether people read the numbers of ``node`` in percent: shares, their sums and multiples, comparisons of them."""
    match node:
        case Metric(reference=reference):
            return reference.percent
        case Negative(part=part) | Between(part=part):
            return is_percent(part)
        case Binary(operator="+" | "-", left=left, right=right) | Compare(left=left, right=right):
            return is_percent(left) or is_percent(right)
        case Binary(operator="*", left=left, right=right):
            return (is_percent(left) and isinstance(right, Number)) or (isinstance(left, Number) and is_percent(right))
        case Binary(operator="/", left=left, right=right):
            return is_percent(left) and isinstance(right, Number)
        case Within(left=left):
            return is_percent(left)
        case Call(function="share"):
            return True
        case Call(function=function, parts=parts):
            return function not in ("cov", "r2", "rank", "slope", "spearman", *LABELS) and is_percent(parts[0])
        case _:
            return False


def reference_scale(reference: Reference) -> float:
    """Number of base units in the metric's unit, squared if its variance is asked for."""
    scale = UNIT[reference.metric.unit][0]
    return scale**2 if "var" in reference.stats else scale


def reference_dimension(reference: Reference) -> Dimension:
    """The dimension of a metric with its statistics: squared for a variance, none for a coefficient of variation."""
    bits, seconds = UNIT[reference.metric.unit][1]
    if "cov" in reference.stats:
        return ONE
    return (2 * bits, 2 * seconds) if "var" in reference.stats else (bits, seconds)


def _type(node: Node) -> Type:
    match node:
        case Number(dimension=dimension):
            return dimension
        case Text():
            return "text"
        case Metric(reference=reference):
            return _metric(node, reference)
        case Negative(part=part):
            return _number(part)
        case Binary():
            return _arithmetic(node)
        case Call():
            return _call(node)
        case Compare(left=left, right=right):
            kind = _compare(node, left, right)
            _constant_beside_repeats(node, (left, right))
            return kind
        case Within(left=left, tolerance=tolerance, right=right):
            _alike(left, right)
            if not tolerance.percent:
                _alike(right, tolerance)
            _constant_beside_repeats(node, (left, right))
            return "truth"
        case Between(part=part, low=low, high=high):
            _alike(part, low)
            _alike(part, high)
            _constant_beside_repeats(node, (part, low, high))
            return "truth"
        case OneOf(part=part):
            if _type(part) != "text":
                raise ExpectError(f"{part.text!r} is not a word", part.column, "argmin(...) or argmax(...)")
            return "truth"
        case Not(part=part):
            return _truth(part)
        case Logic(parts=parts):
            for part in parts:
                _truth(part)
            return "truth"
        case Quantified(body=body):
            return _truth(body)
        case _:
            raise AssertionError(f"no such node: {node}")


def _metric(node: Node, reference: Reference) -> Type:
    if reference.metric.kind == "distribution":
        raise ExpectError(
            f"{reference.metric.name!r} is a distribution, not a number",
            node.column,
            "goodput.share, goodput.mode_share, or a percentile such as completion.p95",
        )
    return reference_dimension(reference)


def _describe(kind: Type) -> str:
    return _NAMES[kind] if isinstance(kind, str) else _UNITS.get(kind, f"bit^{kind[0]} s^{kind[1]}")


def _amount(kind: Type) -> str:
    """As a predicate: ``in seconds``, ``a plain number``."""
    return _describe(kind) if isinstance(kind, str) or kind == ONE else f"in {_describe(kind)}"


def _number(node: Node) -> Type:
    kind = _type(node)
    if kind in ("text", "truth"):
        raise ExpectError(f"{node.text!r} is {_describe(kind)}", node.column, "a number")
    return kind


def _truth(node: Node) -> Type:
    if _type(node) != "truth":
        raise ExpectError(f"{node.text!r} is not true or false", node.column, "a comparison")
    return "truth"


def _is_zero(node: Node) -> bool:
    return isinstance(node, Number) and node.value == 0 and node.dimension == ONE


def _alike(left: Node, right: Node) -> Type:
    a, b = _number(left), _number(right)
    if a != b and "unknown" not in (a, b) and not _is_zero(left) and not _is_zero(right):
        raise ExpectError(
            f"{left.text!r} is {_amount(a)} but {right.text!r} is {_amount(b)}", right.column, _describe(a)
        )
    return b if a == "unknown" else a


def _compare(node: Compare, left: Node, right: Node) -> Type:
    kinds = (_type(left), _type(right))
    if "text" in kinds:
        if kinds != ("text", "text"):
            raise ExpectError(f"{node.text!r} compares a word with a number", node.column, "two words or two numbers")
        if node.operator not in ("==", "!="):
            raise ExpectError(f"words have no order in {node.text!r}", node.column, "== or !=")
        return "truth"
    _alike(left, right)
    return "truth"


def _arithmetic(node: Binary) -> Type:
    if node.operator in "+-":
        return _alike(node.left, node.right)
    a, b = _number(node.left), _number(node.right)
    if isinstance(a, str) or isinstance(b, str):
        return "unknown"
    sign = 1 if node.operator == "*" else -1
    return (a[0] + sign * b[0], a[1] + sign * b[1])


def _call(node: Call) -> Type:
    function, parts = node.function, node.parts
    if function == "abs":
        return _plain_call(node, 1)
    if not node.over:
        if function in ("min", "max") and len(parts) > 1:
            return _plain_call(node, None)
        raise ExpectError(
            f"{function!r} needs a factor: {function}(... over FACTOR)",
            node.column,
            f"{function}({parts[0].text} over FACTOR)",
        )
    if REPEAT in node.over:
        return _over_repeats(node, parts[0])
    if function == "share":
        raise ExpectError(f"{node.text!r}: a share is one of repeats", node.column, "share(comparison over repeat)")
    return _aggregate(node, parts[0])


def _over_repeats(node: Call, part: Node) -> Type:
    """A median or a share over repeats: each repeat is a trial, so that nothing else ranges over them."""
    usage = "median(number over repeat), or share(comparison over repeat)"
    if node.function not in ("median", "share"):
        raise ExpectError(f"{node.function!r} does not go over repeats; values are means over them", node.column, usage)
    if len(node.over) > 1 or len(node.parts) > 1:
        raise ExpectError(f"{node.text!r}: repeats are taken alone", node.column, usage)
    for inner in walk(part):
        if isinstance(inner, Call) and REPEAT in inner.over:
            raise ExpectError(f"{inner.text!r} stands within another function over repeats", inner.column, usage)
        if isinstance(inner, Quantified | OneOf | Text):
            raise ExpectError(
                f"{inner.text!r} in a function over repeats", inner.column, "numbers and their comparisons"
            )
    if node.function == "median":
        return _number(part)
    _truth(part)
    return ONE


def _constant_beside_repeats(node: Node, sides: tuple[Node, ...]) -> None:
    """Verifies that a function over repeats stands alone, beside numbers: its interval is that of no other function."""
    found = [part for side in sides for part in walk(side) if isinstance(part, Call) and REPEAT in part.over]
    if not found:
        return
    others = [part for side in sides if side is not found[0] for part in walk(side)]
    if len(found) > 1 or found[0] not in sides or any(isinstance(part, Metric) for part in others):
        raise ExpectError(
            f"{node.text!r} does more with {found[0].text!r} than to compare it with a number",
            found[0].column,
            f"{found[0].text} alone, on one side of a comparison with a number",
        )


def _plain_call(node: Call, count: int | None) -> Type:
    if node.over or (count is not None and len(node.parts) != count):
        raise ExpectError(f"{node.function!r} takes one number", node.column, f"{node.function}(number)")
    kind = _number(node.parts[0])
    for part in node.parts[1:]:
        kind = _alike(node.parts[0], part)
    return kind


def _aggregate(node: Call, part: Node) -> Type:
    function = node.function
    kind = _number(part)
    wanted = 2 if function == "rank" else 1
    if len(node.parts) != wanted or (function == "rank" and not isinstance(node.parts[1], Text)):
        usage = "rank(x over FACTOR, 'value')" if function == "rank" else f"{function}(x over FACTOR)"
        raise ExpectError(f"{node.text!r} has the wrong number of arguments", node.column, usage)
    members = [name for name in node.over if name in MEMBERS]
    if members:
        _check_members(node, part, members)
    elif len(node.over) > 1 and function in (*LABELS, "rank", "slope", "intercept", "r2", "spearman"):
        raise ExpectError(f"{function!r} goes over one factor", node.column, f"{function}(x over FACTOR)")
    if function in LABELS:
        return "text"
    if function in ("cov", "r2", "spearman", "rank"):
        return ONE
    return "unknown" if function == "slope" else kind


def _check_members(node: Call, part: Node, members: list[str]) -> None:
    simple = node.function in ("min", "max", "mean", "median", "sum", "sd", "cov", "spread")
    if len(node.over) != 1 or not isinstance(part, Metric) or not simple:
        raise ExpectError(
            f"{node.text!r}: members are aggregated one metric at a time",
            node.column,
            f"min, max, mean, median, sum, sd, cov or spread of a metric over {members[0]}",
        )
