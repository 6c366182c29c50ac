"""Sends and receives datagrams between hosts of the experiment, with the kernel's time of arrival."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from weir.hosts.namespaces import within
from weir.hosts.wiring import Host
from weir.plan import UDP_HEADERS

__all__ = ["Endpoint", "Probes", "Train"]

_MIN = 16
_NUMBER = struct.Struct("!I")
_BUFFER = 64_000_000
_UDP_SEGMENT = 103  # include/uapi/linux/udp.h
_SO_TIMESTAMPNS = 35  # include/uapi/asm-generic/socket.h
_TIME = struct.Struct("@qq")


@dataclass(frozen=True)
class Endpoint:
    """An end of a probe's path: an address of a host and a port."""

    host: Host
    port: int


@dataclass(frozen=True)
class Train:
    """Equal packets that are handed to the kernel together."""

    at_ns: int
    """Time after the first train."""
    source: Endpoint
    target: Endpoint
    first: int
    """Number of its first packet; the rest follow."""
    count: int
    size_bytes: int
    """IP bytes of each packet."""


class Probes:
    """Sockets of a self-check. A context manager: leaving it closes them and frees their ports."""

    def __init__(self, *, listen: bool = True, together: bool = True) -> None:
        """Opens no socket yet.

        Args:
            listen: Record arrivals.
            together: Hand a train to the kernel in one piece (segmentation offload), instead of packet by packet.
        """
        self._listen = listen
        self._together = together
        self._sockets: dict[Endpoint, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._arrived: dict[int, int] = {}
        self._open = True
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Probes:
        """Starts receiving."""
        if self._listen:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Closes every socket."""
        self._open = False
        if self._listen:
            self._thread.join()
        self._selector.close()
        for opened in self._sockets.values():
            opened.close()

    def open(self, endpoint: Endpoint) -> None:
        """Opens a socket at ``endpoint``, unless there is one.

        Raises:
            OSError: the port is taken, or the namespace is gone.
        """
        if endpoint not in self._sockets:
            opened = within(endpoint.host.path, lambda: _socket(endpoint))
            self._sockets[endpoint] = opened
            self._selector.register(opened, selectors.EVENT_READ)

    def send(self, trains: Sequence[Train]) -> dict[int, int]:
        """Sends ``trains``, each at its time, or at once if that has passed.

        Returns:
            For each packet number the instant at which it was handed over, in nanoseconds since the Unix epoch.

        Raises:
            OSError: the kernel refuses one.
        """
        sent: dict[int, int] = {}
        begin = time.time_ns()
        for train in sorted(trains, key=lambda train: train.at_ns):
            while (ahead := begin + train.at_ns - time.time_ns()) > 0:
                time.sleep(max(0.0, ahead / 1e9 - 1e-4))
            at = self._send(train)
            sent |= dict.fromkeys(range(train.first, train.first + train.count), at)
        return sent

    def arrived(self) -> dict[int, int]:
        """The time of each arrival, in nanoseconds since the Unix epoch; the next call begins anew."""
        found, self._arrived = self._arrived, {}
        return found

    @property
    def count(self) -> int:
        """Number of packets that have arrived since."""
        return len(self._arrived)

    def _send(self, train: Train) -> int:
        payload = max(train.size_bytes - UDP_HEADERS, _MIN)
        filling = bytes(payload - _NUMBER.size)
        packets = [_NUMBER.pack(number) + filling for number in range(train.first, train.first + train.count)]
        control = [(socket.SOL_UDP, _UDP_SEGMENT, struct.pack("@H", payload))]
        at = time.time_ns()
        target = (train.target.host.address, train.target.port)
        if self._together and len(packets) > 1:
            self._sockets[train.source].sendmsg(packets, control, 0, target)
        else:
            for packet in packets:
                self._sockets[train.source].sendto(packet, target)
        return at

    def _receive(self) -> None:
        while self._open:
            for key, _ in self._selector.select(0.02):
                opened = key.fileobj
                assert isinstance(opened, socket.socket)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        self._take(opened)

    def _take(self, opened: socket.socket) -> None:
        data, control, _, _ = opened.recvmsg(_NUMBER.size, 64, socket.MSG_DONTWAIT)
        for level, kind, content in control:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, rest = _TIME.unpack(content)
                self._arrived[_NUMBER.unpack(data)[0]] = seconds * 1_000_000_000 + rest


def _socket(endpoint: Endpoint) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        for option in (33, 32):  # SO_RCVBUFFORCE, SO_SNDBUFFORCE: beyond the system's limit
            opened.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.bind((endpoint.host.address, endpoint.port))
    except BaseException:
        opened.close()
        raise
    return opened
