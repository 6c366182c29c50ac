"""Terminal output of a survey: ``weir catalogue --method``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.cli._common import console, error_console, plural, print_table

if TYPE_CHECKING:
    from rich.text import Text

    from weir.study.survey import Claim, Entry, Survey

__all__ = ["print_survey", "teller"]

_LOOK = {"holds": "green", "fails": "bold red", "undecided": "yellow"}
_FEW = 10


def teller(*, quiet: bool) -> Callable[[str], None]:
    """Returns a function that prints the next step on standard error; silent if ``quiet``."""

    def tell(text: str) -> None:
        if not quiet:
            error_console().print(text, style="bold" if sys.stderr.isatty() else None)

    return tell


def print_survey(survey: Survey, *, verbose: bool) -> None:
    """Prints the agreement, the disputed claims, and the missing runs."""
    from weir.study.survey.page import headline

    out = console()
    title, rest = headline(survey)
    _print_pairs(survey)
    _print_scenarios(survey)
    _print_claims(survey, every=verbose)
    _print_figures(survey, every=verbose)
    _print_gaps(survey)
    out.print()
    out.print(title + (f"; {rest}" if rest else ""), style="bold")


def _print_pairs(survey: Survey) -> None:
    from weir.study.survey.page import GLANCE, pair_rows

    rows = [
        [row.name, f"{row.same} of {row.claims}", f"{row.agree} of {row.figures}", *row.medians]
        for row in pair_rows(survey)
    ]
    if rows:
        head = ["", "same verdict", "figures that agree", *(name for _, name in GLANCE)]
        print_table(head, rows, right=range(1, len(head)), styles=("bold",))
        console().print("on the right: median distance over all cells and phases", style="dim")


def _print_scenarios(survey: Survey) -> None:
    from weir.study.survey.page import counts

    here = [m for m in survey.methods if m not in survey.missing]
    rows = []
    for entry in survey.entries:
        n = counts(entry)
        times = [_took(entry, m) for m in here]
        rows.append([entry.name, *times, str(n.same), str(n.disputed), f"{n.figures_agree} of {n.figures}", n.who])
    console().print()
    head = ["scenario", *here, "same verdict", "disputed", "figures that agree", "alone"]
    print_table(head, rows, right=range(1, len(head) - 1), styles=("bold",))


def _took(entry: Entry, method: str) -> str:
    execution = entry.executions.get(method)
    if execution is None or execution.reason:
        return "not run"
    return f"{execution.wall_s:.0f} s" if execution.executed else "kept"


def _print_claims(survey: Survey, *, every: bool) -> None:
    """Prints the claims on which methods disagree; all of them if ``every``."""
    chosen = survey.claims if every else survey.disputed
    if not chosen:
        return
    from weir.study.survey.page import chance_text

    here = [m for m in survey.methods if m not in survey.missing]
    out = console()
    out.print()
    out.print("claims" if every else "claims on which they disagree", style="bold")
    for entry, claim in chosen:
        out.print(f"{entry.name}  {claim.text}")
        out.print(_verdicts(claim, here))
        if claim.seeds and claim.agreement.kind in ("majority", "split"):
            out.print(f"    {chance_text(claim)}", style="dim")
        out.print(f"    {claim.check}", style="dim")
        if claim.note and not every:
            out.print(f"    {claim.note}", style="dim")


def _verdicts(claim: Claim, here: list[str]) -> Text:
    from rich.text import Text

    line = Text("    ")
    for method in here:
        said = claim.said.get(method)
        line.append(f"{method} ")
        line.append("not run" if said is None else said.outcome, style="dim" if said is None else _LOOK[said.outcome])
        line.append("" if said is None or said.value is None else f" ({said.shown})")
        line.append("   ")
    line.append(claim.agreement.text, style="bold" if claim.agreement.odd else "dim")
    return line


def _print_figures(survey: Survey, *, every: bool) -> None:
    """Prints the figures with the largest distances."""
    from weir.study.survey.page import share, value_text

    here = [m for m in survey.methods if m not in survey.missing]
    every = every or len(survey.differing) <= _FEW
    found = sorted((x for x in survey.differing if every or not x[1].by_chance), key=lambda x: -x[1].size)
    if not found:
        return
    shown = found if every else found[:_FEW]
    rows = [
        [entry.name, f.place, f.phase, f.metric, *(value_text(f, m) for m in here), share(f.size), f.agreement.text]
        for entry, f in shown
    ]
    console().print()
    head = ["scenario", "cell", "phase", "figure", *here, "farthest", ""]
    print_table(head, rows, right=range(4, 5 + len(here)))
    if len(shown) < len(found):
        console().print(
            f"and {plural(len(found) - len(shown), 'more figure')} that disagree: -v shows all", style="dim"
        )


def _print_gaps(survey: Survey) -> None:
    from weir.study.survey.page import gaps

    out = console()
    found = gaps(survey)
    if found:
        out.print()
    for name, method, reason in found:
        place = "" if name == "all" else f"{name} "
        out.print(f"not run: {place}by {method}: {reason}", style="yellow")
    unjudged = sum(len(entry.unjudged) for entry in survey.entries)
    if unjudged:
        out.print(f"{plural(unjudged, 'claim')} not judged in this version: the report says why", style="dim")
    warned = sum(bool(e.warnings) for entry in survey.entries for e in entry.executions.values())
    if warned:
        out.print(f"warning: {plural(warned, 'run')} with warnings; the report has them", style="yellow")
    for text in survey.unsettled:
        out.print(f"differs from the expectation of its scenario: {text}", style="yellow")
