"""The files of a user's congestion control: the C source with the headers beside it, or a shared object."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from weir._weir import CcSources
from weir.cc.errors import ControlError

__all__ = ["built_from", "content_hash", "is_file_name", "read", "refuse_stale", "source_hash", "source_of"]

_MAX_BYTES = 8 << 20
_MARK = re.compile(rb"weir-cc-built-from:(sha256:[0-9a-f]{64})\0")


def is_file_name(name: str) -> bool:
    """Whether ``name`` in a scenario is the path of a user's congestion control."""
    return name.endswith((".so", ".c", ".py"))


def read(source: Path) -> tuple[CcSources, str]:
    """Reads the C file ``source`` and the headers beside it that it includes; returns them and the hash of all.

    Raises:
        ControlError: a file cannot be read, or a header's name is computed.
    """
    try:
        found = CcSources(source)
    except ValueError as error:
        raise ControlError(_without_number(str(error))) from None
    total = hashlib.sha256()
    headers = ((os.fsencode(name), content) for name, content in found.headers)
    for name_and_content in ((b"", found.main), *headers):
        for part in name_and_content:
            total.update(len(part).to_bytes(8, "little") + part)
    return found, f"sha256:{total.hexdigest()}"


def source_hash(source: Path) -> str:
    """Hash of the C file ``source`` and the headers beside it that it includes.

    Raises:
        ControlError: a file cannot be read, or a header's name is computed.
    """
    return read(source)[1]


def content_hash(path: Path) -> str:
    """The hash of a file's content.

    Raises:
        ControlError: it cannot be read.
    """
    return f"sha256:{hashlib.sha256(_read(path)).hexdigest()}"


def built_from(shared: Path) -> str | None:
    """The hash of the source from which ``weir cc build`` made ``shared``; ``None`` if something else made it.

    Searches the file without loading it.

    Raises:
        ControlError: it cannot be read.
    """
    found = _MARK.search(_read(shared))
    return None if found is None else found[1].decode()


def source_of(path: Path) -> Path:
    """The C file of the congestion control at ``path``: itself, or the one that a shared object was built from.

    Raises:
        ControlError: there is none beside the shared object, or it is not known to be the shared object's source; or
            the control is in Python.
    """
    if path.suffix == ".c":
        return path
    if path.suffix == ".py":
        raise ControlError(f"{path}: a control in Python runs in the simulator only: no kernel executes Python")
    source = path.with_suffix(".c")
    if not source.is_file():
        raise ControlError(f"{path}: a kernel needs its source, and there is no {source}; name the C file instead")
    if built_from(path) is None:
        raise ControlError(
            f"{path}: a kernel needs its source, and `weir cc build` did not make it, so its source may differ from "
            f"{source}; name the C file instead"
        )
    refuse_stale(path)
    return source


def refuse_stale(shared: Path) -> None:
    """Raises ControlError if ``shared`` was built from another version of the C file beside it."""
    source = shared.with_suffix(".c")
    if not source.is_file():
        return
    of = built_from(shared)
    if of is not None and of != source_hash(source):
        raise ControlError(
            f"{shared} was built from another version of {source}: run `weir cc build {source}` again, "
            f"or name the source, `cc: {source}`, which is then built on demand"
        )


def _without_number(message: str) -> str:
    return re.sub(r" \(os error \d+\)$", "", message)


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            path.stat()
            raise ControlError(f"{path} is not a file")
        if path.stat().st_size > _MAX_BYTES:
            raise ControlError(f"{path} has more than {_MAX_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise ControlError(f"{path}: {error.strerror}") from error
