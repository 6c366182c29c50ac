"""The time that a run on machines takes, from its nodes and what is done to them. Pure.

The constants are from test beds of 2, 8 and 24 nodes that shared two processors, at a load of 3, with an agent that no
node had yet; the tests have the measurements. Machines with processors of their own begin sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weir.inventory import used_hosts
from weir.plan import Plan

__all__ = ["besides_s", "cell_s"]

_RUN_S, _RUN_NODE_S = 1.7, 0.67
"""Of a run, and of each of its nodes: connecting, the agent, the environment; at the end restoring and leaving."""
_CALIBRATION_S, _CALIBRATION_PAIR_S = 0.55, 2.2
"""Of measuring the network, and of each pair whose rate is measured."""
_CELL_S, _CELL_NODE_S = 0.45, 0.1
"""Of a cell besides its plan's length, and of each node: parameters, congestion controls, the start."""


def cell_s(plan: Plan) -> float:
    """Wall time of a cell, seconds."""
    return plan.end_ns / 1e9 + _CELL_S + _CELL_NODE_S * len(used_hosts(plan))


def besides_s(plans: Sequence[Plan], rated: Callable[[Plan], int]) -> float:
    """Wall time of a run besides that of its cells, seconds: once for its nodes, once for each network.

    Args:
        plans: Of the cells.
        rated: The number of pairs of nodes whose rate is measured for a plan.
    """
    nodes = max((len(used_hosts(plan)) for plan in plans), default=0)
    networks = {(repr(plan.links), _paths(plan)): rated(plan) for plan in plans}
    measured = sum(_CALIBRATION_S + _CALIBRATION_PAIR_S * pairs for pairs in networks.values())
    return _RUN_S + _RUN_NODE_S * nodes + measured


def _paths(plan: Plan) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(flow.path) for flow in plan.flows)
