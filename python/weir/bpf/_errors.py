"""Errors of ``weir-bpf``."""

from __future__ import annotations

from weir._errors import MethodError

__all__ = ["BpfError", "BpfRequestError"]


class BpfError(MethodError):
    """The host or the kernel rejects a congestion control; the message says why and what to do."""


class BpfRequestError(BpfError):
    """The congestion control, option or name does not exist, or the source is wrong."""
