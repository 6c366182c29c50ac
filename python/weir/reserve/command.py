"""Nodes that an executable reserves, of any kind: the thesis' "external scripts" (section 4.3).

It is called once a question, reads one JSON object from its standard input and writes one to its standard output;
docs/reservation.md describes both. What it says is checked, and bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from weir.reserve._command import ask
from weir.reserve._provider import Held, Phase, Provider, State
from weir.reserve._request import ADDRESS, MAX_NODES, USER, Request, to_json
from weir.reserve.errors import RequestError, ReserveError

__all__ = ["CONTRACT", "Command"]

CONTRACT = 1
"""The version of the contract, which every question has."""
_MAX_TEXT = 1000
_NAME = re.compile(r"(?!-)[A-Za-z0-9._:-]{1,255}")


class Command(Provider):
    """The provider ``command``."""

    name = "command"
    keys: ClassVar[Mapping[str, str]] = {
        "program": "The executable and its arguments, as a list; a path is relative to the inventory's folder.",
        "options": "What else it is told, as a list: `request.options` of each question.",
    }
    paths: ClassVar[frozenset[str]] = frozenset({"program"})
    timeout_s: ClassVar[float] = 300.0
    """For an answer."""

    def check(self, request: Request) -> None:
        if not request.words("program"):
            raise RequestError("program", "is missing: the executable that reserves, such as [./reserve.py]")

    def submit(self, request: Request, name: str) -> str:
        identity = self._ask(request, {"do": "submit", "name": name}).get("id")
        if not isinstance(identity, str | int) or not _text(identity):
            raise _wrong(request, "`id` with the reservation's number or name", identity)
        return _text(identity)

    def find(self, request: Request, name: str) -> str | None:
        identity = self._ask(request, {"do": "find", "name": name}).get("id")
        return None if identity is None else _text(identity)

    def state(self, request: Request, identity: str) -> State:
        said = self._ask(request, {"do": "state", "id": identity})
        try:
            phase = Phase(said.get("state"))
        except ValueError as error:
            expected = "`state` with " + ", ".join(one.value for one in Phase)
            raise _wrong(request, expected, said.get("state")) from error
        nodes = said.get("nodes") or []
        if not isinstance(nodes, list) or len(nodes) > MAX_NODES:
            raise _wrong(request, f"`nodes` with a list of at most {MAX_NODES}", nodes)
        left = said.get("left_s")
        return State(
            phase,
            tuple(_held(request, node) for node in nodes),
            _text(said.get("why") or ""),
            _text(said.get("start") or ""),
            left if isinstance(left, int) and not isinstance(left, bool) and left >= 0 else None,
        )

    def release(self, request: Request, identity: str, name: str) -> None:
        self._ask(request, {"do": "release", "id": identity, "name": name})

    def _ask(self, request: Request, question: Mapping[str, Any]) -> dict[str, Any]:
        return _answered(request, question, self.timeout_s)


def _answered(request: Request, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The answer to a question.

    Raises:
        UnansweredError: it gives none in time, or too much.
        ReserveError: it refuses, or its answer is none.
    """
    given = json.dumps({"contract": CONTRACT, **question, "request": to_json(request)}) + "\n"
    answer = ask(request.front_end, request.words("program"), given.encode(), timeout_s)
    try:
        said = json.loads(answer.out)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and said.get("error"):
        raise ReserveError(f"{answer.command} refuses: {_text(said['error'])}")
    if answer.code:
        raise ReserveError(f"{answer.command}: exit code {answer.code}: {answer.words}")
    if not isinstance(said, dict):
        raise ReserveError(f"{answer.command}: expected one JSON object, got {answer.words[:200]!r}")
    return said


def _held(request: Request, said: object) -> Held:
    node = {"address": said} if isinstance(said, str) else said
    if not isinstance(node, dict) or not isinstance(node.get("address"), str):
        raise _wrong(request, "a node with `address`", said)
    address, name, user = node["address"], node.get("name") or node["address"], node.get("user") or ""
    port = node.get("port") or 0
    if not ADDRESS.fullmatch(address):
        raise _wrong(request, "a node's `address`", address)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(request, "a node's `name`", name)
    if not isinstance(user, str) or (user and not USER.fullmatch(user)):
        raise _wrong(request, "a node's `user`", user)
    if not isinstance(port, int) or not 0 <= port <= 65_535:
        raise _wrong(request, "a node's `port`", port)
    return Held(name, address, port, user)


def _text(said: object) -> str:
    """One line that a terminal and a file can take."""
    return "".join(letter if letter.isprintable() else " " for letter in str(said)[:_MAX_TEXT]).strip()


def _wrong(request: Request, expected: str, said: object) -> ReserveError:
    return ReserveError(f"{request.words('program')[0]}: expected {expected}, got {_text(repr(said))[:200]}")
