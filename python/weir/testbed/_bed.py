"""A test bed as others use it: its nodes, commands and files in them, and its end."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import _owner
from weir._remove import remove_tree
from weir.hosts.place import PATIENCE_S, Ran
from weir.testbed._errors import BedError, TestbedError
from weir.testbed._folder import (
    VERSION,
    facts_of,
    folder_of,
    inventory_of,
    names,
    owner_of,
    take_answer,
    unfinished,
    want,
)
from weir.testbed._node import PATH
from weir.testbed._shape import CONTROL, INTERFACE, Node

__all__ = ["Bed", "BedNode", "beds", "down", "find", "is_up", "start"]

_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
_SHELL = 'cd && exec "$@"'
_DOWN_S = 90.0
_START_S = 150.0
_PAUSE_S = 0.02


@dataclass(frozen=True)
class BedNode(Node):
    """A node of a test bed that is up."""

    pid: int
    """Its first process, on this machine: when it ends, the node is as a machine that lost its power."""
    up: bool
    """Whether it was there when the test bed was looked at."""
    clock_ns: int
    """Its clocks that count from the boot are ahead of this machine's by so much."""


@dataclass(frozen=True)
class Bed:
    """A test bed that is up."""

    name: str
    folder: Path
    nodes: tuple[BedNode, ...]
    control: str
    """The network of control, such as ``10.128.0.0/16``; this machine has its first address."""
    host_interface: str
    """This machine's interface to it."""
    until: float
    """When it ends by itself, in seconds since 1970."""
    links: dict[str, Any]
    """The links: ``given`` as options, ``access_bps`` and ``mtu_bytes`` of a node's, and ``between`` the sites: a list
    of ``{"between": [SITE, SITE], "rtt_ns": ..., "rate_bps": ...}``.
    """
    user: str
    """As whom the inventory and ``ssh -F`` log in."""
    supervisor: int
    """The process that owns it."""

    interface = INTERFACE
    """The interface of the experiment in each node."""
    control_interface = CONTROL
    """The interface of control in each node."""

    @property
    def inventory(self) -> Path:
        """Its inventory, for ``--on``."""
        return inventory_of(self.name)

    @property
    def config(self) -> Path:
        """What ``ssh -F`` wants."""
        return self.folder / "config"

    @property
    def known_hosts(self) -> Path:
        """The keys of its nodes."""
        return self.folder / "known_hosts"

    @property
    def key(self) -> Path:
        """The private key that opens its nodes."""
        return self.folder / "id_ed25519"

    def node(self, name: str) -> BedNode:
        """The node ``name``.

        Raises:
            TestbedError: there is none.
        """
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            known = f"{self.nodes[0].name} ... {self.nodes[-1].name}"
            raise TestbedError(f"the test bed {self.name!r} has no node {name!r}; it has {known}")
        return found

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """The argument list that executes ``command`` in the node ``name``, as root in its home, without SSH.

        Raises:
            TestbedError: there is no such node.
            BedError: it has ended.
        """
        node = self.node(name)
        if not node.up or str(_owner.of_process(node.pid)) != str(owner_of(self.folder)):
            raise BedError(f"node {name} of the test bed {self.name!r} has ended")
        variables = {"PATH": PATH, "HOME": pwd.getpwuid(0).pw_dir, "USER": "root", "LANG": "C.UTF-8"}
        if "TERM" in os.environ:
            variables["TERM"] = os.environ["TERM"]
        words = [f"{variable}={value}" for variable, value in variables.items()]
        enter = ["nsenter", f"--target={node.pid}", *_NAMESPACES]
        if node.clock_ns:
            enter.append(f"--time=/proc/{node.pid}/ns/time_for_children")
        return [*enter, "--", "env", "-i", *words, "sh", "-c", _SHELL, "sh", *command]

    def run(self, name: str, command: Sequence[str], given: bytes = b"", timeout_s: float = PATIENCE_S) -> Ran:
        """Executes ``command`` in the node ``name`` and waits for its end; daemons that it starts stay.

        Raises:
            TestbedError: there is no such node.
            BedError: it has ended, or the command does not end in time.
        """
        words = self.command(name, command)
        try:
            done = subprocess.run(words, input=given, capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise BedError(f"node {name}: `{' '.join(command)}` did not end in {timeout_s:g} s") from error
        return Ran(done.returncode, done.stdout, done.stderr)

    def put(self, name: str, path: str, content: bytes, mode: int = 0o644) -> None:
        """Writes a file in the node ``name``, with its folders.

        Raises:
            TestbedError: there is no such node.
            BedError: it cannot be written.
        """
        script = 'set -e; umask 077; mkdir -p -m 755 -- "$(dirname -- "$1")"; cat > "$1"; chmod "$2" "$1"'
        done = self.run(name, ["sh", "-c", script, "sh", path, f"{mode:o}"], content)
        if done.code != 0:
            raise BedError(f"node {name}: {path} cannot be written: {done.err.decode(errors='replace').strip()}")

    def get(self, name: str, path: str) -> bytes:
        """The content of a file of the node ``name``.

        Raises:
            TestbedError: there is no such node.
            BedError: it cannot be read.
        """
        done = self.run(name, ["cat", "--", path])
        if done.code != 0:
            raise BedError(f"node {name}: {path} cannot be read: {done.err.decode(errors='replace').strip()}")
        return done.out


def find(name: str) -> Bed | None:
    """The test bed ``name``; ``None`` if it is not up.

    Raises:
        BedError: another version of weir made it.
    """
    folder = folder_of(name)
    tag, facts = owner_of(folder), facts_of(folder)
    if tag is None or not tag.alive or facts is None:
        return None
    if facts.get("version") != VERSION:
        raise BedError(
            f"the test bed {name!r} was made by another version of weir; `weir testbed down --name {name}` removes it"
        )
    nodes = tuple(BedNode(**node) for node in facts["nodes"])
    return Bed(
        name=name,
        folder=folder,
        nodes=nodes,
        control=facts["control"],
        host_interface=facts["interface"],
        until=facts["until"],
        links=facts["links"],
        user=facts["user"],
        supervisor=tag.pid,
    )


def is_up(name: str) -> bool:
    """Whether the test bed ``name`` is up, whatever version of weir made it."""
    folder = folder_of(name)
    tag = owner_of(folder)
    return tag is not None and tag.alive and facts_of(folder) is not None


def beds() -> list[Bed]:
    """All test beds of this user that are up.

    Raises:
        BedError: another version of weir made one.
    """
    return [bed for bed in map(find, names()) if bed is not None]


def start(name: str, nodes: Sequence[str]) -> Bed:
    """Starts ``nodes`` of the test bed ``name`` that have ended; returns when they answer.

    They have the addresses and keys that they had, so that the inventory holds. Files, processes and parameters are
    those of a node that was installed anew, and its clock is another.

    Raises:
        TestbedError: there is no such test bed or node, or one has not ended.
        BedError: one cannot be started.
    """
    bed = find(name)
    if bed is None:
        raise TestbedError(f"--name: there is no test bed {name!r}")
    if up := [node for node in nodes if bed.node(node).up]:
        raise TestbedError(f"node {up[0]} of the test bed {name!r} has not ended")
    try:
        for node in nodes:
            want(bed.folder, node)
        os.kill(bed.supervisor, signal.SIGUSR1)
    except PermissionError as error:
        raise BedError(f"the test bed {name!r} belongs to root: only root can start its nodes") from error
    for node in nodes:
        _await_start(name, bed.folder, node)
    found = find(name)
    if found is None:
        raise BedError(f"the test bed {name!r} has ended")
    return found


def _await_start(name: str, folder: Path, node: str) -> None:
    """Waits until the supervisor has said what came of ``node``."""
    deadline = time.monotonic() + _START_S
    while (said := take_answer(folder, node)) is None:
        if not is_up(name):
            raise BedError(f"the test bed {name!r} has ended")
        if time.monotonic() > deadline:
            raise BedError(f"node {node} of the test bed {name!r} was not started in {_START_S:g} s")
        time.sleep(_PAUSE_S)
    if said:
        raise BedError(f"node {node} of the test bed {name!r}: {said}")


def down(name: str) -> bool:
    """Removes the test bed ``name``, and what is left of one whose owner was killed; whether there was any.

    Raises:
        BedError: it cannot be removed.
    """
    for rest in unfinished():
        remove_tree(rest)
    folder = folder_of(name)
    tag = owner_of(folder)
    if tag is None:
        return False
    process = None
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(tag.pid)
    try:
        if process is not None and tag.alive:
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if not select.select([process], [], [], _DOWN_S)[0]:
                raise BedError(
                    f"the test bed {name!r} did not end in {_DOWN_S:g} s; its supervisor is process {tag.pid}"
                )
    except PermissionError as error:
        raise BedError(f"the test bed {name!r} belongs to root: only root can remove it") from error
    except ProcessLookupError:
        pass
    finally:
        if process is not None:
            os.close(process)
    _remove_rest(folder, str(tag))
    return True


def _remove_rest(folder: Path, tag: str) -> None:
    """Removes what a killed supervisor left, unless its guardian is faster."""
    for pid, owner in _owner.processes().items():
        if str(owner) == tag:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _DOWN_S
    while str(owner_of(folder)) == tag:
        try:
            remove_tree(folder)
        except OSError as error:
            if time.monotonic() > deadline:
                raise BedError(f"{folder}: {error.strerror or error}") from error
            time.sleep(_PAUSE_S)
