"""Users' congestion controls: C files, shared objects and Python files that scenarios name by path.

A C file is built on demand; a shared object must match the C file beside it. All are loaded only in a confined
process: :func:`control` lets a child describe them, and the simulator runs them in a worker of its own.

Errors contain ``name``, the path as the user wrote it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from weir import control as python
from weir.cc import _build, _source
from weir.cc._build import accepted_by_kernel, bpf_compiler, cache, compiled, note_accepted
from weir.cc._describe import Described, Option, Requirement, describe, requirements
from weir.cc._new import write_skeleton
from weir.cc._source import is_file_name, source_of
from weir.cc._watch import Watch
from weir.cc.errors import ControlError
from weir.plan import Plan, tcp_flows

__all__ = [
    "Control",
    "ControlError",
    "Described",
    "Option",
    "Requirement",
    "Watch",
    "accepted_by_kernel",
    "bpf_compiler",
    "bpf_object",
    "cache",
    "compiled",
    "control",
    "controls_of",
    "controls_that",
    "describe",
    "explicit_controls",
    "file_hash",
    "files_of",
    "identity",
    "is_file_name",
    "no_kernel",
    "note_accepted",
    "object_of",
    "requirements",
    "serve",
    "served",
    "source_of",
    "sources_of",
    "write_skeleton",
]


_T = TypeVar("_T")


@dataclass(frozen=True)
class Control:
    """A user's congestion control, ready to run."""

    name: str
    """The path, as the user wrote it."""
    shared: Path
    """The shared object or the Python file for the simulator."""
    identity: str
    """Hash of its source; see :func:`identity`."""
    about: Described


def identity(name: str) -> str:
    """Identifies the control at path ``name``: the hash of its source, or of a shared object without one.

    A shared object of ``weir cc build`` has the identity of its source, so that a control has one identity for all
    methods.

    Raises:
        ControlError: a file cannot be read, or a shared object is older than the source beside it.
    """
    path = Path(name)
    if path.suffix in (".c", ".py"):
        return file_hash(name)
    _source.refuse_stale(path)
    return _source.built_from(path) or _source.content_hash(path)


def file_hash(name: str) -> str:
    """Hash of the current files of the control at path ``name``: a C file with its headers, the shared object, or a
    Python file with what it imports and names beside it.

    Raises:
        ControlError: a file cannot be read.
    """
    path = Path(name)
    if path.suffix == ".py":
        return _of_python(python.identity, path)
    return _source.source_hash(path) if path.suffix == ".c" else _source.content_hash(path)


def object_of(name: str) -> Path:
    """What a process loads for the control at path ``name``: its shared object, or its Python file. Compiles a C file
    if the cache lacks it.

    Raises:
        ControlError: it does not compile.
    """
    path = Path(name)
    return _build.object_of(path) if path.suffix == ".c" else path.absolute()


def files_of(loaded: Path) -> list[Path]:
    """The files that a process reads to load ``loaded``, a result of :func:`object_of`.

    Raises:
        ControlError: it cannot be read.
    """
    return _of_python(python.files, loaded) if loaded.suffix == ".py" else [loaded]


def _of_python(ask: Callable[[Path], _T], source: Path) -> _T:
    try:
        return ask(source)
    except OSError as error:
        raise ControlError(f"{error.filename or source}: {error.strerror or error}") from None


def bpf_object(name: str, of: str, *, old: bool) -> bytes:
    """The control at path ``name`` for a kernel, as a BPF object; that of a shared object is made from its source.

    Args:
        name: The path.
        of: The hash of its source in the plan: :func:`identity`.
        old: For kernels before Linux 6.10.

    Raises:
        ControlError: it does not compile, or its source is another one by now.
    """
    return _build.bpf_object(_source.source_of(Path(name)), of, old=old)


def controls_of(plan: Plan) -> list[str]:
    """The names of the users' controls that flows of ``plan`` use, each once."""
    return list(sources_of(plan))


def sources_of(plan: Plan) -> dict[str, str]:
    """The source of each user's control of ``plan``, by name, in the order of the flows."""
    return {tcp.cc: tcp.cc_source or "" for _, tcp in tcp_flows(plan) if is_file_name(tcp.cc)}


def no_kernel(plan: Plan) -> str | None:
    """Why no kernel can execute ``plan``, if a control of it is in Python, or gets explicit feedback from routers."""
    found = next((name for name in controls_of(plan) if python.is_python(name)), None)
    if found is not None:
        return f"cc: {found}: a control in Python runs in the simulator only (`sim`)"
    queues = explicit_controls()
    names = (transport.cc for _, transport in tcp_flows(plan))
    told = next((name for name in names if name in queues), None)
    if told is None:
        return None
    return (
        f"cc: {told}: routers tell it what to do, by a header that no kernel has: it runs in the simulator only (`sim`)"
    )


@functools.cache
def explicit_controls() -> Mapping[str, str]:
    """The congestion controls that get explicit feedback, each with the kind of the queue that gives it."""
    from weir import _weir

    return {cc["name"]: cc["queue"] for cc in json.loads(_weir.cc_everywhere()) if cc["queue"]}


@functools.cache
def controls_that(say: Literal["needs_ecn", "needs_accecn", "has_cong_control"]) -> frozenset[str]:
    """The registered congestion controls that say this of themselves; ``needs_accecn``: they also send ECT(1), in the
    simulator (RFC 9331).
    """
    from weir import _weir

    return frozenset(cc["name"] for cc in json.loads(_weir.cc_list()) if cc[say])


_LOADED: dict[str, Path] = {}


def serve(objects: Mapping[str, str]) -> None:
    """Allows this process to load ``objects``: the shared object of each control, by its name."""
    from weir import _weir

    _LOADED.update({name: Path(path) for name, path in objects.items()})
    _weir.cc_permit_loading()


def served(name: str) -> Path:
    """The shared object that this process may load for the control at path ``name``.

    Raises:
        ControlError: :func:`serve` did not name it.
    """
    if name not in _LOADED:
        raise ControlError(f"{name} is a program: it is loaded only by a worker that is confined to that")
    return _LOADED[name]


def control(name: str) -> Control:
    """The control at path ``name``, built, described and tried; cached in the process for each state of its files.

    Raises:
        ControlError: it cannot be used; the message says why.
    """
    shared = object_of(name)
    content = _source.content_hash(shared) if shared.suffix != ".py" else ""
    return _ready(name, identity(name), shared, content)


@functools.lru_cache(maxsize=256)
def _ready(name: str, of: str, shared: Path, content: str) -> Control:
    return Control(name, shared, of, describe(shared, name))
