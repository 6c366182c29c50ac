"""How a metric is named: ``name[.stat...][parameters][@phase][{factors}][(flows)]``.

Examples::

    goodput.mean
    goodput.aggregate.max@twelve
    fairness.alpha[alpha: 2]@twelve{cc: htcp, rtt: 100ms}
    goodput.mean@twelve(elephants[11])
    utilisation(bottleneck)
    ks[baseline: {loss: 0%}]

The parts after the name may come in any order, each once; so may the statistics: ``goodput(elephants)@twelve.mean``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from weir.metrics.bounds import Bounds, after
from weir.metrics.errors import MetricError
from weir.metrics.registry import UNIT, MetricInfo, Param, resolve, statistics_of
from weir.metrics.scanner import ExpectError, Scanner
from weir.run.quantity import ONE, parse_quantity

__all__ = ["Argument", "Reference", "parse_reference", "scan_reference"]

Argument = float | str | Mapping[str, str]
"""Value of a parameter: a number in the parameter's unit, a name, or factor values."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Reference:
    """A metric with its statistics, parameters, phase, factors and selection; ``text`` is the notation as written."""

    text: str
    metric: MetricInfo = field(compare=False, hash=False)
    name: str
    stats: tuple[str, ...]
    arguments: tuple[tuple[str, Argument], ...]
    phase: str | None
    factors: tuple[tuple[str, str], ...]
    selector: str | None
    column: int = field(default=1, compare=False)

    @property
    def unit(self) -> str:
        """Unit of the value: the metric's, squared for a variance, 1 for a coefficient of variation."""
        if "cov" in self.stats:
            return "1"
        squared = "var" in self.stats and self.metric.unit != "1"
        return f"({self.metric.unit})²" if squared else self.metric.unit

    @property
    def percent(self) -> bool:
        """Whether people read the value in percent."""
        return self.metric.percent and not {"var", "cov"} & set(self.stats)

    @property
    def bounds(self) -> Bounds:
        """The bounds of the value, in its unit."""
        bounds = self.metric.bounds
        for statistic in self.stats:
            bounds = after(statistic, bounds)
        return bounds

    @property
    def key(self) -> tuple[object, ...]:
        """Identifies the computation within one cell: references with equal keys have equal values."""
        arguments = tuple((k, tuple(v.items()) if isinstance(v, Mapping) else v) for k, v in self.arguments)
        return (self.metric.name, self.stats, arguments, self.phase, self.selector)


def parse_reference(text: str) -> Reference:
    """Reads a reference that stands alone.

    Raises:
        MetricError: it is malformed, or the metric or a parameter does not exist.
    """
    scanner = Scanner(text)
    try:
        reference = scan_reference(scanner)
        if not scanner.done():
            raise scanner.fail("the end of the metric")
    except ExpectError as error:
        raise MetricError(f"{text!r}, {error}") from error
    return reference


def scan_reference(scanner: Scanner) -> Reference:
    """Reads a reference at the position of ``scanner``.

    Raises:
        ExpectError: it is malformed, or the metric or a parameter does not exist.
    """
    start = scanner.skip()
    name = scanner.name("the name of a metric")
    while scanner.text.startswith(".", scanner.at):
        scanner.at += 1
        name += "." + scanner.name("the next part of a metric's name")
    try:
        metric, _ = resolve(name)
        parts = _scan_parts(scanner, metric)
        name = ".".join([name, *parts.stats])
        stats = statistics_of(metric, name)
    except MetricError as error:
        raise ExpectError(str(error), start + 1, "the name of a metric") from error
    text = scanner.text[start : scanner.at].strip()
    return Reference(text, metric, name, stats, parts.arguments, parts.phase, parts.factors, parts.selector, start + 1)


@dataclass
class _Parts:
    stats: tuple[str, ...] = ()
    arguments: tuple[tuple[str, Argument], ...] = ()
    phase: str | None = None
    factors: tuple[tuple[str, str], ...] = ()
    selector: str | None = None


def _scan_parts(scanner: Scanner, metric: MetricInfo) -> _Parts:
    parts, seen, end = _Parts(), set[str](), scanner.at
    while symbol := scanner.sees("[", "@", "{", "(", "."):
        if symbol in seen and symbol != ".":
            raise scanner.fail("each part of a metric once", f"a second {symbol!r}")
        seen.add(symbol)
        if symbol == ".":
            scanner.need(".")
            parts.stats += (scanner.name("a statistic, such as mean"),)
        elif symbol == "[":
            parts.arguments = _scan_arguments(scanner, metric)
        elif symbol == "@":
            scanner.need("@")
            parts.phase = scanner.name("the name of a phase")
        elif symbol == "{":
            parts.factors = tuple(scan_factors(scanner).items())
        else:
            parts.selector = _scan_selector(scanner)
        end = scanner.at
    scanner.at = end
    missing = [p.name for p in metric.params if p.required and p.name not in dict(parts.arguments)]
    if missing:
        raise scanner.fail(f"{metric.name}[{missing[0]}: ...]", f"{metric.name!r} needs {missing[0]!r}")
    return parts


def scan_factors(scanner: Scanner) -> dict[str, str]:
    """Reads ``{cc: reno, rtt: 100ms}``."""
    scanner.need("{")
    found: dict[str, str] = {}
    while True:
        at = scanner.skip()
        name = scanner.name("the name of a factor")
        if name in found:
            raise scanner.fail("each factor once", f"{name!r} twice", at)
        scanner.need(":")
        quoted = scanner.quoted()
        found[name] = scanner.until(",}", f"a value of {name}") if quoted is None else quoted
        if not scanner.take(","):
            scanner.need("}")
            return found


def _scan_selector(scanner: Scanner) -> str:
    scanner.need("(")
    text = scanner.until(")", "flows, such as elephants[4]")
    scanner.need(")")
    return text


def _scan_arguments(scanner: Scanner, metric: MetricInfo) -> tuple[tuple[str, Argument], ...]:
    scanner.need("[")
    known = {param.name: param for param in metric.params}
    found: dict[str, Argument] = {}
    while True:
        at = scanner.skip()
        name = scanner.name("the name of a parameter")
        if name not in known or name in found:
            have = ", ".join(known) or "none"
            raise scanner.fail(f"a parameter of {metric.name}: {have}", f"unexpected {name!r}", at)
        scanner.need(":")
        found[name] = _scan_argument(scanner, known[name])
        if not scanner.take(","):
            scanner.need("]")
            return tuple(sorted(found.items(), key=lambda item: item[0]))


def _scan_argument(scanner: Scanner, param: Param) -> Argument:
    if param.unit == "factors":
        return MappingProxyType(scan_factors(scanner))
    at = scanner.skip()
    text = scanner.until(",]", f"a value of {param.name}")
    if param.unit == "name":
        return text
    quantity = parse_quantity(text)
    scale, dimension = UNIT[param.unit]
    if quantity is None or quantity.dimension != dimension or not math.isfinite(quantity.value):
        what = "a number" if dimension == ONE else f"a quantity in {param.unit}"
        raise scanner.fail(f"{what} for {param.name}", f"found {text!r}", at)
    return quantity.value / scale
