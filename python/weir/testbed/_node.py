"""A node's first process: it makes the node's file view and name, and becomes the shell that waits for ``sshd``.

It is forked by the supervisor. With it, everything in the node ends, because it is the first of the node's process ids;
and it ends with the supervisor.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from weir._owner import ENVIRONMENT
from weir.testbed._files import SSHD_CONFIG, make_view, write_files
from weir.testbed._linux import (
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NAMES,
    die_with_parent,
    drop_privileges,
    enter_network,
    processes_of_own,
    shift_clocks,
    unshare,
)
from weir.testbed._shape import Node

__all__ = ["PATH", "Before", "Born", "Recipe", "fork_node"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOST_WIDE = (16, 17, 25, 27, 32, 33)
"""Modules, raw input and output, the clock, device files, mandatory access control: they reach beyond a node."""
_BOOTS_APART_NS = 1_000_123_456_789
_STARTS_APART_NS, _MOST_STARTS = 10_000_000_000, 30
_WAIT = '"$@" & wait $!'
"""The shell reaps what loses its parent, and ends with ``sshd``."""


@dataclass(frozen=True)
class Recipe:
    """What all nodes have in common."""

    tag: str
    stage: Path
    """An empty folder."""
    logs: Path
    sshd: str
    key: str
    """The public key that may log in."""
    names: Mapping[str, str]
    """All names, and their addresses."""
    disk_bytes: int
    user: str
    """Who may log in, besides root."""
    order: Sequence[str]
    """The names of the nodes."""


@dataclass(frozen=True)
class Born:
    """A node that was forked."""

    pid: int
    report: int
    """A descriptor from which JSON is read: ``key`` and ``secret`` of its host and ``clock_ns``, or ``error``."""


@dataclass(frozen=True)
class Before:
    """What a node keeps when it is started anew."""

    host_key: str
    """The private key of its host."""
    starts: int
    """How often it was started."""


def fork_node(node: Node, network: int, recipe: Recipe, before: Before | None = None) -> Born:
    """Forks the first process of ``node`` in the network namespace ``network``; ``before``: it was there already.

    Raises:
        OSError: the kernel refuses.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with processes_of_own():
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _become(node, network, recipe, before, writing)
    os.close(writing)
    return Born(pid, reading)


def _become(node: Node, network: int, recipe: Recipe, before: Before | None, report: int) -> NoReturn:
    """In the child: becomes the node, or says why not."""
    try:
        die_with_parent()
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        log = os.open(recipe.logs / node.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDWR)
        for stream, file in ((0, null), (1, log), (2, log)):
            os.dup2(file, stream)
        enter_network(network)
        unshare(NEW_MOUNTS | NEW_NAMES | NEW_IPC)
        os.umask(0o022)
        make_view(str(recipe.stage), recipe.disk_bytes)
        socket.sethostname(node.name)
        ahead_ns = _ahead_ns(node, recipe, before)
        clock_ns = ahead_ns if shift_clocks(ahead_ns) else 0
        host_key = None if before is None else before.host_key
        public, secret = write_files(node.name, recipe.names, recipe.key, recipe.user, host_key)
        drop_privileges(_HOST_WIDE)
        os.write(report, json.dumps({"key": public, "secret": secret, "clock_ns": clock_ns}).encode())
        command = ["sh", "-c", _WAIT, "sh", recipe.sshd, "-D", "-e", "-f", SSHD_CONFIG]
        os.execve("/bin/sh", command, {"PATH": PATH, ENVIRONMENT: recipe.tag})
    except subprocess.CalledProcessError as error:
        why = f"{error.cmd[0]}: {error.stderr.decode(errors='replace').strip()}"
    except BaseException as error:
        why = str(error)
    os.write(report, json.dumps({"error": why}).encode())
    os._exit(1)


def _ahead_ns(node: Node, recipe: Recipe, before: Before | None) -> int:
    """How long before this machine a node seems to have booted: each another time, and another each time."""
    starts = 0 if before is None else before.starts
    return (1 + recipe.order.index(node.name)) * _BOOTS_APART_NS + starts % _MOST_STARTS * _STARTS_APART_NS
