"""The script of the lab's first process that executes a plan."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir._programs import find
from weir.hosts.congestion import FOREIGN, renamed, wanted
from weir.hosts.jobs import job
from weir.hosts.netem import Links, queues_command, queues_job
from weir.hosts.programs import programs, routes
from weir.hosts.wiring import Command, Host, Wiring
from weir.lab import Script
from weir.methods.lab import _wire
from weir.methods.lab._controls import Controls
from weir.plan import Plan

__all__ = ["AGENT", "EMULATOR", "QUEUES", "ROWS", "Network", "script"]

AGENT = "agent"
EMULATOR = "emulator"
QUEUES = "queues"
ROWS = "rows"
"""Name of the output with the rows of the kernel's links."""
_FOLDER = "/run/weir"
"""The lab's folder, as its processes see it."""

_LEAD_NS = 1_000_000_000
"""Minimum lead time of the plan after everything is ready. Its instant 0 is a multiple of it, whatever was loaded
before, so that plans that differ in that meet the kernel's ticks alike. It is virtual time, which costs nothing while
all processes wait. The kernel's PIE makes its first update half a second after its set-up and must be active by then.
"""


@dataclass(frozen=True)
class Network:
    """The implementation of the links: the kernel's own, its disciplines, or, if both are missing, weir-emu."""

    module: Path | None = None
    """The kernel's own links (``lab/guest/wire``)."""
    netem: Links | None = None
    """Links made of the kernel's disciplines."""
    offload: str = "trains"
    """The treatment of segments by the hosts' devices (``methods.lab.offload``); weir-emu leaves those of ``device``
    whole.
    """

    @property
    def links(self) -> str:
        """The implementation of the links, for ``lab.json``."""
        return "kernel" if self.module is not None else "netem" if self.netem is not None else "weir-emu"

    @property
    def program(self) -> str | None:
        """The process of the lab that reports on the links; the kernel's own are read without one."""
        return None if self.module is not None else QUEUES if self.netem is not None else EMULATOR


def script(document: Mapping[str, Any], plan: Plan, wiring: Wiring, controls: Controls, network: Network) -> Script:
    """Creates the hosts of ``wiring`` and the network between them; an agent then executes ``document`` of ``plan``."""
    from weir import _weir

    made = Script()
    for module, parameters in controls.modules:
        made.add("insmod", str(module), parameters)
    if network.module is not None:
        made.add("insmod", str(network.module), "")
        made.add("write", "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        for command in _wire.commands(plan, wiring):
            made.add("write", _wire.DEVICE, command)
    _add_hosts(made, plan, wiring, network)
    if programs(plan):
        made.add("cd", str(Path.cwd()))  # as on the host, for relative paths in their arguments
        for route in routes(plan, wiring, controls.names):
            made.add("call", *route)
    if network.module is not None:
        up, queues = _wire.queues(plan, wiring.first_port)
        _add_batch(made, ("ip",), up)
        _add_batch(made, ("tc",), queues)
        made.add("collect", _wire.DEVICE, ROWS)
    elif network.netem is not None:
        made.add("write", "/proc/sys/net/core/netdev_max_backlog", _NO_BACKLOG_LIMIT)
        _serve(made, QUEUES, queues_command(), queues_job(plan, network.netem))
    else:
        # Timers are exact here; spinning would only stop the clock.
        trace = (
            ("--trace", *(f"{_FOLDER}/{name}" for name in _weir.trace_files()))
            if plan.measure.trace is not None
            else ()
        )
        _add_process(made, EMULATOR, ("weir-emu", "--spin", "0", *trace), _job(document, wiring, [], {}))
    ends = [{end: flow} for end in ("to", "from") for flow in range(len(plan.flows))]
    probes = (
        dict.fromkeys((cc.label for cc in wanted(plan) if not cc.name.startswith(FOREIGN)), 0)
        if plan.measure.tcp_ns
        else {}
    )
    _add_process(made, AGENT, ("weir-agent",), _job(renamed(document, plan), wiring, ends, controls.names, probes))
    if network.module is not None:
        made.add("start", str(_LEAD_NS), _wire.DEVICE, str(plan.measure.links_ns))
    else:
        made.add("start", str(_LEAD_NS))
    return made


def _add_process(made: Script, name: str, command: Sequence[str], told: Mapping[str, Any]) -> None:
    _serve(made, name, (str(find(command[0])), *command[1:]), told)


def _serve(made: Script, name: str, command: Sequence[str], told: Mapping[str, Any]) -> None:
    made.inputs[f"{name}.in"] = json.dumps(told, separators=(",", ":")).encode() + b"\n"
    made.add("serve", name, *command)


def _job(
    plan: Mapping[str, Any],
    wiring: Wiring,
    ends: Sequence[Mapping[str, int]],
    names: Mapping[str, str],
    probes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    return job(plan, (host.to_job() for host in wiring.hosts), wiring.first_port, ends, names, probes=probes)


_NO_LIMIT = "4194304 4194304 4194304"
"""Pages of memory for TCP: low, pressure, high."""
_NO_BACKLOG_LIMIT = "1000000"
"""Packets between two joined devices: a sent packet reaches the other at the same instant."""

# Hosts ---------------------------------------------------------------------------------------------------------------


def _add_hosts(made: Script, plan: Plan, wiring: Wiring, network: Network) -> None:
    """The commands of the wiring, with as few processes of the guest as possible: starting one costs a millisecond."""
    hosts = {host.namespace: host for host in wiring.hosts}
    # All connections share a small part of the kernel's memory, and a guest is small: the receiver would drop segments
    # out of order long before its buffer is full.
    made.add("write", "/proc/sys/net/ipv4/tcp_mem", _NO_LIMIT)
    for start, group in itertools.groupby(wiring.up, _call):
        batch = list(group)
        if start[0] == "sysctl":
            made.add("netns", start[1])
            for key, value in itertools.chain.from_iterable(_settings(command) for command in batch):
                made.add("write", f"/proc/sys/{key.replace('.', '/')}", value)
            made.add("netns", "")
            continue
        if network.module is not None:
            if any("tuntap" in command for command in batch):
                _add_device(made, plan, hosts[start[2]], network)
            # The device is the first link itself: nothing has to slow it down or replace its queue.
            batch = [command for command in batch if "tuntap" not in command and "qdisc" not in command]
        _add_batch(made, start, [" ".join(command[len(start) :]) for command in batch])


def _add_device(made: Script, plan: Plan, host: Host, network: Network) -> None:
    made.add("netns", host.path)
    made.add("write", _wire.DEVICE, _wire.host_command(plan, host, network.offload))
    made.add("netns", "")


def _call(command: Command) -> tuple[str, ...]:
    """The common call of the program of ``command`` for it and its neighbours."""
    if command[0] == "nsenter":
        return ("sysctl", command[1].removeprefix("--net="))
    return command[:3] if command[1] == "-n" else command[:1]


def _settings(command: Command) -> Iterator[tuple[str, str]]:
    """The settings in a call of ``sysctl``; ``-e`` ignores missing ones, and the lab's kernel lacks none."""
    words = command[command.index("sysctl") + 1 :]
    for word in words:
        if not word.startswith("-"):
            key, _, value = word.partition("=")
            yield key, value


def _add_batch(made: Script, start: Sequence[str], lines: Sequence[str]) -> None:
    """One call of ``ip`` or ``tc`` for ``lines``."""
    if not lines:
        return
    name = f"batch{len(made.inputs)}"
    made.inputs[name] = ("\n".join(lines) + "\n").encode()
    made.add("call", *start, "-batch", f"{_FOLDER}/{name}")
