"""Charts: each is one small file that makes a `Drawing` of a cell or of a whole run, and one line in the registry.

A chart's look, a Vega-Lite specification made with Altair, depends on a few plain values. It is made once for all cells
that share these values (`shape`); the data belong to each cell.

A chart learns about its medium, page or paper, only through `Medium`: the number of points worth drawing, and whether a
reader can point and click. The page or the figure writer sets the widths afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, Literal, ParamSpec, TypeAlias

import altair as alt
import polars as pl

from weir.metrics.selection import DIRECTIONS
from weir.report import theme
from weir.report._text import shortened
from weir.report.view import CellView, RunView

__all__ = [
    "CellChart",
    "Chart",
    "Drawing",
    "Medium",
    "RunChart",
    "Spec",
    "beside",
    "by_direction",
    "category_scale",
    "header",
    "legend",
    "named",
    "own_axes",
    "plain_spec",
    "relabel",
    "shape",
    "time_axis",
    "tooltip",
    "value_scale",
    "window",
]

Spec: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart | alt.ConcatChart

_P = ParamSpec("_P")


def shape(function: Callable[_P, Spec]) -> Callable[_P, dict[str, Any]]:
    """Decorates a chart builder to return its plain specification and to cache it; arguments must be hashable.

    The specification is shared: copy it before changing it.
    """

    @lru_cache(maxsize=256)
    def once(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return plain_spec(function(*args, **kwargs))

    @wraps(function)
    def shared(*args: _P.args, **kwargs: _P.kwargs) -> dict[str, Any]:
        return once(*args, **kwargs)  # type: ignore[arg-type]  # that they are hashable is the contract

    return shared


def plain_spec(spec: Spec) -> dict[str, Any]:
    """The specification of a chart that is drawn once: without configuration, and equal from build to build."""
    found: dict[str, Any] = spec.to_dict(validate=False, format="vega-lite")
    found.pop("$schema", None)
    found.pop("config", None)
    return _rename_views(found)


def _rename_views(spec: dict[str, Any]) -> dict[str, Any]:
    """Numbers the views from 0: Altair continues its count from build to build."""
    text = json.dumps(spec)
    for i, name in enumerate(dict.fromkeys(re.findall(r'"(view_\w+)"', text))):
        text = text.replace(f'"{name}"', f'"plot_{i}"')
    renamed: dict[str, Any] = json.loads(text)
    return renamed


@dataclass(frozen=True)
class Medium:
    """The medium of a drawing."""

    name: str
    buckets: int
    """Time buckets of a series as wide as the page or column; two points each."""
    map_columns: int
    """Time bins of a heat map."""
    row_height: int
    height: int

    @property
    def page(self) -> bool:
        """Whether the medium is the interactive page."""
        return self.name == theme.PAGE


@dataclass(frozen=True)
class Drawing:
    """A chart with its data."""

    spec: Mapping[str, Any]
    """Vega-Lite, without data, configuration and widths; see `shape`."""
    data: Mapping[str, pl.DataFrame]
    """Named data sets that ``spec`` refers to, and the content of the CSV files."""
    alt: str
    """Text for readers who cannot see the figure."""
    notes: tuple[str, ...] = ()
    """What was left out or thinned in this drawing."""
    columns: int = 1
    """Maximum number of panels beside each other."""
    panel_width: int = 0
    """Minimum width of a panel on a page, px; 0: the panels share the width."""
    half: bool = False
    """Whether two such charts fit beside each other on a page."""
    span: Literal[1, 2] = 1
    """Columns of a paper that the figure spans."""
    csv_names: Mapping[str, str] = field(default_factory=dict)
    """Headers of CSV columns that are clearer than the names in ``data``."""
    caption: str = ""
    """The caption of this drawing, if that of its chart does not tell enough."""


@dataclass(frozen=True)
class Chart:
    """The entry of a chart in the registry."""

    name: str
    title: str
    section: str
    needs: tuple[str, ...]
    """Tables or metrics that the chart draws."""
    caption: str
    """Definition and units of the quantities drawn."""


@dataclass(frozen=True)
class CellChart(Chart):
    """A chart of one cell."""

    draw: Callable[[CellView, Medium], Drawing | None]
    """Makes the drawing; ``None`` if the cell has nothing to draw."""


@dataclass(frozen=True)
class RunChart(Chart):
    """A chart across the cells of a run."""

    draw: Callable[[RunView, Medium], Drawing | None]
    """Makes the drawing; ``None`` if the run has nothing to draw."""


def category_scale(names: Sequence[str], channel: str) -> alt.Scale:
    """The scale that gives each of ``names`` its look in ``channel``: color, strokeDash or shape."""
    look = theme.categories(names)[channel]
    return alt.Scale(domain=look["domain"], range=look["range"])


def relabel(names: Sequence[str], most: int, field: str = "label") -> str:
    """The Vega expression that labels a name; it shortens long names so that none covers its neighbour."""
    # Only long names are in the expression: Vega cannot read one with a name such as "constructor".
    changed = {name: short for name, short in zip(names, shortened(names, most), strict=True) if name != short}
    if not changed:
        return f"datum.{field}"
    place = f"indexof({json.dumps(list(changed), ensure_ascii=False)}, datum.{field})"
    return f"{place} < 0 ? datum.{field} : {json.dumps(list(changed.values()), ensure_ascii=False)}[{place}]"


def header(names: Sequence[str], most: int = 44, **look: Any) -> alt.Header:
    """The titles of panels named ``names``, with about ``most`` characters each."""
    return alt.Header(labelAnchor="start", title=None, labelExpr=relabel(names, most), **look)


def legend(names: Sequence[str], medium: Medium, **look: Any) -> alt.Legend:
    """The legend of ``names``."""
    return alt.Legend(labelExpr=relabel(names, 36 if medium.page else 26), **look)


def by_direction(medium: Medium) -> alt.Color:
    """Colours the two directions (source to sink, sink to source) by the column ``direction``."""
    return alt.Color(
        "direction:N",
        title=None,
        scale=category_scale(DIRECTIONS, "color"),
        legend=legend(DIRECTIONS, medium, symbolOpacity=1),
    )


def beside(panels: int) -> int:
    """The number of panels beside each other: three or two, so that the last row is full if possible."""
    return 3 if panels % 3 == 0 else min(2, panels)


def own_axes(spec: alt.FacetChart, panels: int) -> alt.FacetChart:
    """Gives each panel its own x axis if the last row may have a gap, in which Vega would draw the common axis."""
    found: alt.FacetChart = spec.resolve_axis(x="independent") if panels % 2 and panels > 1 else spec
    return found


def named(name: str) -> alt.NamedData:
    """A reference to a data set of the drawing."""
    return alt.NamedData(name=name)


def time_axis(end_s: float, medium: Medium, *, title: str | None = "Time (s)", field: str = "time_s") -> alt.X:
    """The x axis of every time series of a cell; on the page, the parameters tmin and tmax set the visible window."""
    domain: Any = alt.Scale(domain=[0, end_s], nice=False)
    if medium.page:
        low, high = alt.ExprRef(expr="tmin"), alt.ExprRef(expr="tmax")
        domain = alt.Scale(domainMin=low, domainMax=high, nice=False)
    axis = alt.Axis(grid=False, tickCount=8 if medium.page else 6)
    return alt.X(f"{field}:Q", title=title, scale=domain, axis=axis)


def value_scale(greatest: float, *, nice: bool = True) -> alt.Scale:
    """A scale of values that begins at zero. With only zeros, Vega would centre the axis and print one label."""
    return alt.Scale(zero=True, nice=nice) if greatest > 0 else alt.Scale(domain=[0, 1], nice=False)


CUT = ", cut off where it leaves the figure"
"""Says that an interval is not drawn in full."""


def is_cut(rows: pl.DataFrame, scale: alt.Scale) -> bool:
    """Whether an interval, from ``low`` to ``high``, leaves the domain of ``scale``; never if that has no domain."""
    domain = scale.to_dict().get("domain")
    if domain is None or scale.to_dict().get("nice"):
        return False
    return bool(((rows["low"] < domain[0]) | (rows["high"] > domain[1])).any())


def window(end_s: float, medium: Medium) -> list[alt.Parameter]:
    """The parameters that `time_axis` refers to."""
    if not medium.page:
        return []
    return [alt.param(name="tmin", value=0), alt.param(name="tmax", value=end_s)]


def tooltip(medium: Medium, *fields: tuple[str, str] | tuple[str, str, str]) -> Any:
    """Tooltip fields on the page (field, title and optional number format); nothing on paper."""
    if not medium.page:
        return alt.Undefined
    return [alt.Tooltip(f[0], title=f[1], format=f[2] if len(f) > 2 else alt.Undefined) for f in fields]
