"""The claim that a scenario's topology is the network between the nodes, checked before the traffic.

Where links are as they are (``network: existing``), each pair of nodes with a flow is measured by the nodes
themselves: datagrams there and back for round-trip time and losses, a short bulk transfer for the rate. What differs
from the scenario by more than a tolerance is told: the run measures the network that there is. Tolerances are wide,
because a short measurement of a network that others may use proves no more.
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

__all__ = ["Check", "calibrate", "rate_s", "rated"]

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

    @property
    def holds(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.measured - self.expected) <= self.tolerance

    def __str__(self) -> str:
        """For warnings."""
        return (
            f"{self.pair}: the {self.what} is {self.measured:.4g} {self.unit}, {self.says} says {self.expected:.4g}: "
            "this run measures the network that there is"
        )

    def to_json(self) -> dict[str, Any]:
        """For ``calibration.json``."""
        return {**asdict(self), "holds": self.holds}


Pair = tuple[int, int]


def calibrate(plan: Plan, members: Mapping[int, Member], inventory: Inventory) -> list[Check]:
    """Measures every pair of hosts of ``plan`` that a flow joins, at their nodes; compares with the plan.

    Round-trip times are compared with those of ``inventory``, too.

    Raises:
        MethodError: a pair cannot be measured; the message says why.
    """
    pairs = {(flow.from_, flow.to): flow for flow in reversed(plan.flows)}
    with _listening([members[host] for host in sorted({to for _, to in pairs})]):
        seen = dict(zip(pairs, together(lambda pair: _ask(members, pair, rate_s=0.0), pairs), strict=True))
        flows = rated(plan, {host: member.node for host, member in members.items()})
        chosen = dict.fromkeys((flow.from_, flow.to) for flow in flows)
        rates = {pair: _ask(members, pair, rate_s=rate_s(_rtt_ns(seen[pair])))["rate_bps"] for pair in chosen}
    checks = [
        check
        for pair, flow in pairs.items()
        for check in _checks(plan, flow, _named(members, pair), seen[pair], rates.get(pair))
    ]
    return checks + [check for pair in pairs for check in _of_inventory(inventory, members, pair, seen[pair])]


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


def _of_inventory(
    inventory: Inventory, members: Mapping[int, Member], pair: Pair, seen: Mapping[str, Any]
) -> Iterator[Check]:
    """What the inventory says of the sets of a pair."""
    connection = inventory.connection(members[pair[0]].node.set, members[pair[1]].node.set)
    if connection is not None and connection.rtt_ns is not None:
        said_ns, name = connection.rtt_ns, _named(members, pair)
        measured, tolerance = _rtt_ns(seen) / 1e6, tolerance_ns(said_ns) / 1e6
        yield Check("round-trip time", name, said_ns / 1e6, measured, tolerance, "ms", "the inventory")


def _rtt_ns(seen: Mapping[str, Any]) -> int:
    """A round-trip time that few packets fall below: hosts that others use delay some."""
    return int(seen["rtt_ns"][len(seen["rtt_ns"]) // 10])


def _checks(plan: Plan, flow: Flow, pair: str, seen: Mapping[str, Any], rate_bps: float | None) -> Iterator[Check]:
    rtt_ns = base_rtt_ns(plan, flow)
    yield Check("round-trip time", pair, rtt_ns / 1e6, _rtt_ns(seen) / 1e6, tolerance_ns(rtt_ns) / 1e6, "ms")
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
