"""Measures the response function and the fairness of every congestion control in the simulator.

Writes ``docs/response-functions.md``, its chart and its data. ``make responses`` calls it; it takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert
import yaml

import weir
from weir import _weir

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "response-functions.md"
CHART = ROOT / "docs" / "images" / "response-functions.svg"
DATA = ROOT / "docs" / "response-functions.json"

RTT_S = 0.1
LOSS_RATES = (1e-2, 1e-3, 1e-4, 1e-5)
SETTLING, MEASURED = 8, 8
"""Losses before and during the measurement."""
PAYLOAD = 1448
_FIRST_LOSS = 1.5
"""The first loss is after slow start has sent this many packets over the square root of the loss rate."""

Oracle = Callable[[float], float]


def aimd(increase: float, decrease: float) -> Oracle:
    """The mean window, packets, that gains ``increase`` a round trip and gives up the share ``decrease`` on loss."""
    return lambda p: math.sqrt(increase * (2 - decrease) / (2 * decrease * p))


def cubic(p: float) -> float:
    """RFC 9438, section 5.1, figures 1 and 5.3: the cubic curve, or standard TCP where that is more."""
    c, beta = 0.4, 0.7
    curve = (c * (3 + beta) / (4 * (1 - beta))) ** 0.25 * (RTT_S / p) ** 0.75
    return max(curve, aimd(1, 0.5)(p))


def highspeed(p: float) -> float:
    """RFC 3649, section 5: 0.12 / p^0.835 above 38 packets."""
    return max(0.12 / p**0.835, aimd(1, 0.5)(p))


def scalable(p: float) -> float:
    """a = 0.01, b = 1/8: W = 0.08 / p at a loss, 6.8 % less on average; standard TCP below 16 packets."""
    mean = 12.5 / (math.log(8 / 7) / math.log(1.01)) * 0.08 / p
    return mean if 0.08 / p > 16 else aimd(1, 0.5)(p)


ORACLES: Mapping[str, tuple[Oracle, str]] = {
    "reno": (aimd(1, 1 / 2), "AIMD(1, 1/2): sqrt(1.5 / p)"),
    "dctcp": (aimd(1, 1 / 2), "AIMD(1, 1/2), without marks"),
    "bic": (aimd(32, 1 / 8), "AIMD(32, 1/8): 15.5 / sqrt(p), for p < 1e-4"),
    "cubic": (cubic, "RFC 9438, section 5.1"),
    "highspeed": (highspeed, "0.12 / p^0.835 (RFC 3649)"),
    "scalable": (scalable, "0.0746 / p"),
    "illinois": (aimd(10, 1 / 8), "AIMD(10, 1/8), without a queue"),
    "veno": (aimd(1, 1 / 5), "AIMD(1, 1/5), without a queue"),
    "hybla": (aimd(16, 1 / 2), "AIMD(rho^2, 1/2), rho = 100 ms / 25 ms"),
    "multcp": (aimd(2, 1 / 4), "AIMD(2, 1/4)"),
    "relentless": (lambda p: 1 / p, "1 / p: a loss takes what a round trip gains"),
    "nv": (aimd(1, 205 / 1024), "AIMD(1, 1/5), without a queue"),
    "lp": (aimd(1, 1 / 2), "AIMD(1, 1/2), without a queue"),
}
"""The mean window where losses alone decide, and its source."""


def controls() -> list[str]:
    """weir's congestion controls, in the registry's order."""
    return [str(one["name"]) for one in json.loads(_weir.cc_list())]


def scenario(p: float, chosen: Sequence[str]) -> dict[str, Any]:
    """A transfer that loses a packet every ``1 / p``, on a path whose rate and queue do not matter."""
    first, period = round(_FIRST_LOSS / math.sqrt(p)), round(1 / p)
    losses = [first + k * period for k in range(SETTLING + MEASURED + 1)]
    return {
        "title": f"Response at a loss rate of {p:g}",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": 1,
                "access": {"rate": "10Gbps", "queue": "1000000packets"},
                "bottleneck": {"rate": "10Gbps", "queue": "1000000packets", "loss": {"list": losses}},
                "rtt": f"{RTT_S * 1000:g}ms",
            }
        },
        "transport": {"stack": "linux", "ack": "every", "buffers": "4GB", "processing": "0s"},
        "workload": [{"name": "flow", "between": "pairs", "kind": "transfer", "size": f"{losses[-1] * PAYLOAD}B"}],
        "duration": "3000s",
        "measure": {"tcp": "50ms", "goodput": "100s", "links": "100s"},
        "sweep": {"transport.cc": list(chosen)},
    }


def mean_window(samples: pl.DataFrame) -> float | None:
    """The mean window, packets, from the end of the settling losses to the last one; ``None`` without so many."""
    settled = samples.filter(pl.col("retransmitted_packets") >= SETTLING)
    measured = settled.filter(pl.col("retransmitted_packets") < SETTLING + MEASURED)
    if measured.height < 10:
        return None
    return float(measured["cwnd"].mean())  # type: ignore[arg-type]  # a number, because there are rows


def responses(chosen: Sequence[str], folder: Path) -> dict[str, dict[str, float | None]]:
    """The mean window of each control at each loss rate."""
    found: dict[str, dict[str, float | None]] = {name: {} for name in chosen}
    for p in LOSS_RATES:
        run = executed(scenario(p, chosen), folder / f"loss-{p:g}")
        for (name,), samples in run.table("samples").collect().group_by("cc", maintain_order=True):
            found[name][f"{p:g}"] = mean_window(samples)
    return found


def sharing(rtts_ms: Sequence[int], chosen: Sequence[str]) -> dict[str, Any]:
    """Two long flows of the same control that share 50 Mb/s and a queue of 50 ms."""
    return {
        "title": "Two flows of one congestion control",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": 2,
                "access": {"rate": "1Gbps", "queue": "10000packets"},
                "bottleneck": {"rate": "50Mbps", "queue": "50ms"},
                "rtt": [f"{rtt}ms" for rtt in rtts_ms],
            }
        },
        "transport": {"stack": "linux", "buffers": "16MB"},
        "workload": [{"name": "flows", "between": "pairs", "kind": "bulk", "start": {"every": "1s"}}],
        "duration": "100s",
        "measure": {"tcp": "1s", "goodput": "500ms", "links": "1s"},
        "phases": {"late": {"from": "20s", "to": "100s"}},
        "sweep": {"transport.cc": list(chosen)},
    }


def shares(rtts_ms: Sequence[int], chosen: Sequence[str], folder: Path) -> dict[str, list[float]]:
    """The goodput of both flows after 20 s, b/s, by control."""
    run = executed(sharing(rtts_ms, chosen), folder / f"rtt-{'-'.join(map(str, rtts_ms))}")
    late = run.table("goodput").filter(pl.col("time_ns") > 20_000_000_000)
    rates = late.group_by("cc", "flow").agg(pl.col("delivered_bytes").sum() * 8 / 80).sort("flow").collect()
    return {name: rates.filter(pl.col("cc") == name)["delivered_bytes"].to_list() for name in chosen}


def executed(document: Mapping[str, Any], folder: Path) -> Any:
    """The run of a scenario, executed if the folder lacks it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(dict(document), sort_keys=False), encoding="utf-8")
    return weir.execute(path, folder)


def fitted(windows: Mapping[str, float | None]) -> tuple[float, float] | None:
    """C and d of C / p^d: least squares of the logarithms, for p of 1e-3 and less; ``None`` without three."""
    points = [(math.log(float(p)), math.log(w)) for p, w in windows.items() if w and float(p) <= 1e-3]
    if len(points) < 3:
        return None
    x, y = (sum(point[i] for point in points) / len(points) for i in (0, 1))
    slope = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return math.exp(y - slope * x), -slope


def drawn(found: Mapping[str, Mapping[str, float | None]]) -> str:
    """The chart of the response functions, as SVG."""
    rows = [
        {"p": float(p), "window": window, "control": name, "closed": False}
        for name, windows in found.items()
        for p, window in windows.items()
        if window
    ]
    expected = [
        {"p": float(p), "window": ORACLES[name][0](float(p)), "control": name, "closed": True}
        for name, windows in found.items()
        if name in ORACLES
        for p in windows
    ]
    axes = {
        "x": {"field": "p", "type": "quantitative", "scale": {"type": "log"}, "title": "loss rate",
              "axis": {"values": list(LOSS_RATES), "format": "~e"}},
        "y": {"field": "window", "type": "quantitative", "scale": {"type": "log"}, "title": "mean window (packets)",
              "axis": {"values": [1, 10, 100, 1000, 10000, 100000], "format": "~s"}},
    }  # fmt: skip
    layers = [
        {
            "mark": {"type": "line", "point": {"size": 22}, "strokeWidth": 1.4},
            "transform": [{"filter": "!datum.closed"}],
        },
        {
            "mark": {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1.2, "color": "#c0392b"},
            "transform": [{"filter": "datum.closed"}],
        },
    ]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": [*rows, *expected]},
        "facet": {"field": "control", "type": "nominal", "title": None, "sort": list(found),
                  "header": {"labelFontSize": 12, "labelFontWeight": "bold"}},
        "columns": 5,
        "spec": {"width": 130, "height": 110, "encoding": axes, "layer": layers},
        "config": {"background": "white", "font": "Liberation Sans, Arial, Helvetica, sans-serif"},
    }  # fmt: skip
    return str(vl_convert.vegalite_to_svg(json.dumps(spec)))


_HEAD = """\
# Response functions and fairness

The response function of a congestion control is its mean window as a function of the loss rate p. Made by
`make responses` on {date}: the simulator, one transfer at a round-trip time of {rtt:g} ms, which loses a packet every
1 / p packets. The path has no queue that matters, and its rate of 10 Gb/s admits 82 000 packets. The mean is over
{measured} losses, after {settling} to settle. [The data](response-functions.json) have all digits.

![Mean window by loss rate, measured and by closed form](images/response-functions.svg)

Solid: measured. Dashed: the closed form, where losses alone decide about the window.

| control | {columns} | C | d | closed form | at p = 1e-4 |
|---|{rules}--:|--:|---|--:|
"""

_NOTES = """
C and d are of C / p^d, fitted from p = 1e-3 to 1e-5. An empty field: the transfer had too few losses to settle, because
it ended within a few round trips.

- `westwood`, `yeah`, `vegas`, `fast`, `compound`, `cdg`, `htcp`, `cubic-2005` and `ledbatpp` decide by delay, rate or
  time as well. They have no closed form here; [`analytic.rs`](../crates/weir-cc/tests/analytic.rs) compares H-TCP with
  a fluid model.
- `bbr` and `bbr3` do not reduce the window for single losses: their window is that of the path. `constant` has one
  window.
- `bic` and `highspeed` differ from their closed forms above p = 1e-4: the table in
  [`analytic.rs`](../crates/weir-cc/tests/analytic.rs) says why.
- `relentless` needs 1 / p round trips to reach its window, longer than these transfers.

## Fairness

Two flows of the same control share 50 Mb/s and a queue of 50 ms from 20 s to 100 s. The second starts a second later. A
share of 50 % is fair. With different round-trip times, 20 and 100 ms, the share is that of the short flow.

| control | goodput at equal 40 ms (Mb/s) | larger share | at 20 and 100 ms (Mb/s) | share of 20 ms |
|---|--:|--:|--:|--:|
"""


def page(found: Mapping[str, Any], date: str) -> str:
    """The document."""
    columns = [f"{p:g}" for p in LOSS_RATES]
    text = _HEAD.format(
        date=date,
        rtt=RTT_S * 1000,
        measured=MEASURED,
        settling=SETTLING,
        columns=" | ".join(f"p = {p}" for p in columns),
        rules="--:|" * len(columns),
    )
    for name, windows in found["responses"].items():
        fit = fitted(windows)
        cells = [f"{windows[p]:.4g}" if windows.get(p) else "" for p in columns]
        exact = ORACLES.get(name)
        measured = windows.get("0.0001")
        error = f"{100 * (measured / exact[0](1e-4) - 1):+.1f} %" if exact and measured else ""
        cells += [f"{fit[0]:.3g}", f"{fit[1]:.2f}"] if fit else ["", ""]
        text += f"| `{name}` | {' | '.join([*cells, exact[1] if exact else '', error])} |\n"
    text += _NOTES
    for name, equal in found["equal"].items():
        unequal = found["unequal"][name]
        text += (
            f"| `{name}` | {_megabits(equal)} | {100 * max(equal) / sum(equal):.0f} % "
            f"| {_megabits(unequal)} | {100 * unequal[0] / sum(unequal):.0f} % |\n"
        )
    return text


def _megabits(goodput: Sequence[float]) -> str:
    return ", ".join(f"{value / 1e6:.1f}" for value in goodput)


def main() -> int:
    """Executes what the folder lacks and writes the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, help="keep the runs here, and continue with those that are there")
    parser.add_argument("--date", help="the date in the document, if not today's")
    options = parser.parse_args()
    from weir.study import today

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        chosen = controls()
        found = {
            "responses": responses(chosen, folder),
            "equal": shares((40, 40), chosen, folder),
            "unequal": shares((20, 100), chosen, folder),
        }
    DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    CHART.write_text(drawn(found["responses"]), encoding="utf-8")
    PAGE.write_text(page(found, options.date or today()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
