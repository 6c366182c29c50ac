"""What workers need of this machine: weir itself, and the files of a method. Sent in pieces, once a cache."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import cloudpickle

import weir
from weir import methods
from weir.cluster import _far

__all__ = ["METHOD", "PIECE_BYTES", "WEIR", "Cargo", "Carried", "cargoes"]

WEIR = "weir"
METHOD = "method"
PIECE_BYTES = 4 << 20
"""Size of a piece: what Dask's scheduler holds of a transfer at a time."""

cloudpickle.register_pickle_by_value(_far)


class Carried:
    """A function or object of :mod:`weir.cluster._far` that a machine without weir can load.

    Dask would refer to the module by its name, and the scheduler, too, loads what it passes on.
    """

    def __init__(self, what: object) -> None:
        self._content = cloudpickle.dumps(what)
        self.__name__ = "weir"

    def __reduce__(self) -> tuple[object, ...]:
        """Loads as what it carries."""
        return cloudpickle.loads, (self._content,)

    def __call__(self, *_: object) -> None:
        """Here for Dask, which sends only what can be called."""
        raise RuntimeError("it is called where it was sent")


@dataclass(frozen=True)
class Cargo:
    """Files with their places in a folder that a worker makes of them."""

    name: str
    files: Mapping[str, Path]
    digest: str
    own: bool
    """Whether the user's cache may hold the files at the same places."""

    @property
    def known_files(self) -> tuple[str, ...]:
        """The places, if a worker's cache may have them."""
        return tuple(self.files) if self.own else ()

    def archive(self) -> BinaryIO:
        """A compressed archive in a temporary file."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - its reader closes it
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
            for place, path in self.files.items():
                _add(archive, place, path)
        file.seek(0)
        return file

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """The archive, in pieces with their offsets."""
        with self.archive() as file:
            offset = 0
            while content := file.read(PIECE_BYTES):
                yield offset, content
                offset += len(content)


def _add(archive: tarfile.TarFile, place: str, path: Path) -> None:
    content = path.read_bytes()
    about = tarfile.TarInfo(place)
    about.size = len(content)
    about.mode = 0o755 if os.access(path, os.X_OK) else 0o644
    archive.addfile(about, io.BytesIO(content))


def cargoes(method: methods.Method) -> list[Cargo]:
    """What a worker needs to execute cells by ``method``.

    Raises:
        weir.methods.MethodError: something of it is missing here.
    """
    found = [_cargo(WEIR, _far.contents(Path(weir.__file__).parent), own=False)]
    if files := method.baggage():
        found.append(_cargo(METHOD, files, own=True))
    return found


def _cargo(name: str, files: Mapping[str, Path], *, own: bool) -> Cargo:
    return Cargo(name, files, _far.digest(files), own)
