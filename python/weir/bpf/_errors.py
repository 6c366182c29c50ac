"""What ``weir-bpf`` says when it cannot."""

from __future__ import annotations

from weir._errors import MethodError

__all__ = ["BpfError", "BpfRequestError"]


class BpfError(MethodError):
    """The host or the kernel does not take a congestion control; the message says why and what to do."""


class BpfRequestError(BpfError):
    """There is no such congestion control, option or name, or the source is wrong."""
