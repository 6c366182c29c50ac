"""Measures the floating-point state that ptrace transfers on this machine.

User-Mode Linux stores that state of each program in a field of fixed size; a field that is too small fails (EFAULT) or
corrupts memory. The measurement forks, so it runs in a process of its own: this file, as a program that imports nothing
of weir, in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys

__all__ = ["main", "measure"]

_PTRACE_TRACEME = 0
_PTRACE_GETREGSET = 0x4204
_NT_X86_XSTATE = 0x202
_MAX_BYTES = 1 << 20


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@functools.cache
def measure() -> int:
    """Bytes of the extended state that ``PTRACE_GETREGSET`` returns for ``NT_X86_XSTATE``.

    Raises:
        LabError: this machine does not permit a process to trace its child.
    """
    from weir.lab._errors import LabError

    alone = [sys.executable, "-I", "-S", __file__]
    done = subprocess.run(alone, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or not done.stdout.strip().isdigit():
        raise LabError(f"processes cannot be traced here (ptrace): {done.stderr.strip() or 'no answer'}")
    return int(done.stdout)


def main() -> None:
    """Prints the number of bytes."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    child = os.fork()
    if child == 0:
        if libc.ptrace(_PTRACE_TRACEME, 0, None, None):
            os._exit(ctypes.get_errno())
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        sys.exit(os.strerror(os.waitstatus_to_exitcode(status)))
    try:
        print(_state_bytes(libc, child))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _state_bytes(libc: ctypes.CDLL, child: int) -> int:
    buffer = ctypes.create_string_buffer(_MAX_BYTES)
    vector = _IoVec(ctypes.addressof(buffer), _MAX_BYTES)
    if libc.ptrace(_PTRACE_GETREGSET, child, _NT_X86_XSTATE, ctypes.addressof(vector)):
        sys.exit(os.strerror(ctypes.get_errno()))
    return int(vector.length)


if __name__ == "__main__":
    main()
