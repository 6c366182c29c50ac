"""A congestion control that learned: once a round trip, a linear policy multiplies the window.

`train.py` finds the weights and writes them into `policy.json` beside this file. Use it as any other control:

    transport: {cc: ./control.py}
    weir cc judge ./control.py
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from weir.control import Answer, Flow, Report

LEAST_WINDOW = 2.0
MOST_WINDOW = 100_000.0
FEATURES = ("constant", "no queue", "queueing", "loss")


def features(report: Report) -> tuple[float, ...]:
    """What the policy looks at, in the order of FEATURES."""
    rtt, least = report.rtt_mean_s, report.rtt_min_s
    queueing = min(rtt / least - 1, 4.0) if rtt and least else 0.0
    return 1.0, float(queueing < 0.05 and not report.is_loss), queueing, float(report.is_loss)


def exponent(weights: Sequence[float], report: Report) -> float:
    """The policy: the binary logarithm of the factor by which the window changes, from -1 to 1."""
    return math.tanh(sum(w * x for w, x in zip(weights, features(report), strict=True)))


class Control:
    """A linear policy, trained by the cross-entropy method."""

    def __init__(self, flow: Flow) -> None:
        saved = json.loads(Path(__file__).with_name("policy.json").read_text(encoding="utf-8"))
        self.weights = [saved["weights"][name] for name in FEATURES]
        self.window = float(flow.initial_window_packets)

    def report(self, report: Report) -> Answer:
        if report.timeouts:
            self.window = float(report.window_packets)
        if not report.first:
            self.window *= 2 ** exponent(self.weights, report)
        self.window = min(max(self.window, LEAST_WINDOW), MOST_WINDOW)
        return Answer(window_packets=self.window)
