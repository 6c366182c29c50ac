"""Paths of packets: the definition applied to small networks, and limits on the search."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from scenario_support import dumbbell

from weir.language.problem import NOWHERE, Log
from weir.language.units import Amount
from weir.scenario import ScenarioError, _network, parse
from weir.scenario._network import Link, Network


def network(hosts: int, routers: int) -> Network:
    """Hosts, then routers, without links."""
    net = Network(Log("test"))
    for i in range(hosts):
        net.node(f"h{i}", host=True, mark=NOWHERE)
    for i in range(routers):
        net.node(f"r{i}", host=False, mark=NOWHERE)
    return net


def join(net: Network, start: int, end: int, delay: int) -> None:
    size = Amount(Fraction(1), "bdp")
    net.link(Link(f"x{len(net.links)}", start, end, 10**6, delay, 1500, 38, size, NOWHERE))


def best(net: Network, source: int, sink: int) -> tuple[int, int, int, int] | None:
    """Least delay, then fewest links, then first written, of all paths."""
    found: list[tuple[int, int, int, int]] = []

    def go(here: int, links: tuple[int, ...], delay: int, seen: frozenset[int]) -> None:
        if here == sink:
            found.append((delay, len(links), links[0], links[-1]))
        elif not links or not net.nodes[here][1]:
            for i, link in enumerate(net.links):
                if link.start == here and link.end not in seen:
                    go(link.end, (*links, i), delay + link.delay, seen | {link.end})

    go(source, (), 0, frozenset({source}))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(120))
def test_a_path_is_the_best_of_all_also_after_a_link_got_longer(seed: int) -> None:
    draw = random.Random(seed)
    net = network(3, draw.randint(0, 4))
    for _ in range(draw.randint(1, 14)):
        join(net, *draw.sample(range(len(net.nodes)), 2), draw.choice((0, 0, 1, 1, 2, 5)))
    for _ in range(2):
        for source, sink in permutations(range(3), 2):
            path = net.path(source, sink)
            found = None if path is None else (path.delay, len(path.links), path.links[0], path.links[-1])
            assert found == best(net, source, sink)
            if path is not None:
                links = [net.links[i] for i in path.links]
                assert (links[0].start, links[-1].end) == (source, sink)
                assert all(a.end == b.start for a, b in pairwise(links))
                assert sum(link.delay for link in links) == path.delay
        net.lengthen(draw.randrange(len(net.links)), draw.randint(0, 3))


def test_a_search_looks_at_each_parallel_link_once_however_many_flows_there_are() -> None:
    net = network(2, 2)
    for _ in range(500):
        join(net, 0, 2, 1)
        join(net, 3, 1, 1)
    join(net, 2, 3, 1)
    paths = {net.path(0, 1) for _ in range(1000)}
    assert len(paths) == 1
    assert net._steps < len(net.links)


def test_a_thousand_hosts_of_one_router_share_a_search() -> None:
    net = network(1000, 20)
    for i in range(1000):
        join(net, i, 1000, 1)
        join(net, 1019, i, 1)
    for i in range(1000, 1019):
        join(net, i, i + 1, 1)
    for i in range(1, 1000):
        assert net.path(0, i) is not None
        assert net.path(i, 0) is not None
    assert net._steps < 3 * len(net.links)


def test_a_search_that_takes_too_many_steps_is_refused_at_the_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_network, "MAX_STEPS", 10)
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell())
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (4, 5)
    assert "take over 10 steps to find; expected fewer links, routers or pairs of hosts" in problem.message
