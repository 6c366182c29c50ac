"""The ratio of output to input rate of two inputs over their rates: figures 11 and 12 of LIP 2006-38."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weir.study.switches._programme import DETUNED
from weir.study.switches._rig import Rig, Stream, Trial, as_sent, instants_of

__all__ = ["Isolines", "error_of", "isolines", "out_of_phase"]


@dataclass(frozen=True)
class Isolines:
    """Ratios of output to input, by the rates of both inputs."""

    shares: tuple[float, ...]
    """Rates of either input, in units of full rate."""
    ratio: npt.NDArray[np.float64]
    """By input, rate of the first and rate of the second."""
    trials: tuple[Trial, ...] = ()
    """By rate of the first and of the second, one after another: the packets that real senders sent."""

    @property
    def congested(self) -> npt.NDArray[np.bool_]:
        """By both rates: whether the output port cannot carry them."""
        grid = np.add.outer(np.array(self.shares), np.array(self.shares))
        full: npt.NDArray[np.bool_] = grid > 1.01
        return full

    @property
    def at_full_rate(self) -> npt.NDArray[np.bool_]:
        """By both rates: whether an input sends as fast as its port can."""
        full = np.array(self.shares) > 0.99
        found: npt.NDArray[np.bool_] = np.logical_or.outer(full, full)
        return found


def isolines(
    rig: Rig,
    window_ns: int,
    points: int = 10,
    tell: Callable[[str], None] = lambda _: None,
    like: Sequence[Trial] = (),
) -> Isolines:
    """Measures the ratios at ``points`` rates of either input, over ``window_ns`` after as long a time to settle.

    Args:
        rig: The switch and its testers.
        window_ns: A time over which its rates are steady.
        points: Rates of either input.
        tell: Gets the next step.
        like: Packets that a model gets instead of those rates, as in :attr:`Isolines.trials`.
    """
    shares = tuple((number + 1) / points for number in range(points))
    ratio = np.empty((2, points, points))
    trials = list[Trial]()
    for row, first in enumerate(shares):
        tell(f"isolines, {first * rig.rate_bps / 1e6:.0f} Mb/s")
        for column, second in enumerate(shares):
            rates = [first * rig.rate_bps, second * DETUNED[1] * rig.rate_bps]
            streams = [Stream(port, 0, rate, 1500, 1000 * port, 2 * window_ns) for port, rate in enumerate(rates)]
            trial = like[row * points + column] if like else Trial(tuple(streams), 3 * window_ns)
            if rig.exact and not like:
                ratio[:, row, column] = _ratios_of_rates(rig, trial, window_ns)
            else:
                ratio[:, row, column], sent = _ratios_of_packets(rig, trial, window_ns)
                trials.append(sent)
    return Isolines(shares, ratio, tuple(trials))


def _ratios_of_rates(rig: Rig, trial: Trial, window_ns: int) -> npt.NDArray[np.float64]:
    """Packets that come out over those sent, in the second of two windows, of exact senders."""
    out = rig.counts(trial.streams, window_ns, 2 * window_ns)[:, 1]
    sent = np.array([stream.wire_bps / ((stream.ip_bytes + rig.overhead_bytes) * 8e9) for stream in trial.streams])
    return _ratios(out, sent * window_ns)


def _ratios_of_packets(rig: Rig, trial: Trial, window_ns: int) -> tuple[npt.NDArray[np.float64], Trial]:
    """The same with the packets that were sent: a sender on a real clock may have been slower than asked."""
    seen = rig.observe(trial)
    sent = as_sent(seen)
    edges = [window_ns, 2 * window_ns]
    came, went = (
        np.array([np.histogram(times, edges)[0][0] for times in side], np.float64)
        for side in (seen.received, [instants_of(stream) for stream in sent.streams])
    )
    return _ratios(came, went), sent


def _ratios(out: npt.NDArray[Any], sent: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    ratios: npt.NDArray[np.float64] = np.minimum(out / np.maximum(sent, 1.0), 1.0)
    return ratios


def out_of_phase(trials: Sequence[Trial], shift_ns: int) -> tuple[Trial, ...]:
    """The same packets, of which those of the last stream leave ``shift_ns`` later."""
    found = []
    for trial in trials:
        *first, last = trial.streams
        later = replace(last, instants=instants_of(last) + shift_ns, stop_ns=last.stop_ns + shift_ns)
        found.append(replace(trial, streams=(*first, later)))
    return tuple(found)


def error_of(
    fitted: Isolines, measured: Isolines, *, congested: bool, at_full_rate: bool | None = None
) -> npt.NDArray[np.float64]:
    """Relative errors of the ratios, without sign.

    Args:
        fitted: Ratios of the model.
        measured: Those of the switch.
        congested: Only where the port cannot carry both rates, instead of everywhere.
        at_full_rate: Only where an input sends at full rate, or only elsewhere. Default: both.
    """
    chosen = measured.congested if congested else np.ones_like(measured.congested)
    if at_full_rate is not None:
        chosen = chosen & (measured.at_full_rate == at_full_rate)
    least = 0.005
    difference = np.abs(fitted.ratio - measured.ratio)[:, chosen]
    errors: npt.NDArray[np.float64] = (difference / np.maximum(measured.ratio[:, chosen], least)).ravel()
    return errors
