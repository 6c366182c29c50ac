"""This experiment's hold of one node: the claim, the changes, their end."""

from __future__ import annotations

import functools
import getpass
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir._errors import MethodError
from weir.deploy import node
from weir.deploy._changes import Change, describe
from weir.hosts.place import PlaceError
from weir.hosts.relay import Relay

__all__ = ["DeployError", "Keeper", "KernelLog", "PrivilegeError"]

_SUDO = ("sudo", "-n")
_ANSWER_S = 60.0
_MOST_LOG = 1 << 18


class DeployError(MethodError):
    """A node cannot be changed as asked, or is in use; the message names it."""


class PrivilegeError(DeployError):
    """A change needs root, and the user of the node is not, and may not become it without a password."""


@dataclass(frozen=True)
class KernelLog:
    """Messages of a node's kernel."""

    text: str
    left_out: int
    """Characters before them that were too many."""
    why: str | None
    """Why there are none to read."""

    @classmethod
    def of(cls, said: Any) -> KernelLog:
        """What a node says: anything, of which only what has the right type is taken."""
        about = said if isinstance(said, Mapping) else {}
        text, left_out, why = about.get("text"), about.get("left_out"), about.get("why")
        return cls(
            text[-_MOST_LOG:] if isinstance(text, str) else "",
            left_out if isinstance(left_out, int) else 0,
            why if isinstance(why, str) else None,
        )


class Keeper:
    """Changes one node, and undoes it. It keeps the way to the node no longer than it is open."""

    def __init__(self, place: Relay, python: str = "python3") -> None:
        """Carries the program to the node.

        Raises:
            PlaceError: it cannot be written there.
        """
        self.place = place
        self._python = python
        self._program = place.put("weir-node.py", node.program())
        self._prefix: tuple[str, ...] | None = None
        self._pid: int | None = None
        self._watch: int | None = None
        self._mark: str | None = None
        self.kernel_log: KernelLog | None = None
        """When it is restored: the messages of the kernel since the claim."""

    @property
    def name(self) -> str:
        """Of the node."""
        return self.place.name

    def ask(self, do: str, *, privileged: bool = False, **what: Any) -> dict[str, Any]:
        """Asks the program on the node.

        Args:
            do: The question (``do_...`` in :mod:`weir.deploy.node`).
            privileged: Ask as root, if the user may become it without a password.
            what: Its arguments.

        Raises:
            DeployError: it refuses, or cannot.
            PlaceError: the node does not answer.
        """
        question = json.dumps({"do": do, **what}).encode()
        if privileged and self.prefix:
            ran = self.place.run((*self.prefix, self._python, "-I", "-S", self._program), question, _ANSWER_S)
        else:
            ran = self.place.run_python(self._program, given=question, timeout_s=_ANSWER_S)
        try:
            answer: dict[str, Any] = json.loads(ran.out)
        except ValueError:
            words = ran.err.decode(errors="replace").strip().splitlines()
            raise DeployError(f"{self.name}: {words[-1] if words else f'no answer, status {ran.code}'}") from None
        if "error" in answer:
            if answer.get("needs") is not None:
                raise PrivilegeError(f"{self.name}: {answer['error']}; it needs root there: {answer['needs']}")
            raise DeployError(f"{self.name}: {answer['error']}")
        return answer

    @property
    def prefix(self) -> tuple[str, ...]:
        """What makes a command one of root's; empty if the user is root, or may not become it."""
        if self._prefix is None:
            self._prefix = _SUDO if not self.is_root and self._becomes_root() else ()
        return self._prefix

    @functools.cached_property
    def is_root(self) -> bool:
        """Whether the user is root there."""
        return (int(self.place.require(("id", "-u"))) if self.place.user is None else self.place.user) == 0

    @property
    def becomes_root(self) -> bool:
        """Whether commands can be root's there."""
        return self.is_root or bool(self.prefix)

    def _becomes_root(self) -> bool:
        try:
            return self.place.run((*_SUDO, "true")).code == 0
        except PlaceError:  # there is no sudo
            return False

    def claim(self, limit_s: int) -> list[Change]:
        """Makes the node this experiment's; returns what a former one had left, which is restored first.

        A process that stays on the node restores it when the far end of the way is gone; that leaves if it hears
        nothing for ``limit_s`` seconds.

        Raises:
            DeployError: another experiment uses the node.
        """
        self._pid = self.place.limit(limit_s)
        self._watch = self._watched(self._pid)  # before there is anything to restore
        by = f"{getpass.getuser()} on {socket.gethostname()}"
        answer = self.ask("claim", privileged=True, pid=self._pid, by=by, folder=self.place.folder)
        restored: list[Change] = answer["restored"]
        self._mark = str(answer["mark"])
        return restored

    def _watched(self, pid: int) -> int:
        """Starts a watchdog of the process ``pid`` on the node; its process' id."""
        watch = json.dumps({"do": "watch", "pid": pid})
        if not self.prefix:
            return self.place.leave_python(self._program, watch)
        # The file of the program goes with the place: it is read from one without a name.
        return self.place.leave((*self.prefix, self._python, "-I", "-S", "-", watch), node.program())

    def lacking(self, changes: Sequence[Change]) -> list[Change]:
        """Those of ``changes`` that are not so yet."""
        return [entry["change"] for entry in self.ask("lacking", changes=list(changes))["lacking"]]

    def apply(self, changes: Sequence[Change]) -> list[Mapping[str, Any]]:
        """Makes ``changes``; returns those that were made, each with the value before.

        Raises:
            PrivilegeError: root is needed; the message has all commands that need it.
            DeployError: one is impossible; those before it are made, and in the journal.
        """
        if not changes:
            return []
        if not self.becomes_root and (lacking := self.lacking(changes)):
            commands = "; ".join(describe(change) for change in lacking)
            raise PrivilegeError(f"{self.name}: this needs root there, or `sudo -n`: {commands}")
        done: list[Mapping[str, Any]] = self.ask("apply", privileged=True, changes=list(changes))["done"]
        return done

    def restore(self, *, force: bool = False) -> list[Mapping[str, Any]]:
        """Undoes everything in the node's journal, and gives up the claim; returns what was undone, the last first.

        Raises:
            DeployError: a change cannot be undone, or another experiment uses the node and ``force`` is not set.
        """
        more = {} if self._mark is None else {"mark": self._mark}
        answer = self.ask("restore", privileged=True, force=force, pid=self._pid, watch=self._watch, **more)
        if "kernel_log" in answer:
            self.kernel_log = KernelLog.of(answer["kernel_log"])
        restored: list[Mapping[str, Any]] = answer["restored"]
        return restored

    def status(self) -> dict[str, Any]:
        """The journal: ``claim``, whether its process ``lives``, ``changes``."""
        return self.ask("status", privileged=True)
