"""Runs a program behind the link, and its peer at the far end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import IO, Any

from weir import _owner
from weir._errors import MethodError
from weir._programs import find
from weir.hosts.namespaces import within
from weir.hosts.needs import require
from weir.hosts.network import Network, environment
from weir.hosts.wiring import Host
from weir.plan import typed

from ._emulator import Emulator
from ._hosts import wiring
from ._tally import Report

__all__ = ["CANNOT_EXECUTE", "NOT_FOUND", "emulate"]

PEER_VARIABLE = "WEIR_PEER"
NOT_FOUND = 127
CANNOT_EXECUTE = 126
_SIGNAL_BASE = 128
_TOOLS = ("ip", "nsenter", "sysctl")
_SERVICES = ("echo", "sink", "source")
_READY = b"ready\n"
_INTERRUPT = (signal.SIGINT,)
_INTERRUPTS_S, _GRACE_S = 0.1, 1.0
"""How often interrupts are looked for, and the time before one is forwarded."""


def emulate(
    plan: Mapping[str, Any],
    command: Sequence[str],
    *,
    peers: Sequence[Sequence[str]] = (),
    options: Sequence[str] = (),
) -> tuple[int, Report]:
    """Runs ``command`` behind the link of ``plan``; returns its exit code, as a shell does, and the measurements.

    The command's only exit is the link. At the far end, whose address is in its ``WEIR_PEER``, ``weir-agent`` serves
    echo (port 7), sink (9) and source (19) over TCP and UDP, beside the programs ``peers``, which get the command's
    address. ``options`` are arguments of ``weir-emu``. However this ends, even if this process is killed, neither
    processes nor namespaces are left.

    Raises:
        UnavailableError: this host lacks a requirement.
        MethodError: the emulator failed.
    """
    require("weir emulate", _TOOLS, ("weir-emu", "weir-agent"))
    tag = _owner.new()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_undisturbed())
        network = stack.enter_context(Network(wiring(tag, typed(plan).links[0].mtu_bytes), tag))
        here, peer = network.wiring.hosts
        variables = environment(tag)
        jobs = [here.to_job(), peer.to_job()]
        emulator = stack.enter_context(Emulator(plan, jobs, network.wiring.first_port, options, variables))
        stack.enter_context(_services(peer, variables))
        for program in peers:
            stack.enter_context(_beside(peer, program, {**variables, PEER_VARIABLE: here.address}, network))
        code, report = _run(here, command, {**variables, PEER_VARIABLE: peer.address}, emulator, network)
    return code, replace(report, warnings=(*report.warnings, *network.warnings))


def _run(
    host: Host, command: Sequence[str], variables: Mapping[str, str], emulator: Emulator, network: Network
) -> tuple[int, Report]:
    """Runs ``command`` and measures until it ends."""

    def prepare() -> None:
        _heed_interrupts()
        network.join()

    try:
        process = _start(host, command, variables, preexec_fn=prepare)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
        emulator.stop()
        return code, _cannot(emulator.measure(), command, error)

    def await_end() -> None:
        process.wait()
        with contextlib.suppress(MethodError):  # if it is gone, `measure` reports it
            emulator.stop()

    threading.Thread(target=await_end, daemon=True).start()
    with _forwarding(process), _forwarding_interrupts(process):
        report = emulator.measure()
    code = process.wait()
    return (code if code >= 0 else _SIGNAL_BASE - code), report


def _cannot(report: Report, command: Sequence[str], error: OSError) -> Report:
    return Report(report.seconds, report.up, report.down, report.stats, (f"{command[0]}: {error.strerror}",))


def _start(host: Host, command: Sequence[str], variables: Mapping[str, str], **how: Any) -> subprocess.Popen[bytes]:
    """Starts ``command`` in the namespace of ``host``."""
    return within(host.path, lambda: subprocess.Popen(list(command), env=dict(variables), **how))


def _heed_interrupts() -> None:
    """Child processes inherit that interrupts are ignored; the command alone decides on them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Leaves interrupts to the command, which also gets them from the terminal: it decides whether to end.

    They stay pending for :func:`_forwarding_interrupts`, unless a library has a thread that does not block them: there
    they are lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
    try:
        yield
    finally:
        signal.sigtimedwait(_INTERRUPT, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _forwarding_interrupts(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forwards interrupts of kill(1) to the command, which does not get them; those of the terminal it has got.

    If they went to the whole process group, the command has got them, too: it has some time to end first.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen = signal.sigtimedwait(_INTERRUPT, _INTERRUPTS_S)
            if seen is not None and seen.si_code <= 0 and not over.wait(_GRACE_S):  # 0 and less: from a process
                process.send_signal(signal.SIGINT)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@contextlib.contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forwards termination requests to the command; with it, everything ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def forward(number: int, _: FrameType | None) -> None:
        process.send_signal(number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, forward) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def _services(host: Host, variables: Mapping[str, str]) -> Iterator[None]:
    """The services of the far end; they exit when their standard input ends.

    Raises:
        MethodError: they cannot be reached.
    """
    program = [str(find("weir-agent")), *_SERVICES, "--address", host.address]
    pipe = subprocess.PIPE
    process = _start(host, program, variables, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != _READY:
            words = process.stderr.read().decode(errors="replace").strip()
            raise MethodError(f"the peer's services do not come up: {words}")
        yield
    finally:
        _leave(process)


@contextlib.contextmanager
def _beside(host: Host, program: Sequence[str], variables: Mapping[str, str], network: Network) -> Iterator[None]:
    """A program of the user at the far end; its output goes to standard error.

    Raises:
        MethodError: it cannot be started.
    """
    try:
        process = _start(host, program, variables, stdin=subprocess.DEVNULL, stdout=os.dup(2), preexec_fn=network.join)
    except OSError as error:
        raise MethodError(f"--peer: {program[0]}: {error.strerror}") from error
    try:
        yield
    finally:
        process.terminate()
        _leave(process)


_PATIENCE_S = 2.0


def _leave(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of ``process``, and ends it if it takes too long."""
    pipes: list[IO[bytes] | None] = [process.stdin, process.stdout, process.stderr]
    for pipe in pipes:
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
