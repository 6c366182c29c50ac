"""Whether this host's kernel supports a plan's settings, as far as it can be known before anything is created."""

from __future__ import annotations

from weir.hosts.programs import require_settings
from weir.methods import MethodError
from weir.methods._intervals import Finest, too_fine
from weir.plan import Plan

__all__ = ["finest", "require_fit"]

_LOOK_NS = 50_000
_FLOW_NS = 4_000
_LINKS_NS = 50_000
_DISCIPLINES_NS = 1_000_000
"""Shortest intervals. A sample takes a timer, a wake-up and a microsecond per flow, and must not be late by a quarter
of its interval; a separate program reads the counters of disciplines.
"""


def finest(plan: Plan) -> Finest:
    """The shortest supported intervals of ``measure`` for this number of flows."""
    flows = len(plan.flows)
    look_ns = _LOOK_NS + _FLOW_NS * flows
    links_ns = _DISCIPLINES_NS if plan.methods.emul.links == "netem" else _LINKS_NS
    return Finest(look_ns, look_ns, links_ns, f"each look takes this machine's time, here at {flows} flows")


def require_fit(plan: Plan) -> None:
    """Verifies that every setting of ``plan`` is supported.

    Raises:
        MethodError: one is not; the message names it, and the remedy.
    """
    if plan.methods.emul.links == "netem" and plan.methods.emul.offload == "trains":
        raise MethodError("methods.emul.offload is trains, and links: netem has each packet alone (packets, auto)")
    require_settings(plan)
    why = too_fine(plan, finest(plan))
    if why is not None:
        raise MethodError(why)
