"""The manifest of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.engine import _host
from weir.engine._job import Expectation, Failure, Job, Scenario
from weir.run.checksums import FORMAT

__all__ = ["Outcomes", "intended", "run_manifest"]


@dataclass(frozen=True)
class Outcomes:
    """The outcome of each job, by cell id."""

    jobs: Sequence[Job]
    manifests: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, Failure]

    def warnings(self, more: Iterable[str | None]) -> list[str]:
        """All warnings that make a number of the run untrustworthy."""
        found = [warning for warning in more if warning is not None]
        for job in self.jobs:
            cell = job.cell.id
            if (failure := self.failures.get(cell)) is not None:
                found.append(f"{cell}: failed: {failure.error}")
            found.extend(f"{cell}: {warning}" for warning in self.manifests.get(cell, {}).get("warnings", ()))
        return found

    @property
    def notes(self) -> list[str]:
        """Remarks that do not affect any number; remarks shared by several cells are merged."""
        said = (note for job in self.jobs for note in self.manifests.get(job.cell.id, {}).get("notes", ()))
        return list(dict.fromkeys(said))

    @property
    def clocks(self) -> dict[str, float]:
        """What the methods say of the clocks of several machines, the worst of all cells: statistics ``clock.NAME``."""
        found: dict[str, float] = {}
        for manifest in self.manifests.values():
            for name, value in manifest.get("stats", {}).items():
                group, _, what = name.partition(".")
                if group == "clock":
                    found[what] = max(value, found.get(what, value))
        return found

    def entry(self, job: Job) -> dict[str, Any]:
        """The entry of ``job`` in the manifest."""
        if (failure := self.failures.get(job.cell.id)) is not None:
            return {**job.facts(), "status": "failed", "error": failure.error}
        held = self.manifests[job.cell.id]
        found = {**job.facts(), "status": "done", "wall_s": held.get("wall_s")}
        # A cell of an older version has no checksum.
        return found | ({"checksum": held["checksums"]["manifest"]} if "checksums" in held else {})


def run_manifest(
    scenario: Scenario, identity: Mapping[str, Any], outcomes: Outcomes, host: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest of a run, without its times."""
    return {
        "format": FORMAT,
        "title": scenario.title,
        "scenario": {
            "path": scenario.file,
            "sha256": hashlib.sha256(scenario.text.encode()).hexdigest(),
            "text": scenario.text,
        },
        "method": identity["method"],
        "settings": identity["settings"],
        "seed": outcomes.jobs[0].seed if outcomes.jobs else None,
        "versions": _host.versions(),
        "commit": _host.commit(),
        "host": dict(host),
        "wall_s": round(sum(m.get("wall_s", 0.0) for m in outcomes.manifests.values()), 3),
        "expect": [_claim(expectation) for expectation in scenario.expect],
        **_summary(scenario),
        "cells": [outcomes.entry(job) for job in outcomes.jobs],
        **({"notes": outcomes.notes} if outcomes.notes else {}),
        **({"clocks": outcomes.clocks} if outcomes.clocks else {}),
    }


def intended(scenario: Scenario, jobs: Sequence[Job]) -> dict[str, Any]:
    """What a reader of the run needs to know before its manifest is written."""
    cells = [{"id": j.cell.id, "factors": dict(j.cell.factors), "repeat": j.cell.repeat} for j in jobs]
    return {**_summary(scenario), "cells": cells}


def _summary(scenario: Scenario) -> dict[str, Any]:
    return {"summary": [{"value": s.value, "title": s.title} for s in scenario.summary]} if scenario.summary else {}


def _claim(expectation: Expectation) -> dict[str, Any]:
    return {
        "claim": expectation.claim,
        "where": dict(expectation.where),
        "check": expectation.check,
        "source": expectation.source,
        "note": expectation.note,
        "expected": expectation.expected,
        **expectation.basis,
    }
