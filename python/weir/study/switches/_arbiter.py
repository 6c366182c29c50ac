"""Which arbiter a switch has, from the service of its output ports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weir.study.switches._service import Overtaking, Runs, Service
from weir.study.switches._units import time_text

__all__ = ["Evidence", "Law", "decide", "hold_law", "hold_range"]

_FIFO = 0.002
"""Share of overtaking packets up to which a port is first in, first out for certain."""
_DISORDER, _FIFO_CLOCKED, _OTHERS = 0.05, 0.2, 0.6
"""The same on a real clock, where a switch in a process takes packets late and by input: the share up to which a port
is first in, first out for certain, and up to which it is probably; and what other arbiters have at least. Of the 68
drawn ones of ``benches/switches.py``, seeds 1301 and 1302, none has less than 0.64."""
_DETERMINED = 0.65
"""Spread up to which the order of service counts as determined."""
_OVERLAP = 0.02
_MANY, _NOTHING = 64, 0.002
_FEW = 16
"""Departures with four inputs from which on their choice is known: in a small memory, all four seldom have packets."""


@dataclass(frozen=True)
class Evidence:
    """What was seen of the service."""

    overtaking: Overtaking
    """The most of all trials with one output."""
    pair: Service
    """Two inputs at full rate."""
    four: Service
    """Four."""
    sizes: Service
    """Two, one with packets of 1500 B, the other with packets of 500 B."""
    weights: Mapping[int, int]
    """By input, from ``four``."""
    overlap: float
    """Share of an input's departures to one port while it sends to another one."""
    runs: Runs
    exact: bool = True
    """Whether instants are exact."""


@dataclass(frozen=True)
class Law:
    """An arbiter in the form of the plan, without the links of weights."""

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    doubt: str = ""
    """Why the kind of the arbiter is not certain, if it is not."""


def decide(seen: Evidence) -> Law:
    """The arbiter."""
    share = seen.overtaking.share
    if share <= _FIFO:
        return Law("fifo", why="no packet overtook one that had come earlier over another input")
    if seen.exact or share > _OTHERS:
        return _of_others(seen)
    overtook = f"{share:.1%} of the packets overtook one that had come earlier over another input"
    by = f"by {time_text(seen.overtaking.median_ns)} at the median"
    usual = f"{overtook}, {by}; with any other arbiter over {_OTHERS:.0%} do"
    if share <= _DISORDER:
        return Law("fifo", why=usual)
    late = "A process that forwards packets does so when it gets its processor late; repeat it on an idle machine"
    doubt = f"{usual}. {late}"
    if share <= _FIFO_CLOCKED:
        return Law("fifo", why="in the order of arrival but for some packets", doubt=doubt)
    return replace(_of_others(seen), doubt=doubt)


def _of_others(seen: Evidence) -> Law:
    """The arbiter, which is no fifo."""
    if _random_choice(seen):
        why = f"each input with packets was equally likely to be next: {seen.four.stay:.0%} stayed"
        return Law("pim", {"iterations": 4}, why)
    if not _starving(seen.pair) and not _spread_wide(seen) and not _same_runs(seen.pair):
        return _ordered(seen)
    why = "one input was served for a time, whatever the others had"
    return Law("bursty", {"hold": hold_law(seen.runs)}, why)


def _ordered(seen: Evidence) -> Law:
    """An arbiter whose order of service is determined."""
    if _by_weight(seen):
        shares = ":".join(str(w) for _, w in sorted(seen.weights.items()))
        return Law("weighted", {"weights": dict(seen.weights)}, f"inputs got bytes as {shares}")
    if seen.overlap <= _OVERLAP:
        why = "inputs were served in turn, and none ever sent to two outputs at once"
        return Law("islip", {"iterations": 4}, why)
    return Law("round_robin", why="inputs were served in turn, packet by packet")


def _spread_wide(seen: Evidence) -> bool:
    """Whether two inputs part from their shares; not if they never had packets together for long enough."""
    return any(spread > _DETERMINED for spread in (seen.four.spread, seen.pair.spread))


def _starving(pair: Service) -> bool:
    """Whether one of two inputs got nothing although it had packets."""
    return pair.count > _MANY and min(pair.shares) < _NOTHING


def _random_choice(seen: Evidence) -> bool:
    """Whether every departure chose among the inputs at random."""
    if seen.pair.count < 50 or not _spread_wide(seen):
        return False
    two, four = seen.pair.stay, seen.four.stay
    if abs(two - 0.5) > 0.05 or seen.four.count < _FEW:
        return False
    inputs = len(seen.four.pairs)
    return inputs == 2 or abs(four - 1 / inputs) < abs(four - two)


def _same_runs(pair: Service) -> bool:
    """Whether both of two inputs are served for more than a packet at a time."""
    return min(pair.runs, default=0.0) > 1.3


def _by_weight(seen: Evidence) -> bool:
    """Whether shares are unequal, or equal in bytes rather than in packets."""
    if not seen.weights:
        return False
    if len(set(seen.weights.values())) > 1:
        return True
    large, small = (*seen.sizes.shares, 0.0, 0.0)[:2]
    return large > 0 and small / large > 1.6


def hold_law(runs: Runs) -> dict[str, Any]:
    """The law of the times for which a port kept to an input, by maximum likelihood.

    A run ends at the first departure after its time is over, so it is half a packet longer in the mean.
    """
    times, tx = runs.times_ns, runs.packet_ns
    if len(times) == 0:
        return {"kind": "fixed", "mean_ns": 1}
    packets = np.maximum(np.rint(times / tx), 1.0)
    if packets.max() - packets.min() <= max(1.0, 0.02 * packets.mean()):
        return {"kind": "fixed", "mean_ns": max(1, round(float(np.median(times)) - tx / 2))}
    mean_packets = float(packets.mean())
    exponential = -tx / math.log1p(-1 / mean_packets) if mean_packets > 1 else tx / 2
    pareto = _pareto(packets, tx)
    if pareto is not None and _likelihood_pareto(packets, tx, *pareto) > _likelihood_exponential(
        packets, tx, exponential
    ):
        mean, shape = pareto
        return {"kind": "pareto", "mean_ns": round(mean), "shape": round(shape, 3)}
    return {"kind": "exponential", "mean_ns": round(exponential)}


def hold_range(hold: Mapping[str, Any], runs: int) -> tuple[float, float, float, float] | None:
    """Where the true values lie with 95 %: least and most mean, ns, least and most shape; ``None`` of a fixed time.

    By the asymptotic errors of maximum likelihood: the mean of an exponential law and the shape of a Pareto law are off
    by themselves over the square root of the runs. The mean of a Pareto law follows from its shape.
    """
    if hold["kind"] == "fixed" or runs < 2:
        return None
    off = 1.96 / math.sqrt(runs)
    mean = float(hold["mean_ns"])
    if hold["kind"] == "exponential":
        return mean * (1 - min(off, 1)), mean * (1 + off), 0.0, 0.0
    shape = float(hold["shape"])
    low, high = max(shape * (1 - off), 1.02), shape * (1 + off)
    least = mean * (shape - 1) / shape
    return least * high / (high - 1), least * low / (low - 1), low, high


def _pareto(packets: npt.NDArray[np.float64], tx: float) -> tuple[float, float] | None:
    """Mean, ns, and shape."""
    least = (packets.min() - 0.5) * tx
    times = (packets - 0.5) * tx
    logs = float(np.log(np.maximum(times / least, 1.0)).sum())
    if logs <= 0:
        return None
    shape = min(max((len(times) - 1) / logs, 1.02), 999.0)
    return _climbed(packets, tx, least, shape)


def _climbed(packets: npt.NDArray[np.float64], tx: float, least: float, shape: float) -> tuple[float, float]:
    """The mean and the shape near these with the most likelihood, where whole packets make the least time uncertain."""

    def likelihood(at: tuple[float, float]) -> float:
        return _likelihood_pareto(packets, tx, at[0] * at[1] / (at[1] - 1), at[1])

    best, step = (least, shape), 0.1
    value = likelihood(best)
    while step > 1e-3:
        ways = [(best[0] * (1 + a * step), best[1] * (1 + b * step)) for a in (-1, 0, 1) for b in (-1, 0, 1)]
        found = max((way for way in ways if 1.02 <= way[1] <= 999), key=likelihood)
        if likelihood(found) > value:
            best, value = found, likelihood(found)
        else:
            step /= 2
    return best[0] * best[1] / (best[1] - 1), best[1]


def _likelihood_exponential(packets: npt.NDArray[np.float64], tx: float, mean: float) -> float:
    """Of counts of packets: a run of n lasted for more than n - 1 and up to n packets."""
    return float(np.log(np.maximum(np.exp(-(packets - 1) * tx / mean) * -math.expm1(-tx / mean), 1e-300)).sum())


def _likelihood_pareto(packets: npt.NDArray[np.float64], tx: float, mean: float, shape: float) -> float:
    least = mean * (shape - 1) / shape

    def beyond(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.minimum((np.maximum(times, least) / least) ** -shape, 1.0)

    inside = beyond((packets - 1) * tx) - beyond(packets * tx)
    return float(np.log(np.maximum(inside, 1e-300)).sum())
