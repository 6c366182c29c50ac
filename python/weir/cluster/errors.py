"""Errors of clusters."""

from __future__ import annotations

__all__ = ["ClusterError"]


class ClusterError(Exception):
    """A cluster cannot be named, reached or used; the message says why and what to do."""
