"""The pictures of a characterisation as SVG: the switch beside the model fitted to it."""

from __future__ import annotations

import re
from typing import Any

import altair as alt
import vl_convert

from weir.report import theme
from weir.report.charts import category_scale
from weir.report.contours import isolines
from weir.study.switches._characterise import Characterised

__all__ = ["bursts", "isolines_of", "sequence"]

_SIDES = ("switch", "fitted model")
_LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
_SIZE = 330


def isolines_of(found: Characterised) -> str:
    """Lines of equal ratio of output to input rate over the rates of both inputs, as figures 11 and 12."""
    rows, full = [], found.rate_bps / 1e6
    for side, behaviour in zip(_SIDES, (found.measured, found.model), strict=True):
        rates = [share * full for share in behaviour.isolines.shares]
        for port in (0, 1):
            lines = isolines(rates, rates, behaviour.isolines.ratio[port], _LEVELS)
            rows += [
                {
                    "side": side,
                    "input": f"Input {port + 1}",
                    "level": f"{level:g}",
                    "line": f"{side}/{line}",
                    "order": order,
                    "first": round(first, 2),
                    "second": round(second, 2),
                }
                for level, line, order, first, second in lines.rows()
            ]
    if not rows:
        return ""
    levels = [f"{level:g}" for level in _LEVELS if any(row["level"] == f"{level:g}" for row in rows)]
    scale = alt.Scale(domain=[0, full], nice=False)
    colours = alt.Scale(scheme="viridis", domain=levels)
    look_of_legend = alt.Legend(title=None, symbolOpacity=1, symbolStrokeWidth=4)

    def layer(side: str, **look: Any) -> alt.Chart:
        lines = alt.Chart().transform_filter(alt.datum.side == side).mark_line(clip=True, **look)
        chart: alt.Chart = lines.encode(
            x=alt.X("first:Q", title="Rate of input 1 (Mb/s)", scale=scale, axis=alt.Axis(tickCount=5)),
            y=alt.Y("second:Q", title="Rate of input 2 (Mb/s)", scale=scale, axis=alt.Axis(tickCount=5)),
            order="order:Q",
            detail="line:N",
            color=alt.Color("level:N", sort=levels, scale=colours, legend=look_of_legend),
        )
        return chart

    layers = [layer(_SIDES[0], strokeWidth=5, opacity=0.4), layer(_SIDES[1], strokeWidth=1.4, strokeDash=[5, 3])]
    both: alt.LayerChart = alt.layer(*layers, data=alt.InlineData(values=rows))  # type: ignore[assignment]
    return _svg(both.properties(width=_SIZE, height=_SIZE).facet(column=_columns(), spacing=34), "isolines")


def sequence(found: Characterised) -> str:
    """Numbers of packets at the output, one dot each, as figures 8 and 10."""
    rows = []
    for side, behaviour in zip(_SIDES, (found.measured, found.model), strict=True):
        window = behaviour.window
        rows += [
            {
                "side": side.capitalize(),
                "input": f"input {int(port) + 1}",
                "time": round(float(at), 2),
                "number": int(number),
            }
            for at, port, number in zip(window.time_us, window.input, window.number, strict=True)
        ]
    names = ["input 1", "input 2"]
    base = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, size=22, opacity=1)
        .encode(
            x=alt.X("time:Q", title="Time (us)", axis=alt.Axis(tickCount=5)),
            y=alt.Y("number:Q", title="Packet number of its input"),
            color=alt.Color("input:N", title=None, scale=category_scale(names, "color")),
            shape=alt.Shape("input:N", title=None, scale=category_scale(names, "shape")),
        )
        .properties(width=_SIZE, height=150)
    )
    sides = [side.capitalize() for side in _SIDES]
    return _svg(
        base.facet(column=alt.Column("side:N", title=None, sort=sides, header=_header()), spacing=34), "sequence"
    )


def bursts(found: Characterised) -> str:
    """Losses against the length of a burst, as figure 15."""
    rows = []
    for side, behaviour in zip(_SIDES, (found.measured, found.model), strict=True):
        for burst in behaviour.bursts:
            for whose, lost in (("Of the burst", burst.lost), ("Of the constant rate", burst.others_lost)):
                rows.append({"side": side, "whose": whose, "packets": burst.packets, "lost": lost})
    base = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("packets:Q", title="Packets of the burst", axis=alt.Axis(tickCount=5)),
            y=alt.Y("lost:Q", title="Packets lost"),
            color=alt.Color("side:N", title=None, sort=list(_SIDES), scale=category_scale(_SIDES, "color")),
            strokeDash=_dashes(),
        )
        .properties(width=_SIZE, height=150)
    )
    columns = alt.Column("whose:N", title=None, header=_header())
    return _svg(base.facet(column=columns, spacing=34), "bursts")


def _dashes() -> alt.StrokeDash:
    return alt.StrokeDash(
        "side:N", title=None, sort=list(_SIDES), scale=alt.Scale(domain=list(_SIDES), range=[[1, 0], [5, 3]])
    )


def _columns() -> alt.Column:
    return alt.Column("input:N", title=None, header=_header())


def _header() -> alt.Header:
    return alt.Header(labelAnchor="start", labelFontSize=12, labelFontWeight=600, labelPadding=20)


def _svg(chart: alt.FacetChart, name: str) -> str:
    spec = {**chart.to_dict(validate=False), "config": theme.config(theme.PAGE)}
    svg = str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    # Vega numbers its clip paths from picture to picture; those of a page need names of their own.
    for number, clip in enumerate(dict.fromkeys(re.findall(r"\bclip\d+\b", svg))):
        svg = re.sub(rf"\b{clip}\b", f"{name}-{number}-clip", svg)
    return svg
