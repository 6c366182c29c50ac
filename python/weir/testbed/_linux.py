"""System calls that Python's library lacks: namespaces, mounts, and what a node's first process asks of the kernel.

They concern the calling thread; whoever uses them has one thread only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator

__all__ = [
    "NEW_IPC",
    "NEW_MOUNTS",
    "NEW_NAMES",
    "NEW_NETWORK",
    "NEW_PROCESSES",
    "MountFlag",
    "die_with_parent",
    "drop_privileges",
    "enter_network",
    "inside",
    "mount",
    "new_network",
    "processes_of_own",
    "shift_clocks",
    "swap_root",
    "unshare",
]

NEW_MOUNTS = 0x0002_0000
NEW_NAMES = 0x0400_0000
"""Host name (uts_namespaces(7))."""
NEW_IPC = 0x0800_0000
NEW_PROCESSES = 0x2000_0000
NEW_NETWORK = 0x4000_0000
_NEW_TIME = 0x80

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_SIGKILL = 9
_MNT_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}
"""The number of pivot_root(2), for which glibc has no function, by machine."""

_libc = ctypes.CDLL(None, use_errno=True)


class MountFlag:
    """Flags of mount(2)."""

    READ_ONLY = 1
    NO_SUID = 2
    NO_DEVICES = 4
    NO_EXEC = 8
    REMOUNT = 32
    BIND = 4096
    RECURSIVE = 16384
    PRIVATE = 1 << 18


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


def unshare(flags: int) -> None:
    """Moves this thread into new namespaces (unshare(2)).

    Raises:
        OSError: the kernel refuses.
    """
    _check(_libc.unshare(flags), "unshare")


def _enter(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


@contextlib.contextmanager
def inside(network: int) -> Iterator[None]:
    """Within the context, this thread is in the network namespace of the descriptor ``network``.

    Raises:
        OSError: the kernel refuses.
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(network, NEW_NETWORK)
        try:
            yield
        finally:
            _enter(own, NEW_NETWORK)
    finally:
        os.close(own)


def enter_network(network: int) -> None:
    """Moves this thread into a network namespace for ever.

    Raises:
        OSError: the kernel refuses.
    """
    _enter(network, NEW_NETWORK)


def new_network() -> int:
    """A descriptor of a new network namespace, which exists as long as a descriptor or process holds it.

    Raises:
        OSError: the kernel refuses.
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(NEW_NETWORK)
        try:
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _enter(own, NEW_NETWORK)
    finally:
        os.close(own)


@contextlib.contextmanager
def processes_of_own() -> Iterator[None]:
    """The first child that is forked in the context is the first process of a new process-id namespace.

    When it ends, the kernel ends all others there (pid_namespaces(7)).

    Raises:
        OSError: the kernel refuses.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(NEW_PROCESSES)
        try:
            yield
        finally:
            _enter(own, NEW_PROCESSES)
    finally:
        os.close(own)


def shift_clocks(offset_ns: int) -> bool:
    """The clocks that count from the boot are ahead by ``offset_ns`` for future children (time_namespaces(7)).

    Whether the kernel can do that. ``/proc`` must be that of this process' own process ids.
    """
    seconds, rest = divmod(offset_ns, 10**9)
    try:
        unshare(_NEW_TIME)
        text = "".join(f"{clock} {seconds} {rest}\n" for clock in ("monotonic", "boottime"))
        with open("/proc/self/timens_offsets", "w", encoding="ascii") as file:  # noqa: PTH123 - one write
            file.write(text)
    except OSError:
        return False
    return True


def die_with_parent() -> None:
    """The kernel kills this process when the thread that forked it ends (prctl(2))."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")


def drop_privileges(capabilities: Iterable[int]) -> None:
    """Neither this process nor a program that it executes gets ``capabilities`` again (capabilities(7)).

    A number that the kernel does not know is left out.
    """
    for number in capabilities:
        _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str = "") -> None:
    """Mounts, remounts or binds (mount(2)).

    Raises:
        OSError: the kernel refuses.
    """
    words = (source.encode(), os.fsencode(target), None if kind is None else kind.encode())
    result = _libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {kind or source} at {target}")


def swap_root(root: str) -> None:
    """``root``, which is a mount, becomes this mount namespace's root; the former one leaves it (pivot_root(2)).

    Raises:
        OSError: the kernel refuses.
    """
    os.chdir(root)
    _check(_libc.syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount /")
    os.chdir("/")
