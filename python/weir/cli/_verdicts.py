"""Claims and their verdicts on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.cli._common import console

if TYPE_CHECKING:
    from weir.metrics.expect import Verdict
    from weir.run import Run

__all__ = ["print_verdicts", "settle", "verdicts_of"]

_LOOK = {"holds": ("holds", "green"), "fails": ("FAILS", "bold red"), "undecided": ("undecided", "yellow")}


def verdicts_of(run: Run) -> list[Verdict]:
    """The verdicts on the claims that the run's scenario makes."""
    from weir.metrics.expect import evaluate

    return evaluate(run, run.manifest.get("expect", ()))


def settle(verdicts: Sequence[Verdict]) -> bool:
    """Whether every claim holds, or fails where its scenario says so; one that cannot be decided does not hold."""
    return all(verdict.settled for verdict in verdicts)


def print_verdicts(verdicts: Sequence[Verdict], *, verbose: bool = False) -> None:
    """Prints each claim with its verdict, what was measured, and a count; warnings too if ``verbose``."""
    from rich.text import Text

    out = console()
    for verdict in verdicts:
        word, style = _look(verdict)
        line = Text(f"{word:<9}", style=style)
        line.append(f"  {verdict.claim or verdict.check}", style="default")
        if verdict.source:
            line.append(f"  [{verdict.source}]", style="dim not bold")
        out.print(line)
        for detail in _details(verdict, verbose=verbose):
            out.print(Text(f"{'':<11}{detail}", style="dim"))
    held = sum(verdict.outcome == "holds" for verdict in verdicts)
    noun = "claim holds" if len(verdicts) == 1 else "claims hold"
    known = sum(verdict.settled and verdict.outcome == "fails" for verdict in verdicts)
    out.print(Text(f"{held} of {len(verdicts)} {noun}" + (f", {known} known to fail" if known else ""), style="bold"))


def _look(verdict: Verdict) -> tuple[str, str]:
    if verdict.outcome == "fails" and verdict.settled:
        return "fails", "yellow"
    return _LOOK[verdict.outcome]


def _details(verdict: Verdict, *, verbose: bool) -> list[str]:
    found = [verdict.check] if verdict.claim and (verbose or verdict.outcome != "holds") else []
    if verdict.decisive is not None:
        found.append(str(verdict.decisive))
    elif verdict.explanation:
        found.append(verdict.explanation)
    if verdict.news:
        found.append(verdict.news)
    if verdict.note and (verbose or verdict.outcome != "holds"):
        found.append(" ".join(verdict.note.split()))
    if verbose:
        found += verdict.warnings
    return found
