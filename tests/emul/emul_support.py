"""Helpers for tests of this method: small scenarios, and the remains of runs on this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shared import argv, dumbbell, environment
from weir import _owner
from weir.methods import get


def text(
    *,
    title: str = "Test",
    pairs: int = 1,
    rate: str = "20Mbps",
    rtt: str = "20ms",
    cc: str = "linux:reno",
    until: str = "2s",
    loss: str = "",
) -> str:
    """A scenario of bulk flows over a dumbbell. Its default congestion control is one that every kernel has."""
    lossy = f", loss: {loss}" if loss else ""
    return dumbbell(
        title=title,
        pairs=pairs,
        access="rate: 50Mbps",
        bottleneck=f"rate: {rate}, queue: {{droptail: {{size: 1bdp}}}}{lossy}",
        rtt=rtt,
        transport=f"cc: {cc}, stack: linux, buffers: 2MB",
        workload=f"name: flow, between: pairs, kind: bulk, until: {until}",
        measure="goodput: 200ms, tcp: 20ms, links: 20ms",
    )


def needs_emul() -> pytest.MarkDecorator:
    """Skips if the method cannot run, with its reason."""
    why = get("emul").available()
    return pytest.mark.skipif(why is not None, reason=f"emul cannot run here: {why}")


def weir(*arguments: str, **more: str) -> subprocess.Popen[str]:
    """Starts ``weir``, with ``more`` in its environment."""
    return subprocess.Popen(
        argv(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
    )


def remains_of(owners: set[int]) -> list[str]:
    """The remains of processes with these ids on this machine: processes, namespaces, congestion controls."""
    found = [f"process {pid}" for pid, tag in _owner.processes().items() if tag.pid in owners]
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    for line in listed:
        tag = _owner.find(line) if line.startswith("weir-") else None
        if tag is not None and tag.pid in owners:
            found.append(f"namespace {line}")
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    found += [name for name in known for pid in owners if name.startswith(f"w{pid:x}.")]
    return found


def cell_of(run: Path) -> Path:
    """The folder of the only cell of ``run``."""
    (cell,) = (run / "cells").iterdir()
    return cell


def manifest_of(run: Path) -> dict[str, Any]:
    """The manifest of the only cell of ``run``."""
    found: dict[str, Any] = json.loads((cell_of(run) / "manifest.json").read_text())
    return found
