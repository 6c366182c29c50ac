"""Nodes for tests: network namespaces with a home of their own, on both sides of a router that limits rates.

A node is reached by a command that stands for ``ssh``: it runs the far end in the node's namespace, with nothing of
this process' environment. Tests with a real server of OpenSSH use ``weir testbed``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from shared import dumbbell
from weir.hosts.relay import Relay, far_end, reach
from weir.inventory import Node

__all__ = ["Nodes", "text", "unavailable"]

_RATE = "20mbit"


def unavailable() -> str | None:
    """Why there can be no nodes here; ``None``: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "iproute2 is missing"
    tried = subprocess.run(
        [
            "unshare",
            "--net",
            "tc",
            "qdisc",
            "add",
            "dev",
            "lo",
            "root",
            "tbf",
            "rate",
            "1mbit",
            "burst",
            "6kb",
            "limit",
            "40kb",
        ],
        capture_output=True,
        check=False,
    )
    return "this kernel has no token bucket" if tried.returncode else None


def text(*, cc: str = "linux:reno", until: str = "3s", rate: str = "20Mbps", rtt: str = "1ms", more: str = "") -> str:
    """A scenario of two bulk flows over the nodes' link."""
    return dumbbell(
        title="Test",
        pairs=2,
        access="rate: 50Mbps",
        bottleneck=f"rate: {rate}, queue: {{droptail: {{size: 40kB}}}}",
        rtt=rtt,
        transport=f"cc: {cc}, stack: linux, buffers: 1MB{more}",
        workload=f"name: flow, between: pairs, kind: bulk, until: {until}",
        measure="goodput: 200ms, tcp: 50ms, links: 0",
    )


class Nodes:
    """``a1`` and ``a2`` at one side, ``b1`` and ``b2`` at the other. A context manager: leaving it removes them."""

    names = ("a1", "a2", "b1", "b2")

    def __init__(self, folder: Path) -> None:
        """Makes nothing yet; homes are in ``folder``."""
        self.folder = folder
        self.tag = f"wt{os.getpid():x}"

    def __enter__(self) -> Nodes:
        """Makes them."""
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Removes them."""
        self._remove()

    def namespace(self, name: str) -> str:
        """The network namespace of a node."""
        return f"{self.tag}{name}"

    def address(self, name: str) -> str:
        """Of a node."""
        return f"10.77.{1 if name[0] == 'a' else 2}.{10 + int(name[1])}"

    def home(self, name: str) -> Path:
        """The home of a node's user."""
        return self.folder / name

    def connect(self, node: Node) -> Relay:
        """The way to a node, as :func:`weir.hosts.ssh.connect`."""
        return reach(node.name, self.command(node.name, far_end("/tmp", "python3", carried=True)))

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """``command`` on a node."""
        environment = (f"PATH={os.environ['PATH']}", f"HOME={self.home(name)}")
        return ["ip", "netns", "exec", self.namespace(name), "env", "-i", *environment, *command]

    def run(self, name: str, *command: str) -> str:
        """The output of a command on a node, which succeeds."""
        done = subprocess.run(self.command(name, command), capture_output=True, text=True, check=True)
        return done.stdout

    def sysctl(self, name: str, parameter: str) -> str:
        """A parameter of a node's kernel."""
        return self.run(name, "cat", f"/proc/sys/{parameter.replace('.', '/')}").strip()

    def inventory(self) -> Path:
        """The file of an inventory of the nodes."""
        sets = {
            letter.upper(): {
                "nodes": [{"name": name, "address": self.address(name)} for name in self.names if name[0] == letter]
            }
            for letter in "ab"
        }
        path = self.folder / "nodes.yaml"
        path.write_text(json.dumps({"sets": sets, "roles": {"sources": "A", "sinks": "B"}}))
        return path

    def state(self, name: str) -> str:
        """What an emulated network may change in a node: addresses, devices, rules, routes, forwarding."""
        commands = ("ip -br link", "ip -4 -br address", "ip rule", "ip -4 route show table all", "tc qdisc")
        parameters = ("conf/*/forwarding", "conf/*/rp_filter", "tcp_no_metrics_save", "tcp_ecn*", "tcp_[rw]mem")
        shown = [self.run(name, "sh", "-c", command) for command in commands]
        shown += [self.run(name, "sh", "-c", f"grep . /proc/sys/net/ipv4/{what}") for what in parameters]
        return "\n".join(shown)

    def pids(self, name: str, program: str) -> list[int]:
        """The processes of a program on a node."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.namespace(name)], capture_output=True, text=True, check=True
        ).stdout.split()
        found = []
        for pid in listed:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith(program):
                    found.append(int(pid))
        return found

    def journals(self) -> list[Path]:
        """The journals on all nodes."""
        return sorted(self.folder.glob("*/.local/state/weir/journal-*.jsonl"))

    def processes(self) -> list[str]:
        """The processes in the nodes' namespaces, by number."""
        found = []
        for name in self.names:
            listed = subprocess.run(
                ["ip", "netns", "pids", self.namespace(name)], capture_output=True, text=True, check=True
            )
            found += listed.stdout.split()
        return found

    def _make(self) -> None:
        router = f"{self.tag}r"
        _ip("netns", "add", router)
        _in(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for name in self.names:
            self.home(name).mkdir(exist_ok=True)
            space, device, side = self.namespace(name), f"to{name}", self.address(name).rsplit(".", 1)[0]
            _ip("netns", "add", space)
            _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", device, "netns", router)
            for where, what, address in (
                (space, "eth0", f"{self.address(name)}/32"),
                (router, device, f"{side}.1/32"),
            ):
                _ip("-n", where, "address", "add", address, "dev", what)
                _ip("-n", where, "link", "set", what, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "route", "add", f"{side}.1", "dev", "eth0")
            _ip("-n", space, "route", "add", "default", "via", f"{side}.1")
            _ip("-n", router, "route", "add", self.address(name), "dev", device)
        for side in "ab":  # a rate towards each node
            for number in "12":
                device = ("dev", f"to{side}{number}")
                _in(
                    router, "tc", "qdisc", "add", *device, "root", "tbf", "rate", _RATE, "burst", "6kb", "limit", "40kb"
                )

    def _remove(self) -> None:
        for name in ("r", *self.names):
            subprocess.run(["ip", "netns", "del", f"{self.tag}{name}"], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _in(namespace: str, *command: str) -> None:
    subprocess.run(["ip", "netns", "exec", namespace, *command], check=True, capture_output=True)


if __name__ == "__main__":
    print(unavailable(), file=sys.stderr)
