"""What ``weir-bpf`` is told for a congestion control: it compiles C files, and loads no shared object."""

from __future__ import annotations

from pathlib import Path

from weir import cc as users
from weir.bpf._errors import BpfRequestError

__all__ = ["source_name"]


def source_name(cc: str) -> str:
    """The registered name ``cc``, or the path of its C file, which a shared object was built from.

    Raises:
        BpfRequestError: there is none, or it was edited since.
    """
    if not cc.endswith(".so"):
        return cc
    try:
        return str(users.source_of(Path(cc)))
    except users.ControlError as error:
        raise BpfRequestError(str(error)) from None
