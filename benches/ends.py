"""The programs that benches/emulator.py runs at the two ends of a path: ``ends.py ROLE ARGUMENT...``; prints JSON.

Imports only Python's standard library, to start fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable

PORT = 6001
PAYLOAD = 1472
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
UDP_SEGMENT = 103
SEGMENTS = 40
WINDOW = 2000
"""Packets per rate measurement: 25 ms at 1 Gb/s."""
BACKLOG_NS = 1_000_000
"""A packet that took longer than the fastest one by this much has waited in the queue."""
CHUNK = 1 << 20
PATIENCE_S = 30.0
"""Time limit for the first packet: on a busy machine the other end starts slowly."""


def main() -> None:
    """Runs a role."""
    name, *values = sys.argv[1:]
    print(json.dumps(ROLES[name](*values)))


def blast(peer: str, seconds: str) -> dict[str, float]:
    """Sends datagrams as fast as possible, segmented by the kernel, each with its time of sending."""
    out = _connected(peer)
    out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD)
    rest, end = bytes(PAYLOAD - 8), time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError, OSError):
            out.send((time.time_ns().to_bytes(8, "big") + rest) * SEGMENTS)
    return {}


def pace(peer: str, seconds: str) -> dict[str, float]:
    """Sends a datagram every 200 us with its time of sending."""
    out, end = _connected(peer), time.monotonic() + float(seconds)
    due, content = time.monotonic_ns(), bytes(PAYLOAD - 8)
    while time.monotonic() < end:
        due += 200_000
        time.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9 - 50e-6))
        while time.monotonic_ns() < due:
            pass
        out.send(time.time_ns().to_bytes(8, "big") + content)
    return {}


def _connected(peer: str) -> socket.socket:
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    out.connect((peer, PORT))
    return out


def stamps(address: str) -> dict[str, float]:
    """Rate and delay of the arriving datagrams, by the kernel's clock."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 512 << 20)  # the kernel's timestamps wait for this program
    found.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    found.bind((address, PORT))
    found.settimeout(PATIENCE_S)
    print("listening", flush=True)
    at, delays = [], []
    with contextlib.suppress(TimeoutError):
        while True:
            head, control, _, _ = found.recvmsg(8, 64)
            seconds, nanos = struct.unpack("qq", control[0][2])
            at.append(seconds * 10**9 + nanos)
            delays.append(at[-1] - int.from_bytes(head, "big"))
            found.settimeout(1.0)
    if not delays:
        sys.exit("no packet arrived")
    windows = _windows(at, delays)
    delays.sort()
    return {
        "rate_bps": statistics.median(windows) if windows else 0.0,
        "windows": float(len(windows)),
        **{f"delay_p{q}_ns": float(delays[len(delays) * q // 100]) for q in (1, 50, 99)},
    }


def _windows(at: list[int], delays: list[int]) -> list[float]:
    """Rates of the windows in which all packets waited in the queue: in others, the sender limits the rate."""
    idle = min(delays) + BACKLOG_NS
    begins = range(0, len(at) - WINDOW, WINDOW // 8)
    busy = (i for i in begins if min(delays[i : i + WINDOW]) > idle)
    return [8e9 * PAYLOAD * WINDOW / (at[i + WINDOW] - at[i]) for i in busy]


def send(peer: str, count: str, seconds: str, payload: str) -> dict[str, float]:
    """Sends over ``count`` TCP connections as fast as possible: zeros, as weir's agents do, or random bytes."""
    poll, content, by_number = select.epoll(), bytes(CHUNK) if payload == "zeros" else os.urandom(CHUNK), {}
    for one in (socket.socket() for _ in range(int(count))):
        one.setblocking(False)
        # Discards unsent data at the end: it would occupy TCP memory here for minutes.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.connect_ex((peer, PORT))
        by_number[one.fileno()] = one
        poll.register(one.fileno(), select.EPOLLOUT)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for number, _ in poll.poll(0.1):
            # The other side closes at its end.
            with contextlib.suppress(BlockingIOError, ConnectionError):
                by_number[number].send(content)
    os._exit(0)  # does not wait for the buffers


def sink(address: str, warm: str, seconds: str, window: str) -> dict[str, float]:
    """Bytes that arrive over TCP in ``seconds``, from ``warm`` seconds after the first connection on.

    At most ``window`` bytes of a connection are in flight.
    """
    listener = socket.create_server((address, PORT), backlog=1024)
    print("listening", flush=True)
    poll, by_number = select.epoll(), {listener.fileno(): listener}
    poll.register(listener.fileno(), select.EPOLLIN)
    bins: dict[int, int] = {}
    begin, waste = 0.0, bytearray(CHUNK)
    while not begin or time.monotonic() < begin + float(warm) + float(seconds):
        for number, _ in poll.poll(0.1):
            if number == listener.fileno():
                made, _ = listener.accept()
                begin = begin or time.monotonic()
                by_number[made.fileno()] = made
                poll.register(made.fileno(), select.EPOLLIN)
                continue
            with contextlib.suppress(ConnectionError):
                # Linux resets it when it learns the memory cost of a byte.
                by_number[number].setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, int(window))
                if size := by_number[number].recv_into(waste, CHUNK, socket.MSG_TRUNC):
                    index = int(10 * (time.monotonic() - begin))
                    bins[index] = bins.get(index, 0) + size
                    continue
            by_number.pop(number).close()
    counted = [bins.get(index, 0) for index in range(int(10 * float(warm)), int(10 * (float(warm) + float(seconds))))]
    return {"goodput_bps": 80 * sum(counted) / len(counted), "best_bps": 80.0 * max(counted)}


ROLES: dict[str, Callable[..., dict[str, float]]] = {
    "blast": blast, "pace": pace, "stamps": stamps, "send": send, "sink": sink,
}  # fmt: skip


if __name__ == "__main__":
    main()
