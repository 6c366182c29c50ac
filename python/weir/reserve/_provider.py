"""The contract of a provider: four questions, each answered at once. Waiting, records and release are weir's."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from weir.reserve._request import Request

__all__ = ["Held", "Phase", "Provider", "State"]


class Phase(enum.Enum):
    """How far a reservation is."""

    WAITING = "waiting"
    """It is in the queue, or its nodes are being prepared."""
    ACTIVE = "active"
    """Its nodes can be used."""
    ENDED = "ended"
    """It is over: released, expired, refused, or failed."""


@dataclass(frozen=True)
class Held:
    """A reserved node."""

    name: str
    """As the scheduler calls it."""
    address: str
    """How it is reached by SSH: a name or an IP address."""
    port: int = 0
    """Of its SSH server; 0: the usual one."""
    user: str = ""
    """Empty: the inventory's."""


@dataclass(frozen=True)
class State:
    """What a scheduler says of a reservation."""

    phase: Phase
    nodes: tuple[Held, ...] = ()
    """The nodes, once they are known."""
    why: str = ""
    """In the scheduler's words: why it waits, or why it ended."""
    start: str = ""
    """When the scheduler expects it to start, in its words; empty if it does not say."""
    left_s: int | None = None
    """Seconds until the scheduler takes an active reservation back; ``None`` if it does not say."""


class Provider(ABC):
    """A source of nodes. Every call ends within seconds and may be repeated."""

    name: ClassVar[str]
    keys: ClassVar[Mapping[str, str]] = {}
    """Keys of a request that only this provider has, and what they mean."""
    paths: ClassVar[frozenset[str]] = frozenset()
    """Those of the keys whose first word is a path on this machine, or a program."""
    schedules: ClassVar[bool] = True
    """Whether nodes are taken from others: then a request needs a time limit, and nodes are given back."""

    confirms: ClassVar[bool] = True
    """Whether :meth:`state` says that a release is done; otherwise :meth:`release` itself waits for that."""

    def implied_nodes(self, said: Mapping[str, Any]) -> int | None:
        """The number of nodes that a request without ``nodes`` means; ``None``: it must have one."""
        return None

    def check(self, request: Request) -> None:
        """Checks the provider's own keys; by default there is nothing to check.

        Raises:
            RequestError: one is wrong.
        """
        return

    @abstractmethod
    def submit(self, request: Request, name: str) -> str:
        """Asks for nodes, under a name that no other reservation has; returns the scheduler's id. Does not wait.

        Raises:
            ReserveError: the scheduler refuses, or cannot be reached.
        """

    @abstractmethod
    def find(self, request: Request, name: str) -> str | None:
        """The id of the reservation called ``name``, whose submission was not answered; ``None`` if there is none.

        Raises:
            ReserveError: the scheduler cannot be reached.
        """

    @abstractmethod
    def state(self, request: Request, identity: str) -> State:
        """How far a reservation is. One that the scheduler does not know has ended.

        Raises:
            ReserveError: the scheduler cannot be reached.
        """

    @abstractmethod
    def release(self, request: Request, identity: str, name: str) -> None:
        """Gives the nodes back of the reservation that was submitted as ``name``. It may have ended already.

        Raises:
            ReserveError: the scheduler cannot be reached, or refuses.
        """
