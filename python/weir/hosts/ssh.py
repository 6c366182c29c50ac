"""Nodes of an inventory as places, through the system's OpenSSH client.

One ``ssh`` process a node carries everything: commands, processes with their streams, files, the clock
(:mod:`weir.hosts.relay`). Host keys are checked; nothing is asked at the terminal.
"""

from __future__ import annotations

import itertools
import queue
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from weir import _ssh
from weir.hosts.place import PlaceError
from weir.hosts.relay import Relay, far_end, reach
from weir.inventory import Node

__all__ = ["AT_ONCE", "PATIENCE_S", "ConnectError", "Connections", "connect", "connect_all"]

PATIENCE_S = 30.0
"""How long a connection may take until the node answers."""
AT_ONCE = 16
"""So many connections are made at one time: servers refuse some of many that have not logged in yet (MaxStartups)."""
_FOLDER = "/tmp"
_PAUSE_S = 0.25
_MOST_PAUSES = 4
_MOST_LINES = 3


class ConnectError(PlaceError):
    """A node cannot be reached; the message says why, what ``ssh`` said, and what to do."""

    def __init__(self, node: Node, why: str, said: str, todo: str) -> None:
        where = f" ({node.address})" if node.address != node.name else ""
        words = f". ssh said: {said}" if said else ""
        self.text = f"cannot be reached: {why}{words}. {todo}"
        """All of it but the node."""
        super().__init__(f"{node.name}{where} {self.text}")
        self.node = node
        self.why = why
        """What is wrong, in a few words."""
        self.said = said
        self.todo = todo


@dataclass(frozen=True)
class _Cause:
    """What ``ssh`` says, what that means, and what to do."""

    pattern: str
    why: str
    todo: str
    again: bool = False
    """Whether it may be different a moment later."""

    def meant(self, line: str) -> bool:
        """Whether ``line`` says so."""
        return re.search(self.pattern, line, re.IGNORECASE) is not None


_CAUSES = (
    _Cause(
        "REMOTE HOST IDENTIFICATION HAS CHANGED|host key .*has changed|differs from the key",
        "its host key is not the one that is known",
        "Somebody else may answer in its place, or it was installed anew: ask its owner for the fingerprint before you "
        "change {known_hosts}.",
    ),
    _Cause(
        "host key is known for|Host key verification failed|authenticity of host",
        "its host key is not known",
        "Compare the fingerprint that `ssh-keyscan{port} {address} | ssh-keygen -lf -` prints with its owner's, then "
        "add the line of `ssh-keyscan{port} {address}` to {known_hosts}.",
    ),
    _Cause(
        "Permission denied|Too many authentication failures|No more authentication methods",
        "it refuses {login}",
        "Is the key in its authorized_keys, and here in `ssh-agent` or in the inventory as `key`? "
        "`ssh{port} {login_at}` must work without a question.",
    ),
    _Cause("Could not resolve hostname", "its name is not known", "Is `{address}` right?"),
    _Cause(
        "Connection refused",
        "nothing listens at its port{port_words}",
        "Does its SSH server run, and is `port` right?",
    ),
    _Cause(
        "timed out|No route to host|Network is unreachable|Host is down",
        "it does not answer",
        "Is it on, is there a way to it, and does `jump` lack a host between?",
    ),
    _Cause(
        "kex_exchange_identification|Connection (closed|reset) by|Exceeded MaxStartups|banner exchange",
        "its SSH server ended the connection",
        "It may be overloaded (MaxStartups in sshd_config).",
        again=True,
    ),
    _Cause(
        "not found|No such file or directory|not recognized",
        "it has no `{python}`",
        "Install Python 3.8 or later there, or name it with `python` in the inventory.",
    ),
)


def connect(node: Node, patience_s: float = PATIENCE_S) -> Relay:
    """The place that ``node`` is.

    Args:
        node: A node of an inventory.
        patience_s: How long it may take, seconds.

    Raises:
        ConnectError: it cannot be reached.
    """
    _require_files(node)
    deadline = time.monotonic() + patience_s
    for attempt in itertools.count(1):
        left_s = max(1.0, deadline - time.monotonic())
        try:
            return reach(node.name, _command(node, left_s), patience_s=left_s)
        except PlaceError as error:
            said = str(error).partition("cannot be reached")[2].removeprefix(": ")
            cause = _cause(said)
            # Those that are refused together must not come back together.
            pause_s = min(attempt, _MOST_PAUSES) * _PAUSE_S * (1 + zlib.crc32(f"{node.name}{attempt}".encode()) / 2**32)
            if cause is None or not cause.again or time.monotonic() + pause_s >= deadline:
                raise _explained(node, said, cause, patience_s) from None
            time.sleep(pause_s)
    raise AssertionError("it ends by an answer or at its deadline")


def _command(node: Node, left_s: float) -> list[str]:
    return _ssh.command(
        node.address,
        far_end(_FOLDER, node.python, carried=True),
        user=node.user or "",
        port=node.port or 0,
        key=node.key or "",
        jump=",".join(node.jump),
        known_hosts=node.known_hosts or "",
        connect_s=max(1, int(left_s)),
    )


def _require_files(node: Node) -> None:
    """Refuses a node whose files are not there: ``ssh`` would go on without them, and say something else."""
    for key, path in (("key", node.key), ("known_hosts", node.known_hosts)):
        if path is not None and not Path(path).is_file():
            raise ConnectError(node, f"there is no file {path}", "", f"The inventory names it as `{key}`.")


def _cause(said: str) -> _Cause | None:
    """The cause of what ``ssh`` said, latest line first: earlier ones may be a banner of the node."""
    changed = _CAUSES[0]
    if re.search(changed.pattern, said):  # many lines, of which the last is that of an unknown key
        return changed
    lines = said.split("; ")[::-1]
    for again in (False, True):  # that the connection has ended is said last, too, if a host on the way is the reason
        for line in lines:
            for cause in _CAUSES:
                if cause.again == again and cause.meant(line):
                    return cause
    return None


def _explained(node: Node, said: str, cause: _Cause | None, patience_s: float) -> ConnectError:
    said = _shortened(said, cause)
    if cause is None:
        why = "it ended the connection" if said else f"no answer in {patience_s:g} s"
        return ConnectError(node, why, said, "Does `ssh` to it work by hand, without a question and without output?")
    words = {
        "address": node.address,
        "known_hosts": node.known_hosts or "~/.ssh/known_hosts",
        "login": f"user `{node.user}`" if node.user else "this user",
        "login_at": f"{node.user}@{node.address}" if node.user else node.address,
        "port": f" -p {node.port}" if node.port else "",
        "port_words": f" {node.port}" if node.port else "",
        "python": node.python,
    }
    why, todo = cause.why.format(**words), cause.todo.format(**words)
    if node.jump:
        todo += f" The cause may also be on the way: {', '.join(node.jump)}."
    return ConnectError(node, why, said, todo)


def _shortened(said: str, cause: _Cause | None) -> str:
    """The lines that say the cause; what follows is that the connection has ended."""
    lines = [line.strip().removesuffix(".") for line in said.split("; ") if not line.startswith("@@@")]
    last = max((number for number, line in enumerate(lines) if cause is not None and cause.meant(line)), default=None)
    end = len(lines) if last is None else last + 1
    return "; ".join(lines[max(0, end - _MOST_LINES) : end])


@dataclass
class Connections:
    """Places by the names of their nodes, and the nodes that cannot be reached. Leaving it closes all at once."""

    places: dict[str, Relay] = field(default_factory=dict)
    failed: dict[str, PlaceError] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """They are there already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Ends what was started on the nodes."""
        self.close()

    def require(self) -> dict[str, Relay]:
        """The places, if all nodes are reached; else closes those that are.

        Raises:
            PlaceError: some are not; the message has each.
        """
        if self.failed:
            self.close()
            raise PlaceError("\n".join(str(error) for error in self.failed.values()))
        return self.places

    def close(self) -> None:
        """Closes all places, at one time."""
        threads = [threading.Thread(target=place.close, daemon=True) for place in self.places.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.places.clear()


Progress = Callable[[Node, PlaceError | None], None]
"""Is told of each node that was reached or not, as it happens, by the thread that called."""


def connect_all(
    nodes: Iterable[Node], progress: Progress | None = None, patience_s: float = PATIENCE_S, at_once: int = AT_ONCE
) -> Connections:
    """Reaches all ``nodes``, some at one time; one that hangs holds none of the others for longer than ``patience_s``.

    Whoever has the result closes it. The places are in the order of ``nodes``.
    """
    wanted = list(nodes)
    made = Connections()
    attempts = _Attempts(wanted, patience_s)
    try:
        attempts.start(at_once)
        for _ in wanted:
            node, found = attempts.done.get()
            if isinstance(found, Relay):
                made.places[node.name] = found
            elif isinstance(found, PlaceError):
                made.failed[node.name] = found
            else:
                raise found
            if progress is not None:
                progress(node, None if isinstance(found, Relay) else found)
    except BaseException:  # an interrupt: what is reached is given back, also what still will be
        attempts.stop()
        made.close()
        raise
    made.places = {node.name: made.places[node.name] for node in wanted if node.name in made.places}
    made.failed = {node.name: made.failed[node.name] for node in wanted if node.name in made.failed}
    return made


class _Attempts:
    """Threads that reach nodes. They do not outlive this process, so that a hanging node does not hold its end."""

    def __init__(self, nodes: Iterable[Node], patience_s: float) -> None:
        self.done: queue.SimpleQueue[tuple[Node, Relay | Exception]] = queue.SimpleQueue()
        self._patience_s = patience_s
        self._left = iter(list(nodes))
        self._lock = threading.Lock()
        self._stopped = False

    def start(self, at_once: int) -> None:
        """Begins with the first ``at_once``."""
        for _ in range(max(1, at_once)):
            threading.Thread(target=self._work, name="connect", daemon=True).start()

    def stop(self) -> None:
        """Closes what is reached and was not taken, and what will be."""
        with self._lock:
            self._stopped = True
        while not self.done.empty():
            _, found = self.done.get()
            if isinstance(found, Relay):
                found.close()

    def _work(self) -> None:
        while (node := self._next()) is not None:
            found: Relay | Exception
            try:
                found = connect(node, self._patience_s)
            except Exception as error:
                found = error
            with self._lock:
                if not self._stopped:
                    self.done.put((node, found))
                    continue
            if isinstance(found, Relay):
                found.close()

    def _next(self) -> Node | None:
        with self._lock:
            return None if self._stopped else next(self._left, None)
