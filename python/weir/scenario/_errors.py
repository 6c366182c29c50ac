"""The error of scenarios."""

from __future__ import annotations

from weir.language.problem import ProblemsError

__all__ = ["ScenarioError"]


class ScenarioError(ProblemsError):
    """A scenario cannot be used; ``problems`` has every reason, in the order of the file (warnings included)."""
