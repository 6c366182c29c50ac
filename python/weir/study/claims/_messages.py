"""Figure of a ping-pong: the goodput of each message against the time at which its answer arrives."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from weir.report.charts import Drawing, category_scale, named, plain_spec
from weir.study.claims._judge import State
from weir.study.claims._papers import Figure, Table
from weir.study.claims._store import Result

__all__ = ["draw_messages", "read_messages"]

_WAYS = 2
"""Ways of a ping-pong: each message is sent back."""


def read_messages(figure: Figure, _: State, result: Result) -> pl.DataFrame | None:
    """Time (s) and goodput (Mb/s) of each message.

    The cell has one direction, whose transfers end with the acknowledgement, ``back_s`` after the message arrived. The
    answer takes as long as the message, so that a message costs the ping-pong twice its own time.
    """
    drawn = result.drawn.get(figure.options.get("drawn", "messages"))
    if not drawn or result.repeat:
        return None
    frame = pl.DataFrame({"took_s": drawn["took_s"], "bytes": drawn["bytes"]})
    way_s = pl.col("took_s") - figure.options["back_s"]
    return frame.select(x=(_WAYS * way_s).cum_sum(), value=8e-6 * pl.col("bytes") / way_s)


def draw_messages(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    """A point for each message; a panel for each value of ``by``, because points of two cover each other."""
    data = pl.concat([frame.with_columns(by=pl.lit(factors[figure.options["by"]])) for factors, frame in frames])
    names = list(dict.fromkeys(data["by"]))
    chart = (
        alt.Chart(named("messages"))
        .mark_point(filled=True, size=7, opacity=0.9)
        .encode(
            x=alt.X("x:Q", title="Time of the ping-pong (s)", axis=alt.Axis(tickCount=5)),
            y=alt.Y("value:Q", title="Goodput of a message (Mb/s)", axis=alt.Axis(tickCount=5)),
            color=alt.Color("by:N", scale=category_scale(names, "color"), legend=None),
        )
        .properties(width=110, height=90)
        .facet(alt.Facet("by:N", title=None, sort=names), columns=3)
    )
    return Drawing(plain_spec(chart), {"messages": data}, figure.title, columns=min(3, len(names)), span=2)
