"""What a control in Python is told, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MAX_PACKETS", "Answer", "AnswerError", "Decision", "Flow", "Report"]

MAX_PACKETS = 1 << 30
"""Largest window."""
MAX_BPS = 8e18
"""Largest pacing rate."""

Decision = tuple[int | None, int | None, int | None]
"""Window in packets, pacing rate in bytes per second, microseconds until the next question."""


class AnswerError(ValueError):
    """An answer is none; the message says what was expected."""


@dataclass(frozen=True)
class Flow:
    """A connection for which a control is created."""

    name: str
    """The flow's name in the plan."""
    packet_bytes: int
    """Payload of a full packet."""
    initial_window_packets: int
    """The window until the control answers otherwise."""
    seed: int
    """The flow's own seed: a control that draws random numbers takes them from a generator with this seed."""
    options: Mapping[str, int] = field(default_factory=dict)
    """The options of the scenario, and the defaults of the others."""


@dataclass(frozen=True)
class Report:
    """What happened to a connection since the control was last asked.

    Bytes are payload. Times are the connection's own, in seconds.
    """

    first: bool
    """The connection was just established: all amounts are 0."""
    time_s: float
    """Time since the start of the run."""
    interval_s: float
    """Time since the last report."""
    sent_bytes: int
    """Payload transmitted, retransmissions included."""
    acked_bytes: int
    """Payload acknowledged, cumulatively or selectively."""
    lost_packets: int
    """Packets marked lost."""
    acked_packets: int
    """Packets acknowledged."""
    marked_packets: int
    """Packets acknowledged with a congestion mark; needs `ecn: true`."""
    timeouts: int
    """Retransmission timeouts."""
    rtt_s: float | None
    """The latest round-trip time; ``None`` without a sample in the interval."""
    rtt_mean_s: float | None
    """Mean of the round-trip times of the interval."""
    srtt_s: float | None
    """Smoothed round-trip time (RFC 6298)."""
    rtt_min_s: float | None
    """Least round-trip time of the last five minutes."""
    send_bps: float
    """`sent_bytes` over the interval, bit/s."""
    delivery_bps: float
    """`acked_bytes` over the interval, bit/s."""
    in_flight_packets: int
    """Packets in flight now."""
    window_packets: int
    """The congestion window now."""
    pacing_bps: float | None
    """The pacing rate of the last answer that had one, bit/s."""
    packet_bytes: int
    """Payload of a full packet."""
    app_limited: bool
    """For part of the interval, the application had less to send than the window allowed."""

    @property
    def is_loss(self) -> bool:
        """Whether packets were lost or a timeout expired."""
        return self.lost_packets > 0 or self.timeouts > 0

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Report:
        """The report in the fields of :class:`weir._weir.Asked`."""
        packet = told["packet_bytes"]
        rate = told["pacing_bytes_per_s"]
        return cls(
            first=told["first"],
            time_s=told["now_us"] / 1e6,
            interval_s=told["interval_us"] / 1e6,
            sent_bytes=told["sent_packets"] * packet,
            acked_bytes=told["acked_packets"] * packet,
            lost_packets=told["lost_packets"],
            acked_packets=told["acked_packets"],
            marked_packets=told["marked_packets"],
            timeouts=told["timeouts"],
            rtt_s=_seconds(told["rtt_us"]),
            rtt_mean_s=_seconds(told["rtt_mean_us"]),
            srtt_s=_seconds(told["srtt_us"]),
            rtt_min_s=_seconds(told["rtt_min_us"]),
            send_bps=float(told["send_bps"]),
            delivery_bps=float(told["delivery_bps"]),
            in_flight_packets=told["in_flight_packets"],
            window_packets=told["window_packets"],
            pacing_bps=None if rate is None else rate * 8.0,
            packet_bytes=packet,
            app_limited=told["app_limited"],
        )


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


@dataclass(frozen=True)
class Answer:
    """A decision: what is missing stays as it is."""

    window_packets: float | None = None
    """The congestion window, packets; rounded. With a rate and without a window, the window becomes twice the rate
    times the smoothed round-trip time.
    """
    pacing_bps: float | None = None
    """The pacing rate, bit/s of payload."""

    def decision(self, after_us: int | None) -> Decision:
        """The decision in the units of the simulator.

        Raises:
            AnswerError: a value is no number, not finite, or out of its bounds.
        """
        window, rate = self.window_packets, self.pacing_bps
        packets = None if window is None else round(_number("window_packets", window, 1, MAX_PACKETS, "packets"))
        pace = None if rate is None else max(1, round(_number("pacing_bps", rate, 1, MAX_BPS, "bit/s") / 8))
        return packets, pace, after_us


def _number(name: str, value: object, least: float, most: float, unit: str) -> float:
    expected = f"expected a number from {least:g} to {most:g} {unit}, or None"
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise AnswerError(f"{name} is {value!r}; {expected}")
    number = float(value)
    if not math.isfinite(number) or not least <= number <= most:
        raise AnswerError(f"{name} is {number!r}; {expected}")
    return number
