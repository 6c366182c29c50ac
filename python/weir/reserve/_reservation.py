"""Reserves, waits and releases. Whatever happens between, a record says what is reserved, and somebody gives it back:

this process at its end, its guardian if it was killed (:mod:`weir.reserve._guardian`), ``weir clean`` if both were, and
the scheduler, which has a time limit, if the machine was lost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.reserve import _guardian, _records
from weir.reserve._command import UnansweredError, UnreachedError, reach
from weir.reserve._provider import Held, Phase, State
from weir.reserve._records import Record
from weir.reserve._registry import get
from weir.reserve._request import Request
from weir.reserve.errors import ReserveError

__all__ = [
    "Progress",
    "Reservation",
    "forget",
    "give_back",
    "keep",
    "kept",
    "release",
    "release_all",
    "reserve",
    "reserved",
    "state",
    "usable",
    "wait",
]

_FIRST_S, _LAST_S = 0.5, 10.0
"""Pauses between questions: schedulers ask their users not to ask often."""
_OUTAGE_S = 120.0
"""So long the scheduler may be out of reach while a reservation waits."""
_UNSEEN_S = 120.0
"""A submission that is this old, and that the scheduler does not know, never came."""
_GONE_S = 60.0

Progress = Callable[["Reservation", State], None]
"""Told of each change of what the scheduler says."""


@dataclass(frozen=True)
class Reservation:
    """Nodes that were asked for."""

    record: Record

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.record.request

    @property
    def identity(self) -> str:
        """The scheduler's id."""
        return self.record.identity

    @property
    def alias(self) -> str:
        """The set of nodes that it is for."""
        return self.record.alias

    @property
    def alive(self) -> bool:
        """Whether it is in use: the process that made it runs, or it is kept for an inventory."""
        return self.record.alive

    def __str__(self) -> str:
        alias = f"{self.alias}: " if self.alias else ""
        return f"{alias}{self.request.by} {self.identity or self.record.name}"


def reserve(request: Request, *, alias: str = "") -> Reservation:
    """Asks for nodes; does not wait for them.

    Args:
        alias: The set of nodes, for messages and for finding it again.

    Raises:
        ReserveError: the scheduler refuses, or is out of reach. If it may have reserved nodes nevertheless, the message
            says so; ``weir clean`` gives them back.
    """
    record = _records.new(request, alias)
    if get(request.by).schedules:
        _guardian.watch(record.name)
    try:
        identity = _submitted(record)
    except UnansweredError as error:
        raise ReserveError(f"{error}; nodes may be reserved: `weir clean` gives them back") from error
    except ReserveError:
        _records.remove(record)
        raise
    except BaseException:  # an interrupt: the command that submits may have done its work
        with contextlib.suppress(ReserveError):  # then the guardian, or `weir clean`, tries again
            give_back(record)
        raise
    return Reservation(_records.renew(record, identity=identity))


def _submitted(record: Record) -> str:
    """The id of a new reservation; looks for it if the scheduler's answer was lost."""
    provider = get(record.request.by)
    try:
        reach(record.request.front_end)
        return provider.submit(record.request, record.name)
    except UnreachedError:
        raise
    except ReserveError as error:
        # Slurm's "Socket timed out", for example, is an error of the command, not of the job.
        try:
            found = provider.find(record.request, record.name)
        except ReserveError:
            raise UnansweredError(str(error)) from error
        if found is None:
            raise
        return found


def state(reservation: Reservation) -> State:
    """What the scheduler says of it.

    Raises:
        ReserveError: the scheduler is out of reach.
    """
    return get(reservation.request.by).state(reservation.request, reservation.identity)


def wait(
    reservations: Sequence[Reservation], patience_s: float | None = None, progress: Progress | None = None
) -> list[tuple[Held, ...]]:
    """Waits until all are active; returns the nodes of each.

    Args:
        patience_s: For how long, seconds; ``None``: as long as the scheduler has them wait.
        progress: Told of each change.

    Raises:
        ReserveError: one ended, or the time is over; the message has the scheduler's reason. Nothing is released.
    """
    deadline = None if patience_s is None else time.monotonic() + patience_s
    said: dict[Reservation, State] = {}
    pause = _FIRST_S
    while True:
        for one in reservations:
            if one not in said or said[one].phase is not Phase.ACTIVE:
                now = _asked(one, deadline)
                if progress is not None and now != said.get(one):
                    progress(one, now)
                said[one] = now
        if all(one.phase is Phase.ACTIVE for one in said.values()):
            return [_counted(one, said[one].nodes) for one in reservations]
        for one, now in said.items():
            if now.phase is Phase.ENDED:
                raise ReserveError(f"{one}: the reservation ended before its nodes could be used: {now.why}")
        if deadline is not None and time.monotonic() + pause > deadline:
            raise ReserveError(_impatient(said, patience_s or 0))
        time.sleep(pause)
        pause = min(_LAST_S, pause * 1.5)


def _asked(one: Reservation, deadline: float | None) -> State:
    """What the scheduler says; tolerates that it is out of reach for a while."""
    end = min(time.monotonic() + _OUTAGE_S, deadline or float("inf"))
    while True:
        try:
            return state(one)
        except ReserveError:
            if time.monotonic() > end:
                raise
            time.sleep(_FIRST_S * 4)


def _counted(one: Reservation, nodes: tuple[Held, ...]) -> tuple[Held, ...]:
    if len(nodes) < one.request.nodes:
        raise ReserveError(f"{one}: {one.request.nodes} nodes were asked for, there are {len(nodes)}")
    return nodes


def _impatient(said: Mapping[Reservation, State], patience_s: float) -> str:
    waiting = (f"{one} ({now.why or 'no reason given'}{_expected(now)})" for one, now in said.items() if not now.nodes)
    return f"no nodes after {patience_s:g} s: {'; '.join(waiting)}"


def _expected(now: State) -> str:
    return f", expected to start at {now.start}" if now.start else ""


def release(reservation: Reservation) -> None:
    """Gives the nodes back, and waits until the scheduler says so.

    Raises:
        ReserveError: the scheduler is out of reach, or refuses; the record stays, for ``weir clean``.
    """
    give_back(reservation.record)


def give_back(record: Record) -> None:
    """Gives back what a record says, also if the scheduler's answer was lost.

    Raises:
        ReserveError: the scheduler is out of reach, or refuses; the record stays, and the message names it.
    """
    try:
        if get(record.request.by).schedules:
            _end(record)
    except ReserveError as error:
        file = _records.file(record)
        raise ReserveError(f"{error} (if the scheduler is gone for ever, remove its record {file})") from error
    _records.remove(record)


def _end(record: Record) -> None:
    provider = get(record.request.by)
    identity = record.identity or provider.find(record.request, record.name)
    if identity is None and record.age_s < _UNSEEN_S:
        text = f"the scheduler does not know {record.name} yet, whose submission was not answered"
        raise ReserveError(f"{text}: try again in {_UNSEEN_S:.0f} s")
    if identity is not None:
        provider.release(record.request, identity, record.name)
        if provider.confirms:
            _await_end(record, identity)


def _await_end(record: Record, identity: str) -> None:
    provider = get(record.request.by)
    deadline = time.monotonic() + _GONE_S
    while provider.state(record.request, identity).phase is not Phase.ENDED:
        if time.monotonic() > deadline:
            raise ReserveError(f"{record.request.by} {identity} is still reserved {_GONE_S:.0f} s after its release")
        time.sleep(_FIRST_S)


def keep(reservation: Reservation, inventory: Path) -> Reservation:
    """Keeps nodes for an inventory beyond the end of this process, until they are released or their time is over."""
    return Reservation(_records.renew(reservation.record, inventory=str(inventory.resolve())))


def kept(inventory: Path, alias: str | None = None) -> list[Reservation]:
    """Reservations that are kept for an inventory, or for one of its sets; they may have ended meanwhile."""
    place = str(inventory.resolve())
    found = (record for record in _records.records() if record.inventory == place)
    return [Reservation(record) for record in found if alias in {None, record.alias}]


@contextlib.contextmanager
def reserved(
    requests: Mapping[str, Request],
    *,
    inventory: Path | None = None,
    patience_s: float | None = None,
    progress: Progress | None = None,
) -> Iterator[dict[str, tuple[Held, ...]]]:
    """The nodes of sets by their aliases, reserved as long as the context lasts.

    Takes what ``weir hosts reserve`` keeps for ``inventory``, where that is the same request, and leaves it reserved.

    Raises:
        ReserveError: a scheduler refuses, or there are no nodes in ``patience_s``; what was reserved is released.
    """
    have = usable(requests, inventory) if inventory is not None else {}
    new: list[Reservation] = []
    try:
        for alias, request in requests.items():
            if alias not in have:
                have[alias] = reserve(request, alias=alias)
                new.append(have[alias])
        aliases = list(requests)
        yield dict(zip(aliases, wait([have[alias] for alias in aliases], patience_s, progress), strict=True))
    finally:
        release_all(new)


def forget(inventory: Path) -> None:
    """Forgets what is kept for an inventory whose scheduler is no more, without asking it."""
    for one in kept(inventory):
        _records.remove(one.record)


def usable(requests: Mapping[str, Request], inventory: Path) -> dict[str, Reservation]:
    """What is kept for an inventory and is what ``requests`` ask for, by alias. Forgets what has ended.

    Raises:
        ReserveError: a scheduler is out of reach.
    """
    found = {}
    for one in kept(inventory):
        if requests.get(one.alias) != one.request:
            continue
        if state(one).phase is Phase.ENDED:
            _records.remove(one.record)
        else:
            found[one.alias] = one
    return found


def release_all(reservations: Sequence[Reservation]) -> None:
    """Releases all, whatever becomes of each; then raises the first error."""
    errors: list[ReserveError] = []
    for one in reservations:
        try:
            release(one)
        except ReserveError as error:
            errors.append(error)
    if errors:
        raise errors[0]
