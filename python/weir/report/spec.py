"""Turns a drawing into a Vega-Lite specification: configuration, data and, for paper, exact widths.

The page sets widths itself, to fit the reader's window; `set_width` applies the same rule to paper.
"""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import polars as pl

from weir.report import theme
from weir.report.charts import Chart, Drawing, Medium

__all__ = ["columns_of", "rows_of", "set_width", "specification"]

_DIGITS = 5


def specification(chart: Chart, drawing: Drawing, medium: Medium) -> dict[str, Any]:
    """The specification of a drawing, without data; a copy that may be changed."""
    description = f"{chart.title}. {drawing.alt}"
    spec: dict[str, Any] = _shown({**copy.deepcopy(dict(drawing.spec)), "description": description})
    return {**spec, "config": theme.config(medium.name)}


def _shown(value: Any) -> Any:
    """Adapts texts to what Vega can show, in names and data alike.

    Replaces each character without a glyph by a mark. Appends a space to names that are properties of every JavaScript
    object: Vega would use the property when it sorts panels.
    """
    if isinstance(value, str):
        return f"{value}\u00a0" if value in _PROPERTIES else _SHAPELESS.sub("\ufffd", value)
    if isinstance(value, list):
        return [_shown(v) for v in value]
    return {k: _shown(v) for k, v in value.items()} if isinstance(value, dict) else value


_PROPERTIES = frozenset(
    {"constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
     "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"}
)  # fmt: skip
# Control characters, line ends (which break Vega's expression language), lone surrogates, bidirectional controls.
_SHAPELESS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def rounded(frame: pl.DataFrame) -> pl.DataFrame:
    """Rounds floats to the visible digits."""
    floats = [c for c, t in frame.schema.items() if t.is_float()]
    return frame.with_columns([pl.col(c).round_sig_figs(_DIGITS if c.endswith("_s") else _DIGITS - 1) for c in floats])


def columns_of(frame: pl.DataFrame) -> dict[str, list[Any]]:
    """A data set column by column, for JSON: not-a-number and infinity become null."""
    return {c: [_plain(v) for v in rounded(frame)[c].to_list()] for c in frame.columns}


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """A data set row by row, for Vega."""
    columns = columns_of(frame)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return _shown(value)


def set_width(spec: dict[str, Any], width: float, columns: int = 1, spacing: float = 0) -> None:
    """Divides ``width`` among the plots of ``spec``; axes are not counted."""
    if "concat" in spec:
        spec["columns"] = columns
        for part in spec["concat"]:
            set_width(part, (width - spacing * (columns - 1)) / columns)
    elif "vconcat" in spec:
        for part in spec["vconcat"]:
            set_width(part, width, columns, spacing)
    elif "spec" in spec:
        if "columns" in spec:
            spec["columns"] = columns
        set_width(spec["spec"], (width - spacing * (columns - 1)) / columns)
    else:
        spec["width"] = max(10, math.floor(width))
