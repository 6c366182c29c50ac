"""A plan's network as the lab kernel's own links: commands for ``/dev/weir`` (``lab/guest/wire``), and its rows.

The module itself implements drop-tail links. A link with an active queue is a network device of the module with a queue
of the kernel, set by ``tc``. :func:`obstacle` names unsupported features: ``weir-emu`` then is the network of the plan.
"""

from __future__ import annotations

import io
import ipaddress
from collections.abc import Iterator
from typing import BinaryIO, assert_never

import numpy as np

from weir.hosts import qdiscs
from weir.hosts.impairments import delay_model, loss_model
from weir.hosts.messages import Frame
from weir.hosts.wiring import Host, Wiring, switch_of
from weir.plan import (
    ChangeKind,
    DelayChange,
    Link,
    Loss,
    LossChange,
    Plan,
    RateChange,
    SharesChange,
    TcpTransport,
    TokenRatesChange,
    kind_of,
    queue_classes,
    queue_packets,
    recorded_links,
)
from weir.queues import is_plain

__all__ = ["DEVICE", "OFFLOADS", "commands", "frames", "obstacle", "queues", "uncounted"]

DEVICE = "/dev/weir"

OFFLOADS = {"packets": 0, "trains": 1, "device": 2}
"""The treatment of segments by the hosts' devices: each separate; trains that stay whole on every link; trains that the
device segments.
"""

_FIFO, _QDISC, _NIC = range(3)
_UNLIMITED = (1 << 63) - 1
_MAX_HOPS = 64
_MAX_LINKS = 8192
_MAX_FLOWS = 1 << 20
_WORD = (1 << 64) - 1
_NONE = (1 << 32) - 1


def obstacle(plan: Plan) -> str | None:
    """The feature of ``plan`` that the kernel's links lack; ``None`` if they support all of it."""
    if len(plan.links) > _MAX_LINKS or len(plan.flows) > _MAX_FLOWS:
        return f"more than {_MAX_LINKS} links or {_MAX_FLOWS} flows"
    if any(len(path) > _MAX_HOPS for flow in plan.flows for path in (flow.path, flow.reverse_path)):
        return f"a path of more than {_MAX_HOPS} links"
    if (switch := switch_of(plan)) is not None:
        return switch
    first = _first_links(plan)
    for node, links in first.items():
        if len(links) > 1:
            return f"several links out of the host {plan.nodes[node].name}"
    nics = {link for links in first.values() for link in links}
    if any(link in nics for flow in plan.flows for link in (*flow.path[1:], *flow.reverse_path[1:])):
        return "a path through a host"
    found = (_link_obstacle(number, link, plan, number in nics) for number, link in enumerate(plan.links))
    return next((text for text in found if text), None)


def uncounted(plan: Plan) -> str | None:
    """What ``plan`` records of links that the kernel's links do not count; ``None`` if they count all of it."""
    if not plan.measure.links_ns:
        return None
    recorded = (plan.links[number] for number in recorded_links(plan))
    return next((f"link {link.name}: counts of each class" for link in recorded if queue_classes(link.queue)), None)


def _link_obstacle(number: int, link: Link, plan: Plan, is_nic: bool) -> str | None:
    place = f"link {link.name}: "
    if delay_model(link.delay).varies:
        return f"{place}a delay that varies"
    if link.loss is not None and not _can_lose(link.loss):
        return f"{place}losses of kind {kind_of(link.loss)}"
    for change in plan.changes:
        if change.link == number and not _can_change(change.change):
            return f"{place}a change to a delay that varies, to a list of losses, of classes, or of token buckets"
    if is_nic and not is_plain(kind_of(link.queue)):
        return f"{place}an active queue in a host"
    if not is_nic and _needs_queue(plan, number) and (why := qdiscs.obstacle(link)) is not None:
        return f"{place}{why}"
    return None


def _can_lose(loss: Loss) -> bool:
    return bool(_chances(loss)) or loss_model(loss).numbers(loss) is not None


def _can_change(change: ChangeKind) -> bool:
    match change:
        case RateChange():
            return True
        case DelayChange():
            return not delay_model(change.delay).varies
        case LossChange():
            return change.loss is None or bool(_chances(change.loss))
        case SharesChange() | TokenRatesChange():
            return False
        case _:
            assert_never(change)


def _first_links(plan: Plan) -> dict[int, set[int]]:
    """The links by which packets of flows leave each host."""
    found: dict[int, set[int]] = {}
    for flow in plan.flows:
        found.setdefault(flow.from_, set()).add(flow.path[0])
        if flow.reverse_path:
            found.setdefault(flow.to, set()).add(flow.reverse_path[0])
    return found


def _nic_of(plan: Plan, node: int) -> int | None:
    return next(iter(_first_links(plan).get(node, ())), None)


def commands(plan: Plan, wiring: Wiring) -> Iterator[str]:
    """The commands that create the network, except for the hosts' devices."""
    recorded = set(recorded_links(plan))
    nics = {link for links in _first_links(plan).values() for link in links}
    yield f"flows {len(plan.flows)} {wiring.first_port} {plan.measure.delay_ns}"
    trace = plan.measure.trace
    if trace is not None:
        yield f"trace {trace.from_ns} {trace.to_ns} {trace.max_packets}"
    acks = plan.measure.acks
    if acks is not None:
        yield f"acks {acks.from_ns} {acks.to_ns} {acks.max_rows}"
    for number, link in enumerate(plan.links):
        limit = link.queue.limit
        kind = _NIC if number in nics else _QDISC if _needs_queue(plan, number) else _FIFO
        yield (
            f"link {number} {kind} {link.rate_bps} {link.overhead_bytes} {link.mtu_bytes} "
            f"{link.delay.delay_ns} {limit.bytes or _UNLIMITED} {limit.packets or _UNLIMITED} "
            f"{int(number in recorded)}"
        )
        yield from _losses(number, link, plan.seed)
    for number, flow in enumerate(plan.flows):
        traced = trace is not None and (not trace.flows or number in trace.flows)
        logged = acks is not None and (not acks.flows or number in acks.flows)
        yield f"flow {number} {flow.from_} {flow.to} {int(traced)} {int(logged)}"
        yield f"path {number} 0 {' '.join(map(str, flow.path))}"
        if flow.reverse_path:
            yield f"path {number} 1 {' '.join(map(str, flow.reverse_path))}"
        if (most_ns := _processing_ns(plan, number)) > 0:
            yield f"processing {number} {_substream(plan.seed, f'flow/{flow.name}/processing')} {most_ns}"
    yield from _changes(plan)


def _processing_ns(plan: Plan, number: int) -> int:
    """How long the receiver of a flow takes to answer at most; 0 where the simulator's takes no time either."""
    flow = plan.flows[number]
    if not isinstance(flow.transport, TcpTransport) or not flow.reverse_path:
        return 0
    changes = any(change.link == flow.reverse_path[0] for change in plan.changes)
    return 0 if changes else flow.transport.processing_ns


def host_command(plan: Plan, host: Host, offload: str) -> str:
    """The command that creates the device of ``host``, in its namespace."""
    address = int(ipaddress.IPv4Address(host.address))
    link = _nic_of(plan, host.node)
    if link is None:  # it only ever receives datagrams
        return f"host {host.node} {address:x} {_NONE} {host.mtu_bytes} 1 {OFFLOADS[offload]}"
    packets = queue_packets(plan.links[link].queue, plan.links[link].mtu_bytes)
    return f"host {host.node} {address:x} {link} {host.mtu_bytes} {packets} {OFFLOADS[offload]}"


def _needs_queue(plan: Plan, number: int) -> bool:
    changed = any(change.link == number and not isinstance(change.change, LossChange) for change in plan.changes)
    return changed or not is_plain(kind_of(plan.links[number].queue))


def _losses(number: int, link: Link, seed: int) -> Iterator[str]:
    loss = link.loss
    if loss is None:
        return
    yield from (f"lose {number} {packet}" for packet in loss_model(loss).numbers(loss) or ())
    if _chances(loss):
        yield f"loss {number} {_random_losses(loss, seed, f'link/{link.name}/loss')}"


def _changes(plan: Plan) -> Iterator[str]:
    new_losses = [0] * len(plan.links)
    for entry in plan.changes:
        match entry.change:
            case RateChange(rate_bps=rate_bps):
                value = str(rate_bps)
            case DelayChange(delay=delay):
                value = str(delay.delay_ns)
            case LossChange(loss=loss):
                new_losses[entry.link] += 1  # each has a stream of its own, as in crates/weir-links
                stream = f"link/{plan.links[entry.link].name}/loss/{new_losses[entry.link]}"
                value = "none" if loss is None else _random_losses(loss, plan.seed, stream)
            case SharesChange() | TokenRatesChange():
                raise ValueError("the kernel's links cannot change classes or token buckets of queues")
            case other:
                assert_never(other)
        yield f"change {entry.at_ns} {entry.link} {kind_of(entry.change)} {value}"


def _chances(loss: Loss) -> tuple[int, ...]:
    return tuple(map(_chance, loss_model(loss).probabilities(loss)))


def _random_losses(loss: Loss, seed: int, stream: str) -> str:
    return " ".join(map(str, (_substream(seed, stream), *_chances(loss))))


def _substream(seed: int, name: str) -> int:
    """The seed of a named substream's generator, as in crates/weir-units (random.rs): FNV-1a of the name."""
    state = 0xCBF2_9CE4_8422_2325 ^ (seed * 0x9E37_79B9_7F4A_7C15 & _WORD)
    for byte in name.encode():
        state = (state ^ byte) * 0x0000_0100_0000_01B3 & _WORD
    return state


def _chance(probability: float) -> int:
    """In units of 1/2^63, as crates/weir-elements (loss.rs) compares it."""
    return int(min(1.0, max(0.0, probability)) * 2.0**63)


# Queues of the kernel ------------------------------------------------------------------------------------------------


def queues(plan: Plan, first_port: int) -> tuple[list[str], list[str]]:
    """The input of ``ip -batch`` and ``tc -batch``: sets up each link that is a device, with its queue."""
    nics = {link for links in _first_links(plan).values() for link in links}
    devices = [
        (f"wl{number}", link)
        for number, link in enumerate(plan.links)
        if number not in nics and _needs_queue(plan, number)
    ]
    up = [f"link set {name} up" for name, _ in devices]
    made = ((name, what, words) for name, link in devices for what, words in qdiscs.commands(link, "root", first_port))
    return up, [f"{what} add dev {name} {words}" for name, what, words in made]


# Rows ----------------------------------------------------------------------------------------------------------------

_LINK_COLUMNS = (
    *("in_packets", "in_bytes", "out_packets", "out_bytes", "drop_packets", "drop_bytes", "mark_packets"),
    *("queue_bytes", "queue_packets", "queue_max_bytes", "queue_delay_ns", "queue_delay_max_ns"),
)
_DELAY_COLUMNS = ("packets", "delay_ns", "delay_min_ns", "delay_max_ns", "jitter_packets", "jitter_ns", "jitter_max_ns")
_ROW = np.dtype([("time_ns", "<u8"), ("of", "<u4"), ("kind", "<u4"), ("values", "<u8", (12,))])
_ACK_COLUMNS = (
    *("kind", "packet", "delivered_packets", "cwnd", "ssthresh", "in_flight"),
    *("rtt_ns", "delivery_rate_bps", "pacing_rate_bps", "ca_state"),
)
_TABLES = {
    0: ("links", "link", _LINK_COLUMNS),
    1: ("drops", "link", ("flow", "packets")),
    2: ("marks", "link", ("flow", "packets")),
    3: ("delays", "flow", _DELAY_COLUMNS),
    4: ("delay_bins", "flow", ("low_ns", "high_ns", "delay_packets", "jitter_packets")),
    8: ("acks", "flow", _ACK_COLUMNS),
}
"""By kind of row: its table, the meaning of its number, and its values."""
_NARROW = {
    **dict.fromkeys(("flow", "delivered_packets", "cwnd", "ssthresh", "in_flight"), "<u4"),
    **dict.fromkeys(("kind", "ca_state"), "<u1"),
}
"""Types of the columns that do not have 64 bits."""


def frames(content: bytes, end_ns: int) -> Iterator[Frame]:
    """The tables in rows of the module up to ``end_ns``, each with its rows in their order.

    Ignores a partial last row. Packets still move for a moment after the end of the plan.
    """
    rows = np.frombuffer(content, _ROW, len(content) // _ROW.itemsize)
    rows = rows[rows["time_ns"] <= end_ns]
    for kind, (table, of, names) in _TABLES.items():
        part = rows[rows["kind"] == kind]
        if not len(part):
            continue
        columns = {
            name: np.ascontiguousarray(part["values"][:, place].astype(_NARROW.get(name, "<u8"), copy=False))
            for place, name in enumerate(names)
        }
        yield Frame(
            table, {"time_ns": np.ascontiguousarray(part["time_ns"]), of: np.ascontiguousarray(part["of"]), **columns}
        )


_PACKETS = range(5, 8)
"""Kinds of rows of single packets, which :class:`weir._weir.RowTrace` reads."""
_AT_ONCE = 65_536


def packets(file: BinaryIO, end_ns: int) -> Iterator[bytes]:
    """The rows of single packets in ``file`` up to ``end_ns`` in the order of time, in pieces of limited size.

    The module writes a packet's row when its device takes it, with the time at which the host's stack handed it to the
    device's queue: so rows are out of order by the time that packets wait there.
    """
    count = file.seek(0, io.SEEK_END) // _ROW.itemsize
    if not count:
        return
    rows = np.memmap(file, _ROW, "r", shape=(count,))
    found = np.flatnonzero(np.isin(rows["kind"], _PACKETS) & (rows["time_ns"] <= end_ns))
    found = found[np.argsort(rows["time_ns"][found], kind="stable")]
    for begin in range(0, len(found), _AT_ONCE):
        yield rows[found[begin : begin + _AT_ONCE]].tobytes()


ROW_BYTES = _ROW.itemsize
"""Size of one row."""
