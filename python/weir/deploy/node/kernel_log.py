"""The messages of the kernel since an instant, as far as the user of this process may read them."""

from __future__ import annotations

import ctypes
import os

from weir.deploy.node.base import Change

__all__ = ["kernel_log_mark", "kernel_log_since"]

_READ_ALL, _SIZE = 3, 10
"""Actions of syslog(2)."""
_MOST_LOG_BYTES = 1 << 18
_MOST_RING_BYTES = 1 << 25


def _ring() -> bytes:
    """The kernel's ring buffer.

    Raises:
        OSError: it cannot be read; as a rule, because the user is not root (``kernel.dmesg_restrict``).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    size = libc.klogctl(_SIZE, None, 0)
    ring = ctypes.create_string_buffer(min(max(size, 1), _MOST_RING_BYTES))
    count = -1 if size < 0 else libc.klogctl(_READ_ALL, ring, len(ring))
    if count < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return ring.raw[:count]


def kernel_log_mark() -> str:
    """The last message now; empty: there is none, or none that can be read."""
    try:
        return _ring().rstrip(b"\n").rpartition(b"\n")[2].decode(errors="replace")
    except OSError:
        return ""


def kernel_log_since(mark: str) -> Change:
    """``text``: the messages after ``mark``, the last 256 KiB of them; ``left_out``: the bytes before; ``why`` not."""
    try:
        lines = _ring().decode(errors="replace").splitlines(keepends=True)
    except OSError as error:
        return {"text": "", "left_out": 0, "why": f"cannot be read: {error.strerror}"}
    at = max((number for number, line in enumerate(lines) if mark and line.rstrip("\n") == mark), default=-1)
    text = "".join(lines[at + 1 :])
    kept = text[-_MOST_LOG_BYTES:]
    return {"text": kept, "left_out": len(text) - len(kept), "why": None}
