"""Whether this host's kernel can be given what a plan asks for, as far as it can be known before anything is made."""

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
"""Shortest intervals. A look takes a timer, a wake-up and a microsecond a flow, and must not be late by a quarter of
its interval; the counters of disciplines are read by a program of its own."""


def finest(plan: Plan) -> Finest:
    """The shortest intervals of ``measure`` that are served for so many flows."""
    flows = len(plan.flows)
    look_ns = _LOOK_NS + _FLOW_NS * flows
    links_ns = _DISCIPLINES_NS if plan.methods.emul.links == "netem" else _LINKS_NS
    return Finest(look_ns, look_ns, links_ns, f"each look takes this machine's time, here at {flows} flows")


def require_fit(plan: Plan) -> None:
    """Does nothing if every setting of ``plan`` can be had.

    Raises:
        MethodError: one cannot; the message names it, and the way out.
    """
    if plan.methods.emul.links == "netem" and plan.methods.emul.offload == "trains":
        raise MethodError("methods.emul.offload is trains, and links: netem has each packet alone (packets, auto)")
    require_settings(plan)
    why = too_fine(plan, finest(plan))
    if why is not None:
        raise MethodError(why)
