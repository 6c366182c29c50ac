"""Draws docs/images/l4s-coexistence.svg from a run of examples/l4s.yaml, and prints the tables of docs/l4s.md.

    weir run examples/l4s.yaml --method sim -o RUN
    weir run examples/l4s-step.yaml --method sim,lab -o STEP
    python scripts/l4s.py RUN STEP/sim STEP/lab

It takes runs of both scenarios, which may be of any method, and tells them apart by their factors.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert
from responses_page import _framed

import weir

IMAGE = Path(__file__).parent.parent / "docs" / "images" / "l4s-coexistence.svg"
_TITLES = {"prague": "Prague, CUBIC", "dctcp": "DCTCP, CUBIC", "prague and ECN": "Prague, CUBIC with ECN"}
_SCALABLE, _CLASSIC = "goodput.mean(scalable)", "goodput.mean(classic)"
_DELAYS = ("class.delay.mean[class: l4s]", "class.delay.p99[class: l4s]", "class.delay.mean[class: classic]")
_STEP = ("queue.delay.mean", "queue.delay.p99", "utilisation.mean")

_BARE = {"labelAngle": 0, "grid": False, "domain": False, "ticks": False}

Key = tuple[str, str, str]
"""Case or control, rate, round-trip time."""


def main() -> None:
    """Reads the runs, draws, and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs")
    for folder in parser.parse_args().runs:
        run = weir.open(folder)
        print(f"\n{folder}\n")
        if "case" in run.factors:
            _coexistence(run, folder)
        else:
            _queue(run)


def _coexistence(run: Any, folder: str) -> None:
    cells = _values(run, "case", (_SCALABLE, _CLASSIC, *_DELAYS, "utilisation.mean"))
    ratios = {key: _ratio(repeats) for key, repeats in cells.items()}
    _print(ratios, "{:.2f}")
    worst = max(max(some) / min(some) for repeats in cells.values() if (some := [_ratio([one]) for one in repeats]))
    print(f"\nrepeats of a cell differ by a factor of {worst:.2f} at most")
    for metric, scale in ((_DELAYS[0], 1e3), (_DELAYS[1], 1e3), (_DELAYS[2], 1e3), ("utilisation.mean", 100)):
        print(f"\n{metric}, times {scale:g}\n")
        _print({key: scale * _mean(repeats, metric) for key, repeats in cells.items()}, "{:.2f}")
    if len(ratios) == 75:
        IMAGE.write_text(_drawn(ratios), encoding="utf-8")
        print(f"\n{IMAGE}, from {folder}")


def _queue(run: Any) -> None:
    for (cc, rate, rtt), repeats in _values(run, "cc", _STEP).items():
        mean, p99, busy = (_mean(repeats, metric) for metric in _STEP)
        print(f"| `{cc}` | {rate} | {rtt} | {1e3 * mean:.2f} | {1e3 * p99:.2f} | {100 * busy:.1f} |")


def _values(run: Any, first: str, metrics: Sequence[str]) -> dict[Key, list[dict[str, float]]]:
    """The metrics of each repeat of each cell."""
    factors = {cell.id: cell.factors for cell in run.cells}
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in run.metrics(*metrics, by=["cell"], phase="steady").iter_rows(named=True):
        found[row["cell"]][row["metric"]] = row["value"]
    by_key: defaultdict[Key, list[dict[str, float]]] = defaultdict(list)
    for cell, values in found.items():
        own = factors[cell]
        by_key[own[first], own["rate"], own["rtt"]].append(values)
    return by_key


def _ratio(repeats: Sequence[Mapping[str, float]]) -> float:
    """The geometric mean of the rate of the scalable flow over that of the classic one."""
    return math.exp(sum(math.log(one[_SCALABLE] / one[_CLASSIC]) for one in repeats) / len(repeats))


def _mean(repeats: Sequence[Mapping[str, float]], metric: str) -> float:
    return sum(one[metric] or 0.0 for one in repeats) / len(repeats)


def _print(values: Mapping[Key, float], form: str) -> None:
    times = list(dict.fromkeys(rtt for _, _, rtt in values))
    print(f"| flows | link | {' | '.join(times)} |\n|---|---|{'--:|' * len(times)}")
    for case, rate in dict.fromkeys((case, rate) for case, rate, _ in values):
        row = " | ".join(form.format(values[case, rate, rtt]) for rtt in times)
        print(f"| {_TITLES.get(case, case)} | {rate} | {row} |")


def _drawn(ratios: Mapping[Key, float]) -> str:
    """A panel for each pair of controls: rate over round-trip time, coloured by the logarithm of the ratio."""
    panels = []
    for case, title in _TITLES.items():
        rows = [
            {"rate": rate.replace("Mbps", " Mb/s"), "rtt": rtt.replace("ms", " ms"), "ratio": round(value, 3),
             "log": round(math.log2(value), 4), "text": f"{value:.2g}"}
            for (of, rate, rtt), value in ratios.items() if of == case
        ]  # fmt: skip
        panels.append(_panel(title, rows))
    return vl_convert.vegalite_to_svg(json.dumps(_framed(panels)), allowed_base_urls=[])


def _panel(title: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rates, times = (list(dict.fromkeys(row[name] for row in rows)) for name in ("rate", "rtt"))
    colour = {
        "field": "log",
        "type": "quantitative",
        "scale": {"domain": [-3.3, 0, 3.3], "range": ["#0072B2", "#f7f7f7", "#D55E00"], "clamp": True},
        "legend": None,
    }
    return {
        "title": title,
        "width": 210,
        "height": 160,
        "data": {"values": list(rows)},
        "encoding": {
            "x": {"field": "rtt", "type": "ordinal", "sort": times, "title": "Round-trip time", "axis": _BARE},
            "y": {"field": "rate", "type": "ordinal", "sort": rates[::-1], "title": None, "axis": _BARE},
        },
        "layer": [
            {"mark": {"type": "rect", "stroke": "white"}, "encoding": {"color": colour}},
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "text": {"field": "text"},
                    "color": {"condition": {"test": "abs(datum.log) > 2.2", "value": "white"}, "value": "#222"},
                },
            },
        ],
    }


if __name__ == "__main__":
    main()
