"""Names a congestion control for ``weir-bpf``, which compiles C files and loads no shared object."""

from __future__ import annotations

from pathlib import Path

from weir import cc as users
from weir.bpf._errors import BpfRequestError

__all__ = ["source_name"]


def source_name(cc: str) -> str:
    """The registered name ``cc``, or the path of its C file. A shared object's C file is the one it was built from.

    Raises:
        BpfRequestError: there is no such source, or it was edited since.
    """
    if not cc.endswith((".so", ".py")):
        return cc
    try:
        return str(users.source_of(Path(cc)))
    except users.ControlError as error:
        raise BpfRequestError(str(error)) from None
