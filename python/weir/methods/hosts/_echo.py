"""Measures a path between two nodes: ``python _echo.py``, told in JSON by its argument.

``serve``: echoes datagrams, and counts what comes by TCP, at one address and port, until its standard input ends.
``ask``: sends numbered datagrams there and waits for their echoes, then sends by TCP for some time; it prints
round-trip times (ns), the number of datagrams, and the rate at which the other side received in the second half of that
time. It needs Python 3.8 only, and no privilege.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import threading
import time

__all__ = ["main"]

_NUMBER = struct.Struct("!IQ")
_BLOCK = bytes(1 << 18)
_LINGER_S = 1.0
_CONNECT_S = 5.0


def _say(what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _serve(address: str, port: int) -> None:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((address, port))
    listening = socket.create_server((address, port))
    chosen = selectors.DefaultSelector()
    for source in (datagrams, listening, sys.stdin):
        chosen.register(source, selectors.EVENT_READ)
    _say({"is": "ready"})
    while True:
        for key, _ in chosen.select():
            if key.fileobj is datagrams:
                data, sender = datagrams.recvfrom(2048)
                datagrams.sendto(data, sender)
            elif key.fileobj is listening:
                threading.Thread(target=_count, args=(listening.accept()[0],), daemon=True).start()
            elif not os.read(0, 4096):
                return


def _count(peer: socket.socket) -> None:
    """Counts what comes in the second half of the time that the peer says first, and says so."""
    with peer, contextlib.suppress(OSError):
        half_s = struct.unpack("!d", peer.recv(8, socket.MSG_WAITALL))[0] / 2
        begin = time.monotonic()
        first = last = 0.0
        counted = 0
        while data := peer.recv(1 << 18):
            now = time.monotonic()
            if now - begin >= half_s:
                if first:
                    counted += len(data)
                else:
                    first = now
                last = now
        peer.sendall(json.dumps({"bytes": counted, "seconds": last - first}).encode())


def _ask(source: str, target: str, port: int, count: int, interval_s: float, rate_s: float) -> None:
    answer = _echoes(source, target, port, count, interval_s)
    if rate_s:
        answer["rate_bps"] = _rate(source, target, port, rate_s)
    _say(answer)


def _echoes(source: str, target: str, port: int, count: int, interval_s: float) -> dict[str, object]:
    times: dict[int, int] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((source, 0))
        opened.connect((target, port))
        opened.settimeout(_LINGER_S)

        def listen() -> None:
            with contextlib.suppress(OSError):
                while len(times) < count:
                    number, sent = _NUMBER.unpack(opened.recv(2048)[: _NUMBER.size])
                    times.setdefault(number, time.monotonic_ns() - sent)

        listener = threading.Thread(target=listen)
        listener.start()
        for number in range(count):
            with contextlib.suppress(ConnectionRefusedError):
                opened.send(_NUMBER.pack(number, time.monotonic_ns()))
            time.sleep(interval_s)
        listener.join()
    return {"rtt_ns": sorted(times.values()), "sent": count}


def _rate(source: str, target: str, port: int, rate_s: float) -> float:
    with socket.create_connection((target, port), _CONNECT_S, (source, 0)) as opened:
        opened.settimeout(rate_s + _CONNECT_S)
        opened.sendall(struct.pack("!d", rate_s))
        end = time.monotonic() + rate_s
        while time.monotonic() < end:
            opened.send(_BLOCK)
        opened.shutdown(socket.SHUT_WR)
        said = b""
        while data := opened.recv(4096):
            said += data
    counted = json.loads(said)
    return 8.0 * counted["bytes"] / counted["seconds"] if counted["seconds"] else 0.0


def main() -> None:
    """Does what the argument says."""
    told = json.loads(sys.argv[1])
    if told.pop("do") == "serve":
        _serve(**told)
    else:
        _ask(**told)


if __name__ == "__main__":
    main()
