"""The time that a run on machines takes, from its nodes and what is done to them. Pure.

The constants are from runs with 2, 8 and 24 nodes of a test bed that shared two processors without other load, where at
first no node had the agent; the tests have the measurements. Machines with processors of their own begin sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weir.inventory import used_hosts
from weir.methods.hosts._calibration import rate_s
from weir.plan import Flow, Plan, base_rtt_ns

__all__ = ["besides_s", "cell_s"]

_RUN_S, _RUN_NODE_S = 1.3, 0.21
"""Of a run, and of each of its nodes: connecting, the agent, the environment; at the end restoring and leaving."""
_CALIBRATION_S, _CALIBRATION_PAIR_S = 0.55, 0.2
"""Of measuring the network, and of each pair whose rate is measured, besides the time for which TCP sends."""
_CELL_S, _CELL_NODE_S = 0.42, 0.022
"""Of a cell besides its plan's length, and of each node: parameters, congestion controls, the start."""


def cell_s(plan: Plan) -> float:
    """Wall time of a cell, seconds."""
    return plan.end_ns / 1e9 + _CELL_S + _CELL_NODE_S * len(used_hosts(plan))


def besides_s(plans: Sequence[Plan], rated: Callable[[Plan], Sequence[Flow]]) -> float:
    """Wall time of a run besides that of its cells, seconds: once for its nodes, once for each network.

    Args:
        plans: Of the cells.
        rated: Flows of a plan between whose nodes the rate is measured.
    """
    nodes = max((len(used_hosts(plan)) for plan in plans), default=0)
    networks = {(repr(plan.links), _paths(plan)): plan for plan in plans}
    measured = sum(_calibration_s(plan, rated(plan)) for plan in networks.values())
    return _RUN_S + _RUN_NODE_S * nodes + measured


def _calibration_s(plan: Plan, rated: Sequence[Flow]) -> float:
    return _CALIBRATION_S + sum(_CALIBRATION_PAIR_S + rate_s(base_rtt_ns(plan, flow)) for flow in rated)


def _paths(plan: Plan) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(flow.path) for flow in plan.flows)
