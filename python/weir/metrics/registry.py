"""The registry of metrics: their declarations, and the resolution of names.

A metric is a function of a :class:`~weir.metrics.window.Window` under the decorator :func:`metric`. A family of metrics
is one module, listed in ``FAMILIES``. A family of another package registers itself on import.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, get_type_hints

from weir.metrics.bounds import ANY, Bounds
from weir.metrics.errors import MetricError, nearest
from weir.metrics.results import Binned, Distribution, Result, Sample, Series, Values
from weir.run.quantity import ONE, RATE, SIZE, TIME, Dimension

__all__ = [
    "FAMILIES",
    "UNIT",
    "Category",
    "Kind",
    "MetricInfo",
    "Param",
    "Scope",
    "View",
    "catalogue",
    "get",
    "metric",
    "names",
    "resolve",
    "statistics_of",
]

FAMILIES = (
    "throughput",
    "distribution",
    "completion",
    "pages",
    "links",
    "classes",
    "delay",
    "oneway",
    "loss",
    "reactivity",
    "stability",
    "fairness",
    "convergence",
    "robustness",
    "deployability",
    "qos",
    "switches",
    "processor",
)
"""One module of ``weir.metrics`` each."""

Scope = Literal["flow", "group", "link", "run"]
"""What one value describes: a flow (or node), the selected flows together, a link, or several cells of a run."""

Kind = Literal["series", "sample", "value", "distribution"]
"""Over time; a population; one value per member; shares in bins."""


class Category(StrEnum):
    """The nine types of metrics of the thesis, section 2.3.1 (after RFC 5166)."""

    THROUGHPUT = "throughput"
    DELAY = "delay"
    LOSS = "loss"
    REACTIVITY = "reactivity"
    STABILITY = "stability"
    FAIRNESS = "fairness"
    CONVERGENCE = "convergence"
    ROBUSTNESS = "robustness"
    DEPLOYABILITY = "deployability"


class View(StrEnum):
    """Whose question a metric answers (thesis, section 2.2 and Table 2.III)."""

    END_USER = "end user"
    DESIGNER = "protocol designer"
    PROVIDER = "network provider"


UNIT: Mapping[str, tuple[float, Dimension]] = {
    "bit/s": (1.0, RATE),
    "(bit/s)²": (1.0, (2, -2)),
    "s": (1.0, TIME),
    "B": (8.0, SIZE),
    "1": (1.0, ONE),
    "1/s": (1.0, (0, -1)),
    "packets": (1.0, ONE),
    "RTT": (1.0, ONE),
    "count": (1.0, ONE),
    "lines": (1.0, ONE),
}
"""Units that metrics may declare: size in base units (bit, second) and dimension."""


@dataclass(frozen=True)
class Param:
    """A parameter of a metric: ``fairness.alpha[alpha: 2]``."""

    name: str
    unit: str
    """A unit of ``UNIT``; ``name`` for a phase or a group, ``factors`` for a set of factor values."""
    default: float | str | None
    doc: str
    required: bool = False


@dataclass(frozen=True)
class MetricInfo:
    """The declaration of a metric, as ``weir metrics`` lists it."""

    name: str
    symbol: str
    formula: str
    unit: str
    category: Category
    scope: Scope
    views: tuple[View, ...]
    source: str
    kind: Kind
    params: tuple[Param, ...]
    tables: tuple[str, ...]
    """Tables of a run that the metric reads."""
    needs_baseline: bool
    """Whether the metric compares with another cell, given by the parameter ``baseline``."""
    doc: str
    function: Callable[..., Result]
    bounds: Bounds = ANY
    """Bounds of the value, in its unit; confidence intervals are cut there."""
    percent: bool = False
    """Whether people read the value as a share of a whole, in percent."""

    @property
    def summary(self) -> str:
        """First line of the description."""
        return self.doc.splitlines()[0]


_REGISTRY: dict[str, MetricInfo] = {}
_STAT = re.compile(r"mean|max|min|sd|var|cov|median|last|sum|p\d{1,2}(_\d+)?")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_KINDS: dict[type, Kind] = {
    Series: "series",
    Sample: "sample",
    Binned: "sample",
    Values: "value",
    Distribution: "distribution",
}


def metric(
    name: str,
    *,
    symbol: str,
    formula: str,
    unit: str,
    category: Category,
    scope: Scope,
    views: tuple[View, ...],
    source: str,
    tables: tuple[str, ...],
    params: tuple[Param, ...] = (),
    bounds: Bounds = ANY,
    percent: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Registers a metric function under ``name``; its parameters are the function's keyword-only arguments.

    If a parameter's name is a Python keyword, the argument has an underscore appended: ``from_``. ``bounds`` limit the
    metric's values, in its unit: ``SHARE``, ``NON_NEGATIVE``, or any. ``percent`` shows them to people in percent.

    Raises:
        ValueError: the name is taken or malformed, the unit unknown, the docstring missing, or the arguments differ
            from ``params``.
    """

    def register(function: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(function)
        keywords = [p.name.rstrip("_") for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
        needs_baseline = "baseline" in keywords
        _check(name, unit, function, keywords, params)
        _REGISTRY[name] = MetricInfo(
            name=name,
            symbol=symbol,
            formula=formula,
            unit=unit,
            category=category,
            scope=scope,
            views=views,
            source=source,
            kind=_KINDS[get_type_hints(function)["return"]],
            params=params,
            tables=tables,
            needs_baseline=needs_baseline,
            doc=inspect.cleandoc(function.__doc__ or ""),
            function=function,
            bounds=bounds,
            percent=percent,
        )
        return function

    return register


def _check(name: str, unit: str, function: Callable[..., Any], keywords: list[str], params: tuple[Param, ...]) -> None:
    if name in _REGISTRY:
        raise ValueError(f"metric {name!r} is registered twice")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a metric name: expected lower-case words with dots")
    if unit not in UNIT:
        raise ValueError(f"metric {name!r}: unit {unit!r} is not one of {', '.join(UNIT)}")
    if not function.__doc__:
        raise ValueError(f"metric {name!r} has no docstring")
    if keywords != [p.name for p in params]:
        raise ValueError(f"metric {name!r}: keyword arguments {keywords} differ from its params")


def _load() -> None:
    for family in FAMILIES:
        importlib.import_module(f"weir.metrics.{family}")


def catalogue() -> list[MetricInfo]:
    """All metrics, by category and name."""
    _load()
    order = list(Category)
    return sorted(_REGISTRY.values(), key=lambda info: (order.index(info.category), info.name))


def names() -> list[str]:
    """Names of all metrics, sorted."""
    _load()
    return sorted(_REGISTRY)


def get(name: str) -> MetricInfo:
    """The metric registered under exactly ``name``.

    Raises:
        MetricError: no metric has that name.
    """
    _load()
    if name not in _REGISTRY:
        raise MetricError(f"no metric {name!r}.{nearest(name, _REGISTRY)} `weir metrics` lists them")
    return _REGISTRY[name]


def resolve(name: str) -> tuple[MetricInfo, tuple[str, ...]]:
    """Splits ``name`` into the metric with the longest matching name and the statistics after it.

    ``goodput.max`` is the metric ``goodput`` and the statistic ``max``.

    Raises:
        MetricError: no such metric, no such statistic, or more statistics than the metric has dimensions.
    """
    _load()
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        info = _REGISTRY.get(".".join(parts[:cut]))
        if info is not None:
            return info, statistics_of(info, name)
    candidates = [*_REGISTRY, *(f"{n}.{s}" for n in _REGISTRY for s in ("mean", "max", "min", "sd", "cov"))]
    raise MetricError(f"no metric {name!r}.{nearest(name, candidates)} `weir metrics` lists them")


def statistics_of(info: MetricInfo, name: str) -> tuple[str, ...]:
    """The statistics that ``name`` has after the name of the metric ``info``.

    Raises:
        MetricError: no such statistic, or more of them than the metric has dimensions.
    """
    stats = tuple(name.removeprefix(info.name).split(".")[1:])
    most = {"series": 2, "sample": 1, "value": 1, "distribution": 0}[info.kind]
    for stat in stats:
        if not _STAT.fullmatch(stat):
            common = ["mean", "median", "max", "min", "sd", "cov"]
            close = nearest(f"{info.name}.{stat}", [*(f"{info.name}.{one}" for one in common), *_REGISTRY])
            raise MetricError(
                f"metric {info.name!r} has no {stat!r}.{close} A statistic is mean, median, min, max, sd, var, cov, "
                "sum, last or a percentile such as p99"
            )
    if len(stats) > most:
        raise MetricError(f"{name!r}: {info.name!r} is a {info.kind} and takes at most {most} statistics")
    return stats
