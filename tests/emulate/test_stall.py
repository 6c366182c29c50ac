"""Packets that hosts send while the emulator is stalled, as on a busy machine."""

from __future__ import annotations

import os
import signal
import socket
import statistics
import struct
import time
from collections.abc import Sequence

import pytest
from emulate_support import Net, link, network

pytestmark = pytest.mark.root

DELAY_S = 0.3
STALL_S = 0.15
COUNT = 50
SO_TIMESTAMPNS = 35
BIN_S = 0.01


def excess_of_a_stall(*options: str) -> tuple[list[float], Net]:
    """Lateness in seconds, beyond the link's delay, of packets that are sent throughout a stall."""
    with network(link(delay=f"{DELAY_S}s"), *options) as net:
        here, peer = net.pair()
        peer.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        lateness(peer, send(here, 1, 0.0))  # from here on the path is known
        os.kill(net.emulator.pid, signal.SIGSTOP)
        try:
            sent = send(here, COUNT, STALL_S / COUNT)
        finally:
            os.kill(net.emulator.pid, signal.SIGCONT)
        late = lateness(peer, sent)
    return late, net


def send(here: socket.socket, count: int, interval_s: float) -> list[float]:
    """Sends packets at even intervals; returns their times."""
    sent, begin = [], time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begin + number * interval_s - time.monotonic()))
        sent.append(time.time())
        here.send(number.to_bytes(4, "big"))
    return sent


def lateness(peer: socket.socket, sent: Sequence[float]) -> list[float]:
    """Lateness of arriving packets beyond the link's delay, by the kernel's timestamps."""
    late = []
    for _ in sent:
        head, control, _, _ = peer.recvmsg(4, 64)
        seconds, nanos = struct.unpack("qq", control[0][2])
        late.append(seconds + nanos / 1e9 - sent[int.from_bytes(head, "big")] - DELAY_S)
    return late


def test_packets_enter_the_link_when_they_were_sent_however_late_the_emulator_reads_them() -> None:
    late, net = excess_of_a_stall()
    assert statistics.median(late) < STALL_S / 4
    assert net.tables["stats"]["unstamped_frames"] == [0]
    assert net.tables["stats"]["read_lag_max_ns"][0] > STALL_S / 2 * 1e9, "the emulator did not run"


def test_without_stamps_the_stall_delays_them() -> None:
    late, net = excess_of_a_stall("--no-stamps")
    assert statistics.median(late) > STALL_S / 4
    assert net.tables["stats"]["unstamped_frames"] == [COUNT + 1]


def test_a_stall_until_the_end_is_counted() -> None:
    with network({**link(delay=f"{STALL_S / 2}s"), "end_ns": int(2 * STALL_S * 1e9)}) as net:
        here, _ = net.pair()
        send(here, 1, 0.0)
        time.sleep(STALL_S / 4)
        os.kill(net.emulator.pid, signal.SIGSTOP)
        time.sleep(3 * STALL_S)
        os.kill(net.emulator.pid, signal.SIGCONT)
        time.sleep(STALL_S)
    assert net.tables["stats"]["bins_missed"][0] * BIN_S > STALL_S
