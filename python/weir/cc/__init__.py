"""Users' congestion controls: C files and shared objects that scenarios name by path.

A C file is built when it is needed; a shared object must be what the C file beside it says. Either is loaded only in a
confined process: :func:`control` asks a child what it offers, and the simulator runs it in a worker of its own.

Everything here speaks of ``name``, the path as the user wrote it, and says that in its errors.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir.cc import _build, _source
from weir.cc._build import cache, compiled
from weir.cc._describe import Described, Option, describe
from weir.cc._source import is_file_name, source_of
from weir.cc._watch import Watch
from weir.cc.errors import ControlError
from weir.plan import Plan, tcp_flows

__all__ = [
    "Control",
    "ControlError",
    "Described",
    "Option",
    "Watch",
    "cache",
    "compiled",
    "control",
    "controls_of",
    "describe",
    "file_hash",
    "identity",
    "is_file_name",
    "object_of",
    "serve",
    "served",
    "source_of",
    "sources_of",
]


@dataclass(frozen=True)
class Control:
    """A user's congestion control, ready to be executed."""

    name: str
    """The path, as the user wrote it."""
    shared: Path
    """What the simulator loads."""
    identity: str
    """The hash of what it is made of; see :func:`identity`."""
    about: Described


def identity(name: str) -> str:
    """What tells the control at path ``name`` from any other: the hash of its source, or of an object without one.

    A shared object of ``weir cc build`` has the identity of its source, so that one control is one, whatever a method
    makes of it.

    Raises:
        ControlError: a file cannot be read, or a shared object is older than the source beside it.
    """
    path = Path(name)
    if path.suffix == ".c":
        return _source.source_hash(path)
    _source.refuse_stale(path)
    return _source.built_from(path) or _source.content_hash(path)


def file_hash(name: str) -> str:
    """The hash of what the control at path ``name`` is now: a C file with its headers, or the object itself.

    Raises:
        ControlError: it cannot be read.
    """
    path = Path(name)
    return _source.source_hash(path) if path.suffix == ".c" else _source.content_hash(path)


def object_of(name: str) -> Path:
    """The shared object of the control at path ``name``; a C file is compiled if the cache lacks it.

    Raises:
        ControlError: it does not compile.
    """
    path = Path(name)
    return _build.object_of(path) if path.suffix == ".c" else path.absolute()


def controls_of(plan: Plan) -> list[str]:
    """The names of the users' controls that flows of ``plan`` use, each once."""
    return list(sources_of(plan))


def sources_of(plan: Plan) -> dict[str, str]:
    """Which source each users' control of ``plan`` is, by its name, in the order of the flows."""
    return {tcp.cc: tcp.cc_source or "" for _, tcp in tcp_flows(plan) if is_file_name(tcp.cc)}


_LOADED: dict[str, Path] = {}


def serve(objects: Mapping[str, str]) -> None:
    """Says that this process is there for loading ``objects``: the shared object of each control, by its name."""
    from weir import _weir

    _LOADED.update({name: Path(path) for name, path in objects.items()})
    _weir.cc_permit_loading()


def served(name: str) -> Path:
    """The shared object that this process may load for the control at path ``name``.

    Raises:
        ControlError: it is none of those that :func:`serve` named.
    """
    if name not in _LOADED:
        raise ControlError(f"{name} is a program: it is loaded only by a worker that is confined to that")
    return _LOADED[name]


def control(name: str) -> Control:
    """The control at path ``name``, built, described and tried; within a process once for each state of its files.

    Raises:
        ControlError: it cannot be used; the message says why.
    """
    shared = object_of(name)
    return _ready(name, identity(name), shared, _source.content_hash(shared))


@functools.lru_cache(maxsize=256)
def _ready(name: str, of: str, shared: Path, content: str) -> Control:
    return Control(name, shared, of, describe(shared, name))
