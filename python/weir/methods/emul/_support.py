"""Whether this host's kernel supports links from its own disciplines (``links: netem``), and whether it kept up."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from weir.methods import MethodError

__all__ = ["needs_netem", "overrun_packets"]

_SCRATCH = ("unshare", "--net")
"""Runs a program in a temporary network namespace."""
_TRY_S = 20.0
_REDIRECT = "filter add dev lo ingress protocol ip matchall action mirred egress redirect dev lo"
_TRIALS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("netem", ("tc", "-batch", "-"), "qdisc add dev lo root netem delay 1ms"),
    ("tbf", ("tc", "-batch", "-"), "qdisc add dev lo root tbf rate 1mbit burst 2000 limit 2000"),
    ("redirection (ingress, matchall, mirred)", ("tc", "-batch", "-"), f"qdisc add dev lo ingress\n{_REDIRECT}"),
    ("veth", ("ip", "-batch", "-"), "link add name weir0 type veth peer name weir1"),
)
"""The parts of the links: name, a program and its input, in a scratch namespace."""


def needs_netem() -> None:
    """Tries the parts of links from disciplines in a scratch namespace.

    Raises:
        MethodError: the kernel lacks something; the message has the remedies.
    """
    if missing := _missing():
        raise MethodError(
            f"links: netem is not possible here, this kernel lacks {'; '.join(missing)}. Debian's and most "
            "distributions' kernels have it all (`modprobe sch_netem`); a kernel of a cloud or a container may not. "
            "Leave methods.emul.links at `emulator`, which needs none of it, or take the lab's kernel: "
            "`--method lab --set methods.lab.links=netem`"
        )


@functools.cache
def _missing() -> tuple[str, ...]:
    found = []
    for name, command, lines in _TRIALS:
        try:
            done = subprocess.run(
                (*_SCRATCH, *command), input=f"{lines}\n", capture_output=True, text=True, timeout=_TRY_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MethodError(f"`{command[0]}` cannot be tried in a network namespace of its own: {error}") from error
        if done.returncode != 0:
            found.append(f"{name} ({_reason(done.stderr)})")
    return tuple(found)


def _reason(text: str) -> str:
    """The kernel's message: the first line, without the name of the program."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return line.removeprefix("Error: ").removeprefix("RTNETLINK answers: ").rstrip(".")


def overrun_packets() -> int:
    """Packets that this host dropped between two devices because of ``net.core.netdev_max_backlog``.

    Raises:
        OSError: the kernel has no such counter.
    """
    lines = Path("/proc/net/softnet_stat").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1], 16) for line in lines)
