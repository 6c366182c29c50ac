"""Network interfaces that a user names, of this host or another: ``eth1``, or ``NAMESPACE/eth1`` in a namespace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weir._errors import UnavailableError

__all__ = ["Interface", "Run", "common_rate_bps"]

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
    virtual: bool
    """Whether no device is behind it. It then says a constant of its driver, 10 Gb/s with veth, that limits nothing."""

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
        return cls(name, netns or None, mac, _speed(name, netns, run), _is_virtual(name, netns, run))

    @property
    def word(self) -> str:
        """As users name it."""
        return self.name if self.netns is None else f"{self.netns}/{self.name}"

    @property
    def path(self) -> str | None:
        """The file of its namespace."""
        return None if self.netns is None else f"{_NETNS}/{self.netns}"


def common_rate_bps(interfaces: Mapping[str, Interface]) -> float:
    """The rate that all interfaces say, by the words of the user, bit/s.

    Raises:
        UnavailableError: one says none, one is virtual, or they say different ones.
    """
    speeds = {word: one.speed_mbps for word, one in interfaces.items()}
    known = {word: speed for word, speed in speeds.items() if speed is not None}
    virtual = [word for word, one in interfaces.items() if one.virtual]
    silent = [word for word in speeds if word not in known]
    if virtual:
        reason = f"virtual interfaces have no rate of their own, whatever ethtool says: {', '.join(virtual)}"
    elif silent:
        reason = f"interfaces that do not say their rate: {', '.join(silent)}"
    elif len(set(known.values())) > 1:
        said = ", ".join(f"{word}: {speed} Mb/s" for word, speed in known.items())
        reason = f"the interfaces say different rates ({said})"
    else:
        return next(iter(known.values())) * 1e6
    raise UnavailableError(f"--between: {reason}; give --rate")


def _speed(name: str, netns: str, run: Run) -> int | None:
    """What an interface says of its rate, Mb/s."""
    _, text, _ = run([*_enter(netns), "cat", f"/sys/class/net/{name}/speed"])
    value = text.strip()
    return int(value) if value.isdigit() and int(value) > 0 else None


def _is_virtual(name: str, netns: str, run: Run) -> bool:
    no_device, _, _ = run([*_enter(netns), "test", "-e", f"/sys/class/net/{name}/device"])
    return bool(no_device)


def _enter(netns: str) -> list[str]:
    return ["ip", "netns", "exec", netns] if netns else []
