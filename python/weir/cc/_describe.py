"""Describes a shared object in a separate process that is confined and watched.

Loading a shared object executes it. So the asking process never loads it. A child does, which cannot write, has no
network and a time limit. Its answer is read as data.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from weir import _group, confine, control
from weir.cc._watch import Watch
from weir.cc.errors import ControlError

__all__ = ["Described", "Option", "Requirement", "describe", "requirements"]

LIMIT_S = 30.0
"""Time limit for a description."""
_CPU_S = 10
_MEMORY_BYTES = 4 << 30
_THREADS = 64
_OPEN_FILES = 256
_FILE_BYTES = 16 << 20
"""It may write to no folder, but it loads a copy of the object from a file without a name."""
_ANSWER_BYTES = 1 << 20
_POLL_S = 0.05
_MAX_OPTIONS = 20
_MAX_REQUIREMENTS = 100
_MAX_PROBES = 9 * 8
"""Of all trials together."""
_PROBE = re.compile(r"[A-Za-z0-9_.-]{1,12}")


_Told = TypeVar("_Told")


@dataclass(frozen=True)
class Option:
    """An option of a congestion control."""

    name: str
    doc: str
    default: int
    min: int
    max: int


@dataclass(frozen=True)
class Requirement:
    """What every congestion control should do."""

    name: str
    instead: str | None
    """What this one does instead; ``None`` if it does it."""
    source: str
    """The RFC that demands it; empty where none does."""

    @property
    def title(self) -> str:
        """The requirement, and the RFC that demands it."""
        return f"{self.name} ({self.source})" if self.source else self.name


@dataclass(frozen=True)
class Described:
    """A congestion control's description of itself."""

    name: str
    title: str
    year: int
    source: str
    state_bytes: int
    needs_ecn: bool
    needs_accecn: bool
    has_cong_control: bool
    options: tuple[Option, ...]
    probes: tuple[str, ...]
    """The values that it showed by ``WEIR_PROBE`` in the trial."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The whole description, as JSON types."""


def describe(shared: Path, shown: str) -> Described:
    """The description of a shared object or a Python file, after a trial of its operations.

    ``shown`` is the name that users know; for a C file, errors contain its lines.

    Raises:
        ControlError: it is no congestion control, does something forbidden, dies or does not end; or this host cannot
            confine the process that loads it.
    """
    return _told(shared, shown, suite=False, read=lambda answer: _described(answer["described"]))


def requirements(shared: Path, shown: str) -> tuple[Requirement, ...]:
    """What the control in a shared object does of that which every control should do; as :func:`describe`.

    Raises:
        ControlError: as of :func:`describe`.
    """
    return _told(shared, shown, suite=True, read=lambda answer: _required(answer["suite"]))


def _told(shared: Path, shown: str, *, suite: bool, read: Callable[[Any], _Told]) -> _Told:
    """What ``read`` finds in the child's answer."""
    shared = shared.absolute()
    ready, answer = os.pipe()
    groups = _group.make(_THREADS, _MEMORY_BYTES)
    try:
        with Watch({str(shared): shown}) as watch:
            process = _start(shared, shown, answer, watch, groups, suite=suite)
            os.close(answer)
            answer = -1
            try:
                text = _followed(process, ready, watch, shown)
            finally:
                process.kill()
                process.wait()
            return _parsed(text, shown, process, watch, str(shared), read)
    finally:
        _group.remove(groups)
        os.close(ready)
        if answer >= 0:
            os.close(answer)


def _start(
    shared: Path, shown: str, answer: int, watch: Watch, groups: Sequence[Path], *, suite: bool
) -> subprocess.Popen[bytes]:
    policy = confine.Policy(
        read=(*_files(shared), *_own_files()),
        keep=(answer, watch.fd),
        memory_bytes=_MEMORY_BYTES,
        cpu_s=_CPU_S,
        file_bytes=_FILE_BYTES,
        open_files=_OPEN_FILES,
        processes=_THREADS,
        groups=groups,
        alone=True,
    )
    arguments = [sys.executable, "-S", "-m", "weir.cc._child", str(shared), str(answer), str(watch.fd), str(int(suite))]
    try:
        command = confine.command(arguments, policy)
    except confine.ConfineError as error:
        raise ControlError(f"{shown}: {error}") from None
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(answer, watch.fd),
        start_new_session=True,
        env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        cwd="/",
    )


def _files(shared: Path) -> list[Path]:
    return control.files(shared) if control.is_python(shared.name) else [shared]


def _own_files() -> list[Path]:
    """The folders of Python and weir, which may lie below a hidden folder."""
    return [path for path in {Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]} if path.is_dir()]


def _followed(process: subprocess.Popen[bytes], ready: int, watch: Watch, shown: str) -> bytes:
    """The child's answer, read until it ends."""
    text = b""
    end = time.monotonic() + LIMIT_S
    while True:
        if select.select([ready], [], [], _POLL_S)[0]:
            part = os.read(ready, 1 << 16)
            text += part
            if not part:
                break
            if len(text) > _ANSWER_BYTES:
                raise ControlError(f"{shown}: its description of itself is too long")
        if process.poll() is not None and not select.select([ready], [], [], 0)[0]:
            break  # a process of its own has inherited its end of the pipe
        if (why := watch.stuck(process.pid)) is not None:
            raise ControlError(why)
        if time.monotonic() > end:
            raise ControlError(f"{shown}: describing it takes more than {LIMIT_S:.0f} s")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return text


def _parsed(
    text: bytes, shown: str, process: subprocess.Popen[bytes], watch: Watch, path: str, read: Callable[[Any], _Told]
) -> _Told:
    if not text:
        code = process.returncode
        if code == confine.FAILED:
            raise ControlError(f"{shown}: the process that would load it could not be confined")
        why = watch.death(code)
        spent = f" It may take {_CPU_S} s of processor time and {_MEMORY_BYTES >> 30} GiB of memory."
        ended = f"{shown}: the process that loaded it ended with {_ended(code)} before it was described."
        raise ControlError(why or ended + (spent if code == -signal.SIGKILL else ""))
    try:
        answer = json.loads(text)
        if isinstance(answer, dict) and isinstance(error := answer.get("error"), str):
            said = error.replace(path, shown)[:4000]
            raise ControlError(said if shown in said else f"{shown}: {said}")
        return read(answer)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ControlError(f"{shown}: its description of itself is malformed") from None


def _ended(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"


def _described(raw: Any) -> Described:
    """The description in ``raw``, which the control may have written itself.

    Raises:
        ValueError, KeyError, TypeError: it is malformed.
    """
    options = tuple(Option(**_typed(o, Option.__annotations__)) for o in raw["options"])
    if len(options) > _MAX_OPTIONS:
        raise ValueError
    probes = tuple(raw["probes"])
    if len(probes) > _MAX_PROBES or not all(isinstance(name, str) and _PROBE.fullmatch(name) for name in probes):
        raise ValueError
    apart = ("options", "probes", "raw")
    kinds = {name: kind for name, kind in Described.__annotations__.items() if name not in apart}
    return Described(**_typed({name: raw[name] for name in kinds}, kinds), options=options, probes=probes, raw=raw)


def _required(raw: Any) -> tuple[Requirement, ...]:
    """The requirements in ``raw``, which the control may have written itself.

    Raises:
        ValueError, TypeError: they are malformed.
    """
    found = tuple(Requirement(*one) for one in raw)
    for one in found:
        if len(found) > _MAX_REQUIREMENTS or not isinstance(one.instead, str | None):
            raise TypeError
        if not isinstance(one.name, str) or not isinstance(one.source, str):
            raise TypeError
        if not all(len(text) <= 400 and text.isprintable() for text in (one.name, one.instead or "", one.source)):
            raise ValueError
    return found


def _typed(values: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """``values``, if each is of its kind and no text is long or unprintable."""
    for name, value in values.items():
        if type(value).__name__ != kinds[name]:
            raise TypeError
        if isinstance(value, str) and (len(value) > 400 or not value.isprintable()):
            raise ValueError
    return dict(values)
