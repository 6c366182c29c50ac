"""Network interfaces that a user names, of this host or another: ``eth1``, or ``NAMESPACE/eth1`` in a namespace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir._errors import UnavailableError

__all__ = ["Interface", "Run"]

Run = Callable[[Sequence[str]], tuple[int, str, str]]
"""Executes a command; its status, and what it wrote to its output and its errors."""
_NETNS = "/run/netns"


def _here(command: Sequence[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@dataclass(frozen=True)
class Interface:
    """A network interface."""

    name: str
    netns: str | None
    mac: tuple[int, ...]
    speed_mbps: int | None
    """What it says of its rate."""

    @classmethod
    def of(cls, word: str, run: Run = _here, on: str = "") -> Interface:
        """The interface ``NAME`` or ``NAMESPACE/NAME``, of this host, or of that named ``on``, where ``run`` executes.

        Raises:
            UnavailableError: there is none, or it is down.
        """
        netns, _, name = word.rpartition("/")
        word = f"{on}/{word}" if on else word
        command = ["ip", *(["-n", netns] if netns else []), "-j", "-d", "link", "show", "dev", name]
        status, out, said = run(command)
        if status:
            reason = said.strip().splitlines()
            raise UnavailableError(
                f"--between: there is no interface {word!r}: {reason[-1] if reason else 'ip failed'}"
            )
        (found,) = json.loads(out)
        if "UP" not in found.get("flags", []):
            raise UnavailableError(f"--between: interface {word!r} is down; expected one that is up")
        mac = tuple(int(part, 16) for part in found["address"].split(":"))
        if len(mac) != 6:
            raise UnavailableError(f"--between: interface {word!r} is no Ethernet interface")
        if (master := found.get("master")) is not None:
            switch = "Open vSwitch" if master == "ovs-system" else f"the bridge {master}"
            raise UnavailableError(
                f"--between: interface {word!r} is a port of {switch} itself; name the interface at its other end"
            )
        return cls(name, netns or None, mac, _speed(name, netns, run))

    @property
    def word(self) -> str:
        """As users name it."""
        return self.name if self.netns is None else f"{self.netns}/{self.name}"

    @property
    def path(self) -> str | None:
        """The file of its namespace."""
        return None if self.netns is None else f"{_NETNS}/{self.netns}"


def _speed(name: str, netns: str, run: Run) -> int | None:
    """What a network card says of its rate, Mb/s; virtual interfaces say nothing true."""
    enter = ["ip", "netns", "exec", netns] if netns else []
    _, text, _ = run([*enter, "cat", f"/sys/class/net/{name}/speed"])
    no_device, _, _ = run([*enter, "test", "-e", f"/sys/class/net/{name}/device"])
    value = text.strip()
    return int(value) if not no_device and value.isdigit() and int(value) > 0 else None
