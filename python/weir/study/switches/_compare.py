"""A switch and the model fitted to it, side by side under the same traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weir.study.switches._extent import Extent
from weir.study.switches._isolines import Isolines, isolines
from weir.study.switches._programme import contention, pair, slowness
from weir.study.switches._rig import Observation, Rig, Stream, Trial, as_sent, gap_ns
from weir.study.switches._tcp import Tcp

__all__ = ["BURSTS", "PAIRS", "Behaviour", "Burst", "Rates", "Window", "behaviour"]

PAIRS = ((1.0, 1.0), (0.8, 0.8), (0.5, 0.5), (0.8, 0.6), (0.4, 1.0))
"""The pairs of the paper's tables, in units of full rate."""
BURSTS = (10, 30, 100, 300, 1000, 3000)
"""Packets of a burst."""
_ETHERNET = 18
_PACKETS = 60
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Rates:
    """Two constant rates at an output port: what comes out of each, in equal intervals. Mb/s of Ethernet frames."""

    offered: tuple[int, int]
    interval_ns: int
    mean: tuple[float, float]
    deviation: tuple[float, float]
    least: tuple[float, float]
    most: tuple[float, float]
    starvation_ms: tuple[float, float]


@dataclass(frozen=True)
class Burst:
    """A burst over one input while another one sends at full rate."""

    packets: int
    lost: int
    """Packets of the burst."""
    others_lost: int
    """Packets of the constant rate."""


@dataclass(frozen=True)
class Window:
    """Packets at the output, one after another, in the middle of a trial with two full rates."""

    time_us: npt.NDArray[np.float64]
    input: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    """Since the first of this input in the window."""


@dataclass(frozen=True)
class Behaviour:
    """What a switch does under the paper's traffic."""

    rates: tuple[Rates, ...]
    """By pair of rates and interval."""
    bursts: tuple[Burst, ...]
    window: Window
    isolines: Isolines
    tcp: tuple[Tcp, ...] = ()
    trials: tuple[Trial, ...] = ()
    """By pair of rates, then by burst: the packets that real senders sent."""


def behaviour(rig: Rig, window_ns: int, extent: Extent, tell: Tell, like: Behaviour | None = None) -> Behaviour:
    """Observes a switch, apart from TCP.

    Args:
        rig: The switch and its testers.
        window_ns: A time over which its rates are steady.
        extent: What is measured.
        tell: Gets the next step.
        like: What was measured on a real switch, for a model that gets the packets which its senders sent.
    """
    rates, window, bursts, trials = list[Rates](), None, list[Burst](), list[Trial]()
    full, planned = rig.rate_bps / 1e6, iter(like.trials if like else ())
    idle_ns = max(window_ns // 2, round(20_000_000 * slowness(rig)))
    measured_ns = max(window_ns, extent.pairs_ns)

    def observed(asked: Trial) -> Observation:
        seen = rig.observe(next(planned, asked))
        trials.append(as_sent(seen))
        return seen

    for first, second in PAIRS:
        tell(f"{first * full:.0f} + {second * full:.0f} Mb/s")
        seen = observed(pair(rig, first, second, window_ns + measured_ns, idle_ns))
        offered = round(first * full), round(second * full)
        rates += [_rates(seen, offered, window_ns, interval) for interval in extent.intervals_ns]
        window = window or _window(seen)
    for packets in BURSTS:
        tell(f"a burst of {packets} packets")
        lost = [int((out < 0).sum()) for out in observed(_burst(rig, packets, idle_ns)).received]
        bursts.append(Burst(packets, lost[1], lost[0]))
    assert window is not None
    lines = isolines(rig, window_ns, extent.points, tell, like.isolines.trials if like else ())
    return Behaviour(tuple(rates), tuple(bursts), window, lines, trials=() if rig.exact else tuple(trials))


def _rates(seen: Observation, offered: tuple[int, int], begin_ns: int, interval_ns: int) -> Rates:
    mean, deviation, least, most, starved = [], [], [], [], []
    for stream, out in zip(seen.trial.streams, seen.received, strict=True):
        edges = np.arange(begin_ns, stream.stop_ns + 1, interval_ns)
        came = np.sort(out[(out >= begin_ns) & (out < stream.stop_ns)])
        counts, _ = np.histogram(came, edges)
        mbps = counts * (stream.ip_bytes + _ETHERNET) * 8e3 / interval_ns
        gaps = np.diff(np.concatenate([[begin_ns], came, [stream.stop_ns]]))
        mean.append(float(mbps.mean()))
        deviation.append(float(mbps.std()))
        least.append(float(mbps.min()))
        most.append(float(mbps.max()))
        starved.append(float(gaps.max()) / 1e6)
    return Rates(offered, interval_ns, *(_two(values) for values in (mean, deviation, least, most, starved)))


def _two(values: list[float]) -> tuple[float, float]:
    return values[0], values[1]


def _window(seen: Observation) -> Window:
    middle = seen.trial.streams[0].stop_ns * 3 // 4
    times = np.concatenate([out[out >= middle] for out in seen.received])
    inputs = np.concatenate([np.full(int((out >= middle).sum()), n) for n, out in enumerate(seen.received)])
    numbers = np.concatenate([np.flatnonzero(out >= middle) for out in seen.received])
    order = np.argsort(times, kind="stable")[:_PACKETS]
    times, inputs, numbers = times[order], inputs[order], numbers[order]
    for one in (0, 1):
        own = inputs == one
        if own.any():
            numbers[own] -= numbers[own].min()
    start = times[0] if len(times) else 0
    return Window((times - start) / 1e3, inputs, numbers)


def _burst(rig: Rig, packets: int, idle_ns: int) -> Trial:
    """A burst over the second input while the first one sends at full rate."""
    settle = round(2_000_000 * slowness(rig))
    length = round(packets * gap_ns(1500 + rig.overhead_bytes, rig.rate_bps))
    base = contention(rig, [(0, 0, 1.0)], settle + length, idle_ns)
    burst = Stream(1, 0, rig.rate_bps, 1500, settle, settle + length)
    return Trial((*base.streams, burst), base.end_ns)
