"""What an observer outside knows of the contents of a switch."""

from __future__ import annotations

import numpy as np

from weir.study.switches._rig import Observation, Stream, Trial
from weir.study.switches._states import packets_of, states_of


class Rig:
    """Ports of 8 Gb/s, a byte a nanosecond."""

    inputs, outputs = 2, 1
    rate_bps = out_bps = 8e9
    overhead_bytes = 0


def seen(
    sent: list[list[int]], received: list[list[int]], pauses: tuple[tuple[int, int, bool], ...] = ()
) -> Observation:
    streams = tuple(Stream(port, 0, 8e9, 100, 0, 10_000) for port in range(len(sent)))
    none = [np.zeros(len(times), np.bool_) for times in sent]
    arrays = [[np.array(times, np.int64) for times in one] for one in (sent, received)]
    return Observation(Trial(streams, 10_000), arrays[0], none, arrays[1], pauses)


def test_a_packet_is_inside_from_its_arrival_until_its_transmission() -> None:
    # Two packets arrive together at 100; the first is out at 200, the second at 300. A third is lost at 250.
    states = states_of(Rig(), seen([[0, 150], [1]], [[200, -1], [300]]), {100: 0.0})  # type: ignore[arg-type]
    assert states.accepted.tolist() == [True, True, False]
    # The first one has left at the instant of its arrival; the second waits until 200, when it is sent.
    assert states.before.tolist() == [[0, 0], [0, 0], [0, 0]]
    assert states.departed_at.tolist() == [100, 200]
    assert states.at_departure.tolist() == [[100, 0], [0, 100]]


def test_a_port_sends_one_packet_after_another() -> None:
    packets = packets_of(Rig(), seen([[0, 10, 500]], [[-1, -1, -1]]))  # type: ignore[arg-type]
    assert packets.ended.tolist() == [100, 200, 600]


def test_a_pause_holds_packets_back() -> None:
    stopped = ((50, 0, True), (90, 0, False))
    packets = packets_of(Rig(), seen([[0, 10]], [[250, 350]], stopped))  # type: ignore[arg-type]
    # The first frame has begun when the pause comes; the second has to wait for its end.
    assert packets.ended.tolist() == [100, 200]
    packets = packets_of(Rig(), seen([[0, 10]], [[250, 450]], ((50, 0, True), (190, 0, False))))  # type: ignore[arg-type]
    assert packets.ended.tolist() == [100, 290]


def test_no_packet_is_inside_before_it_was_sent() -> None:
    """Virtual interfaces pass a packet of 100 bytes at once: it comes out after 20 ns instead of 200."""
    states = states_of(Rig(), seen([[1000]], [[1020]]), {100: 180.0})  # type: ignore[arg-type]
    assert states.entered.tolist() == [920.0], "it left at 920, 100 ns before its last bit"
    states = states_of(Rig(), seen([[1000], [1050]], [[1300], [1200]]), {100: 180.0})  # type: ignore[arg-type]
    assert states.entered.tolist() == [1000.0, 1050.0]
