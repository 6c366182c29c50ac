"""The nodes of a test bed: forking them, waiting until each answers, and their end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from weir.testbed._errors import BedError
from weir.testbed._node import Before, Born, Recipe, fork_node
from weir.testbed._shape import Node

__all__ = ["Nodes"]

_AT_ONCE = 8
"""Nodes that are made at once: each is a process of Python for some milliseconds."""
_MADE_S = 60.0
_ANSWER_S = 60.0
_CONNECT_S = 2.0
_PAUSE_S = 0.02
_PORT = 22
_BANNER = b"SSH-"
_LOG_BYTES = 2000


class Nodes:
    """The nodes, and the first process of each."""

    def __init__(self, layout: Sequence[Node], recipe: Recipe) -> None:
        """Makes none yet."""
        self._layout = layout
        self._recipe = recipe
        self._pids: dict[str, int] = {}
        self._dead: set[str] = set()
        self._clocks: dict[str, int] = {}
        self._before: dict[str, Before] = {}
        self.keys: dict[str, str] = {}
        """By node: the public key of its host."""

    def fork(self, networks: Sequence[int], progress: Callable[[int], None]) -> None:
        """Makes all nodes, each in one of ``networks``, descriptors of their namespaces.

        Raises:
            BedError: one could not be made.
        """
        waiting = list(zip(self._layout, networks, strict=True))[::-1]
        making: dict[int, tuple[Node, Born]] = {}
        try:
            while waiting or making:
                while waiting and len(making) < _AT_ONCE:
                    node, network = waiting.pop()
                    born = fork_node(node, network, self._recipe)
                    self._pids[node.name] = born.pid
                    making[born.report] = (node, born)
                readable = select.select(list(making), [], [], _MADE_S)[0]
                if not readable:
                    slow = ", ".join(node.name for node, _ in making.values())
                    raise BedError(f"{slow}: not made in {_MADE_S:g} s")
                for report in readable:
                    self._take(*making[report])
                    making.pop(report)
                    os.close(report)
                progress(len(self.keys))
        finally:
            for report in making:
                os.close(report)

    def _take(self, node: Node, born: Born) -> None:
        text = b""
        while part := os.read(born.report, 4096):  # until the shell has taken its place
            text += part
        said: dict[str, Any] = json.loads(text) if text else {"error": self._last_words(node)}
        if "error" in said:
            raise BedError(f"node {node.name} could not be made: {said['error']}")
        self.keys[node.name] = said["key"]
        self._clocks[node.name] = said["clock_ns"]
        starts = self._before[node.name].starts + 1 if node.name in self._before else 1
        self._before[node.name] = Before(said["secret"], starts)

    def start(self, name: str, network: int) -> None:
        """Makes a node that has ended anew, with the key of its host; waits until its server answers.

        Raises:
            BedError: it has not ended, or cannot be made.
        """
        node = next((node for node in self._layout if node.name == name), None)
        self.reap()
        if node is None or name not in self._dead:
            raise BedError(f"node {name} has not ended")
        born = fork_node(node, network, self._recipe, self._before[name])
        try:
            if not select.select([born.report], [], [], _MADE_S)[0]:
                raise BedError(f"{name}: not made in {_MADE_S:g} s")
            self._take(node, born)
            self._pids[name] = born.pid
            self._dead.discard(name)
            self._await_answer(node, time.monotonic() + _ANSWER_S)
        except BaseException:
            self._dead.add(name)
            with contextlib.suppress(ProcessLookupError):
                os.kill(born.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(born.pid, 0)
            raise
        finally:
            os.close(born.report)

    def await_answers(self, progress: Callable[[int], None]) -> None:
        """Waits until the server of every node has answered.

        Raises:
            BedError: one does not.
        """
        deadline = time.monotonic() + _ANSWER_S
        for done, node in enumerate(self._layout):
            self._await_answer(node, deadline)
            progress(done + 1)

    def _await_answer(self, node: Node, deadline: float) -> None:
        while not _answers(node.control):
            self.reap()
            if node.name in self._dead:
                raise BedError(f"node {node.name}: its sshd ended: {self._last_words(node)}")
            if time.monotonic() > deadline:
                raise BedError(f"node {node.name}: no sshd answers at {node.control}: {self._last_words(node)}")
            time.sleep(_PAUSE_S)

    def reap(self) -> bool:
        """Notices which nodes have ended; whether any has since the last time."""
        ended = set()
        for name, pid in self._pids.items():
            if name not in self._dead and os.waitpid(pid, os.WNOHANG)[0] != 0:
                ended.add(name)
        self._dead |= ended
        return bool(ended)

    def kill(self) -> None:
        """Ends all nodes, with everything in them."""
        alive = [pid for name, pid in self._pids.items() if name not in self._dead]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in alive:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)  # returns when the last process of its namespace is gone
        self._dead |= set(self._pids)

    @property
    def ended(self) -> frozenset[str]:
        """The names of the nodes that have ended."""
        self.reap()
        return frozenset(self._dead)

    def facts(self) -> list[dict[str, Any]]:
        """What ``bed.json`` says of them."""
        return [
            {
                **asdict(node),
                "pid": self._pids[node.name],
                "up": node.name not in self._dead,
                "clock_ns": self._clocks[node.name],
            }
            for node in self._layout
        ]

    def _last_words(self, node: Node) -> str:
        with contextlib.suppress(OSError):
            words = (self._recipe.logs / node.name).read_bytes()[-_LOG_BYTES:].decode(errors="replace").strip()
            return "; ".join(words.splitlines()[-3:]) or "it said nothing"
        return "it said nothing"


def _answers(address: str) -> bool:
    """Whether a server of SSH is there."""
    with contextlib.suppress(OSError), socket.create_connection((address, _PORT), _CONNECT_S) as connection:
        return connection.recv(len(_BANNER)) == _BANNER
    return False
