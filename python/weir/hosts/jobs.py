"""What a process of a run is told first: the plan, where its hosts are, and which part of it is its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["job"]


def job(
    plan: Mapping[str, Any],
    hosts: Iterable[Mapping[str, Any]],
    first_port: int,
    ends: Iterable[Mapping[str, int]] = (),
    names: Mapping[str, str] | None = None,
    token: bytes | None = None,
    probes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The job of an agent or an emulator (``crates/weir-protocol/src/job.rs``), as JSON has it.

    Args:
        plan: The document of the plan.
        hosts: Where its hosts are (:meth:`weir.hosts.wiring.Host.to_job`).
        first_port: The port of the first flow's receiver.
        ends: The ends of flows that the process serves: ``{"from": FLOW}`` or ``{"to": FLOW}``.
        names: The kernel's name of each congestion control, by label.
        token: A secret of the run, 16 bytes, that agents require of each other; ``None``: they take all that comes.
        probes: Where the probes of congestion controls are, by label: the id of a BPF map, or 0 for a kernel module.
    """
    told = {
        "version": 1,
        "plan": plan,
        "hosts": list(hosts),
        "ends": list(ends),
        "kernel_cc": dict(names or {}),
        "first_port": first_port,
    }
    if probes:
        told["probes"] = dict(probes)
    return told if token is None else {**told, "token": token.hex()}
