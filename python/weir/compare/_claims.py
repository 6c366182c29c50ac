"""The claims of the runs' scenarios, judged on each run, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.compare._align import Labelled
from weir.compare._majority import of_outcomes
from weir.metrics.expect import Outcome, Verdict, evaluate

__all__ = ["Claim", "agreement", "judge"]


@dataclass(frozen=True)
class Claim:
    """One claim, and its verdict on each run that makes it."""

    text: str
    check: str
    source: str
    verdicts: Mapping[str, Verdict]
    """By label of the run."""

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome by label of the run."""
        return {label: verdict.outcome for label, verdict in self.verdicts.items()}

    @property
    def agreed(self) -> bool | None:
        """Whether all runs reach the same outcome; ``None`` if fewer than two decide it."""
        decided = {o for o in self.outcomes.values() if o != "undecided"}
        count = sum(o != "undecided" for o in self.outcomes.values())
        return None if count < 2 else len(decided) == 1


def judge(runs: Sequence[Labelled], level: float = 0.95) -> tuple[Claim, ...]:
    """Judges the claims of each run's scenario on that run, with intervals at ``level``."""
    found: dict[tuple[str, str, str], dict[str, Verdict]] = {}
    for entry in runs:
        claims = entry.run.manifest.get("expect", ())
        for verdict in evaluate(entry.run, claims, level) if claims else ():
            where = ",".join(f"{k}={v}" for k, v in sorted(verdict.where.items()))
            found.setdefault((verdict.claim, verdict.check, where), {})[entry.label] = verdict
    return tuple(
        Claim(claim or check, check, next(iter(verdicts.values())).source, verdicts)
        for (claim, check, _), verdicts in found.items()
    )


def agreement(outcomes: Mapping[str, str]) -> str:
    """Describes which runs agree; of three or more, names the one that stands alone."""
    return of_outcomes(outcomes).text
