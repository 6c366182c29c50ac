"""Links of single pairs of sites, from a file: ``connections`` as in an inventory, with queues and losses besides."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.language import (
    MAX_BYTES,
    NAME,
    About,
    Definitions,
    Enough,
    Invalid,
    ListOf,
    Log,
    Map,
    Mark,
    Node,
    Scalar,
    Spec,
    Struct,
    choose,
    key,
    read,
)
from weir.testbed._errors import TestbedError
from weir.testbed._shape import LinkOptions, Shape

__all__ = ["Pair", "Written", "read_links"]

Pair = tuple[str, str]
"""Two sites, in the order of the alphabet."""
_ABOUT = About("a file of links", "files of links", "`connections`")
_PARTS = ("rtt", "rate", "queue", "loss")


@dataclass(frozen=True)
class Written:
    """A value of the file as text of the scenario language, and its place."""

    mark: Mark
    text: str


class _Words:
    """A value that the scenario language reads."""

    def __init__(self, what: str) -> None:
        self.what = what

    def parse(self, node: Node, log: Log) -> Written:
        return Written(node.mark, node.text if isinstance(node, Scalar) else _flow(node))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": ["string", "object"]}


def _flow(node: Node) -> str:
    """``node`` in one line of YAML."""
    match node:
        case Map():
            return "{" + ", ".join(f"{_flow(entry.key)}: {_flow(entry.value)}" for entry in node.entries) + "}"
        case Scalar():
            return node.text if node.plain else json.dumps(node.text)
        case _:
            return "[" + ", ".join(map(_flow, node.items)) + "]"


@dataclass(frozen=True, kw_only=True)
class _Connection(Spec):
    """A link between two sites; what is not given is as for all others."""

    between: tuple[str, ...] = key(ListOf(NAME, 2, 2), "Two sites.")
    rtt: Written | None = key(_Words("a delay"), "Round-trip time.", default=None)  # noqa: RUF009
    rate: Written | None = key(_Words("a rate"), "Its rate.", default=None)  # noqa: RUF009
    queue: Written | None = key(_Words("a queue"), "The queue before it.", default=None)  # noqa: RUF009
    loss: Written | None = key(_Words("losses"), "Random losses, in each direction.", default=None)  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class _Root(Spec):
    """The links between sites."""

    connections: tuple[_Connection, ...] = key(ListOf(Struct(_Connection), 1, 325), "Links of pairs of sites.")


Check = Callable[[LinkOptions], Mapping[str, str]]
"""Says what is wrong with options: messages by option."""


def read_links(path: Path, shape: Shape, defaults: LinkOptions, check: Check) -> dict[Pair, LinkOptions]:
    """The links that ``path`` gives, completed by ``defaults``.

    Raises:
        TestbedError: it cannot be read, or has mistakes; the message has all, each with its place.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise TestbedError(f"--links: {path}: {error.strerror}") from error
    log = Log(str(path), _ABOUT)
    found: dict[Pair, LinkOptions] = {}
    with suppress(Invalid, Enough):
        for connection in Struct(_Root).parse(read(text, log), log).connections:
            pair = _pair(connection, shape, found, log)
            written = {part: getattr(connection, part) for part in _PARTS}
            given = {part: value.text for part, value in written.items() if value is not None}
            options = LinkOptions(**given).over(defaults)
            for part, message in check(options).items():
                log.error(connection.mark if written.get(part) is None else written[part].mark, message)
            if pair is not None:
                found[pair] = options
    if log.failed:
        raise TestbedError("\n".join(str(problem) for problem in log.problems))
    return found


def _pair(connection: _Connection, shape: Shape, found: Mapping[Pair, Any], log: Log) -> Pair | None:
    """The sites of ``connection``; ``None`` and a problem if they are no pair, or were there before."""
    mark = connection.at("between")
    for site in connection.between:
        if site not in shape.sets:
            log.error(mark, f"`{site}` is not a site of this test bed{choose(site, shape.sets, shape.sets)}")
            return None
    one, other = sorted(connection.between)
    if one == other:
        log.error(mark, f"`{one}` and `{other}` are one site; expected two")
        return None
    if (one, other) in found:
        log.error(mark, f"the link between `{one}` and `{other}` is there twice")
        return None
    return one, other
