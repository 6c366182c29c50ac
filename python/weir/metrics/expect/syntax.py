"""The syntax tree of a check.

``column`` is 1-based, in the text of the check; ``text`` is the source text of the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from weir.metrics.reference import Reference
from weir.run.quantity import Dimension

__all__ = [
    "AGGREGATES",
    "LABELS",
    "MEMBERS",
    "REPEAT",
    "Between",
    "Binary",
    "Call",
    "Choice",
    "Compare",
    "Logic",
    "Metric",
    "Negative",
    "Node",
    "Not",
    "Number",
    "OneOf",
    "Quantified",
    "Text",
    "Within",
    "children",
    "references",
    "walk",
]

AGGREGATES = (
    "min",
    "max",
    "mean",
    "median",
    "sum",
    "sd",
    "cov",
    "spread",
    "slope",
    "intercept",
    "r2",
    "spearman",
    "argmin",
    "argmax",
    "rank",
)
"""Functions of values ``over`` a factor. ``spread`` is max - min; ``rank`` is 1 for the smallest."""

LABELS = ("argmin", "argmax")
"""Functions that return a factor's value instead of a number."""

MEMBERS = ("flow", "node", "link")
"""Members of a cell over which a metric can be aggregated."""

REPEAT = "repeat"
"""What a median and a share range over that treat each repeat as one trial."""


@dataclass(frozen=True)
class Node:
    """Any part of a check."""

    column: int
    text: str


@dataclass(frozen=True)
class Number(Node):
    """A quantity; ``percent`` if it was written with a percent sign."""

    value: float
    dimension: Dimension
    percent: bool


@dataclass(frozen=True)
class Text(Node):
    """A word in quotes."""

    value: str


@dataclass(frozen=True)
class Metric(Node):
    """A metric."""

    reference: Reference


@dataclass(frozen=True)
class Negative(Node):
    """``-x``."""

    part: Node


@dataclass(frozen=True)
class Binary(Node):
    """Arithmetic."""

    operator: Literal["+", "-", "*", "/"]
    left: Node
    right: Node


@dataclass(frozen=True)
class Call(Node):
    """``function(parts over names)``; without names, a function of its parts."""

    function: str
    parts: tuple[Node, ...]
    over: tuple[str, ...]


@dataclass(frozen=True)
class Compare(Node):
    """A comparison."""

    operator: Literal["<=", "<", ">=", ">", "==", "!="]
    left: Node
    right: Node


@dataclass(frozen=True)
class Within(Node):
    """``left within tolerance of right``; a percentage is one of ``right``."""

    left: Node
    tolerance: Number
    right: Node


@dataclass(frozen=True)
class Between(Node):
    """``part between low and high``, both included."""

    part: Node
    low: Node
    high: Node


@dataclass(frozen=True)
class OneOf(Node):
    """``part in {"a", "b"}``."""

    part: Node
    options: tuple[str, ...]


@dataclass(frozen=True)
class Not(Node):
    """``not part``."""

    part: Node


@dataclass(frozen=True)
class Logic(Node):
    """``and`` or ``or`` of two or more parts."""

    operator: Literal["and", "or"]
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """A quantified factor; empty ``values``: all values in the run."""

    factor: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Quantified(Node):
    """``for each`` or ``for some`` combination of factor values."""

    kind: Literal["each", "some"]
    choices: tuple[Choice, ...]
    body: Node


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Negative(part=part) | Not(part=part) | OneOf(part=part):
            return (part,)
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Within(left=left, tolerance=tolerance, right=right):
            return (left, tolerance, right)
        case Between(part=part, low=low, high=high):
            return (part, low, high)
        case Call(parts=parts) | Logic(parts=parts):
            return parts
        case Quantified(body=body):
            return (body,)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and its descendants, outermost first. Not recursive: sums of hundreds of terms nest deeply."""
    left = [node]
    while left:
        part = left.pop()
        yield part
        left.extend(reversed(children(part)))


def references(node: Node) -> list[Reference]:
    """The metrics in a check, in the order of the text."""
    return [part.reference for part in walk(node) if isinstance(part, Metric)]
