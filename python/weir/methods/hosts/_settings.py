"""What a plan asks of the Linux of its nodes, and what this method cannot do. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from weir import cc
from weir.deploy import Change, route, sysctl
from weir.hosts import ends
from weir.hosts.programs import require_settings
from weir.hosts.wiring import WiringError, refuse_other_stacks, route_options, switch_of, switches
from weir.inventory import Inventory
from weir.methods import MethodError
from weir.plan import CommandSource, Plan, tcp_flows

__all__ = ["WISHED", "changes", "hosts_of", "limits", "obstacle", "peers"]

_LINUX_INITIAL_WINDOW = 10
_PORTS = 22_000
_MAX_BUFFER = (1 << 31) - 1
_SHARE = 2
"""Bytes that the kernel accounts for a byte of payload, at most."""
_AHEAD = 4 << 20
"""Bytes that an agent writes ahead of what is in flight (``MAX_UNSENT_BYTES``)."""

_ECN: Mapping[str, str] = {
    "net.ipv4.tcp_ecn": "2",  # accepts it if the peer asks; a route asks
    "net.ipv4.tcp_ecn_fallback": "0",
}
"""Parameters of nodes with flows that have ECN."""
WISHED: Sequence[Change] = (sysctl("net.ipv4.tcp_no_metrics_save", "1"),)
"""Changes of every node with root's privilege: runs should not depend on those before. Without, it is told."""


def hosts_of(plan: Plan) -> list[int]:
    """Indices of the hosts at which a flow begins or ends."""
    return sorted({end for flow in plan.flows for end in (flow.from_, flow.to)})


def obstacle(plan: Plan, inventory: Inventory) -> str | None:
    """Why ``plan`` cannot be executed by machines with the network of ``inventory``; ``None`` if it can."""
    try:
        refuse_other_stacks(plan)
        switches(plan)
        route_options(plan)
        require_settings(plan)
    except (WiringError, MethodError) as error:
        return str(error)
    if not plan.flows:
        return "the plan has no flow"
    if (switch := switch_of(plan)) is not None:
        return (
            f"{switch}: this method lacks those; `sim`, `emul` and `lab` have them. For a real switch between the "
            "machines, leave `switch` out and use `network: existing`; `weir emulate --switch` puts an emulated one "
            "between interfaces"
        )
    if (why := cc.no_kernel(plan)) is not None:
        return why
    if inventory.network == "emulated" and inventory.emulator is None and (why := ends.obstacle(plan)) is not None:
        return f"network: emulated without `emulator`: {why}"
    if len(plan.flows) > _PORTS:
        return f"the plan has {len(plan.flows)} flows; this method has ports for {_PORTS}"
    if plan.measure.trace is not None:
        return "measure.trace: this method does not trace single packets"
    if plan.changes and inventory.network == "existing":
        return "the scenario changes links during the run; the links of an existing network are as they are"
    return None


def changes(
    plan: Plan, addresses: Mapping[int, str], ways: Mapping[int, Mapping[str, str]] | None = None
) -> dict[int, list[Change]]:
    """For each host of ``plan`` what has to be changed at its node.

    Args:
        plan: The plan.
        addresses: Those of the hosts.
        ways: How each host sends what is for others (``via`` a neighbour, or ``by`` a device); ``None``: as it does.
    """
    wanted: dict[int, dict[str, str]] = {host: {} for host in hosts_of(plan)}
    for flow, tcp in tcp_flows(plan):
        if tcp.ecn:
            wanted[flow.from_] |= _ECN
            wanted[flow.to] |= _ECN
    for host, values in switches(plan).items():
        wanted[host] |= values
    for host, name, value in _buffers(plan):
        wanted[host][name] = value
    found = {host: [sysctl(name, value) for name, value in values.items()] for host, values in wanted.items()}
    options = {pair: _unusual(words) for pair, words in route_options(plan).items()}
    if ways is not None:
        options = {(host, peer): options.get((host, peer), []) for host, all_ in peers(plan).items() for peer in all_}
    for (host, peer), words in options.items():
        if words or ways is not None:
            way = {} if ways is None else ways[host]
            source = ["src", addresses[host]] if "by" in way else []  # the device has no address of its own
            found[host].append(route(addresses[peer], [*source, *words], **way))
    return found


def peers(plan: Plan) -> dict[int, list[int]]:
    """For each host the hosts with which flows join it."""
    pairs = {(flow.from_, flow.to) for flow in plan.flows} | {(flow.to, flow.from_) for flow in plan.flows}
    found: dict[int, list[int]] = {}
    for host, peer in sorted(pairs):
        found.setdefault(host, []).append(peer)
    return found


def limits(plan: Plan, host: int) -> list[Change]:
    """What an agent without privilege needs at ``host``: Linux limits the buffers that sockets of others may ask for.

    A kernel has these limits in its first network namespace only.
    """
    sent = [tcp.send_buffer_bytes for flow, tcp in tcp_flows(plan) if flow.from_ == host]
    received = [tcp.receive_buffer_bytes for flow, tcp in tcp_flows(plan) if flow.to == host]
    return [
        {**sysctl(f"net.core.{name}", str(min(_SHARE * (max(sizes) + _AHEAD), _MAX_BUFFER))), "at_least": True}
        for name, sizes in (("wmem_max", sent), ("rmem_max", received))
        if sizes
    ]


def _unusual(words: list[str]) -> list[str]:
    """``words`` of a route without those that Linux does by itself."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    return [word for pair in pairs if pair != ("initcwnd", str(_LINUX_INITIAL_WINDOW)) for word in pair]


def _buffers(plan: Plan) -> Iterator[tuple[int, str, str]]:
    """Sizes of the buffers of programs, which are those of their hosts; weir's agent sets its own."""
    most: defaultdict[tuple[int, str], int] = defaultdict(int)
    for flow, tcp in tcp_flows(plan):
        if isinstance(flow.source, CommandSource):
            for host, name, size in (
                (flow.from_, "net.ipv4.tcp_wmem", tcp.send_buffer_bytes),
                (flow.to, "net.ipv4.tcp_rmem", tcp.receive_buffer_bytes),
            ):
                most[host, name] = max(most[host, name], min(2 * size, _MAX_BUFFER), 4096)
    yield from ((host, name, f"4096 {size} {size}") for (host, name), size in most.items())
