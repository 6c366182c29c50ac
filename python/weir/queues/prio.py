"""Strict priority between classes."""

from __future__ import annotations

from weir.queues._classes import Scheduler

__all__ = ["Prio"]


class Prio(Scheduler):
    """The classes in the order in which a scenario gives them."""
