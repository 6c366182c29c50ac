"""A congestion control in Python: additive increase, multiplicative decrease, once a round trip.

transport: {cc: ./my_cc.py}      uses it in a scenario beside it, in the simulator only
"""

from __future__ import annotations

from weir.control import Answer, Flow, Report


class Control:
    """AIMD in Python, once a round trip"""

    OPTIONS = {
        "increase": (1, 1, 100, "packets added a round trip"),
        "keep": (50, 10, 99, "per cent of the window kept after a loss"),
    }
    interval = "rtt"  # or a number of seconds

    def __init__(self, flow: Flow) -> None:
        self.increase = flow.options["increase"]
        self.keep = flow.options["keep"] / 100
        self.window = float(flow.initial_window_packets)
        self.threshold = float("inf")
        self.reduced = False

    def report(self, report: Report) -> Answer:
        if report.timeouts:
            self.threshold, self.window = max(2.0, self.window * self.keep), 1.0
            self.reduced = True
        elif report.lost_packets and not self.reduced:
            self.threshold = self.window = max(2.0, self.window * self.keep)
            self.reduced = True
        else:  # losses in the round trip after a reduction are of packets sent before it
            self.reduced = False
            if self.window < self.threshold:
                self.window = min(self.threshold, self.window + report.acked_packets)
            elif not report.app_limited:
                self.window += self.increase
        return Answer(window_packets=self.window)
