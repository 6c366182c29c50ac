"""The kernel's congestion control of each flow: ``cubic`` is ours, loaded for the run, ``linux:cubic`` its own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.bpf import BpfError, Loader
from weir.methods import MethodError

__all__ = ["FOREIGN", "Wanted", "kernel_names", "label", "native", "renamed", "wanted"]

FOREIGN = "linux:"
_OURS = re.compile(r"w[0-9a-f]+\.[0-9a-f]+_")
"""Beginning of the names that ``weir.bpf.Loader`` gives."""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class Wanted:
    """A congestion control of a plan with its options."""

    name: str
    options: tuple[tuple[str, int], ...]

    @property
    def label(self) -> str:
        """How a job names it: two flows whose options differ need two names."""
        return self.name + (json.dumps(dict(self.options), separators=(",", ":")) if self.options else "")


def wanted(plan: Mapping[str, Any]) -> list[Wanted]:
    """Every congestion control that a flow of ``plan`` uses, once, in the order of the flows."""
    found = (_of(flow) for flow in plan["flows"] if flow["transport"]["protocol"] == "tcp")
    return list(dict.fromkeys(found))


def label(flow: Mapping[str, Any]) -> str:
    """The label of the congestion control of a flow over TCP."""
    return _of(flow).label


def _of(flow: Mapping[str, Any]) -> Wanted:
    transport = flow["transport"]
    return Wanted(transport["cc"], tuple(sorted(transport.get("cc_options", {}).items())))


def renamed(plan: Mapping[str, Any]) -> dict[str, Any]:
    """``plan`` with the label of each congestion control for its name, as the agents get it."""
    flows = []
    for flow in plan["flows"]:
        if flow["transport"]["protocol"] == "tcp":
            of_the_plan = {name: value for name, value in flow["transport"].items() if name != "cc_source"}
            flow = {**flow, "transport": {**of_the_plan, "cc": _of(flow).label, "cc_options": {}}}
        flows.append(flow)
    return {**plan, "flows": flows}


def native(name: str) -> str:
    """The kernel's own congestion control ``name``; its module is loaded if need be.

    Raises:
        MethodError: this kernel has none of that name; the message has those it has.
    """
    if name not in _available():
        with contextlib.suppress(FileNotFoundError):  # a kernel without modules needs no such program
            subprocess.run(["modprobe", "-q", f"tcp_{name}"], capture_output=True, check=False)
    if name not in (known := _available()):
        known = [other for other in known if not _OURS.match(other)]
        raise MethodError(
            f"cc: linux:{name}: this kernel has no congestion control {name!r}; it has {', '.join(known)}. "
            "Without `linux:`, weir loads its own"
        )
    return name


def _available() -> list[str]:
    return sorted(_AVAILABLE.read_text(encoding="utf-8").split())


@contextlib.contextmanager
def kernel_names(plan: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The kernel's name of each congestion control of ``plan``, by label; what is ours is loaded meanwhile.

    Raises:
        MethodError: the kernel lacks one, or cannot load one of ours.
    """
    names = {cc.label: native(cc.name.removeprefix(FOREIGN)) for cc in wanted(plan) if cc.name.startswith(FOREIGN)}
    ours = [cc for cc in wanted(plan) if not cc.name.startswith(FOREIGN)]
    if not ours:
        yield names
        return
    with Loader(environment) as loader:
        yield names | {cc.label: _load(loader, cc) for cc in ours}


def _load(loader: Loader, cc: Wanted) -> str:
    try:
        return loader.load(cc.name, dict(cc.options))
    except BpfError as error:
        raise MethodError(f"cc: {cc.name}: {error}") from error
