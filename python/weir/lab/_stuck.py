"""Finds out whether a lab without progress loops endlessly in one of its modules, and in which function.

A lab's kernel is a process of the host: it is stopped for microseconds, as a debugger does, to read its position. A
loop differs from long work by its monotony: at every look, with computation in between, the same module is active,
called or calling, and often at the same instruction.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.lab._modules import Loaded, Place

__all__ = ["LOOKS", "QUIET_S", "Watchdog"]

QUIET_S = 10.0
"""Wall time without progress of the guest's clock before the lab is examined."""
LOOKS = 20
"""Number of looks at the same module that prove a loop."""
_EVERY_S = 0.25
_MIN_TICKS = 5
"""Clock ticks (1/100 s) that the lab must have computed between two looks, whatever the load of the machine."""

_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_GETREGS, _PTRACE_DETACH = 0x4206, 0x4207, 12, 17
_WALL = 0x4000_0000
_REGISTERS = struct.Struct("27Q")
_RIP, _RSP = 16, 19
"""Indices in ``struct user_regs_struct`` of x86-64 (``sys/user.h``)."""
_STACK_BYTES = 16_384
_WORD = 8
_MAX_OFFSET = (1 << 63) - 1
_STOP_S = 5.0
"""Wall time that a process may take to stop."""


@dataclass
class Watchdog:
    """Examines the lab whose processes descend from ``guard``."""

    guard: int
    modules: Sequence[Loaded]
    _seen: list[tuple[Place, bool]] = field(default_factory=list)
    """Its position at each look, and whether the instruction itself was there."""
    _next_s: float = 0.0
    _ticks: dict[int, int] = field(default_factory=dict)

    def look(self) -> Place | None:
        """Looks if it is time; returns the place of the loop, once it is certain."""
        now = time.monotonic()
        if now < self._next_s or not self.modules or platform.machine() != "x86_64":
            return None
        self._next_s = now + _EVERY_S
        ticks = {pid: _ticks(pid) for pid in _descendants(self.guard)}
        more = {pid: count - self._ticks[pid] for pid, count in ticks.items() if pid in self._ticks}
        busiest = max(more, key=lambda pid: more[pid], default=0)
        if self._ticks and more.get(busiest, 0) < _MIN_TICKS:
            return None
        self._ticks = ticks
        if not more:
            return None
        where = self._looked_at(busiest)
        if where is None or (self._seen and where[0].module != self._seen[0][0].module):
            self._seen.clear()
        if where is not None:
            self._seen.append(where)
        return self._verdict()

    def _verdict(self) -> Place | None:
        exact = [place for place, is_exact in self._seen if is_exact]
        if len(self._seen) < LOOKS or not exact:
            return None
        return Counter(exact).most_common(1)[0][0]

    def _looked_at(self, pid: int) -> tuple[Place, bool] | None:
        """As :meth:`_where`, from a thread: a process may refuse to stop, such as one that waits for its vfork(2).

        The thread then waits for that process' end, which requires that this one does not wait.
        """
        found: list[tuple[Place, bool] | None] = []
        thread = threading.Thread(target=lambda: found.append(self._where(pid)), daemon=True)
        thread.start()
        thread.join(_STOP_S)
        if thread.is_alive():
            self.modules = ()  # further looks are useless
        return found[0] if found else None

    def _where(self, pid: int) -> tuple[Place, bool] | None:
        """The innermost function of a module in which a process is, and whether its instruction is being executed."""
        with contextlib.suppress(OSError):
            instruction, stack = _state(pid)
            for address, is_exact in ((instruction, True), *((word, False) for word in stack)):
                for module in self.modules:
                    if module.holds(address):
                        return module.place(address), is_exact
        return None


def _stat(pid: int) -> list[int]:
    """The numbers of /proc/PID/stat from the fourth field on: the first is the parent."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return [int(word) for word in text.rpartition(")")[2].split()[1:]]


def _ticks(pid: int) -> int:
    """Clock ticks that a process has computed."""
    try:
        fields = _stat(pid)
    except OSError:
        return 0
    return fields[10] + fields[11]


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(_stat(int(entry.name))[0], []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return found


def _state(pid: int) -> tuple[int, tuple[int, ...]]:
    """The address at which a process computes, and the words of its stack, the innermost first.

    Raises:
        OSError: it cannot be stopped, or is gone.
    """
    with _stopped(pid) as libc:
        buffer = ctypes.create_string_buffer(_REGISTERS.size)
        _call(libc, _PTRACE_GETREGS, pid, ctypes.addressof(buffer))
        registers = _REGISTERS.unpack(buffer.raw)
        top = registers[_RSP] & ~(_WORD - 1)
        size = _STACK_BYTES - top % _STACK_BYTES  # a kernel stack begins at a multiple of its size
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            if top > _MAX_OFFSET:  # no stack: a guest can set its registers at will
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            memory.seek(top)
            content = memory.read(size)
    words = struct.unpack(f"{len(content) // _WORD}Q", content[: len(content) // _WORD * _WORD])
    return registers[_RIP], words


@contextlib.contextmanager
def _stopped(pid: int) -> Iterator[ctypes.CDLL]:
    """Stops a process during the context."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    _call(libc, _PTRACE_SEIZE, pid, 0)
    _call(libc, _PTRACE_INTERRUPT, pid, 0)
    _, status = os.waitpid(pid, _WALL)
    if not os.WIFSTOPPED(status):
        raise ProcessLookupError(pid)
    # Forwards a signal that came first.
    given = 0 if status >> 16 else os.WSTOPSIG(status)
    try:
        yield libc
    finally:
        _call(libc, _PTRACE_DETACH, pid, given)


def _call(libc: ctypes.CDLL, request: int, pid: int, data: int) -> None:
    if libc.ptrace(request, pid, None, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
