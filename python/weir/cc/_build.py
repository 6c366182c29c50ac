"""Builds a C source for the simulator; a cache keeps the results by their inputs."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from weir import _cache, _weir, confine
from weir._remove import remove_quietly
from weir.cc._source import content_hash, read, source_hash
from weir.cc.errors import ControlError

__all__ = ["accepted_by_kernel", "bpf_compiler", "bpf_object", "cache", "compiled", "note_accepted", "object_of"]

_CHECKSUM = "checksum"
_ACCEPTED = "accepted"


def cache() -> Path:
    """The user's cache folder of built objects; it need not exist. XDG_CACHE_HOME overrides its place."""
    return _cache.base() / "cc"


def object_of(source: Path, *, sanitize: bool = False) -> Path:
    """The shared object of the C file ``source``; compiles it if the cache lacks it.

    The cache key is the source, the headers beside it, weir's headers, the compiler and its flags. Nothing is loaded.

    Raises:
        ControlError: it does not compile; the message contains the compiler's.
    """
    if (why := _cache.foreign(cache())) is not None:
        raise ControlError(why)
    place = cache() / _key(source, sanitize) / f"{source.stem}.so"
    if not _is_whole(place):
        remove_quietly(place.parent)
        place.parent.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent.parent, prefix="build-", ignore_cleanup_errors=True) as name:
            ready = Path(name) / "ready"
            ready.mkdir()
            compiled(source, ready / place.name, sanitize=sanitize)
            (ready / _CHECKSUM).write_text(content_hash(ready / place.name), encoding="ascii")
            _move(ready, place.parent)
    return place


def compiled(source: Path, shared: Path, *, sanitize: bool = False) -> str:
    """Compiles ``source`` to ``shared``; returns the compiler's warnings.

    Raises:
        ControlError: it does not compile, or this host cannot confine the compiler.
    """
    sources, of = read(source)
    try:
        return _weir.cc_compile(sources, shared, of, sanitize, confine.by())
    except (ValueError, confine.ConfineError) as error:
        raise ControlError(str(error)) from None


def bpf_object(source: Path, of: str, *, old: bool) -> bytes:
    """The BPF object of ``source``, whose hash must be ``of``; ``old``: for kernels before Linux 6.10.

    Raises:
        ControlError: it does not compile, it was edited, or this host cannot confine the compiler.
    """
    sources, found = read(source)
    if found != of:
        raise ControlError(f"{source} was edited since the plan was made: run it again")
    try:
        return _weir.cc_compile_bpf(sources, old, confine.by())
    except (ValueError, confine.ConfineError) as error:
        raise ControlError(str(error)) from None


@functools.cache
def bpf_compiler() -> str:
    """The compiler of :func:`bpf_object`, with its version."""
    command = os.environ.get("WEIR_CLANG") or "clang"
    try:
        said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return command
    return said.partition("\n")[0].strip() or command


def note_accepted(source: Path) -> None:
    """Remembers that the verifier of this host's running kernel accepts the C file ``source``, as it is now.

    Raises:
        ControlError: it cannot be read, or the cache cannot be written.
    """
    if (why := _cache.foreign(cache())) is not None:
        raise ControlError(why)
    place = _accepted(source)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    except OSError as error:
        raise ControlError(f"{error.filename or place}: {error.strerror or error}") from None


def accepted_by_kernel(source: Path) -> bool:
    """Whether :func:`note_accepted` was called for this state of ``source``, weir's headers, clang and the kernel.

    Raises:
        ControlError: it cannot be read.
    """
    return _cache.foreign(cache()) is None and _accepted(source).is_file()


def _accepted(source: Path) -> Path:
    kernel = os.uname()
    by = f"{source_hash(source)}\0{_recipe('', False)}\0{bpf_compiler()}\0{kernel.release}\0{kernel.version}"
    return cache() / _ACCEPTED / hashlib.sha256(by.encode()).hexdigest()[:32]


def _key(source: Path, sanitize: bool) -> str:
    decided_by = f"{source_hash(source)}\0{source.stem}\0{_recipe(os.environ.get('CC', ''), sanitize)}"
    return hashlib.sha256(decided_by.encode()).hexdigest()[:32]


@functools.cache
def _recipe(compiler: str, sanitize: bool) -> str:
    try:
        return hashlib.sha256(_weir.cc_recipe(sanitize).encode()).hexdigest()
    except ValueError as error:
        raise ControlError(str(error)) from None


def _is_whole(shared: Path) -> bool:
    """Whether ``shared`` is there as it was built: a machine that lost its power leaves half a file, for ever."""
    try:
        return content_hash(shared) == (shared.parent / _CHECKSUM).read_text(encoding="ascii", errors="replace")
    except (ControlError, OSError):
        return False


def _move(ready: Path, final: Path) -> None:
    """Moves a folder into its place, unless another process was faster."""
    try:
        ready.rename(final)
    except OSError:
        if not final.is_dir():
            raise
