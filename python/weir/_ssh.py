"""The command line of the system's OpenSSH client (ssh(1)), which never asks and never accepts an unknown host."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

__all__ = ["LOST", "command"]

LOST = 255
"""The exit code of ``ssh`` if it could not connect, or lost the connection (ssh(1))."""

_CONNECT_S = 20
_ALIVE_S, _ALIVE_COUNT = 5, 3
"""An idle connection is asked for an answer; one without is given up after 15 s."""
_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",  # nobody's files are changed
    "ServerAliveInterval": str(_ALIVE_S),
    "ServerAliveCountMax": str(_ALIVE_COUNT),
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "ControlMaster": "no",  # a process of its own, which ends with its connection
    "ControlPath": "none",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
}


def command(
    address: str,
    words: Sequence[str],
    *,
    user: str = "",
    port: int = 0,
    key: str = "",
    jump: str = "",
    known_hosts: str = "",
    connect_s: int = _CONNECT_S,
) -> list[str]:
    """The argument list that executes ``words`` on the machine ``address``.

    Empty arguments and port 0 mean what the user's configuration says (ssh_config(5)). The remote shell gets ``words``
    quoted one by one. A file of known hosts replaces the user's, and it and the key are those of the hosts of ``jump``,
    too.

    Args:
        jump: Hosts on the way, each ``user@host:port``, with commas between.
        connect_s: How long connecting may take, in seconds.
    """
    options = _options(key, known_hosts, connect_s)
    said = ["ssh", "-T", *options]
    for flag, value in (("-l", user), ("-p", str(port) if port else "")):
        said += [flag, value] if value else []
    proxy = ""
    for hop in filter(None, jump.split(",")):
        # Each ssh replaces `%h` and `%p` in its own command (ssh_config(5), "TOKENS"), and halves `%%` inside of it.
        way = [word.replace("%", "%%") for word in ("ssh", "-T", *options, *_through(proxy))]
        proxy = shlex.join([*way, "-W", "[%h]:%p", "--", f"ssh://{hop}"])
    return [*said, *_through(proxy), "--", address, shlex.join(words)]


def _options(key: str, known_hosts: str, connect_s: int) -> list[str]:
    options = _OPTIONS | {"ConnectTimeout": str(connect_s)}
    if known_hosts:
        options |= {"UserKnownHostsFile": _quoted(known_hosts), "GlobalKnownHostsFile": "/dev/null"}
    if key:
        options |= {"IdentityFile": _quoted(key), "IdentitiesOnly": "yes"}
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _through(proxy: str) -> list[str]:
    """The option that connects through a command. ``ssh -J`` would give the hosts on the way none of our options."""
    return ["-o", f"ProxyCommand={proxy}"] if proxy else []


def _quoted(path: str) -> str:
    """A path as a value of ssh_config(5), in which a space would begin another file and ``%`` a token."""
    whole = path.replace("%", "%%")
    return f'"{whole}"' if " " in path else whole
