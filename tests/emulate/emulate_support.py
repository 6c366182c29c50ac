"""Two hosts behind emulated links, for tests that send real packets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir import _owner
from weir.emulate import LinkOptions, Report, plan
from weir.emulate._emulator import Emulator
from weir.emulate._tally import Tally
from weir.hosts.messages import Frame
from weir.hosts.namespaces import within
from weir.hosts.network import Network, environment
from weir.hosts.processes import ProcessError
from weir.hosts.wiring import DEVICE, FIRST_PORT, Host, Wiring

PORT = FIRST_PORT
"""The port of the plan's flow: packets to it are data of the flow."""
TIMEOUT_S = 20.0


def link(**options: str) -> dict[str, Any]:
    """A plan with the same link both ways."""
    both = LinkOptions(**options)
    return plan(both, both, bins_ns=10_000_000)


def _wiring(tag: _owner.Tag, addresses: Sequence[str]) -> Wiring:
    hosts = tuple(
        Host(node, name, f"weir-{tag}-{name}", address, DEVICE, 1500)
        for node, (name, address) in enumerate(zip(("here", "peer"), addresses, strict=True))
    )
    up: list[tuple[str, ...]] = []
    for host, other in zip(hosts, reversed(hosts), strict=True):
        ip = ("ip", "-n", host.namespace)
        prefix, nodad = ("128", ("nodad",)) if ":" in host.address else ("32", ())
        up += [
            ("ip", "netns", "add", host.namespace),
            (*ip, "link", "set", "lo", "up"),
            (*ip, "tuntap", "add", "dev", DEVICE, "mode", "tun", "vnet_hdr"),
            (*ip, "link", "set", DEVICE, "mtu", "1500", "txqueuelen", "1000", "up"),
            (*ip, "address", "add", f"{host.address}/{prefix}", "dev", DEVICE, *nodad),
            (*ip, "route", "add", f"{other.address}/{prefix}", "dev", DEVICE),
        ]
    down = tuple(("ip", "netns", "del", host.namespace) for host in hosts)
    return Wiring(hosts, tuple(up), down, FIRST_PORT, ())


@dataclass
class Net:
    """Two hosts, between which packets pass."""

    hosts: tuple[Host, ...]
    emulator: Emulator
    tables: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def socket(self, host: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket of host 0 or 1."""
        family = socket.AF_INET6 if ":" in self.hosts[host].address else socket.AF_INET
        made = within(self.hosts[host].path, lambda: socket.socket(family, kind, protocol))
        made.settimeout(TIMEOUT_S)
        return made

    def udp(self, host: int, port: int = 0) -> socket.socket:
        """A bound UDP socket."""
        made = self.socket(host, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made.bind((self.hosts[host].address, port))
        return made

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """UDP sockets of host 0, and of host 1 at the flow's port, each connected to the other."""
        here, peer = self.udp(0), self.udp(1, PORT)
        here.connect((self.hosts[1].address, PORT))
        peer.connect(here.getsockname()[:2])
        return here, peer

    def column(self, table: str, name: str) -> list[int]:
        """A column of the emulator's output, after its end."""
        return self.tables.get(table, {}).get(name, [])

    def total(self, name: str, number: int) -> int:
        """The sum of a column of table ``links`` over one link."""
        rows = zip(self.column("links", name), self.column("links", "link"), strict=True)
        return sum(value for value, of in rows if of == number)


class _Recorder(Tally):
    """Keeps all tables."""

    def __init__(self, tables: dict[str, dict[str, list[int]]]) -> None:
        super().__init__()
        self._tables = tables

    def take(self, frame: Frame) -> None:
        super().take(frame)
        for name, values in frame.columns.items():
            self._tables.setdefault(frame.table, {}).setdefault(name, []).extend(values.tolist())


@contextlib.contextmanager
def network(
    compiled: Mapping[str, Any], *options: str, addresses: Sequence[str] = ("10.0.0.1", "10.0.0.2")
) -> Iterator[Net]:
    """Hosts and their emulator; leaving the context stops the emulator and completes ``tables``."""
    tag = _owner.new()
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(Network(_wiring(tag, addresses), tag))
        hosts = made.wiring.hosts
        jobs = [host.to_job() for host in hosts]
        emulator = stack.enter_context(Emulator(compiled, jobs, FIRST_PORT, options, environment(tag)))
        net = Net(hosts, emulator)
        recorder = _Recorder(net.tables)
        reports: list[Report] = []
        reader = threading.Thread(target=lambda: reports.append(emulator.measure(recorder)))
        reader.start()
        try:
            yield net
        finally:
            with contextlib.suppress(ProcessError):  # it has ended by itself
                emulator.stop()
            reader.join(TIMEOUT_S)
        assert reports, "the emulator ended with its report"
        net.tables["stats"] = {name: [int(value)] for name, value in reports[0].stats.items()}


def receive(peer: socket.socket, most: int, silence_s: float) -> list[bytes]:
    """Receives until there are ``most`` datagrams or nothing came for ``silence_s``."""
    found: list[bytes] = []
    peer.settimeout(silence_s)
    with contextlib.suppress(TimeoutError):
        while len(found) < most:
            found.append(peer.recv(65_536))
    return found


def round_trips(here: socket.socket, peer: socket.socket, count: int) -> list[float]:
    """Round-trip times in seconds of ``count`` small packets, one after the other."""
    found = []
    for number in range(count):
        begin = time.perf_counter()
        here.send(bytes([number]))
        peer.send(peer.recv(10))
        here.recv(10)
        found.append(time.perf_counter() - begin)
    return found


def transfer(net: Net, content: bytes) -> bytes:
    """Transfers ``content`` over a TCP connection from host 0 to host 1; returns the received bytes."""
    listener = net.socket(1, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((net.hosts[1].address, PORT))
    listener.listen()
    got: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(TIMEOUT_S)
        while data := connection.recv(1 << 20):
            got.append(data)
        connection.close()

    server = threading.Thread(target=serve)
    server.start()
    with net.socket(0, socket.SOCK_STREAM) as client:
        client.connect((net.hosts[1].address, PORT))
        client.sendall(content)
    server.join(TIMEOUT_S)
    listener.close()
    return b"".join(got)


def until(condition: Callable[[], bool], seconds: float = TIMEOUT_S) -> bool:
    """Whether ``condition`` holds within ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
