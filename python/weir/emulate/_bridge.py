"""Bridges two interfaces of this host by the link."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from weir import _owner
from weir._errors import MethodError, UnavailableError
from weir.hosts.needs import require
from weir.hosts.network import environment

from ._emulator import Emulator
from ._tally import Report

__all__ = ["bridge"]

_INTERFACES = Path("/sys/class/net")
_ADDRESSES = ("0.0.0.1", "0.0.0.2")
"""Meaningless addresses: everything that one interface receives leaves through the other."""
_FIRST_PORT = 1024


def bridge(
    plan: Mapping[str, Any], interfaces: tuple[str, str], *, options: Sequence[str] = (), seconds: float | None = None
) -> Report:
    """Forwards all frames between ``interfaces``, over the link of ``plan``.

    Runs until this process is interrupted or terminated, or for ``seconds``. The interfaces must be up; addresses of
    this host on them would answer beside the link. Non-IP frames pass, too.

    Raises:
        UnavailableError: this host lacks a requirement, or such an interface.
        MethodError: the emulator failed.
    """
    require("weir emulate --between", (), ("weir-emu",), tun=False)
    for name in interfaces:
        if "/" in name or not (_INTERFACES / name / "ifindex").exists():
            raise UnavailableError(f"--between: there is no interface {name!r} on this host")
    if interfaces[0] == interfaces[1]:
        raise UnavailableError(f"--between: expected two interfaces, found {interfaces[0]!r} twice")
    hosts = [
        {"node": node, "netns": None, "address": address, "device": name}
        for node, (name, address) in enumerate(zip(interfaces, _ADDRESSES, strict=True))
    ]
    over = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_until_told(over))
        variables = environment(_owner.new())
        emulator = stack.enter_context(Emulator(plan, hosts, _FIRST_PORT, ["--bridge", *options], variables))

        def await_end() -> None:
            over.wait(seconds)
            with contextlib.suppress(MethodError):  # if it is gone, `measure` reports it
                emulator.stop()

        threading.Thread(target=await_end, daemon=True).start()
        return emulator.measure()


@contextlib.contextmanager
def _until_told(over: threading.Event) -> Iterator[None]:
    """Interrupts and termination requests set ``over``; the emulator's process does not receive them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_: int, __: FrameType | None) -> None:
        over.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, end) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
