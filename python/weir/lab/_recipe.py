"""The changes to the kernel's sources, and the kernel's configuration.

The changes are the patches of ``lab/kernel``. Each must apply exactly, at most at another line. Differing sources are
refused, because some changes would otherwise fail silently, by corrupting memory or a result.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from weir.lab._errors import LabError
from weir.lab._files import digest, sources

__all__ = ["HZ", "STATE", "apply", "config", "patches", "recipe", "refused", "state"]

HZ = 1000
"""Jiffies per second: as in the simulator, and in most distributions' kernels of today."""
STATE = "arch/x86/um/weir-state.h"
"""Defines the size of the floating-point state, for the patch that makes room for it."""

_STATE_ROOM = 2696
"""Bytes that the sources provide for the floating-point state."""
_STACK_PAGE_BYTES = 4096
_STACK_ORDER = 2
"""Pages of a kernel stack, as a power of two, that the sources' own state needs."""
_OTHER = "Debian's linux-source-6.12 is known to work (WEIR_KERNEL_SOURCE names a tarball or an unpacked tree)"


def patches() -> list[Path]:
    """The patches, in the order in which they apply.

    Raises:
        LabError: this installation lacks them.
    """
    found = sorted((sources() / "kernel").glob("*.patch"))
    if not found:
        raise LabError(f"{sources()} lacks the patches of the kernel")
    return found


def state(xstate_bytes: int) -> str:
    """The text of the file ``STATE`` for a machine whose floating-point state has ``xstate_bytes``."""
    return f"#define WEIR_STATE_BYTES {_room(xstate_bytes)}\n"


def config(xstate_bytes: int) -> str:
    """The configuration: the enabled options, on top of ``allnoconfig``.

    The state lies on the kernel's stack, which has to grow with it. (With the 11,008 bytes of AMX: order 3.)
    """
    text = (sources() / "kernel.config").read_text(encoding="utf-8")
    order = _STACK_ORDER
    while (_STACK_PAGE_BYTES << order) < _room(xstate_bytes) - _STATE_ROOM + (_STACK_PAGE_BYTES << _STACK_ORDER):
        order += 1
    return text if order == _STACK_ORDER else f"{text}\nCONFIG_KERNEL_STACK_ORDER={order}\n"


def recipe(xstate_bytes: int) -> str:
    """A hash of the configuration without its comments, and of the changes."""
    options = [line for line in config(xstate_bytes).splitlines() if line.startswith(("CONFIG_", "# CONFIG_"))]
    return digest([*options, state(xstate_bytes), *(p.read_text(encoding="utf-8") for p in patches())])


def apply(patch: Path, tree: Path) -> None:
    """Applies ``patch`` to the sources below ``tree``.

    Raises:
        LabError: it does not apply exactly; changes made so far stay.
    """
    command = ["patch", "--strip=1", "--fuzz=0", "--forward", "--batch", "--input", str(patch.absolute())]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError("the program patch is missing; install the package patch") from error
    if done.returncode:
        said = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).strip().splitlines())
        raise LabError(f"{patch.name} does not apply to these kernel sources:\n{said}\n{_OTHER}")


def refused(options: str, written: str) -> Sequence[str]:
    """The lines of ``options`` that did not take effect in the configuration ``written``."""
    have = set(written.splitlines())
    return [line for line in options.splitlines() if line.startswith("CONFIG_") and line not in have]


def _room(xstate_bytes: int) -> int:
    """The room for the state: as in the sources if it fits, else a multiple of 64 bytes."""
    return _STATE_ROOM if xstate_bytes <= _STATE_ROOM else -(-xstate_bytes // 64) * 64
