"""Loads weir's congestion controls into the running kernel, through the program ``weir-bpf``.

``Loader`` holds them for a run: they are removed when its context ends or this process dies. ``keep`` and ``drop``
serve other programs: a control that ``keep`` loads stays until ``drop``. The kernel has one list of names for all
network namespaces.
"""

from __future__ import annotations

from weir.bpf._errors import BpfError, BpfRequestError
from weir.bpf._loader import Loader, kernel_name
from weir.bpf._parity import Difference, Parity, parity
from weir.bpf._pins import drop, drop_all, keep, kept, ours, unpin
from weir.bpf._status import KernelCc, Status, status

__all__ = [
    "BpfError",
    "BpfRequestError",
    "Difference",
    "KernelCc",
    "Loader",
    "Parity",
    "Status",
    "drop",
    "drop_all",
    "keep",
    "kept",
    "kernel_name",
    "ours",
    "parity",
    "status",
    "unpin",
]
