"""Helpers for the tests of the kernel's congestion controls: the kernel's list, and a transfer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available() -> set[str]:
    """The names in the kernel's list now."""
    return set(AVAILABLE.read_text(encoding="ascii").split())


def gone(names: set[str], seconds: float = 10) -> bool:
    """Whether the kernel removes all of ``names`` in time; closing a dead process' files takes it a moment."""
    return until(lambda: not names & available(), seconds)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def transfer(name: str, amount: int = 2_000_000) -> str:
    """Sends ``amount`` bytes over loopback with congestion control ``name``; returns the one the kernel reports."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        received = threading.Thread(target=_sink, args=(server, amount))
        received.start()
        try:
            with socket.socket() as sender:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
                sender.settimeout(20)
                sender.connect(server.getsockname())
                sender.sendall(bytes(amount))
                sender.shutdown(socket.SHUT_WR)
                used = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                assert sender.recv(8) == b"complete"
        finally:
            received.join(30)
    assert not received.is_alive()
    return used.rstrip(b"\0").decode()


def _sink(server: socket.socket, amount: int) -> None:
    server.settimeout(20)
    connection, _ = server.accept()
    with connection:
        connection.settimeout(20)
        while amount > 0 and (data := connection.recv(1 << 16)):
            amount -= len(data)
        connection.sendall(b"complete" if amount == 0 else b"too few!")


def ip(*arguments: str) -> None:
    """Executes ``ip``."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def run_in(namespace: str, code: str, *arguments: str) -> list[str]:
    """The command that executes Python ``code`` in a network namespace."""
    return ["ip", "netns", "exec", namespace, sys.executable, "-c", code, *arguments]
