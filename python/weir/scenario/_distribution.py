"""Distributions of sizes, waits and instants: notation and sampling.

`weir-units` draws the values (through `weir._weir.sample`), from a named substream of the seed. So every method sees
the same workload, and a new workload entry changes no other's draws. This module has no generator of its own.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from weir.language.problem import NOWHERE, Invalid, Log, Mark, choose, listing
from weir.language.scalars import Definitions, Number, Type
from weir.language.spec import ListOf
from weir.language.tree import Map, Node, Scalar, Seq, describe

__all__ = ["Distribution", "DistributionType", "Draw", "draw", "duty"]

Draw = Callable[[int, str, dict[str, Any], int], list[float]]

_NUMBERS: dict[str, Number] = {
    "shape": Number(0.01, 1000),
    "sigma": Number(0, 10),
}
_FORMS: dict[str, tuple[tuple[str, ...], str]] = {
    "constant": (("value",), "Always the same."),
    "uniform": (("low", "high"), "Uniform from `low` to `high`; also written `[low, high]`."),
    "exponential": (("mean",), "Exponential."),
    "pareto": (("shape", "scale|mean"), "Pareto type I with minimum `scale`; `mean` needs a shape above 1."),
    "lognormal": (("sigma", "median|mean"), "Lognormal; `sigma` is the standard deviation of the natural logarithm."),
    "weibull": (("shape", "scale|mean"), "Weibull."),
    "list": ((), "These values in turn, again from the first after the last."),
}


@dataclass(frozen=True)
class Distribution:
    """A distribution in base units (bytes or nanoseconds).

    ``parameters`` are those of ``weir_units::Distribution``; ``values`` are those of a list, which is not random. Draws
    below ``least`` or above ``most`` are moved to that limit; ``limit`` is the largest value of the unit.
    """

    kind: str
    parameters: tuple[tuple[str, float], ...] = ()
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    limit: int = 2**62
    mark: Mark = field(default=NOWHERE, compare=False, repr=False)

    @property
    def constant(self) -> int | None:
        """The value, if it is constant."""
        return int(self.parameters[0][1]) if self.kind == "constant" else None

    def mean(self) -> float:
        """The mean without the limits ``least`` and ``most``; infinite for a Pareto distribution of shape 1 or less."""
        p = dict(self.parameters)
        match self.kind:
            case "list":
                return sum(self.values) / len(self.values)
            case "constant":
                return p["value"]
            case "uniform":
                return (p["low"] + p["high"]) / 2
            case "exponential":
                return p["mean"]
            case "pareto":
                return p["scale"] * p["shape"] / (p["shape"] - 1) if p["shape"] > 1 else math.inf
            case "lognormal":
                return math.exp(p["mu"] + p["sigma"] ** 2 / 2)
            case _:
                return p["scale"] * math.gamma(1 + 1 / p["shape"])

    def sample(self, seed: int, stream: str, n: int, least: int = 0) -> list[int]:
        """The first ``n`` draws of substream ``stream`` of ``seed``, whole numbers of at least ``least``."""
        if self.kind == "list":
            return [max(self.values[i % len(self.values)], least) for i in range(n)]
        if self.kind == "constant":
            return [max(int(self.parameters[0][1]), least)] * n
        low = max(least, self.least or 0)
        high = self.limit if self.most is None else min(self.most, self.limit)
        draws = draw()(seed, stream, {"kind": self.kind, **dict(self.parameters)}, n)
        return [low if x <= low else high if x >= high else round(x) for x in draws]


@functools.cache
def draw() -> Draw:
    """The sampler of the Rust extension.

    Raises:
        ImportError: weir's extension module is not built.
    """
    sampler: Draw = importlib.import_module("weir._weir").sample
    return sampler


def duty(on: float, off: float) -> float:
    """The share of time a source with these mean ON and OFF times is on (equation 2.14 of the thesis)."""
    if math.isinf(off):
        return 0.0
    return 1.0 if math.isinf(on) else on / (on + off)


class Bounded(Type[int], Protocol):
    """A quantity with a largest value."""

    @property
    def most(self) -> int:
        """The largest value."""


class DistributionType:
    """A distribution over one unit: a value, a list of values, or a mapping with one distribution's name."""

    def __init__(self, unit: Bounded, name: str, example: str) -> None:
        self._unit = unit
        self._name = name
        self._list = ListOf(unit, 1, 100_000)
        self.what = f"{unit.what}, a list of them, or a distribution ({listing(_FORMS)}) such as `{example}`"

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of the distributions."""
        return tuple(_FORMS)

    def parse(self, node: Node, log: Log) -> Distribution:
        match node:
            case Scalar() if not node.null:
                return self._constant(node, log)
            case Seq():
                return Distribution("list", values=self._list.parse(node, log), mark=node.mark)
            case Map() if node.entries:
                return self._parse_map(node, log)
        raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")

    def _constant(self, node: Node, log: Log) -> Distribution:
        value = self._unit.parse(node, log)
        return Distribution("constant", (("value", float(value)),), mark=node.mark)

    def _parse_map(self, node: Map, log: Log) -> Distribution:
        kind = next((e for e in node.entries if e.key.text in _FORMS), None)
        limits: dict[str, int] = {}
        failed = False
        for entry in node.entries:
            name = entry.key.text
            try:
                if name in ("min", "max"):
                    limits[name] = self._unit.parse(entry.value, log)
                elif kind is None or entry is not kind:
                    problem = "a second distribution" if name in _FORMS else "not a distribution"
                    log.error(entry.key.mark, f"{describe(entry.key)} is {problem}{self._rest(name)}")
                    failed = True
            except Invalid:
                failed = True
        if kind is None or failed:
            if kind is None and not failed:
                log.error(node.mark, f"expected {self.what}")
            raise Invalid
        made = self._parse_kind(kind.key.text, kind.value, log)
        if "min" in limits and "max" in limits and limits["min"] > limits["max"]:
            raise log.error(node.mark, "`min` is above `max`")
        least, most = limits.get("min"), limits.get("max")
        return replace(made, least=least, most=most, limit=self._unit.most, mark=node.mark)

    @staticmethod
    def _rest(name: str) -> str:
        return "; expected one" if name in _FORMS else choose(name, [*_FORMS, "min", "max"])

    def _parse_kind(self, kind: str, node: Node, log: Log) -> Distribution:
        if kind == "list":
            return Distribution("list", values=self._list.parse(node, log), mark=node.mark)
        if kind == "constant" and isinstance(node, Scalar):
            return self._constant(node, log)
        if kind == "exponential" and isinstance(node, Scalar) and not node.null:
            values = {"mean": float(self._unit.parse(node, log))}
        elif kind == "uniform" and isinstance(node, Seq):
            low_high = ListOf(self._unit, 2, 2).parse(node, log)
            values = dict(zip(("low", "high"), map(float, low_high), strict=True))
        else:
            values = self._parse_parameters(kind, node, log)
        return Distribution(kind, _rust_parameters(kind, values, node, log), mark=node.mark)

    def _parse_parameters(self, kind: str, node: Node, log: Log) -> dict[str, float]:
        form, _ = _FORMS[kind]
        names = [n for p in form for n in p.split("|")]
        if not isinstance(node, Map):
            raise log.error(node.mark, f"expected a mapping with {_form_text(form)}, found {describe(node)}")
        values: dict[str, float] = {}
        failed = False
        for entry in node.entries:
            name = entry.key.text
            try:
                if name not in names:
                    rest = [n for n in names if node.get(n) is None]
                    raise log.error(entry.key.mark, f"unknown key {describe(entry.key)}{choose(name, rest)}")
                values[name] = float(_NUMBERS.get(name, self._unit).parse(entry.value, log))
            except Invalid:
                failed = True
        for parameter in form:
            given = [n for n in parameter.split("|") if node.get(n) is not None]
            if len(given) != 1:
                alternatives = listing(parameter.split("|"))
                log.error(node.mark, f"`{kind}` needs {'one of ' if '|' in parameter else ''}{alternatives}")
                failed = True
        if failed:
            raise Invalid
        return values

    def schema(self, defs: Definitions) -> dict[str, Any]:
        name = f"Distribution_{self._name}"
        if name not in defs:
            unit = self._unit.schema(defs)
            properties = {kind: self._form_schema(kind, unit, defs) for kind in _FORMS}
            mapping = {
                "type": "object",
                "description": "A distribution; `min` and `max` clamp the draws.",
                "properties": {**properties, "min": unit, "max": unit},
                "additionalProperties": False,
                "oneOf": [{"required": [kind]} for kind in _FORMS],
            }
            defs[name] = {"anyOf": [*unit.get("anyOf", [unit]), self._list.schema(defs), mapping]}
        return {"$ref": f"#/$defs/{name}"}

    def _form_schema(self, kind: str, unit: dict[str, Any], defs: Definitions) -> dict[str, Any]:
        form, doc = _FORMS[kind]
        if kind == "list":
            return {**self._list.schema(defs), "description": doc}
        names = [n for p in form for n in p.split("|")]
        mapping = {
            "type": "object",
            "properties": {n: _NUMBERS[n].schema(defs) if n in _NUMBERS else unit for n in names},
            "required": [p for p in form if "|" not in p],
            "additionalProperties": False,
        }
        if kind in ("constant", "exponential"):
            return {"anyOf": [mapping, unit], "description": doc}
        if kind == "uniform":
            return {"anyOf": [mapping, ListOf(self._unit, 2, 2).schema(defs)], "description": doc}
        return {**mapping, "description": doc}


def _form_text(form: tuple[str, ...]) -> str:
    return " and ".join(listing(p.split("|")) for p in form)


def _rust_parameters(kind: str, values: dict[str, float], node: Node, log: Log) -> tuple[tuple[str, float], ...]:
    """Converts the language's parameters to those of weir_units."""
    for name, value in values.items():
        if value <= 0 and (kind, name) not in (("uniform", "low"), ("lognormal", "sigma"), ("constant", "value")):
            raise log.error(node.mark, f"`{name}` of `{kind}` must be above 0")
    match kind:
        case "uniform" if values["low"] > values["high"]:
            raise log.error(node.mark, "`low` is above `high`")
        case "pareto":
            return (("scale", _pareto_scale(values, node, log)), ("shape", values["shape"]))
        case "lognormal":
            sigma = values["sigma"]
            mu = math.log(values["median"]) if "median" in values else math.log(values["mean"]) - sigma**2 / 2
            return (("mu", mu), ("sigma", sigma))
        case "weibull":
            shape = values["shape"]
            if "scale" in values:
                return (("scale", values["scale"]), ("shape", shape))
            return (("scale", values["mean"] / math.gamma(1 + 1 / shape)), ("shape", shape))
    return tuple(values.items())


def _pareto_scale(values: dict[str, float], node: Node, log: Log) -> float:
    if "scale" in values:
        return values["scale"]
    shape = values["shape"]
    if shape <= 1:
        raise log.error(node.mark, f"a Pareto distribution of shape {shape:g} has no finite mean; give `scale`")
    return values["mean"] * (shape - 1) / shape
