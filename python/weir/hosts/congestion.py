"""The kernel's congestion control of each flow: ``cubic`` is weir's, loaded for the run, ``linux:cubic`` its own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weir import _linux
from weir import cc as users
from weir._errors import MethodError
from weir.bpf import BpfError, Loader
from weir.plan import Plan, TcpTransport, Transport, tcp_flows, with_transports

__all__ = ["FOREIGN", "Wanted", "kernel_names", "label", "native", "obstacle", "renamed", "wanted"]

FOREIGN = "linux:"
_OURS = re.compile(r"w[0-9a-f]+\.[0-9a-f]+_")
"""Beginning of the names that ``weir.bpf.Loader`` gives."""


@dataclass(frozen=True)
class Wanted:
    """A congestion control of a plan with its options."""

    name: str
    options: tuple[tuple[str, int], ...]

    @property
    def label(self) -> str:
        """Its name in a job: flows with different options need different names."""
        return self.name + (json.dumps(dict(self.options), separators=(",", ":")) if self.options else "")


def wanted(plan: Plan) -> list[Wanted]:
    """Every congestion control that flows of ``plan`` use, once, in the order of the flows."""
    return list(dict.fromkeys(_of(transport) for _, transport in tcp_flows(plan)))


def label(transport: TcpTransport) -> str:
    """The label of the congestion control of ``transport``."""
    return _of(transport).label


def _of(transport: TcpTransport) -> Wanted:
    return Wanted(transport.cc, tuple(sorted(transport.cc_options.items())))


def renamed(document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """``document`` of ``plan`` with labels instead of names of congestion controls, as the agents get it."""
    return with_transports(document, plan, _labelled)


def _labelled(transport: Transport, given: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(transport, TcpTransport):
        return given
    of_the_plan = {name: value for name, value in given.items() if name != "cc_source"}
    return {**of_the_plan, "cc": label(transport), "cc_options": {}}


def native(name: str) -> str:
    """The kernel's own congestion control ``name``; loads its module if necessary.

    Raises:
        MethodError: this kernel has none of that name; the message lists those it has.
    """
    if name not in _available():
        with contextlib.suppress(FileNotFoundError):  # a kernel without modules needs no such program
            subprocess.run(["modprobe", "-q", f"tcp_{name}"], capture_output=True, check=False)
    if name not in _available():
        raise MethodError(_missing(name))
    return name


def obstacle(plan: Plan) -> str | None:
    """The congestion control of ``plan`` that this host's kernel lacks or cannot have, for people; loads nothing."""
    if (why := users.no_kernel(plan)) is not None:
        return why
    names = (cc.name.removeprefix(FOREIGN) for cc in wanted(plan) if cc.name.startswith(FOREIGN))
    return next((_missing(name) for name in names if not _linux.has(name)), None)


def _missing(name: str) -> str:
    from weir import _weir

    known = [other for other in _available() if not _OURS.match(other)]
    text = f"cc: linux:{name}: this kernel has no congestion control {name!r}; it has {', '.join(known)}"
    registered = {cc["name"] for cc in json.loads(_weir.cc_list())}
    return f"{text}. Without `linux:`, weir loads its own" if name in registered else text


def _available() -> tuple[str, ...]:
    return _linux.available() or ()


@contextlib.contextmanager
def kernel_names(
    plan: Plan, environment: Mapping[str, str], probes: dict[str, int] | None = None
) -> Iterator[dict[str, str]]:
    """The kernel's name of each congestion control of ``plan``, by label; weir's are loaded during the context.

    With ``probes``, and where the plan samples connections, their probes are kept: it gets the kernel's id of the map
    of each, by label.

    Raises:
        MethodError: the kernel lacks one, or cannot load one of weir's.
    """
    names = {cc.label: native(cc.name.removeprefix(FOREIGN)) for cc in wanted(plan) if cc.name.startswith(FOREIGN)}
    ours = [cc for cc in wanted(plan) if not cc.name.startswith(FOREIGN)]
    if not ours:
        yield names
        return
    with Loader(environment) as loader:
        sampled = probes is not None and plan.measure.tcp_ns > 0
        loaded = {cc.label: _load(loader, cc, probes=sampled) for cc in ours}
        if probes is not None:
            probes |= {label: loader.probes[name] for label, name in loaded.items() if name in loader.probes}
        yield names | loaded


def _load(loader: Loader, cc: Wanted, *, probes: bool) -> str:
    try:
        return loader.load(cc.name, dict(cc.options), probes=probes)
    except BpfError as error:
        raise MethodError(f"cc: {cc.name}: {error}") from error
