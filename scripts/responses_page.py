"""Makes ``docs/response-functions.md`` and its pictures of the figures that ``scripts/responses.py`` stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import vl_convert
from responses import (
    DATA,
    EQUAL,
    LOSS_RATES,
    MARK_RATES,
    MARKED,
    MARKED_PACKETS,
    MEASURED,
    RATE_BPS,
    RATED,
    RATED_FROM_S,
    RATED_LOSS_RATES,
    RATED_TO_S,
    RTT_S,
    SETTLING,
    SHARED_FROM_S,
    SHARED_TO_S,
    STEP_BIN_MS,
    STEP_EVERY_S,
    STEP_FLOWS,
    STEP_S,
    STEPS,
    UNEQUAL,
    explicit,
    marked_kind,
    rated_kind,
    shares,
)
from responses_oracles import MARK_ORACLES, ORACLES, RATED_ORACLES, MarkOracle, Oracle, scalable

from weir.report import theme

__all__ = ["page", "write_pictures"]

Windows = Mapping[str, float | None]

_HEAD = """\
# Response functions and fairness

The response function of a congestion control is its mean window as a function of the loss rate p. This page has it for
each of weir's controls with default options, measured in the simulator on {date} by `make
responses`. The page is made of [the stored figures](response-functions/data.json); a test and `scripts/responses.py
--check` measure some of them again.

- **Response function**: one transfer at a round-trip time of {rtt:g} ms loses a packet every 1 / p packets. The path
  has 100 Gb/s and no queue. The mean is over {measured} losses, after {settling} to settle.
- **Expected**: a closed form or a fluid model, where losses alone decide about the window. It leaves out the round trip
  of recovery, in which no window grows, and whole packets. Both count in windows of ten packets.
- **Fairness**: two flows of one control share 50 Mb/s and a drop-tail queue of 50 ms. The second begins a second later.
  Both have a round-trip time of {equal} ms, or one of {short} and the other of {long} ms. Shares are means from {begin}
  to {end} s.
- **[By marks](#dctcp)**: DCTCP and [Prague](#prague) answer marks in proportion to their share. Each packet of one
  transfer is marked with probability p, independently of the others, by the queue
  [`marks`](elements.md#marks). The path is that of the response function. The mean is over the last two thirds of
  {least:g} to {most:g} million packets, which leaves an error of about 1 %.
- **[Goodput by loss rate](#goodput-by-loss-rate)** is measured where a window says nothing: BBR does not answer each
  loss. One flow has 100 Mb/s, {rtt:g} ms and a queue of one bandwidth-delay product, and packets are lost at random.
- **Draws**: each figure is one run with seed 1. Where the window is measured, losses are evenly spaced, so that little
  is drawn. A share is one draw of the receivers' delays; another seed gives another share.
- **Pictures**: points are measured, the solid line is expected, the dashed one is Reno's sqrt(1.5 / p). Blue is the
  first flow, with the shorter round-trip time; orange is the second. In pictures by marks, the dashed line is 2 / p.

| control | C | d | share of the larger at equal RTT | share of the shorter RTT |
|---|--:|--:|--:|--:|
"""

_AFTER = """
C and d are those of C / p^d, fitted by least squares of the logarithms from p = 1e-3 down. A share of 50 % is fair.

"""

_NOTES = {
    "dctcp": "Rare marks: below p = 0.03 DCTCP's window is not that of the balance, and is not steady. It adds a "
    "sixteenth of the marked share to alpha in whole 1024ths, as Linux does: a share below 1/64 adds nothing, an alpha "
    "below 1/64 decays to zero, and a reduction takes nothing. Windows do not grow during such a reduction "
    "either, so that they creep up until nearly each round trip has a mark. The values in the table are means "
    "over a window that grows: at p = 0.003 it has 411 packets in the first eighth of the transfer and 1222 in "
    "the last. The kernel's own does the same. Over 100 s at p = 0.02 `linux:dctcp` in the lab has mean windows "
    "of 47.5, 86.8, 112.1, 128.6 and 138.6 packets in each 20 s, and `dctcp` in the simulator 47.8, 87.8, 112.4, "
    "128.7 and 138.7; from 20 s on at p = 0.05, 37.2 and 37.0 (2026-11-29, `weir run "
    "examples/dctcp-rare-marks.yaml --method lab --set transport.cc=linux:dctcp`, and `--method sim`; "
    "acknowledgements are delayed there). With `shift_g: 2`, shares from 1/256 on count, and the window at p = "
    "0.01 is 171 packets, which is 3.7 % more than the balance has with g = 1/4.",
    "prague": "It keeps alpha in fractions of 2^-20, and so has the same number of marks in a round trip at any rate. "
    "At 10 ms it has the rate that the balance has at 25 ms, within some per cent: 115 / p packets a second, "
    "beside 109 / p.",
    "bbr": "It does not reduce its window for single losses, and fills the path of 100 Gb/s within a few round trips: "
    "the transfer ends before a window can be measured. Its response is that of its "
    "[goodput](#goodput-by-loss-rate). The flow with the longer round-trip time has the greater share: it keeps "
    "two of its own bandwidth-delay products in flight.",
    "bbr3": "As `bbr`: losses of less than 2 % do not bound its window, and its response is that of its "
    "[goodput](#goodput-by-loss-rate).",
    "constant": "Its window is an option, 30 000 packets by default. Where a field is missing, losses followed each "
    "other too closely to sample the windows between them.",
    "westwood": "The estimate of the bandwidth keeps what a path without a queue carried: a loss takes little.",
    "highspeed": "Increases are whole packets, rounded down, which costs most at windows of a few hundred.",
    "bic": "The closed form is that of its additive phase, and holds below p = 1e-4 at best: each cycle has a binary "
    "search, too.",
    "vegas": "Slow start overshoots, and leaves a queue. With two flows that begin one second apart on 50 Mb/s, 40 ms "
    "and a queue of 50 ms, the second one measures a BaseRTT of 75.6 ms in it, and leaves the first one 8 packets of a "
    "window: Jain's index is 0.53. With `max_ssthresh: 50` or `hystart: 1`, which end slow start before, it is 0.998.",
    "ledbatpp": "Slowdowns, every nine durations of the last one, are not in the closed form.",
    "fast": "An update comes every second round trip, which a window that a loss halves often seldom sees.",
}
"""What a reader may ask about a control's figures."""


def page(found: Mapping[str, Any]) -> str:
    """The document, for stored figures."""
    text = _HEAD.format(
        date=found["date"],
        rtt=RTT_S * 1000,
        measured=MEASURED,
        settling=SETTLING,
        equal=EQUAL[0],
        short=UNEQUAL[0],
        long=UNEQUAL[1],
        begin=SHARED_FROM_S,
        end=SHARED_TO_S,
        least=min(MARKED_PACKETS.values()) / 1e6,
        most=max(MARKED_PACKETS.values()) / 1e6,
    )
    told = explicit()
    parts = {name: _Part(name, figures) for name, figures in found["figures"].items() if name not in told}
    text += "".join(part.row() for part in parts.values()) + _AFTER + _rated(found["figures"])
    text += "\n".join(part.section() for part in parts.values())
    return text + _STEPS_HEAD + "\n".join(_steps_section(name, found["figures"][name][STEPS]) for name in told)


_RATED_HEAD = """\
## Goodput by loss rate

BBR follows the rate at which data arrive. A loss does not make its window smaller, so its goodput, and not its window,
responds to the loss rate. One flow has a path of {rate:g} Mb/s and {rtt:g} ms with a queue of one bandwidth-delay
product for {end} s, as in figure 8 of BBR's paper (N. Cardwell et al., ACM Queue 14(5), 2016); packets are lost at
random. The table has the mean goodput from {begin} s on, in Mb/s of payload; Reno and CUBIC are there for comparison. A
path without losses would give {full:.1f}.

"""
_PAYLOAD_SHARE = 1448 / (1448 + 52 + 38)
"""Payload in the bytes that a full packet takes on a link, with the default overhead."""

_RATED_AFTER = """\
The paper's figure has BBR close to 1 - p up to 5 % and not far below it up to 15 %, and CUBIC at a tenth of that from
0.1 % on. Here BBR has two thirds of it at 10 % and stalls at 15 %. Linux's own does the same today: `linux:bbr` in the
lab, over the same path, has 85.9 Mb/s at 5 %, 47.8 at 10 % and 1.3 at 15 %. `bbr3` bounds the flight once more than 2 %
of a round trip's packets are lost while it probes for bandwidth.

The stall at 15 % is one of Startup. Each of its first windows loses a packet, so that the flow is in recovery all the
time. There `bbr` takes the lost packets off its window and sends one packet for each that arrives, as Linux' does.
The bandwidth does not grow by a quarter in three round trips, and BBR takes the path for full at some Mb/s. From
there a probe at 5/4 gains (1 - p) 5/4 = 6 % in eight round trips, unless the estimate of a policer's rate stops that.
Two experiments show it. If the losses begin at 3 s, after Startup, `bbr` in the simulator has 82.4 Mb/s at 10 %, 77.6
at 15 % and 15.2 at 20 %, of 84.7, 80.0 and 75.3 that they leave. With losses of 15 % from 3 s on, `linux:bbr` in the
lab has 78.0 Mb/s. And a copy of `bbr` whose Startup ignores recovery has 77.3 Mb/s at 15 % from the beginning. With
`policers: 0` alone, it is 18.5.

"""


def _rated(figures: Mapping[str, Any]) -> str:
    """The section of the goodput on a path with a rate."""
    full = RATE_BPS / 1e6 * _PAYLOAD_SHARE
    text = _RATED_HEAD.format(rate=RATE_BPS / 1e6, rtt=RTT_S * 1000, begin=RATED_FROM_S, end=RATED_TO_S, full=full)
    head = ["loss rate", *(f"{100 * p:g} %" for p in RATED_LOSS_RATES)]
    rows = [head, ["---", *("--:" for _ in RATED_LOSS_RATES)]]
    for name in RATED:
        found = [figures[name][rated_kind(p)] / 1e6 for p in RATED_LOSS_RATES]
        rows.append([f"[`{name}`](#{name})", *(f"{value:.3g}" for value in found)])
        if oracle := RATED_ORACLES.get(name):
            pairs = list(zip(RATED_LOSS_RATES, found, strict=True))
            rows.append(["expected", *(f"{full * oracle.share(p):.3g}" if p <= oracle.most else "" for p, _ in pairs)])
    text += "".join("| " + " | ".join(row) + " |\n" for row in rows) + "\n"
    text += "".join(f"- Expected of `{name}`: {oracle.text}.\n" for name, oracle in RATED_ORACLES.items()) + "\n"
    return text + _RATED_AFTER


_STEPS_HEAD = f"""
## Controls with explicit feedback

Routers tell flows of XCP and RCP what to send, so a loss rate says nothing about them. Five flows begin
{STEP_EVERY_S} s after each other and stop so from {STEP_S - 4 * STEP_EVERY_S} s on. They share {RATE_BPS / 1e6:g} Mb/s
and 80 ms with a queue of one bandwidth-delay product. The pictures show the goodput of each flow, and the longest queue
in each {STEP_BIN_MS} ms.

"""
_SETTLED_S = 1
"""The last second before the next flow begins or stops."""


def _steps_section(name: str, figure: Mapping[str, Any]) -> str:
    rates, bins = figure["goodput"], 1000 // STEP_BIN_MS
    sent = sum(figure["sent"][bins:]) * 8 / (STEP_S - 1)
    indices = []
    for number in range(1, STEP_S // STEP_EVERY_S + 1):
        end = number * STEP_EVERY_S * bins
        active = [sum(one[end - _SETTLED_S * bins : end]) for one in rates]
        active = active[max(0, number - STEP_S // STEP_EVERY_S + 4) : min(number, STEP_FLOWS)]
        indices.append(sum(active) ** 2 / (len(active) * sum(value * value for value in active)))
    queue = [value / 1500 for value in figure["queue"]]
    busy = 100 * sent / (RATE_BPS * 1500 / 1538)
    return (
        f"### `{name}`\n\n![Goodput of five flows of {name} that begin and stop; queue of the bottleneck]"
        f"(response-functions/{name}.svg)\n\n"
        f"The link sends {busy:.1f} % of what it can, from the first second on. The longest queue has {max(queue):.0f} "
        f"packets, and {sum(queue) / len(queue):.1f} in the mean of intervals; there is room for {_STEP_LIMIT:.0f}. "
        f"{figure['dropped']} packets are dropped. In the second before the next flow begins or stops, Jain's index of "
        f"the active flows is {min(indices):.3f} or more.\n"
    )


_STEP_LIMIT = RATE_BPS * 0.08 / 8 / 1538


class _Part:
    """A control's part of the page."""

    def __init__(self, name: str, figures: Mapping[str, Any]) -> None:
        self.name = name
        self.windows: Windows = {f"{p:g}": figures[f"{p:g}"] for p in LOSS_RATES}
        rtts = MARKED.get(name, ())
        self.marked = {rtt: {p: figures[marked_kind(rtt, p)] for p in MARK_RATES} for rtt in rtts}
        self.equal, self.unequal = (figures[",".join(map(str, rtts))] for rtts in (EQUAL, UNEQUAL))

    def row(self) -> str:
        fit = fitted(self.windows)
        constants = f"{fit[0]:.3g} | {fit[1]:.2f}" if fit else " | "
        equal, unequal = shares(self.equal), shares(self.unequal)
        return (
            f"| [`{self.name}`](#{self.name}) | {constants} | {100 * max(equal) / sum(equal):.0f} % "
            f"| {100 * unequal[0] / sum(unequal):.0f} % |\n"
        )

    def section(self) -> str:
        lines = [f"## `{self.name}`", "", f"![{_ALT.format(name=self.name)}](response-functions/{self.name}.svg)", ""]
        oracle = ORACLES.get(self.name)
        if any(self.windows.values()):
            lines += self._table(oracle)
        if oracle:
            lines += [f"Expected: {oracle.text}{_limit(oracle)}.", ""]
        if self.marked:
            lines += self._by_marks(MARK_ORACLES[self.name])
        if self.name in _NOTES:
            lines += [_NOTES[self.name], ""]
        lines += [f"Goodput (Mb/s): {_megabits(self.equal)} at {EQUAL[0]} ms each; {_megabits(self.unequal)} at "
                  f"{UNEQUAL[0]} and {UNEQUAL[1]} ms.", ""]  # fmt: skip
        return "\n".join(lines)

    def _table(self, oracle: Oracle | None) -> list[str]:
        columns = [p for p in self.windows if self.windows[p]]
        rows = [
            ["p", *columns],
            ["---", *("--:" for _ in columns)],
            ["mean window (packets)", *(f"{self.windows[p]:.4g}" for p in columns)],
        ]
        if oracle:
            rows.append(["expected", *(f"{oracle.window(float(p)):.4g}" for p in columns)])
            rows.append(["difference", *(_difference(oracle, p, self.windows[p]) for p in columns)])
        return [*("| " + " | ".join(row) + " |" for row in rows), ""]

    def _by_marks(self, oracle: MarkOracle) -> list[str]:
        """The table against marks: a row for each round-trip time, with what is expected and the difference."""
        rows = [["probability of marks", *(f"{p:g}" for p in MARK_RATES)], ["---", *("--:" for _ in MARK_RATES)]]
        rows.append(["2 / p (packets)", *(f"{scalable(p):.4g}" for p in MARK_RATES)])
        for rtt, windows in self.marked.items():
            expected = {p: oracle.window(p, rtt / 1000) for p in MARK_RATES if p >= oracle.least}
            apart = {p: f"{100 * (windows[p] / known - 1):+.1f} %" for p, known in expected.items()}
            rows.append([f"mean window at {rtt} ms (packets)", *(f"{windows[p]:.4g}" for p in MARK_RATES)])
            rows.append(["expected", *(f"{expected[p]:.4g}" if p in expected else "" for p in MARK_RATES)])
            rows.append(["difference", *(apart.get(p, "") for p in MARK_RATES)])
        table = ["| " + " | ".join(row) + " |" for row in rows]
        limit = f" (for p of {oracle.least:g} and more)" if oracle.least else ""
        alt = f"Mean window of {self.name} by the probability of marks, beside what is expected and 2 / p"
        return [
            f"![{alt}](response-functions/{self.name}-marks.svg)", "", *table, "",
            f"Expected by marks{limit}: {oracle.text}.", "",
        ]  # fmt: skip


_ALT = "Mean window of {name} by loss rate; goodput of two flows at equal and at different round-trip times"


def _limit(oracle: Oracle) -> str:
    return f" (for p of {oracle.most:g} and less)" if oracle.most < 1 else ""


def _difference(oracle: Oracle, p: str, window: float | None) -> str:
    if window is None or float(p) > oracle.most:
        return ""
    return f"{100 * (window / oracle.window(float(p)) - 1):+.1f} %"


def _megabits(series: Sequence[Sequence[int]]) -> str:
    return " and ".join(f"{value / 1e6:.1f}" for value in shares(series))


def fitted(windows: Windows) -> tuple[float, float] | None:
    """C and d of C / p^d: least squares of the logarithms, for p of 1e-3 and less; ``None`` without three."""
    points = [(math.log(float(p)), math.log(w)) for p, w in windows.items() if w and float(p) <= 1e-3]
    if len(points) < 3:
        return None
    x, y = (sum(point[i] for point in points) / len(points) for i in (0, 1))
    slope = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return math.exp(y - slope * x), -slope


# Pictures ------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 210, 150
_EXPECTED, _POINTS = "#8a8f98", "#0072B2"
_FLOWS = {"first": "#0072B2", "second": "#D55E00"}


def write_pictures(found: Mapping[str, Any]) -> None:
    """Writes a picture for each control beside the data."""
    for name, figures in found["figures"].items():
        _write(name, picture(name, figures))
        if name in MARKED:
            _write(f"{name}-marks", _framed([_by_marks(name, rtt, figures) for rtt in MARKED[name]]))


def _write(name: str, drawing: Mapping[str, Any]) -> None:
    svg = str(vl_convert.vegalite_to_svg(json.dumps(drawing), allowed_base_urls=[]))
    (DATA.parent / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")


def picture(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The picture of a control."""
    if STEPS in figures:
        return _framed([_step_rates(figures[STEPS]), _step_queue(figures[STEPS])])
    return _framed(_panels(name, figures))


def _step_rates(figure: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        {"time": (place + 1) * STEP_BIN_MS / 1000, "goodput": round(value / 1e3, 2), "flow": str(number)}
        for number, one in enumerate(figure["goodput"])
        for place, value in enumerate(one)
        if value
    ]
    colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"]
    return {
        "title": "Goodput of each flow",
        "width": 1.5 * _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": _STEP_TIME,
            "y": {"field": "goodput", "type": "quantitative", "title": "Goodput (Mb/s)",
                  "scale": {"domain": [0, RATE_BPS / 1e6]}, "axis": {"tickCount": 5}},
            "color": {"field": "flow", "type": "nominal", "legend": None,
                      "scale": {"domain": [str(n) for n in range(STEP_FLOWS)], "range": colours}},
        },
        "layer": [_layer(rows, {"type": "line", "strokeWidth": 1.3, "clip": True})],
    }  # fmt: skip


def _step_queue(figure: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        {"time": (place + 1) * STEP_BIN_MS / 1000, "queue": round(value / 1500, 1)}
        for place, value in enumerate(figure["queue"])
    ]
    return {
        "title": "Longest queue",
        "width": 1.5 * _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": _STEP_TIME,
            "y": {"field": "queue", "type": "quantitative", "title": "Queue (packets)", "axis": {"tickCount": 5}},
        },
        "layer": [_layer(rows, {"type": "line", "strokeWidth": 1.3, "color": _POINTS, "clip": True})],
    }


_STEP_TIME = {
    "field": "time",
    "type": "quantitative",
    "title": "Time (s)",
    "scale": {"nice": False, "domain": [0, STEP_S]},
}


def _panels(name: str, figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Three panels: the response function, and the goodput of two flows at equal and different round-trip times.

    A control without a window to measure has its goodput by loss rate instead of the first.
    """
    has_window = any(figures[f"{p:g}"] for p in LOSS_RATES)
    return [
        _response(name, figures) if has_window or name not in RATED else _by_loss(name, figures),
        _goodput(figures[",".join(map(str, EQUAL))], [f"{rtt} ms" for rtt in EQUAL]),
        _goodput(figures[",".join(map(str, UNEQUAL))], [f"{rtt} ms" for rtt in UNEQUAL]),
    ]


def _framed(panels: list[dict[str, Any]]) -> dict[str, Any]:
    config = theme.config(theme.PAPER)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "hconcat": panels,
        "spacing": 34,
        "config": {**config, "background": "white", "title": {"fontSize": 12, "anchor": "start", "fontWeight": 600}},
    }


def _response(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    measured = [{"p": p, "window": figures[f"{p:g}"]} for p in LOSS_RATES if figures[f"{p:g}"]]
    oracle = ORACLES.get(name)
    fine = [10 ** (-2 - k / 12) for k in range(37)]
    line = [{"p": p, "window": oracle.window(p)} for p in fine if p <= oracle.most] if oracle else []
    reno = [{"p": p, "window": math.sqrt(1.5 / p)} for p in (1e-2, 1e-5)]
    return {
        "title": "Response function",
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": {"field": "p", "type": "quantitative", "title": "Loss rate p",
                  "scale": {"type": "log", "domain": [1e-5, 1e-2], "nice": False},
                  "axis": {"values": [1e-5, 1e-4, 1e-3, 1e-2], "format": "~e"}},
            "y": {"field": "window", "type": "quantitative", "title": "Mean window (packets)",
                  "scale": {"type": "log", "domain": _domain(measured, line)},
                  "axis": {"values": [1, 10, 100, 1000, 10000, 100000], "format": "~s"}},
        },
        "layer": [
            _layer(reno, {"type": "line", "strokeDash": [2, 3], "strokeWidth": 1, "color": _EXPECTED, "clip": True}),
            _layer(line, {"type": "line", "strokeWidth": 1.6, "color": "#333333", "clip": True}),
            _layer(measured, {"type": "point", "filled": True, "size": 38, "color": _POINTS, "opacity": 1}),
        ],
    }  # fmt: skip


def _by_marks(name: str, rtt_ms: int, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Windows by the probability of marks, what is expected, and 2 / p as a dashed line."""
    measured = [{"p": p, "window": figures[marked_kind(rtt_ms, p)]} for p in MARK_RATES]
    fine = [10 ** (-1 - k / 12) for k in range(25)]
    line = [
        {"p": p, "window": MARK_ORACLES[name].window(p, rtt_ms / 1000)}
        for p in fine
        if p >= 0.99 * MARK_ORACLES[name].least
    ]
    ideal = [{"p": p, "window": scalable(p)} for p in (1e-1, 1e-3)]
    return {
        "title": f"Response to marks at {rtt_ms} ms",
        "width": 1.5 * _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": {"field": "p", "type": "quantitative", "title": "Probability of marks p",
                  "scale": {"type": "log", "domain": [1e-3, 1e-1], "nice": False},
                  "axis": {"values": [1e-3, 1e-2, 1e-1], "format": "~e"}},
            "y": {"field": "window", "type": "quantitative", "title": "Mean window (packets)",
                  "scale": {"type": "log", "domain": [10, 10000]},
                  "axis": {"values": [10, 100, 1000, 10000], "format": "~s"}},
        },
        "layer": [
            _layer(ideal, {"type": "line", "strokeDash": [2, 3], "strokeWidth": 1, "color": _EXPECTED, "clip": True}),
            _layer(line, {"type": "line", "strokeWidth": 1.6, "color": "#333333", "clip": True}),
            _layer(measured, {"type": "point", "filled": True, "size": 38, "color": _POINTS, "opacity": 1}),
        ],
    }  # fmt: skip


def _by_loss(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Goodput on a path with a rate, and what is expected of it."""
    measured = [{"p": p, "goodput": figures[rated_kind(p)] / 1e6} for p in RATED_LOSS_RATES]
    oracle = RATED_ORACLES.get(name)
    fine = [10 ** (-5 + k / 12) for k in range(61)]
    full = RATE_BPS / 1e6 * _PAYLOAD_SHARE
    line = [{"p": p, "goodput": full * oracle.share(p)} for p in fine if p <= oracle.most] if oracle else []
    return {
        "title": "Goodput by loss rate",
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": {"field": "p", "type": "quantitative", "title": "Loss rate p",
                  "scale": {"type": "log", "domain": [1e-5, 0.5], "nice": False},
                  "axis": {"values": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1], "format": "~e"}},
            "y": {"field": "goodput", "type": "quantitative", "title": "Goodput (Mb/s)",
                  "scale": {"domain": [0, RATE_BPS / 1e6]}, "axis": {"tickCount": 5}},
        },
        "layer": [
            _layer(line, {"type": "line", "strokeWidth": 1.6, "color": "#333333", "clip": True}),
            _layer(measured, {"type": "point", "filled": True, "size": 38, "color": _POINTS, "opacity": 1}),
        ],
    }  # fmt: skip


def _domain(*rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Whole decades around all windows and those of Reno."""
    windows = [12.2, 387.0] + [row["window"] for some in rows for row in some]
    return [10 ** math.floor(math.log10(min(windows))), 10 ** math.ceil(math.log10(max(windows)))]


def _goodput(series: Sequence[Sequence[int]], labels: Sequence[str]) -> dict[str, Any]:
    rows = [
        {"time": second + 1, "goodput": round(value / 1e6, 2), "flow": which}
        for which, one in zip(_FLOWS, series, strict=True)
        for second, value in enumerate(one)
    ]
    return {
        "title": f"Two flows, {labels[0]} and {labels[1]}",
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": {"field": "time", "type": "quantitative", "title": "Time (s)", "scale": {"nice": False}},
            "y": {"field": "goodput", "type": "quantitative", "title": "Goodput (Mb/s)",
                  "scale": {"domain": [0, 50]}, "axis": {"tickCount": 5}},
            "color": {"field": "flow", "type": "nominal", "legend": None,
                      "scale": {"domain": list(_FLOWS), "range": list(_FLOWS.values())}},
        },
        "layer": [_layer(rows, {"type": "line", "strokeWidth": 1.3, "clip": True})],
    }  # fmt: skip


def _layer(rows: Sequence[Mapping[str, Any]], mark: Mapping[str, Any]) -> dict[str, Any]:
    return {"data": {"values": list(rows)}, "mark": dict(mark)}
