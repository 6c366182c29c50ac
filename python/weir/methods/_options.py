"""Options of methods, as a plan has them (``methods`` of ``crates/weir-plan``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["option"]

_DEFAULTS = {"emul": {"links": "emulator", "offload": "auto"}, "lab": {"links": "auto", "offload": "packets"}}
"""What a plan means that names none: one written by hand, or before there were options."""


def option(plan: Mapping[str, Any], method: str, name: str) -> str:
    """The value of option ``name`` of ``method``."""
    given = plan.get("methods", {}).get(method, {}).get(name)
    return _DEFAULTS[method][name] if given is None else str(given)
