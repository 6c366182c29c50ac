"""Network interfaces of this host that a user names: ``eth1``, or ``NAMESPACE/eth1`` in a network namespace."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from weir._errors import UnavailableError

__all__ = ["Interface"]

_NETNS = "/run/netns"


@dataclass(frozen=True)
class Interface:
    """A network interface of this host."""

    name: str
    netns: str | None
    mac: tuple[int, ...]
    speed_mbps: int | None
    """What it says of its rate."""

    @classmethod
    def of(cls, word: str) -> Interface:
        """The interface ``NAME`` or ``NAMESPACE/NAME``.

        Raises:
            UnavailableError: there is none, or it is down.
        """
        netns, _, name = word.rpartition("/")
        command = ["ip", *(["-n", netns] if netns else []), "-j", "-d", "link", "show", "dev", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = done.stderr.strip().splitlines()
            raise UnavailableError(
                f"--between: there is no interface {word!r}: {reason[-1] if reason else 'ip failed'}"
            )
        (found,) = json.loads(done.stdout)
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
        return cls(name, netns or None, mac, _speed(name, netns))

    @property
    def word(self) -> str:
        """As users name it."""
        return self.name if self.netns is None else f"{self.netns}/{self.name}"

    @property
    def path(self) -> str | None:
        """The file of its namespace."""
        return None if self.netns is None else f"{_NETNS}/{self.netns}"


def _speed(name: str, netns: str) -> int | None:
    """What a network card says of its rate, Mb/s; virtual interfaces say nothing true."""
    enter = ["ip", "netns", "exec", netns] if netns else []
    text = subprocess.run([*enter, "cat", f"/sys/class/net/{name}/speed"], capture_output=True, text=True, check=False)
    device = subprocess.run([*enter, "test", "-e", f"/sys/class/net/{name}/device"], check=False)
    value = text.stdout.strip()
    return int(value) if device.returncode == 0 and value.isdigit() and int(value) > 0 else None
