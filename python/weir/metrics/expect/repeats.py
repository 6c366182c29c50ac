"""Functions over repeats: the median of a number, and the share of the repeats in which a comparison holds.

Each repeat is one trial. A mean over repeats says little of trials of two kinds, such as flows that either share a link
or starve to the end; the median and the share describe those. Both have intervals without an assumption on the
distribution: the median's lies between two order statistics, the share's is that of a binomial proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weir.metrics.bounds import SHARE
from weir.metrics.expect.sides import NO_INTERVAL, Range, Sides, compare, decide, lies_between, lies_within
from weir.metrics.expect.source import Context
from weir.metrics.expect.syntax import REPEAT, Between, Call, Compare, Logic, Node, Not, Within, walk
from weir.metrics.expect.values import Amount, UndecidedError, aggregate
from weir.metrics.statistics import proportion_interval, quantile_interval
from weir.run.quantity import ONE

if TYPE_CHECKING:
    from weir.metrics.expect.amounts import Amounts

__all__ = ["over_repeats", "repeat_calls", "repeat_interval", "sides_of"]


def repeat_calls(node: Node) -> list[Call]:
    """The functions over repeats in ``node``."""
    return [part for part in walk(node) if isinstance(part, Call) and REPEAT in part.over]


def over_repeats(amounts: Amounts, call: Call, context: Context) -> Amount:
    """The value of a function over repeats.

    Raises:
        UndecidedError: its argument is undefined in every repeat, or a comparison in one of them.
    """
    found = _each(amounts, call, context)
    if call.function == "median":
        return aggregate("median", found)
    return Amount(sum(one.value for one in found) / len(found), ONE, bounds=SHARE)


def repeat_interval(amounts: Amounts, call: Call, context: Context, level: float) -> Range:
    """The interval of a function over repeats; infinite ends if there are too few repeats for one.

    Raises:
        UndecidedError: as of :func:`over_repeats`.
    """
    found = _each(amounts, call, context)
    values = np.array([one.value for one in found])
    if len(values) < 2:
        return NO_INTERVAL
    if call.function == "share":
        return proportion_interval(round(float(values.sum())), len(values), level)
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    whole = aggregate("median", found)
    return whole.bounds.cut(*quantile_interval(values, 0.5, level), whole.value)


def sides_of(amounts: Amounts, node: Node, context: Context) -> Sides:
    """The sides of a comparison of numbers.

    Raises:
        UndecidedError: one of them is undefined on this run.
    """
    match node:
        case Compare(operator=operator):
            return compare(operator, amounts.amount(node.left, context), amounts.amount(node.right, context))
        case Within():
            return lies_within(node, amounts.amount(node.left, context), amounts.amount(node.right, context))
        case Between():
            return lies_between(*(amounts.amount(part, context) for part in (node.part, node.low, node.high)))
        case _:
            raise AssertionError(f"not a comparison: {node}")


def _each(amounts: Amounts, call: Call, context: Context) -> list[Amount]:
    """The argument of ``call`` in each repeat; of a comparison, 1 where it holds, else 0."""
    (part,) = call.parts
    repeats = context.repeats if context.repeats is not None else amounts.source.pairs(part, context)[0]
    if not repeats:
        _value(amounts, call, context)  # raises with the reason, if one metric lacks a value everywhere
        raise UndecidedError(f"no repeat has a value of every metric in {call.text}")
    return [_value(amounts, call, context.only({repeat})) for repeat in sorted(repeats)]


def _value(amounts: Amounts, call: Call, context: Context) -> Amount:
    (part,) = call.parts
    if call.function == "share":
        return Amount(float(_holds(amounts, part, context)), ONE)
    return amounts.amount(part, context)


def _holds(amounts: Amounts, node: Node, context: Context) -> bool:
    match node:
        case Logic(operator=operator, parts=parts):
            truths: Sequence[bool] = [_holds(amounts, part, context) for part in parts]
            return all(truths) if operator == "and" else any(truths)
        case Not(part=part):
            return not _holds(amounts, part, context)
        case _:
            decision = decide(sides_of(amounts, node, context), NO_INTERVAL)
            if decision.outcome == "undecided":
                raise UndecidedError(f"{node.text} in one of the repeats: {decision.note}")
            return decision.outcome == "holds"
