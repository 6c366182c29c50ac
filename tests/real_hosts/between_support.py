"""Nodes whose router is a node of the experiment, too: that between the others, which emulates their network."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

from nodes_support import Nodes

__all__ = ["Between"]


class Between(Nodes):
    """``a1`` and ``a2`` at one side of ``e1``, ``b1`` and ``b2`` at the other, without limits of rates."""

    everyone = (*Nodes.names, "e1")

    def namespace(self, name: str) -> str:
        """The network namespace of a node."""
        return super().namespace("r" if name == "e1" else name)

    def address(self, name: str) -> str:
        """Of a node."""
        return "10.77.1.1" if name == "e1" else super().address(name)

    def inventory(self, **more: object) -> Path:
        """The file of an inventory of the nodes, with an emulated network."""
        path = super().inventory()
        said = json.loads(path.read_text())
        said["sets"]["Between"] = {"nodes": [{"name": "e1", "address": self.address("e1")}]}
        path.write_text(json.dumps({**said, "network": "emulated", "emulator": "Between", **more}))
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

    def _make(self) -> None:
        super()._make()
        self.home("e1").mkdir(exist_ok=True)
        space = self.namespace("e1")
        for device in (f"to{name}" for name in self.names):
            subprocess.run(["tc", "-n", space, "qdisc", "del", "dev", device, "root"], capture_output=True, check=True)
        values = ("net.ipv4.ip_forward=0", "net.ipv4.conf.all.rp_filter=1")
        for value in values:
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", value], capture_output=True, check=True)
