"""What the hosts of a plan can emulate of its links by themselves, each for the packets that it sends.

Pure. A host sees its own packets only. A link that packets of one host pass is that host's, with all that a plan can
say of it. A link that packets of several hosts pass has no queue at any of them: each host gets a copy of it. That is
the link only if the hosts cannot fill it, because the links before it are slower, and if what it does to a packet does
not depend on the packets of others. Everything else is a bottleneck that hosts share: a node between them has to be it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from weir.hosts.impairments import delay_model, loss_model
from weir.language import show_rate
from weir.plan import Plan, greatest_rate_bps

__all__ = ["obstacle", "part", "senders"]

_REMEDY = "a host sees its own packets only; a node between the others can be the network (`emulator: SET`)"
_FEW = 3


def senders(plan: Plan) -> dict[int, list[int]]:
    """For each link that packets pass the hosts that send them, ascending."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for host, path in _ways(plan):
        for link in path:
            found[link].add(host)
    return {link: sorted(hosts) for link, hosts in sorted(found.items())}


def obstacle(plan: Plan) -> str | None:
    """Which link of ``plan`` the hosts cannot emulate by themselves, and why; ``None`` if there is none."""
    for number, hosts in senders(plan).items():
        if len(hosts) > 1 and (why := _shared(plan, number, hosts)) is not None:
            names = [plan.nodes[host].name for host in hosts]
            few = ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")
            return f"link {plan.links[number].name}: packets of several hosts pass it ({few}), and {why}: {_REMEDY}"
    return None


def part(document: Mapping[str, Any], plan: Plan, host: int) -> dict[str, Any]:
    """The document of ``plan`` for the emulator at ``host``, through which only packets pass that ``host`` sends.

    Flows keep their numbers, on which their ports depend. So flows of others are there, too, with the path of one of
    ``host``, and no packet takes them. A link with packets of other hosts is not recorded, because nobody sees all.
    """
    flows = document["flows"]
    mine = next(flow for flow in flows if host in (flow["from"], flow["to"]))
    way = {name: mine[name] for name in ("from", "to", "path", "reverse_path", "transport", "source")}
    whose = senders(plan)
    measure = document["measure"]
    seen = [link for link in measure["links"] if whose.get(link) == [host]]
    return {
        **document,
        "seed": document["seed"] + host,  # two copies of a link do not lose the same packets
        "flows": [flow if host in (flow["from"], flow["to"]) else {**flow, **way} for flow in flows],
        "changes": [change for change in document["changes"] if whose.get(change["link"]) == [host]],
        "measure": {**measure, "links": seen, "links_ns": measure["links_ns"] if seen else 0},
    }


def _ways(plan: Plan) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each host that sends, and the links that its packets pass."""
    for flow in plan.flows:
        yield flow.from_, tuple(flow.path)
        yield flow.to, tuple(flow.reverse_path)


def _shared(plan: Plan, number: int, hosts: list[int]) -> str | None:
    """Why copies of a link are not the link."""
    link = plan.links[number]
    if any(change.link == number for change in plan.changes):
        return "it changes during the run"
    if link.loss is not None and not loss_model(link.loss).is_memoryless(link.loss):
        return "its losses depend on the packets before"
    if not delay_model(link.delay).is_memoryless(link.delay):
        return "its delay depends on the packets before"
    offered = sum(_fastest_bps(plan, number, host) for host in hosts)
    if offered > link.rate_bps:
        return f"they can send {show_rate(offered)}, more than its {show_rate(link.rate_bps)}"
    return None


def _fastest_bps(plan: Plan, number: int, host: int) -> int:
    """The rate at which packets of ``host`` may reach a link at most: those of the slowest links on its ways there."""
    slowest: dict[int, int] = {}
    for sender, path in _ways(plan):
        if sender == host and number in path:
            before = path[: path.index(number)]
            rates = {link: greatest_rate_bps(plan, link) for link in before}
            narrow = min(before, key=lambda link: rates[link], default=number)
            slowest[narrow] = rates.get(narrow, plan.links[number].rate_bps + 1)
    return sum(slowest.values())
