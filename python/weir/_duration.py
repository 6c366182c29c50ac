"""Formats wall time for people. Quantities of scenarios and metrics have units: see :mod:`weir.run.quantity`."""

from __future__ import annotations

__all__ = ["clock_text", "estimate_text"]


def clock_text(seconds: float | None) -> str:
    """Measured or remaining time to the second: ``1:02:03``, ``2:03``; ``-:--`` if unknown."""
    if seconds is None:
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def estimate_text(seconds: float) -> str:
    """An estimate: ``12 s``, ``3 min`` or ``1.5 h``; at least a second."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
