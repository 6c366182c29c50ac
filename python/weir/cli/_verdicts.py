"""Claims and their verdicts on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.cli._common import console

if TYPE_CHECKING:
    from weir.metrics.expect import Verdict
    from weir.run import Run

__all__ = ["count", "print_verdicts", "settle", "verdicts_of"]

_LOOK = {"holds": ("holds", "green"), "fails": ("FAILS", "bold red"), "undecided": ("undecided", "yellow")}


def verdicts_of(run: Run, level: float = 0.95) -> list[Verdict]:
    """The verdicts on the claims of the run's scenario."""
    from weir.metrics.expect import evaluate

    return evaluate(run, run.manifest.get("expect", ()), level)


def settle(verdicts: Sequence[Verdict], *, strict: bool = False) -> bool:
    """Whether every claim holds, or fails as its scenario expects.

    A claim without a value on the run does not hold. A claim that is undecided within chance counts as settled unless
    ``strict``: nothing contradicts it, but its repeats do not prove it.
    """
    return all(verdict.settled or (verdict.within_chance and not strict) for verdict in verdicts)


def print_verdicts(verdicts: Sequence[Verdict], *, verbose: bool = False) -> None:
    """Prints each claim with its verdict and measurement, and a count; with ``verbose``, warnings too."""
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
    out.print(Text(count(verdicts), style="bold"))


def count(verdicts: Sequence[Verdict]) -> str:
    """The number of claims that hold, and the state of the others."""
    held = sum(verdict.outcome == "holds" for verdict in verdicts)
    noun, verb = "claim" if len(verdicts) == 1 else "claims", "holds" if 1 in (held, len(verdicts)) else "hold"
    parts = [f"{held} of {len(verdicts)} {noun} {verb}"]
    known = sum(verdict.settled and verdict.outcome == "fails" for verdict in verdicts)
    failed = sum(verdict.outcome == "fails" for verdict in verdicts) - known
    chance = sum(verdict.within_chance for verdict in verdicts)
    unjudged = sum(verdict.outcome == "undecided" for verdict in verdicts) - chance
    parts += [f"{failed} {'fails' if failed == 1 else 'fail'}"] if failed else []
    parts += [f"{known} known to fail"] if known else []
    parts += [f"{chance} undecided: more repeats would narrow the intervals"] if chance else []
    parts += [f"{unjudged} cannot be judged on this run"] if unjudged else []
    return ", ".join(parts)


def _look(verdict: Verdict) -> tuple[str, str]:
    if verdict.outcome == "fails" and verdict.settled:
        return "fails", "yellow"
    return _LOOK[verdict.outcome]


def _decisive(verdict: Verdict) -> str:
    """The comparison that settled the claim; its place among several, and their number."""
    first = verdict.measured[0]
    same = sum(m.outcome == verdict.outcome for m in verdict.measured)
    if len(verdict.measured) == 1:
        return str(first)
    of = f"{same} of {len(verdict.measured)} comparisons"
    which = "" if same == 1 else {"holds": "the closest", "fails": "the worst", "undecided": "such as"}[verdict.outcome]
    return f"{verdict.outcome} in {of}{f', {which}' if which else ''}: {first}"


def _details(verdict: Verdict, *, verbose: bool) -> list[str]:
    found = [verdict.check] if verdict.claim and (verbose or verdict.outcome != "holds") else []
    if verdict.decisive is not None:
        found.append(_decisive(verdict))
    elif verdict.explanation:
        found.append(verdict.explanation)
    if verdict.news:
        found.append(verdict.news)
    if verdict.note and (verbose or verdict.outcome != "holds"):
        found.append(" ".join(verdict.note.split()))
    if verbose:
        found += [f"{name.replace('_', ' ')}: {text}" for name, text in verdict.basis.items() if name != "id"]
        found += verdict.warnings
    return found
