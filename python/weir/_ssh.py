"""The command line of the system's OpenSSH client (ssh(1)), which never asks and never accepts an unknown host."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

__all__ = ["LOST", "command"]

LOST = 255
"""The exit code of ``ssh`` if it could not connect, or lost the connection (ssh(1))."""

_CONNECT_S = 20
_ALIVE_S, _ALIVE_COUNT = 10, 3


def command(
    address: str,
    words: Sequence[str],
    *,
    user: str = "",
    port: int = 0,
    key: str = "",
    jump: str = "",
    known_hosts: str = "",
) -> list[str]:
    """The argument list that executes ``words`` on the machine ``address``.

    Empty arguments and port 0 mean what the user's configuration says (ssh_config(5)). The remote shell gets ``words``
    quoted one by one. A file of known hosts replaces the user's.
    """
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": str(_CONNECT_S),
        "ServerAliveInterval": str(_ALIVE_S),
        "ServerAliveCountMax": str(_ALIVE_COUNT),
        "ForwardAgent": "no",
        "ForwardX11": "no",
    }
    options |= {"UserKnownHostsFile": _quoted(known_hosts), "GlobalKnownHostsFile": "/dev/null"} if known_hosts else {}
    options |= {"IdentitiesOnly": "yes"} if key else {}
    said = ["ssh", "-T"]
    for name, value in options.items():
        said += ["-o", f"{name}={value}"]
    for flag, value in (("-l", user), ("-p", str(port) if port else ""), ("-i", key), ("-J", jump)):
        said += [flag, value] if value else []
    return [*said, "--", address, shlex.join(words)]


def _quoted(path: str) -> str:
    """A path as a value of ssh_config(5), in which a space would begin another file."""
    return f'"{path}"' if " " in path else path
