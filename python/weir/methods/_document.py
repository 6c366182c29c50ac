"""The plan that a method is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.methods import MethodError
from weir.plan import Plan, PlanError, typed

__all__ = ["plan_of"]


def plan_of(document: Mapping[str, Any]) -> Plan:
    """The plan in ``document``.

    Raises:
        MethodError: a field is missing, of another type or out of its range; the message names it.
    """
    try:
        return typed(document)
    except PlanError as error:
        raise MethodError(str(error)) from error
