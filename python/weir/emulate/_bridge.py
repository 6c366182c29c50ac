"""Bridges interfaces of this host: two by the link, or those at the ports of a switch."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from weir import _owner
from weir._errors import MethodError, UnavailableError
from weir._interfaces import Interface
from weir.hosts.needs import require
from weir.hosts.network import environment

from ._emulator import Counter, Emulator
from ._switch import SwitchReport, SwitchTally
from ._tally import Report, Tally

__all__ = ["bridge", "switch"]

_R = TypeVar("_R")

_INTERFACES = Path("/sys/class/net")
_ADDRESS = "0.0.0.{}"
"""Meaningless addresses: frames leave by what the emulator knows of Ethernet."""
_FIRST_PORT = 1024


def _nothing() -> None:
    """Does nothing."""


def bridge(
    plan: Mapping[str, Any],
    interfaces: tuple[str, str],
    *,
    options: Sequence[str] = (),
    seconds: float | None = None,
    ready: Callable[[], None] = _nothing,
) -> Report:
    """Forwards all frames between ``interfaces``, over the link of ``plan``.

    Runs until this process is interrupted or terminated, or for ``seconds``. The interfaces must be up; addresses of
    this host on them would answer beside the link. Non-IP frames pass, too. Calls ``ready`` when frames pass.

    Raises:
        UnavailableError: this host lacks a requirement, or such an interface.
        MethodError: the emulator failed.
    """
    require("weir emulate --between", (), ("weir-emu",), tun=False)
    for name in interfaces:
        if "/" in name or not (_INTERFACES / name / "ifindex").exists():
            more = "; one in a namespace, NAMESPACE/IF, needs --switch" if "/" in name else ""
            raise UnavailableError(f"--between: there is no interface {name!r} on this host{more}")
    if interfaces[0] == interfaces[1]:
        raise UnavailableError(f"--between: expected two interfaces, found {interfaces[0]!r} twice")
    ports = [(name, None) for name in interfaces]
    return _forward(plan, ports, options, seconds, Tally(), ready)


def switch(
    plan: Mapping[str, Any],
    interfaces: Sequence[Interface],
    *,
    options: Sequence[str] = (),
    seconds: float | None = None,
    ready: Callable[[], None] = _nothing,
) -> SwitchReport:
    """Forwards all frames between ``interfaces``, over the switch of ``plan``, which learns Ethernet addresses.

    Runs until this process is interrupted or terminated, or for ``seconds``. Addresses of this host on the interfaces
    would answer beside the switch. Calls ``ready`` when frames pass.

    Raises:
        UnavailableError: this host lacks a requirement.
        MethodError: the emulator failed.
    """
    require("weir emulate --switch", (), ("weir-emu",), tun=False)
    ports = [(interface.name, interface.path) for interface in interfaces]
    tally = SwitchTally([interface.word for interface in interfaces], plan)
    return _forward(plan, ports, options, seconds, tally, ready)


def _forward(
    plan: Mapping[str, Any],
    ports: Sequence[tuple[str, str | None]],
    options: Sequence[str],
    seconds: float | None,
    tally: Counter[_R],
    ready: Callable[[], None],
) -> _R:
    """Forwards frames between ports, each an interface and the file of its namespace, until this process is told."""
    nodes = [number for number, node in enumerate(plan["nodes"]) if node["kind"] == "host"]
    hosts = [
        {"node": node, "netns": netns, "address": _ADDRESS.format(number), "device": name}
        for number, (node, (name, netns)) in enumerate(zip(nodes, ports, strict=True), 1)
    ]
    over = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_until_told(over))
        variables = environment(_owner.new())
        emulator = stack.enter_context(Emulator(plan, hosts, _FIRST_PORT, ["--bridge", *options], variables))
        ready()

        def await_end() -> None:
            over.wait(seconds)
            with contextlib.suppress(MethodError):  # if it is gone, `measure_by` reports it
                emulator.stop()

        threading.Thread(target=await_end, daemon=True).start()
        return emulator.measure_by(tally)


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
