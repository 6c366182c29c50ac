"""Records which pins in the BPF file system are weir's: those whose file is still the one that ``keep`` recorded."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from weir import _seal

__all__ = ["folder", "forget", "is_ours", "note"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def folder() -> Path:
    """The folder of the pins: below ``/sys/fs/bpf``, or below ``WEIR_BPFFS``."""
    return Path(os.environ.get("WEIR_BPFFS", "/sys/fs/bpf")) / "weir"


def note(name: str) -> None:
    """Records that the pin ``name`` is weir's. If that fails, ``weir clean`` will leave the pin alone."""
    with contextlib.suppress(OSError):
        text = _text(name)
        record = _record(name)
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        record.write_text(f"{text} {_seal.seal(text)}\n", encoding="utf-8")


def is_ours(name: str) -> bool:
    """Whether the pin ``name`` is the one that ``note`` recorded, and not another of that name."""
    try:
        text, _, sealed = _record(name).read_text(encoding="utf-8").rstrip("\n").rpartition(" ")
        return text == _text(name) and _seal.is_sealed(text, sealed)
    except (OSError, ValueError):
        return False


def forget(name: str) -> None:
    """Removes the record of ``note``."""
    with contextlib.suppress(OSError):
        _record(name).unlink()


def _record(name: str) -> Path:
    return _seal.folder() / "pins" / name


def _text(name: str) -> str:
    """The identity of this pin: inode numbers are reused only after a restart."""
    about = (folder() / name).lstat()
    boot = _BOOT.read_text(encoding="ascii").strip()
    return f"pin {name} {boot} {about.st_dev} {about.st_ino} {about.st_mtime_ns}"
