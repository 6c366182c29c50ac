"""The claim that a scenario's topology is the network between the nodes, checked before the traffic.

Where links are as they are (``network: existing``), each pair of nodes with a flow is measured by the nodes
themselves: datagrams there and back for round-trip time and losses, a short bulk transfer for the rate. What differs
from the scenario by more than a tolerance is told: the run measures the network that there is. Tolerances are wide,
because a short measurement of a network that others may use proves no more.

With ``network: emulated``, what is between the nodes adds to the round-trip time of the scenario. Where the inventory
says how much, the sum is expected.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weir.hosts.distances import PORT, tolerance_ns
from weir.hosts.impairments import loss_model
from weir.hosts.place import Running
from weir.inventory import Inventory, Node
from weir.methods import MethodError
from weir.methods.hosts import _echo
from weir.methods.hosts._fleet import Member, together
from weir.plan import Flow, Loss, Plan, base_rtt_ns, bottleneck, wire_bytes

__all__ = ["Check", "additions", "calibrate", "compared", "rate_s", "rated"]

_PROGRAM = Path(_echo.__file__)
_RATE_SHARE = 0.15
_LOSS = 0.02
_PACKETS = 100
_EVERY_S = 0.005
_RATE_RTTS = 60
"""Round trips for which TCP sends; the rate is that of the second half, when the window has long grown."""
_RATE_S = (0.6, 3.0)
"""Shortest and longest time for which it does."""
_RATE_BYTES = 1448
_HEADERS = 52
_MOST_PAIRS = 8
"""Pairs of nodes whose rate is measured at most, one after another; round trips are measured of all."""
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Check:
    """One comparison of a pair of nodes; ``unit`` is that of its numbers."""

    what: str
    pair: str
    expected: float
    measured: float
    tolerance: float
    unit: str
    says: str = "the scenario"
    """Where ``expected`` is from."""
    added: float = 0.0
    """The part of ``expected`` that what is between the nodes adds to the scenario's, by the inventory."""

    @property
    def holds(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.measured - self.expected) <= self.tolerance

    def __str__(self) -> str:
        """For warnings."""
        says = f"{self.says} says {self.expected - self.added:.4g}"
        more = f", and the inventory {self.added:.4g} more between the nodes" if self.added else ""
        return (
            f"{self.pair}: the {self.what} is {self.measured:.4g} {self.unit}, {says}{more}: "
            "this run measures the network that there is"
        )

    def to_json(self) -> dict[str, Any]:
        """For ``calibration.json``."""
        return {**asdict(self), "holds": self.holds}


Pair = tuple[int, int]


def calibrate(plan: Plan, members: Mapping[int, Member], inventory: Inventory) -> list[Check]:
    """Measures every pair of hosts of ``plan`` that a flow joins, at their nodes; compares with the plan.

    Round-trip times are compared with those of ``inventory``, too; if the network is emulated, with the sum of both.

    Raises:
        MethodError: a pair cannot be measured; the message says why.
    """
    pairs = {(flow.from_, flow.to): flow for flow in reversed(plan.flows)}
    with _listening([members[host] for host in sorted({to for _, to in pairs})]):
        seen = dict(zip(pairs, together(lambda pair: _ask(members, pair, rate_s=0.0), pairs), strict=True))
        flows = rated(plan, {host: member.node for host, member in members.items()})
        chosen = dict.fromkeys((flow.from_, flow.to) for flow in flows)
        rates = {pair: _ask(members, pair, rate_s=rate_s(_rtt_ns(seen[pair])))["rate_bps"] for pair in chosen}
    return [
        check
        for pair, flow in pairs.items()
        for check in compared(
            plan, flow, inventory, (members[pair[0]].node, members[pair[1]].node), seen[pair], rates.get(pair)
        )
    ]


def additions(checks: Sequence[Check]) -> list[str]:
    """Warnings: what is between the nodes adds more to the scenario's round-trip times than the tolerance."""
    found = [
        f"round-trip times are longer than the scenario's {check.expected - check.added:.4g} ms: what is between the "
        f"nodes adds {check.added:.4g} ms, as the inventory says"
        for check in checks
        if check.holds and check.added * 1e6 > tolerance_ns(round((check.expected - check.added) * 1e6))
    ]
    return [*dict.fromkeys(found)]


def rated(plan: Plan, nodes: Mapping[int, Node]) -> list[Flow]:
    """Flows between whose hosts the rate is measured: one for each two sets of nodes, and rate that is expected there.

    Nodes of a set have the same links, but for those to which the inventory gives another rate.
    """
    found: dict[object, Flow] = {}
    for flow in plan.flows:
        ends = nodes[flow.from_], nodes[flow.to]
        expected = bottleneck(plan, flow.path).rate_bps
        found.setdefault((*((node.set, node.rate_bps) for node in ends), expected), flow)
    return list(found.values())[:_MOST_PAIRS]


def rate_s(rtt_ns: int) -> float:
    """How long the rate of a pair with this round-trip time is measured, seconds."""
    least, most = _RATE_S
    return min(max(_RATE_RTTS * rtt_ns / 1e9, least), most)


@contextlib.contextmanager
def _listening(targets: Sequence[Member]) -> Iterator[None]:
    """Echoes at ``targets`` during the context."""
    with contextlib.ExitStack() as stack:
        running = together(_serve, targets)
        for one in running:
            stack.callback(one.kill)
        for member, one in zip(targets, running, strict=True):
            assert one.stdout is not None
            if b"ready" not in one.stdout.readline():
                assert one.stderr is not None
                words = one.stderr.read().decode(errors="replace").strip().splitlines()
                raise MethodError(f"{member.name}: port {PORT} cannot be used: {words[-1] if words else 'no answer'}")
        yield


def _words(member: Member, **told: Any) -> tuple[str, str]:
    if "echo" not in member.programs:
        member.programs["echo"] = member.place.put("weir-echo.py", _PROGRAM.read_bytes())
    return member.programs["echo"], json.dumps(told)


def _serve(member: Member) -> Running:
    return member.place.start_python(*_words(member, do="serve", address=member.address, port=PORT))


def _ask(members: Mapping[int, Member], pair: Pair, rate_s: float) -> dict[str, Any]:
    source, target = members[pair[0]], members[pair[1]]
    count = _PACKETS if not rate_s else 0
    told = {"source": source.address, "target": target.address, "port": PORT, "count": count, "interval_s": _EVERY_S}
    ran = source.place.run_python(*_words(source, do="ask", rate_s=rate_s, **told), timeout_s=_PATIENCE_S)
    if ran.code:
        words = ran.err.decode(errors="replace").strip().splitlines()
        raise MethodError(f"{_named(members, pair)} cannot be measured: {words[-1] if words else ran.code}")
    answer: dict[str, Any] = json.loads(ran.out)
    if count and not answer["rtt_ns"]:
        raise MethodError(
            f"{_named(members, pair)}: nothing comes back from {target.address} port {PORT}: is there a way, "
            "or a firewall?"
        )
    return answer


def _share(loss: Loss | None) -> float:
    """The share of packets that is lost in the long run."""
    return 0.0 if loss is None else loss_model(loss).share(loss) or 0.0


def _named(members: Mapping[int, Member], pair: Pair) -> str:
    return f"{members[pair[0]].name} to {members[pair[1]].name}"


def _rtt_ns(seen: Mapping[str, Any]) -> int:
    """A round-trip time that few packets fall below: hosts that others use delay some."""
    return int(seen["rtt_ns"][len(seen["rtt_ns"]) // 10])


def compared(
    plan: Plan,
    flow: Flow,
    inventory: Inventory,
    ends: tuple[Node, Node],
    seen: Mapping[str, Any],
    rate_bps: float | None,
) -> Iterator[Check]:
    """What was measured between the nodes of ``flow``, beside what is expected there.

    Args:
        plan: The plan.
        flow: One of its flows.
        inventory: Of the nodes.
        ends: The node that sends, and the one that receives.
        seen: What the former says: ``sent``, a number of packets, and ``rtt_ns`` of those that came back, sorted.
        rate_bps: Payload of TCP, bits per second; ``None``: it was not measured.
    """
    pair = f"{ends[0].name} to {ends[1].name}"
    yield from _round_trips(base_rtt_ns(plan, flow), inventory, ends, _rtt_ns(seen))
    path = (*flow.path, *flow.reverse_path)
    kept = math.prod(1 - _share(plan.links[link].loss) for link in path)
    lost = 1 - len(seen["rtt_ns"]) / seen["sent"]
    # Three standard deviations of a count of losses, and what a first packet may cost.
    slack = _LOSS + 3 * math.sqrt(max(kept * (1 - kept), 0.0) / seen["sent"])
    yield Check("loss there and back", pair, 100 * (1 - kept), 100 * lost, 100 * slack, "%")
    if rate_bps is not None:
        link = bottleneck(plan, flow.path)
        expected = link.rate_bps * _RATE_BYTES / wire_bytes(link, _RATE_BYTES + _HEADERS)
        yield Check("rate of TCP", pair, expected / 1e6, rate_bps / 1e6, _RATE_SHARE * expected / 1e6, "Mb/s")


def _round_trips(wanted_ns: int, inventory: Inventory, ends: tuple[Node, Node], measured_ns: int) -> Iterator[Check]:
    """The round-trip time beside that of the scenario, and beside that of the inventory for the sets of the nodes."""
    what, pair, measured = "round-trip time", f"{ends[0].name} to {ends[1].name}", measured_ns / 1e6

    def check(said_ns: int, says: str, added_ns: int = 0) -> Check:
        sum_ns = said_ns + added_ns
        return Check(what, pair, sum_ns / 1e6, measured, tolerance_ns(sum_ns) / 1e6, "ms", says, added_ns / 1e6)

    between_ns = _between_ns(inventory, ends)
    if inventory.network == "emulated":
        yield check(wanted_ns, "the scenario", between_ns or 0)
        return
    yield check(wanted_ns, "the scenario")
    if between_ns is not None:
        yield check(between_ns, "the inventory")


def _between_ns(inventory: Inventory, ends: tuple[Node, Node]) -> int | None:
    """The round-trip time that the inventory says is between two nodes, ns: by the node between, if there is one.

    ``None``: it does not say.
    """
    one, other = (node.set for node in ends)
    by = inventory.between
    legs = [(one, other)] if by is None else [(one, by.set), (by.set, other)]
    known = [None if (found := inventory.connection(*leg)) is None else found.rtt_ns for leg in legs]
    return None if None in known else sum(rtt_ns for rtt_ns in known if rtt_ns is not None)
