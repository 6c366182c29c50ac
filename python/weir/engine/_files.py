"""Files that survive a crash, and the detection of a full disk."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from weir._files import sync_folder, write_atomic

__all__ = ["is_disk_full", "json_bytes", "sync_folder", "write_atomic", "write_json"]


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON, atomically.

    Raises:
        OSError: as :func:`write_atomic`.
    """
    write_atomic(path, _text(value))


def json_bytes(value: Any) -> bytes:
    """``value`` as the same JSON, in bytes."""
    return _text(value).encode()


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def is_disk_full(error: BaseException) -> bool:
    """Whether ``error`` means that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
