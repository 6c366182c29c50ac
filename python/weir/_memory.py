"""How much memory this machine has, which of its files take of it, and what a process keeps."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_in_memory", "keep_freed", "machine_bytes"]


def machine_bytes() -> int:
    """The machine's memory in bytes, used and free."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_in_memory(folder: Path) -> bool:
    """Whether the files in ``folder`` are in memory, as those of a tmpfs(5) are.

    Raises:
        OSError: there is no such folder.
    """
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()  # proc(5)
    fields = [line.split() for line in mounts]
    return any(found[2] == wanted and found[found.index("-") + 1] in {"tmpfs", "ramfs"} for found in fields)


def keep_freed() -> None:
    """From now on the process keeps the memory that it frees, up to 256 MB, and Arrow takes its memory from there, too.

    A worker frees and allocates the tables of a cell many times a second; the kernel would clear every page each time.
    """
    import pyarrow as pa

    from weir import _weir

    _weir.keep_freed_memory()
    pa.set_memory_pool(pa.system_memory_pool())
