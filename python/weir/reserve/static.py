"""Nodes that need no reservation, by their names: ``reserve: {by: static, names: [a, b]}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from weir.reserve._provider import Held, Phase, Provider, State
from weir.reserve._request import Request
from weir.reserve.errors import RequestError

__all__ = ["Static"]


class Static(Provider):
    """The first ``nodes`` of the named ones."""

    name = "static"
    keys: ClassVar[Mapping[str, str]] = {"names": "Addresses of the nodes."}
    schedules = False

    def implied_nodes(self, said: Mapping[str, Any]) -> int | None:
        names = said.get("names")
        return len(names) if isinstance(names, list | tuple) and names else None

    def check(self, request: Request) -> None:
        names = request.words("names")
        if not names:
            raise RequestError("names", "is missing: the addresses of the nodes")
        if len(names) < request.nodes:
            raise RequestError("nodes", f"{request.nodes} nodes are wanted, {len(names)} are named")

    def submit(self, request: Request, name: str) -> str:
        return name

    def find(self, request: Request, name: str) -> str | None:
        return name

    def state(self, request: Request, identity: str) -> State:
        return State(Phase.ACTIVE, tuple(Held(one, one) for one in request.words("names")[: request.nodes]))

    def release(self, request: Request, identity: str, name: str) -> None:
        return None
