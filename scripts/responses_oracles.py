"""Closed forms and fluid models of response functions: the mean window, packets, where losses alone decide.

A flow loses one packet every ``1 / p`` at a round-trip time of 100 ms, and nothing queues. The forms leave out the
round trip of recovery, in which a window does not grow, and whole packets: both count at small windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

RTT_S = 0.1


@dataclass(frozen=True)
class Oracle:
    """What a control's mean window should be."""

    window: Callable[[float], float]
    """By loss rate."""
    text: str
    """The formula and its source."""
    most: float = 1.0
    """The largest loss rate for which it holds."""


def aimd(increase: float, decrease: float) -> Callable[[float], float]:
    """Gains ``increase`` a round trip and gives up the share ``decrease`` on loss."""
    return lambda p: math.sqrt(increase * (2 - decrease) / (2 * decrease * p))


def _cubic(keep: float, *, reno: float) -> Callable[[float], float]:
    """RFC 9438, section 5.1, with this share kept; ``reno``: the increase of the window that it is never below."""
    factor = (0.4 * (3 + keep) / (4 * (1 - keep))) ** 0.25
    friendly = aimd(reno, 1 - keep)
    return lambda p: max(factor * (RTT_S / p) ** 0.75, friendly(p))


def _fluid(growth: Callable[[float, float], float], keep: float) -> Callable[[float], float]:
    """A window that grows by ``growth(window, seconds since the loss)`` a round trip, in twentieths of one."""

    def window(p: float) -> float:
        now = 1.2 / math.sqrt(p)
        step, packets, rounds = 0.05, 0.0, 0.0
        for cycle in range(120):
            sent = round_trip = 0.0
            while sent < 1 / p:
                now += growth(now, round_trip * RTT_S) * step
                sent += now * step
                round_trip += step
            now *= keep
            if cycle >= 100:
                packets += sent
                rounds += round_trip
        return packets / rounds

    return window


def _htcp(_window: float, seconds: float) -> float:
    """alpha of the time since the last loss, and 0.8 of the window kept (draft-leith-tcp-htcp-06)."""
    beyond = max(seconds - 1, 0)
    return 2 * (1 - 0.8) * (1 + 10 * beyond + (beyond / 2) ** 2)


def _compound(window: float, _seconds: float) -> float:
    """The window's power law, at least standard TCP, which it is below 38 packets (draft-sridharan-tcpm-ctcp-02)."""
    return max(window**0.75 / 8, 1) if window > 38 else 1


def _fast_mode(window: float, _seconds: float) -> float:
    """YeAH-TCP's growth without a queue: Scalable TCP's, at least standard TCP's."""
    return max(0.01 * window, 1)


def _highspeed(p: float) -> float:
    return max(0.12 / p**0.835, aimd(1, 0.5)(p))


def _scalable(p: float) -> float:
    """0.08 / p at the loss; the mean of a cycle is 6.4 % less. Standard TCP below 16 packets."""
    return 0.0749 / p if 0.08 / p > 16 else aimd(1, 0.5)(p)


ORACLES: Mapping[str, Oracle] = {
    "reno": Oracle(aimd(1, 1 / 2), "sqrt(1.5 / p): AIMD(1, 1/2), thesis, table 3.I"),
    "bic": Oracle(aimd(32, 1 / 8), "15.5 / sqrt(p): AIMD(32, 1/8), thesis, table 3.I", 1e-4),
    "cubic": Oracle(_cubic(0.7, reno=9 / 17), "1.054 (RTT / p)^0.75, at least Reno's (RFC 9438, section 5.1)"),
    "cubic-2005": Oracle(_cubic(0.8, reno=1 / 3), "1.17 (RTT / p)^0.75, at least that of AIMD(1/3, 1/5)"),
    "highspeed": Oracle(_highspeed, "0.12 / p^0.835 (RFC 3649)"),
    "htcp": Oracle(_fluid(_htcp, 0.8), "fluid: alpha(t) a round trip, 0.8 kept"),
    "scalable": Oracle(_scalable, "0.0749 / p: 0.08 / p at a loss (Kelly 2003; thesis, table 3.I)"),
    "illinois": Oracle(aimd(10, 1 / 8), "AIMD(10, 1/8): no queue, so the largest increase and the least decrease"),
    "veno": Oracle(aimd(1, 205 / 1024), "AIMD(1, 1/5): no queue, so every loss is random"),
    "vegas": Oracle(aimd(1, 1 / 2), "AIMD(1, 1/2): no queue, so it always grows"),
    "yeah": Oracle(
        _fluid(_fast_mode, 7 / 8),
        "fluid: no queue, so a hundredth of the window a round trip, at least a packet, 7/8 kept",
    ),
    "hybla": Oracle(aimd(16, 1 / 2), "AIMD(16, 1/2): rho = 100 ms / 25 ms, rho^2 packets a round trip"),
    "multcp": Oracle(aimd(2, 1 / 4), "AIMD(2, 1/4): two flows"),
    "relentless": Oracle(lambda p: 1 / p, "1 / p: a loss takes the packet that a round trip gains"),
    "compound": Oracle(_fluid(_compound, 0.5), "fluid: w^0.75 / 8 a round trip, half kept"),
    "fast": Oracle(aimd(50, 1 / 2), "AIMD(50, 1/2): no queue, so it gains gamma alpha = 100 in two round trips"),
    "dctcp": Oracle(aimd(1, 1 / 2), "AIMD(1, 1/2): no marks"),
    "prague": Oracle(aimd(1, 1 / 2), "AIMD(1, 1/2): no marks"),
    "lp": Oracle(aimd(1, 1 / 2), "AIMD(1, 1/2): no queue"),
    "cdg": Oracle(aimd(1, 1 / 2), "AIMD(1, 1/2): no gradient"),
    "nv": Oracle(aimd(1, 205 / 1024), "AIMD(1, 1/5): no queue"),
    "ledbatpp": Oracle(aimd(1 / 2, 1 / 2), "AIMD(1/2, 1/2): GAIN of a base delay of 100 ms; without slowdowns"),
}
"""By control."""


@dataclass(frozen=True)
class RatedOracle:
    """What a control's goodput should be on a path with a rate, as a share of that rate."""

    share: Callable[[float], float]
    """By loss rate, up to ``most``."""
    most: float
    text: str
    """The formula and its source."""


RATED_ORACLES: Mapping[str, RatedOracle] = {
    "bbr": RatedOracle(
        lambda p: 1 - p,
        0.05,
        "what random losses leave of the rate, 1 - p, as long as a probe at 5/4 of the estimate still delivers more "
        "than the estimate: (1 - p) 5/4 > 1, so p < 20 % (Cardwell et al. 2016, figure 8, which meets it up to 5 %)",
    ),
    "bbr3": RatedOracle(
        lambda p: 1 - p,
        0.01,
        "1 - p below the 2 % of losses in a round trip that bound the flight (draft-ietf-ccwg-bbr-06, section 5.5.10)",
    ),
}
"""By control. Reno and CUBIC have the closed forms of their windows over the round-trip time, until the rate limits."""


# Marks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarkOracle:
    """What a control's mean window should be if each packet is marked with a probability, independently."""

    window: Callable[[float, float], float]
    """By probability and round-trip time, seconds."""
    text: str
    """The balance that it solves, and its source."""
    least: float = 0.0
    """The smallest probability for which it holds."""


def _balanced(excess: Callable[[float], float], p: float) -> float:
    """The window at which ``excess``, what marks take beyond what is gained, is zero; it grows with the window."""
    low, high = 1.0, 100 / p
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return low


_SMOOTHING = 1 / 16
"""Weight of a round trip in the estimate of the marked share: g of both controls."""
_TARGET_S = 0.025
"""The round-trip time as over which Prague grows where the path is shorter."""


def _dctcp_marked(p: float, _rtt_s: float) -> float:
    """Whole packets: a round trip without a mark gains one, and a reduction takes the integer part of W alpha / 2.

    alpha is taken as normal with the variance of a smoothed binomial share.
    """

    def excess(window: float) -> float:
        marks = p * window
        deviation = math.sqrt(_SMOOTHING / (2 - _SMOOTHING) * marks * (1 - p)) / 2
        taken = sum(0.5 * math.erfc((k - marks / 2) / (deviation * math.sqrt(2))) for k in range(1, 60))
        return taken - 1 / math.expm1(marks)

    return _balanced(excess, p)


def _below(count: int, mean: float) -> float:
    """The probability that a Poisson process of ``mean`` has ``count`` events or more."""
    return 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count))


def _prague_marked(p: float, rtt_s: float) -> float:
    """Gains by each packet without a mark; after a reduction the next mark counts that comes a round trip later.

    Below 25 ms: only the first of those that comes 25 ms later.
    """
    share = min(rtt_s / _TARGET_S, 1)

    def excess(window: float) -> float:
        marks = p * window
        episodes = 1 + sum(_below(k, marks * (1 / share - k)) for k in range(1, math.ceil(1 / share)))
        return marks / 2 - (1 - p) * share**2 * episodes * (1 + 1 / marks)

    return _balanced(excess, p)


MARK_ORACLES: Mapping[str, MarkOracle] = {
    "dctcp": MarkOracle(
        _dctcp_marked,
        "m = p W marks come in a round trip. A reduction begins with a mark and lasts a round trip, in which nothing "
        "grows (RFC 8257, section 3.3, on Linux' state of reduction). Until the next mark the window gains a packet "
        "for each whole round trip, 1 / (e^m - 1) in the mean. A reduction takes the integer part of W alpha / 2; "
        "alpha is normal with mean p and variance p (1 - p) / W g / (2 - g), g = 1/16. Both are equal at m = 1.8",
        0.03,
    ),
    "prague": MarkOracle(
        _prague_marked,
        "m = p W marks come in a round trip. A reduction takes alpha W / 2 = m / 2, and the next one comes 1 + 1 / m "
        "round trips later. In each round trip, also in those of reductions, the packets without a mark gain 1 - p. "
        "Both are equal at m = 1 + sqrt(3) = 2.7 (draft-briscoe-iccrg-prague-congestion-control-04, section "
        "2.4.2). Below 25 ms the gain is (RTT / 25 ms)^2 and reductions are at least 25 ms apart (section 2.4.4)",
    ),
}
"""By control."""


def scalable(p: float) -> float:
    """Two marks a round trip, whatever the rate (RFC 9332, section 1.2)."""
    return 2 / p
