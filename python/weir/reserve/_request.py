"""What is asked for: the typed form of ``reserve:`` in an inventory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir.reserve.errors import RequestError

__all__ = ["ADDRESS", "KEYS", "MAX_NODES", "USER", "FrontEnd", "Request", "parse", "to_json"]

MAX_NODES = 100_000
MAX_TIME_S = 366 * 86_400
_MAX_TEXT = 4096
ADDRESS = re.compile(r"(?!-)[A-Za-z0-9._:%-]{1,255}")
_JUMP = re.compile(r"(?!-)[A-Za-z0-9._:%@,-]{1,1024}")
USER = re.compile(r"(?!-)[A-Za-z0-9._@-]{1,64}")

KEYS: dict[str, str] = {
    "by": "The provider: static, slurm, oar, command, enoslib, or one that another package registers.",
    "nodes": "The number of nodes.",
    "time": "How long they are reserved at most, such as 1h. The scheduler takes them back then, whatever happened.",
    "partition": "The partition (Slurm) or queue (OAR); by default the scheduler's.",
    "queue": "Another name of `partition`.",
    "properties": "Which nodes, in the scheduler's language: `--constraint` of Slurm, `-p` of OAR.",
    "front_end": "The machine on which the scheduler's commands run, by SSH; by default this one. An address, or a "
    "mapping with `address`, and `user`, `port`, `key`, `jump`, `known_hosts`.",
}
"""The keys that every request may have, and what they mean; a provider has more of its own."""

_PROGRAMS = frozenset({"program", "python"})
"""Keys in which a word without a slash is a program, found as a shell finds it."""
_FRONT_END = ("address", "user", "port", "key", "jump", "known_hosts")


@dataclass(frozen=True)
class FrontEnd:
    """A machine on which the scheduler's commands run, reached by the system's ``ssh``."""

    address: str
    user: str = ""
    port: int = 0
    """0: what the user's configuration of SSH says."""
    key: str = ""
    """Path of the private key."""
    jump: str = ""
    """Hosts on the way, as ``ssh -J`` has them."""
    known_hosts: str = ""
    """Path of the file with the host's key; by default the user's."""

    def __str__(self) -> str:
        return f"{self.user}@{self.address}" if self.user else self.address


@dataclass(frozen=True)
class Request:
    """Nodes to be reserved."""

    by: str
    """The name of the provider."""
    nodes: int
    """How many."""
    time_s: int
    """For how long at most, seconds."""
    partition: str = ""
    """The partition or queue; empty: the scheduler's default."""
    properties: str = ""
    """Which nodes, in the scheduler's language."""
    front_end: FrontEnd | None = None
    """Where the scheduler's commands run; ``None``: on this machine."""
    options: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    """Keys of the provider's own, in order of their names."""

    def text(self, key: str) -> str:
        """The option ``key`` of the provider as text; empty if it is not given."""
        found = dict(self.options).get(key, "")
        return found if isinstance(found, str) else " ".join(found)

    def words(self, key: str) -> tuple[str, ...]:
        """The option ``key`` of the provider as a list, text as its only word; empty if it is not given."""
        found = dict(self.options).get(key, ())
        return (found,) if isinstance(found, str) else found


def parse(said: Mapping[str, Any], folder: Path | None = None) -> Request:
    """The request written as ``said``, a mapping of plain values as YAML and JSON have them.

    Args:
        folder: That of the file in which it is written: relative paths are relative to it.

    Raises:
        RequestError: it is wrong; ``key`` says where.
    """
    from weir.reserve._registry import get

    by = _text(said, "by")
    if not by:
        raise RequestError("by", "is missing: the name of a provider, such as slurm")
    provider = get(by)
    _refuse_unknown(said, {**KEYS, **provider.keys}, by)
    if "partition" in said and "queue" in said:
        raise RequestError("queue", "is another name of `partition`, which is given too")
    request = Request(
        by=by,
        nodes=_count(said, "nodes", MAX_NODES, default=provider.implied_nodes(said)),
        time_s=_time(said, needed=provider.schedules),
        partition=_text(said, "partition") or _text(said, "queue"),
        properties=_text(said, "properties"),
        front_end=_front_end(said.get("front_end"), folder),
        options=tuple((key, _option(key, said[key])) for key in sorted(provider.keys) if key in said),
    )
    provider.check(request)
    if folder is not None and request.front_end is None:
        return replace(request, options=_placed(request, provider.paths, folder))
    return request


def to_json(request: Request) -> dict[str, Any]:
    """What :func:`parse` reads as ``request``."""
    front = request.front_end
    said: dict[str, Any] = {"by": request.by, "nodes": request.nodes}
    said |= {"time": f"{request.time_s}s"} if request.time_s else {}
    said |= {key: text for key in ("partition", "properties") if (text := getattr(request, key))}
    if front is not None:
        said["front_end"] = {key: value for key in _FRONT_END if (value := getattr(front, key))}
    return said | {key: value if isinstance(value, str) else list(value) for key, value in request.options}


def _refuse_unknown(said: Mapping[str, Any], known: Mapping[str, str], by: str) -> None:
    for key in said:
        if key not in known:
            raise RequestError(str(key), f"is no key of a reservation by {by}; there are: {', '.join(known)}")


def _text(said: Mapping[str, Any], key: str) -> str:
    return _plain(key, said.get(key, ""))


def _plain(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RequestError(key, f"expected text, not {type(value).__name__}")
    text = str(value)
    if len(text) > _MAX_TEXT or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise RequestError(key, f"expected one line of at most {_MAX_TEXT} characters")
    return text


def _option(key: str, value: Any) -> str | tuple[str, ...]:
    return tuple(_plain(key, one) for one in value) if isinstance(value, list | tuple) else _plain(key, value)


def _count(said: Mapping[str, Any], key: str, most: int, default: int | None = None) -> int:
    value = said.get(key, default)
    if value is None:
        raise RequestError(key, "is missing: the number of nodes")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise RequestError(key, f"{value!r}: expected a whole number from 1 to {most}")
    return value


def _time(said: Mapping[str, Any], *, needed: bool) -> int:
    from weir.run.quantity import TIME, parse_quantity

    if "time" not in said:
        if needed:
            raise RequestError("time", "is missing: how long the nodes are reserved at most, such as 1h")
        return 0
    quantity = parse_quantity(str(said["time"]))
    if quantity is None or quantity.dimension != TIME or not 1 <= quantity.value <= MAX_TIME_S:
        raise RequestError("time", f"{said['time']!r}: expected a time from 1s to {MAX_TIME_S // 3600}h, such as 1h")
    return round(quantity.value)


def _placed(request: Request, paths: frozenset[str], folder: Path) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    """The options, with paths made absolute."""
    placed = dict(request.options)
    for key in paths & placed.keys():
        first, *rest = request.words(key)
        first = first if "/" not in first and key in _PROGRAMS else _path(first, folder)
        placed[key] = (first, *rest) if rest or not isinstance(placed[key], str) else first
    return tuple(placed.items())


def _path(text: str, folder: Path | None) -> str:
    path = Path(text).expanduser()
    return str(path if folder is None else (folder / path).absolute())


def _front_end(said: Any, folder: Path | None) -> FrontEnd | None:
    if said is None:
        return None
    if not isinstance(said, Mapping):
        said = {"address": said}
    for key in said:
        if key not in _FRONT_END:
            raise RequestError(f"front_end.{key}", f"is no key of a front end; there are: {', '.join(_FRONT_END)}")
    values = {key: _plain(f"front_end.{key}", said[key]) for key in _FRONT_END if key in said and key != "port"}
    _match(values.get("address", ""), "front_end.address", ADDRESS.fullmatch, "an address or a name of a host")
    if values.get("user"):
        _match(values["user"], "front_end.user", USER.fullmatch, "the name of a user")
    if values.get("jump"):
        _match(values["jump"], "front_end.jump", _JUMP.fullmatch, "hosts, as `ssh -J` has them")
    values |= {key: _path(values[key], folder) for key in ("key", "known_hosts") if values.get(key)}
    port = _count({"port": said["port"]}, "port", 65_535) if "port" in said else 0
    return FrontEnd(**values, port=port)


def _match(text: str, key: str, test: Callable[[str], object], expected: str) -> None:
    if not test(text):
        raise RequestError(key, f"{text!r}: expected {expected}")
