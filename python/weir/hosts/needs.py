"""This machine's missing requirements for networks of its own kernel: privilege, devices, programs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from weir._errors import UnavailableError
from weir._programs import ProgramError, find

__all__ = ["lacking", "require"]

_TUN = Path("/dev/net/tun")


def lacking(tools: Iterable[str], programs: Iterable[str], *, tun: bool = True) -> Iterator[str]:
    """All missing requirements, for people.

    Args:
        tools: programs of the system, such as ``ip``.
        programs: programs that come with weir.
        tun: whether TUN devices are needed.
    """
    if os.uname().sysname != "Linux":
        yield "it needs Linux"
        return
    if os.geteuid() != 0:
        yield "it needs root, to make network namespaces and devices"
    if tun and not _TUN.exists():
        yield f"{_TUN} is missing: load the kernel module tun"
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        yield f"{', '.join(absent)} missing: install iproute2, procps and util-linux"
    for program in programs:
        try:
            find(program)
        except ProgramError as error:
            yield str(error)


def require(what: str, tools: Iterable[str], programs: Iterable[str], *, tun: bool = True) -> None:
    """Verifies that ``what`` is possible; the arguments are those of :func:`lacking`.

    Raises:
        UnavailableError: it is not; the message lists all missing requirements.
    """
    missing = "; ".join(lacking(tools, programs, tun=tun))
    if missing:
        raise UnavailableError(f"{what} cannot run here: {missing}")
