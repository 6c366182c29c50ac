"""The nodes of a run: one connection each for all of its cells, with the clock and the deployed programs.

A thread for each node asks its clock once a second: that is the central relative clock, it keeps the node from leaving
(:meth:`weir.hosts.relay.Relay.limit`), and it shows a way that hangs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from weir.deploy import Keeper, KernelLog
from weir.hosts.place import Clock, PlaceError, here_ns
from weir.hosts.relay import Relay
from weir.inventory import Node
from weir.methods import LostError, MethodError

__all__ = ["Fleet", "Member", "together"]

LIMIT_S = 20
"""A node that hears nothing for so long restores itself."""
_HANGS_S = 6.0
"""A clock that does not answer for so long is one of a node that is lost."""
_EVERY_S = 1.0
_QUIET_NS = 100_000_000
"""Before and after the begin of a run, clocks are not asked."""
_AT_ONCE = 32
_FIRST = 9
_KEPT = 4000

if TYPE_CHECKING:
    from weir.methods.hosts._calibration import Check

Connect = Callable[[Node], Relay]
_What = TypeVar("_What")
_Result = TypeVar("_Result")


def together(function: Callable[[_What], _Result], many: Iterable[_What]) -> list[_Result]:
    """``function`` of each of ``many``, several at a time; the first error is raised when all have ended."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(function, one) for one in many]
    return [future.result() for future in futures]


@dataclass
class Member:
    """A connected node."""

    node: Node
    place: Relay
    keeper: Keeper
    address: str
    """In the experiment."""
    device: str | None
    restored: int
    """Changes that an experiment before had left there."""
    header_bytes: int = 0
    """Header that ``device`` puts before an IP packet."""
    readings: list[Clock] = field(default_factory=list)
    heard_ns: int = 0
    """When the node was last heard, by this process' clock."""
    programs: dict[str, str] = field(default_factory=dict)
    """Paths of deployed programs, by name."""
    boot: str = ""
    """Of its kernel, once it was asked."""
    ways: dict[str, dict[str, str]] = field(default_factory=dict)
    """Device and router by which it reached an address before it was changed."""
    described: bool = False
    """Whether a cell has its environment."""
    _asked_s: float | None = None

    @property
    def name(self) -> str:
        """Of the node."""
        return self.node.name

    def ask_clock(self, times: int = 1) -> None:
        """Adds readings.

        Raises:
            PlaceError: it does not answer.
        """
        for _ in range(times):
            self.readings.append(self.place.reading())
            self.heard_ns = here_ns()
        del self.readings[:-_KEPT]

    def ask_watched(self) -> None:
        """Adds a reading; meanwhile :attr:`hangs` may become true. For one thread.

        Raises:
            PlaceError: it does not answer.
        """
        self._asked_s = time.monotonic()
        self.ask_clock()
        self._asked_s = None

    @property
    def hangs(self) -> bool:
        """Whether its clock was asked long ago."""
        asked = self._asked_s
        return asked is not None and time.monotonic() - asked > _HANGS_S


class Fleet:
    """Connections to nodes, made when they are needed. Closing it restores every node."""

    def __init__(self, connect: Connect, limit_s: int = LIMIT_S) -> None:
        """Connects to nothing yet."""
        self._connect = connect
        self._limit_s = limit_s
        self._members: dict[str, Member] = {}
        self._closed = threading.Event()
        self.calibrated: dict[str, tuple[float, list[Check]]] = {}
        """Measurements of the network, with the time of each (:mod:`weir.methods.hosts._calibration`)."""
        self._watch: threading.Thread | None = None
        self.begin_ns = 0
        """When the last run begins, by this process' clock: meanwhile, nodes have nothing else to do."""

    def members(self, nodes: Sequence[Node]) -> list[Member]:
        """The connected ``nodes``, in their order; those that were lost are tried once more.

        Those that can be connected are, and stay so, also if others cannot.

        Raises:
            LostError: some cannot be reached, or were lost meanwhile.
            MethodError: some are in use, or have no address in the experiment. The message has each of them.
        """
        for name, member in list(self._members.items()):
            if member.place.gone:
                self.drop(name)
        missing = [node for node in nodes if node.name not in self._members]
        joined = together(self._tried, missing)
        self._members |= {each.name: each for each in joined if isinstance(each, Member)}
        _require([each for each in joined if isinstance(each, MethodError)])
        if self._watch is None:
            self._watch = threading.Thread(target=self._watch_all, daemon=True)
            self._watch.start()
        return [self._members[node.name] for node in nodes]

    @property
    def all(self) -> Mapping[str, Member]:
        """All connected nodes, by name."""
        return self._members

    def drop(self, name: str) -> None:
        """Gives a node up; what is left there restores itself."""
        member = self._members.pop(name, None)
        if member is not None:
            with contextlib.suppress(MethodError):
                member.place.cut()
                member.place.close()

    def close(self) -> dict[str, KernelLog]:
        """Restores all nodes, and leaves them; the messages of their kernels since they were claimed, by node."""
        self._closed.set()
        logs: dict[str, KernelLog] = {}

        def leave(member: Member) -> None:
            with contextlib.suppress(MethodError):
                if not member.place.gone:
                    member.keeper.restore()
            if member.keeper.kernel_log is not None:
                logs[member.name] = member.keeper.kernel_log
            member.place.close()

        together(leave, self._members.values())
        self._members = {}
        return logs

    def _tried(self, node: Node) -> Member | MethodError:
        """The member, or why ``node`` is none."""
        try:
            return self._join(node)
        except MethodError as error:
            return error

    def _join(self, node: Node) -> Member:
        try:
            place = self._connect(node)
        except PlaceError as error:
            raise LostError(str(error)) from error
        try:
            keeper = Keeper(place, node.python)
            restored = len(keeper.claim(self._limit_s))
            address, device, header_bytes = _address(keeper, node)
            member = Member(node, place, keeper, address, device, restored, header_bytes)
            member.ask_clock(_FIRST)
        except BaseException as error:
            lost = isinstance(error, PlaceError) and place.gone
            place.close()
            if lost:
                raise LostError(f"{node.name} is lost, before the run had begun: {error}") from error
            raise
        threading.Thread(target=self._ask_always, args=(member,), daemon=True).start()
        return member

    def _ask_always(self, member: Member) -> None:
        with contextlib.suppress(PlaceError):
            while not self._closed.wait(_EVERY_S) and not member.place.gone:
                if abs(here_ns() - self.begin_ns) < _QUIET_NS:
                    self._closed.wait(2 * _QUIET_NS / 1e9)
                member.ask_watched()

    def _watch_all(self) -> None:
        while not self._closed.wait(_EVERY_S):
            for member in list(self._members.values()):
                if member.hangs and not member.place.gone:
                    member.place.cut()


def _require(failed: Sequence[MethodError]) -> None:
    """Raises one error for all of ``failed``, of the kind of that which is lost, if one is."""
    if not failed:
        return
    lost = any(isinstance(error, LostError) for error in failed)
    kind = LostError if lost else MethodError
    raise kind("; ".join(str(error) for error in failed)) from failed[0]


def _address(keeper: Keeper, node: Node) -> tuple[str, str | None, int]:
    """The address of ``node`` in the experiment, its device, and the bytes of a header there."""
    told = node.experiment_address
    if told is None and node.interface is None:
        told = _own_address(keeper, node)
    answer = keeper.ask("address", device=None if told else node.interface, address=told)
    return answer["address"], answer["device"] or node.interface, answer["header_bytes"]


def _own_address(keeper: Keeper, node: Node) -> str:
    """The address by which the node was reached, as itself sees it: that of its SSH connection."""
    connection = keeper.place.run(("printenv", "SSH_CONNECTION")).out.decode().split()
    return connection[2] if len(connection) == 4 else node.address
