"""A comparison as JSON. The keys are an interface: keys are added, never removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.compare._claims import agreement
from weir.compare._limits import Limit

if TYPE_CHECKING:
    from weir.compare._comparison import Comparison

__all__ = ["as_json"]


def as_json(comparison: Comparison, limits: tuple[Limit, ...]) -> dict[str, Any]:
    """The comparison as JSON types."""
    worst = comparison.worst()
    found: dict[str, Any] = {
        "runs": [_run(entry.label, str(entry.run.path), entry.method, entry.run.manifest) for entry in comparison.runs],
        "factors": list(comparison.factors),
        "phases": list(comparison.phases),
        "cells": [
            {"cell": g.number, "factors": dict(g.factors), "runs": {k: [c.id for c in v] for k, v in g.cells.items()}}
            for g in comparison.groups
        ],
        "unaligned": [
            {"run": u.run, "cell": u.cell, "factors": dict(u.factors), "reason": u.reason}
            for u in comparison.alignment.unaligned
        ],
        "notes": list(comparison.notes),
        "warnings": [{"run": label, "warning": text} for label, text in comparison.warnings],
        "differences": worst.to_dicts(),
        "traces": comparison.traces.to_dicts(),
        "claims": [
            {
                "claim": claim.text,
                "check": claim.check,
                "source": claim.source,
                "outcomes": claim.outcomes,
                "agreed": claim.agreed,
                "agreement": agreement(claim.outcomes),
            }
            for claim in comparison.claims
        ],
    }
    if limits:
        found["limits"] = [{"metric": x.metric, "limit": x.text} for x in limits]
        found["beyond"] = comparison.beyond(limits).to_dicts()
    return found


def _run(label: str, path: str, method: str, manifest: Any) -> dict[str, Any]:
    keys = ("title", "seed", "settings", "commit", "versions", "start", "end")
    return {"label": label, "path": path, "method": method, **{key: manifest.get(key) for key in keys}}
