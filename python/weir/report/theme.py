"""Looks: colours, dash patterns, point shapes, and the Vega-Lite configuration of a page and of a paper.

Readers with any common colour vision can distinguish the colours (Okabe and Ito 2008). Each category also has its own
dash pattern and point shape, so that a figure survives a black-and-white printer. Neutral colours of the page are
``currentColor``: one drawing serves light, dark and print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ACCENT", "NEUTRAL", "PAGE", "PAPER", "SECOND", "THIRD", "categories", "config"]

ACCENT = "#0072B2"
SECOND = "#D55E00"
THIRD = "#009E73"
NEUTRAL = "#8a8f98"

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
_DASHES: tuple[tuple[int, ...], ...] = (
    (1, 0),
    (6, 2),
    (2, 2),
    (8, 2, 2, 2),
    (4, 1),
    (10, 3),
    (1, 3),
)
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")

PAGE = "page"
PAPER = "paper"


def categories(names: Sequence[str]) -> dict[str, dict[str, list[Any]]]:
    """Scales (``color``, ``strokeDash``, ``shape``) that give each name the same look in every figure.

    After seven names the colours repeat with other dashes and shapes; the pairs are unique up to 49.
    """
    n = len(names)
    turn = [(i + i // len(_COLOURS)) for i in range(n)]
    domain = list(names)
    return {
        "color": {"domain": domain, "range": [_COLOURS[i % len(_COLOURS)] for i in range(n)]},
        "strokeDash": {"domain": domain, "range": [list(_DASHES[i % len(_DASHES)]) for i in turn]},
        "shape": {"domain": domain, "range": [_SHAPES[i % len(_SHAPES)] for i in turn]},
    }


_PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
_PAPER_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


def config(medium: str) -> dict[str, Any]:
    """The Vega-Lite ``config`` of a medium: `PAGE` or `PAPER`."""
    return _page() if medium == PAGE else _paper()


def _page() -> dict[str, Any]:
    ink = "currentColor"
    return {
        "font": _PAGE_FONT,
        "background": None,
        "view": {"stroke": None, "cursor": "default"},
        "axis": {
            "labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink, "gridColor": ink,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelOpacity": 0.72,
            "titleOpacity": 0.85, "gridOpacity": 0.11, "domainOpacity": 0.35, "tickOpacity": 0.35, "tickSize": 4,
            "labelPadding": 4, "labelOverlap": "greedy", "labelSeparation": 4, "labelFlush": False,
        },
        "axisX": {"grid": False, "titlePadding": 6},
        "axisY": {
            "domain": False, "ticks": False, "minExtent": 46, "maxExtent": 46, "titleAngle": 0, "titleAlign": "left",
            "titleAnchor": "end", "titleBaseline": "bottom", "titleX": -46, "titleY": -8,
        },
        "legend": {
            "labelColor": ink, "titleColor": ink, "orient": "top", "titleFontWeight": "normal", "labelFontSize": 11,
            "titleFontSize": 11, "titleOpacity": 0.7, "labelOpacity": 0.9, "symbolStrokeWidth": 2, "columnPadding": 14,
            "symbolSize": 70, "titleOrient": "left", "padding": 0, "offset": 24, "labelLimit": 260,
        },
        "header": {
            "labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11, "labelOpacity": 0.85,
            "titleFontWeight": "normal", "labelPadding": 3,
        },
        "title": {"color": ink, "fontSize": 11, "fontWeight": "normal", "offset": 6, "anchor": "start"},
        "facet": {"spacing": 14},
        "concat": {"spacing": 22},
        "line": {"strokeWidth": 1.4, "strokeCap": "butt", "strokeJoin": "round"},
        "point": {"size": 42, "filled": True},
        "rule": {"color": ink},
        "text": {"color": ink, "fontSize": 11},
    }  # fmt: skip


def _paper() -> dict[str, Any]:
    ink = "#111111"
    return {
        "font": _PAPER_FONT,
        "background": "white",
        "padding": 2,
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink, "gridColor": "#dddddd",
            "labelFontSize": 7, "titleFontSize": 8, "titleFontWeight": "normal", "tickSize": 3, "tickWidth": 0.5,
            "domainWidth": 0.5, "gridWidth": 0.4, "labelPadding": 2, "titlePadding": 4, "labelOverlap": "greedy",
            "labelSeparation": 3,
        },
        "axisX": {"grid": False},
        "axisY": {},
        "legend": {
            "labelColor": ink, "titleColor": ink, "orient": "top", "titleFontWeight": "normal", "labelFontSize": 7,
            "titleFontSize": 7, "symbolStrokeWidth": 1.2, "symbolSize": 30, "columnPadding": 6, "rowPadding": 1,
            "titleOrient": "left", "padding": 0, "offset": 4, "labelLimit": 120, "columns": 4, "gradientLength": 100,
            "gradientThickness": 8,
        },
        "header": {
            "labelColor": ink, "titleColor": ink, "labelFontSize": 7, "titleFontSize": 8, "labelPadding": 2,
            "titleFontWeight": "normal", "titlePadding": 2,
        },
        "title": {"color": ink, "fontSize": 8, "fontWeight": "normal", "offset": 3, "anchor": "start"},
        "facet": {"spacing": 7},
        "concat": {"spacing": 8},
        "line": {"strokeWidth": 0.9, "strokeCap": "butt", "strokeJoin": "round"},
        "point": {"size": 14, "filled": True},
        "rule": {"color": ink},
        "text": {"color": ink, "fontSize": 7},
    }  # fmt: skip
