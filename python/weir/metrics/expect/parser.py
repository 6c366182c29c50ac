"""Parses a check by recursive descent over the grammar below; nothing is evaluated as code.

::

    check      = [ "for" ("each" | "some") choice { "," choice } ":" ] either
    choice     = FACTOR [ "in" "{" value { "," value } "}" ]
    either     = both { "or" both }
    both       = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = sum [ ("<=" | "<" | ">=" | ">" | "==" | "!=") sum
                     | "within" NUMBER "of" sum
                     | "between" sum "and" sum
                     | "in" "{" value { "," value } "}" ]
    sum        = product { ("+" | "-") product }
    product    = factor { ("*" | "/") factor }
    factor     = "-" factor | NUMBER | QUOTED | "(" check ")" | call | metric
    call       = FUNCTION "(" sum { "," sum } [ "over" NAME { "," NAME } [ "," QUOTED ] ] ")"
               | "share" "(" either "over" "repeat" ")"
               | FUNCTION "over" NAME { "," NAME } "of" factor
    metric     = see weir.metrics.reference
"""

from __future__ import annotations

from typing import Literal, cast

from weir.metrics.expect.dimensions import check_types, kind_of
from weir.metrics.expect.syntax import (
    AGGREGATES,
    MEMBERS,
    REPEAT,
    Between,
    Binary,
    Call,
    Choice,
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
)
from weir.metrics.reference import scan_reference
from weir.metrics.scanner import ExpectError, Scanner

__all__ = ["parse_check", "parse_expression"]

_MAX_NESTED = 50
_MAX_OPERATORS = 100
_MAX_LENGTH = 4000
_SHARE = "share"
_FUNCTIONS = (*AGGREGATES, "abs", _SHARE)
_OVER = f"the name of a factor, or one of {', '.join((*MEMBERS, REPEAT))}"
_KEYWORDS = ("for", "each", "some", "in", "and", "or", "not", "within", "of", "between", "over")
_VALUE = "a number, a metric, or a function of them"


def parse_check(text: str) -> Node:
    """Parses the check ``text`` and verifies its names and units.

    Raises:
        ExpectError: it is malformed, names an unknown metric, or compares different dimensions.
    """
    node = _parse(text)
    check_types(node)
    return node


def parse_expression(text: str) -> Node:
    """Parses a check, or a number or word that may stand in one, and verifies its names and units.

    Raises:
        ExpectError: it is malformed, names an unknown metric, or combines different dimensions.
    """
    node = _parse(text)
    kind_of(node)
    return node


def _parse(text: str) -> Node:
    if len(text) > _MAX_LENGTH:
        raise ExpectError(f"the check has {len(text)} characters", _MAX_LENGTH + 1, f"at most {_MAX_LENGTH}")
    parser = _Parser(Scanner(text))
    node = parser.check()
    if not parser.scanner.done():
        raise parser.scanner.fail("the end of the check, `and`, `or`, or a comparison")
    return node


class _Parser:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.depth = 0
        self.operators = 0

    def _text(self, start: int) -> str:
        return self.scanner.text[start : self.scanner.at].strip()

    def _nest(self) -> None:
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise self.scanner.fail("a simpler check", f"more than {_MAX_NESTED} levels of nesting")

    def _operator(self, *symbols: str) -> Literal["+", "-", "*", "/"] | None:
        """Reads an operator. Limits their number: a sum nests as deep as it has terms, and recursive code walks it."""
        operator = self.scanner.take(*symbols)
        self.operators += operator is not None
        if self.operators > _MAX_OPERATORS:
            raise self.scanner.fail("a simpler check", f"more than {_MAX_OPERATORS} operations")
        return cast('Literal["+", "-", "*", "/"] | None', operator)

    def check(self) -> Node:
        self._nest()
        start = self.scanner.skip()
        node = self._quantified(start) if self.scanner.take("for") else self._either()
        self.depth -= 1
        return node

    def _quantified(self, start: int) -> Node:
        kind = self.scanner.take("each", "some")
        if kind is None:
            raise self.scanner.fail("`each` or `some`")
        choices = [self._choice()]
        while self.scanner.take(","):
            choices.append(self._choice())
        self.scanner.need(":")
        body = self.check()
        return Quantified(start + 1, self._text(start), "each" if kind == "each" else "some", tuple(choices), body)

    def _choice(self) -> Choice:
        factor = self.scanner.name("the name of a factor")
        return Choice(factor, self._values() if self.scanner.take("in") else ())

    def _values(self) -> tuple[str, ...]:
        self.scanner.need("{")
        values = []
        while True:
            quoted = self.scanner.quoted()
            values.append(self.scanner.until(",}", "a value of the factor") if quoted is None else quoted)
            if not self.scanner.take(","):
                self.scanner.need("}")
                return tuple(values)

    def _either(self) -> Node:
        start = self.scanner.skip()
        parts = [self._both()]
        while self.scanner.take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Logic(start + 1, self._text(start), "or", tuple(parts))

    def _both(self) -> Node:
        start = self.scanner.skip()
        parts = [self._negation()]
        while self.scanner.take("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Logic(start + 1, self._text(start), "and", tuple(parts))

    def _negation(self) -> Node:
        start = self.scanner.skip()
        if not self.scanner.take("not"):
            return self._comparison()
        self._nest()
        part = self._negation()
        self.depth -= 1
        return Not(start + 1, self._text(start), part)

    def _comparison(self) -> Node:
        start = self.scanner.skip()
        left = self._sum()
        column = start + 1
        operator = self.scanner.take("<=", ">=", "==", "!=", "<", ">")
        if operator:
            right = self._sum()
            return Compare(column, self._text(start), operator, left, right)  # type: ignore[arg-type]
        if self.scanner.take("within"):
            tolerance = self._tolerance()
            self.scanner.need("of")
            right = self._sum()
            return Within(column, self._text(start), left, tolerance, right)
        if self.scanner.take("between"):
            low = self._sum()
            self.scanner.need("and")
            high = self._sum()
            return Between(column, self._text(start), left, low, high)
        if self.scanner.take("in"):
            options = self._values()
            return OneOf(column, self._text(start), left, options)
        return left

    def _tolerance(self) -> Number:
        start = self.scanner.skip()
        number = self.scanner.number()
        if number is None:
            raise self.scanner.fail("a tolerance, such as 5% or 10ms")
        return Number(start + 1, self._text(start), *number)

    def _sum(self) -> Node:
        start = self.scanner.skip()
        left = self._product()
        while operator := self._operator("+", "-"):
            right = self._product()
            left = Binary(start + 1, self._text(start), operator, left, right)
        return left

    def _product(self) -> Node:
        start = self.scanner.skip()
        left = self._factor()
        while operator := self._operator("*", "/"):
            right = self._factor()
            left = Binary(start + 1, self._text(start), operator, left, right)
        return left

    def _factor(self) -> Node:
        start = self.scanner.skip()
        if self.scanner.take("-"):
            self._nest()
            part = self._factor()
            self.depth -= 1
            return Negative(start + 1, self._text(start), part)
        number = self.scanner.number()
        if number is not None:
            return Number(start + 1, self._text(start), *number)
        quoted = self.scanner.quoted()
        if quoted is not None:
            return Text(start + 1, self._text(start), quoted)
        if self.scanner.take("("):
            node = self.check()
            self.scanner.need(")")
            return node
        if self.scanner.done() or self.scanner.sees(*_KEYWORDS):
            raise self.scanner.fail(_VALUE)
        function = self._function()
        return self._call(start, function) if function else self._metric(start)

    def _function(self) -> str | None:
        """Reads the name of a function, if one follows and is called."""
        start = self.scanner.at
        function = self.scanner.take(*_FUNCTIONS)
        if function and not self.scanner.sees("(", "over"):
            self.scanner.at = start
            return None
        return function

    def _call(self, start: int, function: str) -> Node:
        self._nest()
        parts: list[Node]
        if self.scanner.take("over"):
            over = self._names()
            self.scanner.need("of")
            parts = [self._factor()]
        else:
            self.scanner.need("(")
            parts, over = self._trial() if function == _SHARE else self._arguments()
            self.scanner.need(")")
        self.depth -= 1
        return Call(start + 1, self._text(start), function, tuple(parts), over)

    def _trial(self) -> tuple[list[Node], tuple[str, ...]]:
        """Reads the comparison that a share counts."""
        part = self._either()
        self.scanner.need("over")
        return [part], self._names()

    def _arguments(self) -> tuple[list[Node], tuple[str, ...]]:
        parts = [self._sum()]
        while self.scanner.take(","):
            parts.append(self._sum())
        if not self.scanner.take("over"):
            return parts, ()
        names = [self.scanner.name(_OVER)]
        while self.scanner.take(","):
            start = self.scanner.skip()
            quoted = self.scanner.quoted()
            if quoted is not None:
                parts.append(Text(start + 1, self._text(start), quoted))
                break
            names.append(self.scanner.name("the name of a factor"))
        return parts, tuple(names)

    def _names(self) -> tuple[str, ...]:
        names = [self.scanner.name(_OVER)]
        while self.scanner.take(","):
            names.append(self.scanner.name("the name of a factor"))
        return tuple(names)

    def _metric(self, start: int) -> Node:
        reference = scan_reference(self.scanner)
        return Metric(start + 1, reference.text, reference)
