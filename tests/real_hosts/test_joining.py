"""Nodes that cannot be connected: those that can are kept, with their claims, and the error names the others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from nodes_support import Nodes, text

from shared import Memory, plan_of
from weir.deploy import Keeper
from weir.hosts.place import PlaceError
from weir.hosts.relay import Relay
from weir.inventory import Node, load
from weir.methods import LostError, MethodError
from weir.methods.hosts import Hosts
from weir.methods.hosts._fleet import Fleet


@pytest.fixture
def fleet(nodes: Nodes) -> Iterator[Fleet]:
    made = Fleet(nodes.connect)
    yield made
    made.close()


def test_a_node_in_use_is_named_and_the_others_are_kept(nodes: Nodes, fleet: Fleet) -> None:
    wanted = load(nodes.inventory()).nodes
    by = {node.name: node for node in wanted}
    with nodes.connect(by["a2"]) as other:
        holder = Keeper(other)
        holder.claim(20)

        with pytest.raises(MethodError, match=r"^a2: it is in use by .*, since .*Z$"):
            fleet.members(wanted)

        assert sorted(fleet.all) == ["a1", "b1", "b2"]
        holder.restore()

    assert [member.name for member in fleet.members(wanted)] == ["a1", "a2", "b1", "b2"], "no claim was lost"

    fleet.close()
    assert nodes.journals() == []
    assert nodes.processes() == []


def test_every_node_that_fails_is_named(nodes: Nodes) -> None:
    def connect(node: Node) -> Relay:
        if node.name in {"a1", "b2"}:
            raise PlaceError(f"{node.name} cannot be reached: refused")
        return nodes.connect(node)

    fleet = Fleet(connect)

    with pytest.raises(LostError, match=r"^a1 cannot be reached: refused; b2 cannot be reached: refused$"):
        fleet.members(load(nodes.inventory()).nodes)

    assert sorted(fleet.all) == ["a2", "b1"]
    assert len(nodes.journals()) == 2
    fleet.close()
    assert nodes.journals() == []
    assert nodes.processes() == []


def test_a_node_that_is_lost_while_it_joins_ends_the_run(nodes: Nodes) -> None:
    def connect(node: Node) -> Relay:
        found = nodes.connect(node)
        if node.name == "b1":
            found.close()
        return found

    method = Hosts(connect).on(str(nodes.inventory()))
    try:
        with pytest.raises(LostError, match="b1 is lost, before the run had begun"):
            method.execute(json.dumps(plan_of(text())), Memory(), lambda *_: None)
    finally:
        method.close()

    assert nodes.journals() == []
    assert nodes.processes() == []
