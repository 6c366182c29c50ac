"""Random scenarios from the space around the grid, so that nothing can be tuned to the grid.

Round-trip time, rate and queue size are log-uniform; the kinds of queues and workloads include those of the grid. The
seed and the number of a draw determine it: draw 7 is the same whether 8 or 100 are made.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.scenario import Scenario, parse
from weir.study._cells import Chosen

__all__ = ["CCS", "DrawnCell", "draws"]

CCS: Sequence[str] = ("reno", "bic", "cubic", "highspeed", "htcp", "scalable")
"""Congestion controls of random scenarios, unless others are asked for."""
RTT_S = (0.001, 0.2)
RATE_BPS = (10e6, 1e9)
QUEUE_BDP = (0.1, 2.0)
_SHOWN = ("cc", "rtt", "rate", "queue", "aqm", "workload")
_MIN_PACKETS = 10
_PACKET = 1538
_MAX_RED_BYTES = 5_000_000


@dataclass(frozen=True)
class DrawnCell:
    """One repeat of a draw, in the form that the engine executes; each draw is a scenario of its own."""

    id: str
    factors: Mapping[str, str]
    repeat: int
    scenario: Scenario

    def plan(self) -> dict[str, Any]:
        """Its plan."""
        return self.scenario.cells()[self.repeat].plan()


def draws(
    number: int,
    seed: int,
    overrides: Mapping[str, str],
    *,
    most_bps: float = RATE_BPS[1],
    ccs: Sequence[str] = CCS,
) -> Chosen:
    """``number`` scenarios with congestion controls of ``ccs``; ``overrides`` change each (``repeat`` gives repeats),
    ``most_bps`` bounds their rates.

    Raises:
        weir.scenario.ScenarioError: an override does not fit.
    """
    cells = []
    for k in range(number):
        factors, document = _draw(random.Random(f"weir validate {seed}/{k}"), k, seed, most_bps, ccs)
        scenario = parse(json.dumps(document), f"<draw {k} of seed {seed}>", overrides=overrides)
        named = {"draw": str(k), **factors}
        cells += [DrawnCell(f"{k:04d}-r{r}", named, r, scenario) for r in range(scenario.repeat)]
    text = f"# weir validate --random N --seed {seed}\n"
    return Chosen(f"Random draws of seed {seed}", text, "<random>", tuple(cells), ("draw", *_SHOWN))


def _draw(
    rng: random.Random, number: int, seed: int, most_bps: float, ccs: Sequence[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    cc = rng.choice(ccs)
    rtt_s = _log_uniform(rng, *RTT_S)
    rate = _log_uniform(rng, RATE_BPS[0], most_bps)
    share = _log_uniform(rng, *QUEUE_BDP)
    bdp = rate * rtt_s / 8
    size = max(share * bdp, _MIN_PACKETS * _PACKET)
    kind = rng.choice(["droptail", "droptail", "droptail", "red", "codel", "fq_codel"])
    name = rng.choice(sorted(_WORKLOADS))
    until = round(max(10.0, 60 * rtt_s), 1)
    dumbbell: dict[str, Any] = {
        "pairs": 1,
        "access": {"rate": "1Gbps", "queue": "10000packets", "clocks": "0.01%"},
        "bottleneck": {"rate": f"{rate / 1e6:.6g}Mbps", "queue": _queue(kind, size)},
        "rtt": f"{rtt_s * 1e3:.4g}ms",
    }
    workload = _WORKLOADS[name](rng, dumbbell, until, bdp)
    document = {
        "title": f"Draw {number} of seed {seed}: {cc}, {name}",
        "seed": seed * 10_000 + number,
        "topology": {"dumbbell": dumbbell},
        "transport": {"cc": cc, "stack": "linux", "buffers": f"{int(max(8 * bdp + 4 * size, 1e6))}B"},
        "workload": workload,
        "duration": f"{until}s",
        "measure": {"goodput": "500ms", "tcp": "20ms", "links": "20ms"},
    }
    shown = (cc, f"{rtt_s * 1e3:.4g}ms", f"{rate / 1e6:.3g}Mbps", f"{size / bdp:.2g}bdp", kind, name)
    return dict(zip(_SHOWN, shown, strict=True)), document


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def _queue(kind: str, size: float) -> dict[str, Any]:
    limit = f"{int(size)}B"
    if kind == "red":
        # Not gentle, as the kernel's is not. Its thresholds are bytes times 1/weight and must fit into 32 bits.
        most = min(size, _MAX_RED_BYTES)
        return {"red": {"size": limit, "min": f"{int(most / 4)}B", "max": f"{int(3 * most / 4)}B", "gentle": False}}
    if kind in ("codel", "fq_codel"):
        return {kind: {"size": f"{max(int(size / _PACKET), _MIN_PACKETS)}packets"}}
    return {"droptail": {"size": limit}}


Entries = list[dict[str, Any]]


def _bulk(until: float, **more: Any) -> dict[str, Any]:
    return {"name": "flows", "between": "pairs", "kind": "bulk", "until": f"{until}s", **more}


def _one(_rng: random.Random, _bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    return [_bulk(until)]


def _staggered(_rng: random.Random, bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    bell["pairs"] = 2
    return [_bulk(until, start={"every": f"{until / 4:.3g}s"})]


def _rtts(_rng: random.Random, bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    bell["pairs"] = 5
    base = float(str(bell["rtt"]).removesuffix("ms"))
    bell["rtt"] = [f"{base * factor:.4g}ms" for factor in (1, 1.2, 1.5, 2, 3)]
    return [_bulk(until)]


def _lossy(rng: random.Random, bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    bell["pairs"] = 4
    bell["bottleneck"]["loss"] = rng.choice(["0.01%", "0.1%", "1%"])
    return [_bulk(until)]


def _bursts(_rng: random.Random, bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    bell["bottleneck"]["loss"] = {"gilbert_elliott": {"p": "0.01%", "r": "20%", "good": "0%", "bad": "100%"}}
    return [_bulk(until)]


def _streams(_rng: random.Random, _bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    return [_bulk(until, streams=4)]


def _reverse(_rng: random.Random, bell: dict[str, Any], until: float, _bdp: float) -> Entries:
    bell["pairs"] = 2
    back = {"name": "back", "between": "pairs[1]", "kind": "bulk", "reverse": True, "background": True}
    return [_bulk(until, between="pairs[0]"), {**back, "until": f"{until}s"}]


def _transfers(_rng: random.Random, _bell: dict[str, Any], until: float, bdp: float) -> Entries:
    size = f"{int(max(20_000, 2 * bdp))}B"
    return [
        {"name": "flows", "between": "pairs", "kind": "transfer", "size": size, "wait": "200ms", "until": f"{until}s"}
    ]


def _onoff(_rng: random.Random, bell: dict[str, Any], until: float, bdp: float) -> Entries:
    bell["pairs"] = 2
    size = f"{int(max(100_000, 5 * bdp))}B"
    bursts = {"name": "bursts", "between": "pairs[1]", "kind": "onoff", "on": size, "off": "1s", "background": True}
    return [_bulk(until, between="pairs[0]"), {**bursts, "until": f"{until}s"}]


_WORKLOADS: dict[str, Callable[[random.Random, dict[str, Any], float, float], Entries]] = {
    "one": _one,
    "staggered": _staggered,
    "rtts": _rtts,
    "lossy": _lossy,
    "bursts": _bursts,
    "streams": _streams,
    "reverse": _reverse,
    "transfers": _transfers,
    "onoff": _onoff,
}
