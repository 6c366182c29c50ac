"""Nodes whose router is a node of the experiment, too: that between the others, which emulates their network."""

from __future__ import annotations

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

    def _make(self) -> None:
        super()._make()
        self.home("e1").mkdir(exist_ok=True)
        space = self.namespace("e1")
        for device in (f"to{name}" for name in self.names):
            subprocess.run(["tc", "-n", space, "qdisc", "del", "dev", device, "root"], capture_output=True, check=True)
        values = ("net.ipv4.ip_forward=0", "net.ipv4.conf.all.rp_filter=1")
        for value in values:
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", value], capture_output=True, check=True)
