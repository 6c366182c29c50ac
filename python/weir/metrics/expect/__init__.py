"""Claims as text, and their verdicts.

>>> from weir.metrics.expect import parse
>>> parse("goodput.aggregate.max{cc: reno} <= 3.5Gbps").metrics
('goodput.aggregate.max',)

A check compares metrics with quantities, with each other, and across the cells of a sweep::

    goodput.aggregate.max <= 3.5Gbps
    goodput.mean{cc: reno} < 0.5 * goodput.mean{cc: htcp}
    jain@twelve within 5% of 0.95
    r2(completion.mean over level) >= 0.98
    argmin(completion.sd over cc) == "highspeed"
    for each cc in {bic, cubic}: goodput.mean@five between 700Mbps and 941Mbps

``parser`` has the grammar; ``weir.metrics.reference`` how a metric is written; ``evaluate`` the semantics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from weir.metrics.errors import nearest
from weir.metrics.expect.dimensions import kind_of
from weir.metrics.expect.evaluate import evaluate
from weir.metrics.expect.parser import parse_check, parse_expression
from weir.metrics.expect.stored import Kept, Wanted, evaluate_stored, name_of
from weir.metrics.expect.syntax import MEMBERS, REPEAT, Call, Compare, Node, OneOf, Quantified, Text, references, walk
from weir.metrics.expect.table import Value, frame_of, paired_difference, tabulate, tabulate_all
from weir.metrics.expect.verdict import Expectation, Measurement, Outcome, Verdict, percent
from weir.metrics.scanner import ExpectError
from weir.run.quantity import same_value

__all__ = [
    "Check",
    "ExpectError",
    "Expectation",
    "Kept",
    "Measurement",
    "Outcome",
    "Value",
    "Verdict",
    "Wanted",
    "evaluate",
    "evaluate_stored",
    "frame_of",
    "name_of",
    "paired_difference",
    "parse",
    "parse_number",
    "percent",
    "same_value",
    "tabulate",
    "tabulate_all",
]


@dataclass(frozen=True)
class Check:
    """A parsed and verified check."""

    text: str
    node: Node
    metrics: tuple[str, ...]
    """Names of the metrics, with their statistics."""
    phases: tuple[str, ...]
    factors: tuple[str, ...]
    """Factors that the check names."""
    tables: tuple[str, ...]
    """Tables of a run that the metrics read."""
    values: tuple[tuple[str, str, bool], ...]
    """Factor values that the check names: factor, value, and whether the check is undefined if no cell has the value.
    """
    selections: tuple[Mapping[str, str], ...]
    """The braces of each metric: factors and values that one cell must have together."""
    chosen: Mapping[str, tuple[str, ...]]
    """Factors after `for each`, with their values; without values, all of them count."""
    each: bool
    """Whether the check is made at every value of ``chosen``, instead of at some."""
    over: frozenset[str]
    """Factors that the check's functions range over."""


def parse(text: str, factors: Iterable[str] | None = None, phases: Iterable[str] | None = None) -> Check:
    """Reads a check. ``factors`` and ``phases``, if given, are the only names that the check may use.

    Raises:
        ExpectError: with the column, the text found and the text expected.
    """
    return _checked(text, parse_check(text), factors, phases)


def parse_number(text: str, factors: Iterable[str] | None = None, phases: Iterable[str] | None = None) -> Check:
    """Reads an expression whose value is a number, such as a metric; ``factors`` and ``phases`` as in :func:`parse`.

    Raises:
        ExpectError: with the column, the text found and the text expected.
    """
    node = parse_expression(text)
    kind = kind_of(node)
    if kind in ("truth", "text"):
        what = "a comparison" if kind == "truth" else "a word"
        raise ExpectError(f"{what} is no number", node.column, "a metric, arithmetic, or a function over a factor")
    found = references(node)
    if not found:
        raise ExpectError("no metric in this expression", node.column, "a metric; `weir metrics` lists them")
    for reference in found:
        if reference.metric.kind == "distribution":
            message = f"{reference.text} is a distribution"
            raise ExpectError(message, reference.column, "a metric with one value, such as goodput.mode_share")
    return _checked(text, node, factors, phases)


def _checked(text: str, node: Node, factors: Iterable[str] | None, phases: Iterable[str] | None) -> Check:
    named = _factors(node)
    found = references(node)
    quantified = [part for part in walk(node) if isinstance(part, Quantified)]
    if factors is not None:
        _known(named, list(factors), "factor", text)
    if phases is not None:
        _known([(r.phase, r.column) for r in found if r.phase], list(phases), "phase", text)
    return Check(
        text,
        node,
        tuple(dict.fromkeys(r.name for r in found)),
        tuple(dict.fromkeys(r.phase for r in found if r.phase)),
        tuple(dict.fromkeys(name for name, _ in named)),
        tuple(dict.fromkeys(table for r in found for table in r.metric.tables)),
        tuple(_values(node)),
        tuple(dict(r.factors) for r in found),
        {choice.factor: tuple(choice.values) for part in quantified for choice in part.choices},
        all(part.kind == "each" for part in quantified),
        frozenset(name for part in walk(node) if isinstance(part, Call) for name in part.over),
    )


def _values(node: Node) -> Iterator[tuple[str, str, bool]]:
    for reference in references(node):
        yield from ((name, value, True) for name, value in reference.factors)
        for _, argument in reference.arguments:
            if isinstance(argument, Mapping):
                yield from ((name, value, True) for name, value in argument.items())
    for part in walk(node):
        match part:
            case Quantified(choices=choices):
                yield from ((choice.factor, value, False) for choice in choices for value in choice.values)
            case OneOf(part=Call(function="argmin" | "argmax", over=(name,)), options=options):
                yield from ((name, option, False) for option in options)
            case Compare(left=Call(function="argmin" | "argmax", over=(name,)), right=Text(value=value)):
                yield name, value, False
            case Call(function="rank", over=(name,), parts=(_, Text(value=value))):
                yield name, value, True
            case _:
                pass


def _factors(node: Node) -> list[tuple[str, int]]:
    named: list[tuple[str, int]] = []
    for part in walk(node):
        if isinstance(part, Call):
            named += [(name, part.column) for name in part.over if name not in (*MEMBERS, REPEAT)]
        if isinstance(part, Quantified):
            named += [(choice.factor, part.column) for choice in part.choices]
    named += [(name, r.column) for r in references(node) for name, _ in r.factors]
    return named


def _known(named: list[tuple[str, int]], known: list[str], what: str, text: str) -> None:
    for name, column in named:
        if name not in known:
            at = text.find(name, column - 1)
            raise ExpectError(
                f"no {what} {name!r} in this scenario.{nearest(name, known)}",
                (at if at >= 0 else column - 1) + 1,
                ", ".join(known) or f"no {what}: the scenario has none",
            )
