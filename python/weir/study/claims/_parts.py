"""The parts of a claim on a paper's page: one short table, and what belongs to each part, folded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from weir.scenario import Scenario
from weir.study.claims._comparisons import Bottleneck, compared, figures
from weir.study.claims._judge import Answer, Judged, Part
from weir.study.claims._links import file_of, linked
from weir.study.claims._papers import Claim

__all__ = ["CHANCE", "SIZES", "bottleneck", "cell", "details", "folded", "introductions", "reasons", "short_table"]

CHANCE = "undecided (one seed; others decide otherwise)"
SIZES = {"full": "the papers' size", "quick": "reduced size", "realtime": "version for real time"}
_PAPER = 80
"""Characters of the paper's figure in the short table."""
_WHY = 110
"""Characters of the reason of a failure in the short table."""
_MEANING = 60
"""Characters of what a label stands for."""
_TELLING = 40
"""Fewer characters seldom give a reason."""
_NAMED = 6
"""Up to so many labels of a factor are explained."""
_SAID = {"holds": "Holds", "fails": "Refuted", "undecided": "Undecided"}


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that a click opens."""
    return [
        "<details>",
        f"<summary>{summary}</summary>",
        "",
        *lines,
        *([] if lines[-1] == "" else [""]),
        "</details>",
        "",
    ]


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def bottleneck(part: Part, claim: Claim) -> Bottleneck:
    """What shares are printed in."""
    return Bottleneck(part.capacity_bps, claim.flows)


def introductions(one: Judged, scenarios: Mapping[str, Scenario], known: set[str]) -> list[str]:
    """The set-ups of a claim with their parts, and what judges most of them.

    Those not in ``known`` have their titles and labels.
    """
    parts: dict[str, list[int]] = {}
    for number, part in enumerate(one.parts, 1):
        parts.setdefault(part.scenario, []).append(number)
    told = []
    for name, numbers in parts.items():
        text = f"[{name}]({file_of(name)})"
        if len(parts) > 1:
            text = f"parts {_ranges(numbers)}: {text}" if len(numbers) > 1 else f"part {numbers[0]}: {text}"
        if name not in known and name in scenarios:
            known.add(name)
            text += f" ({scenarios[name].title.removesuffix('.')}{_labels(scenarios[name])})"
        told.append(text)
    usual = _usual(one)
    by = f" Judged by {_unit(usual)}." if usual else ""
    return [f"*{'Set-ups' if len(told) > 1 else 'Set-up'}*: {'; '.join(told)}.{by}", ""]


def _ranges(numbers: Sequence[int]) -> str:
    """``1 to 4, 7``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    texts = [f"{a}" if a == b else f"{a} and {b}" if b == a + 1 else f"{a} to {b}" for a, b in found]
    return ", ".join(texts)


def _labels(scenario: Scenario) -> str:
    """What the labels of swept values stand for."""
    told = []
    for factor, meanings in scenario.meanings().items():
        texts = [f"*{label}*: {text}" for label, text in meanings.items() if 0 < len(text) <= _MEANING]
        if texts and len(texts) <= _NAMED:
            told.append(f"; {factor} {', '.join(texts) if all(',' not in t for t in texts) else '; '.join(texts)}")
    return "".join(told)


def short_table(one: Judged, scenarios: Collection[str]) -> list[str]:
    """A row for each part: the paper's figure, ours by the method that decides, the verdict, and why it fails."""
    shown = {id(part): _decisive(part) for part in one.parts}
    usual = _usual(one)
    rows = [
        (
            f"{number}. {part.text}",
            _brief(part.paper, _PAPER),
            _ours(shown[id(part)], part, one.claim, usual),
            _word(shown[id(part)], part),
            _why(part, scenarios),
        )
        for number, part in enumerate(one.parts, 1)
    ]
    heads = ("part", "paper", "weir", "verdict", "why")
    used = [column for column in range(len(heads)) if column in (0, 2, 3) or any(row[column] for row in rows)]
    lines = ["| " + " | ".join(heads[column] for column in used) + " |", "|" + "---|" * len(used)]
    return [*lines, *("| " + " | ".join(cell(row[column]) for column in used) + " |" for row in rows), ""]


def _usual(one: Judged) -> tuple[str, str] | None:
    """Method and size that most parts are judged by."""
    found = [answer for part in one.parts if (answer := _decisive(part)) is not None]
    units = Counter((answer.unit.method, answer.unit.version) for answer in found)
    return units.most_common(1)[0][0] if units else None


def _decisive(part: Part) -> Answer | None:
    """The answer that counts; of an undecided part, the first."""
    return part.answer or next(iter(part.answers), None)


def _unit(pair: tuple[str, str]) -> str:
    method, version = pair
    return f"`{method}`, {SIZES[version]}"


def _ours(answer: Answer | None, part: Part, claim: Claim, usual: tuple[str, str] | None) -> str:
    if answer is None:
        return "not executed"
    verdict, unit = answer.verdict, (answer.unit.method, answer.unit.version)
    text = figures(verdict, bottleneck(part, claim)) if verdict.measured else verdict.explanation
    text = text.removeprefix("Undecided: ")
    return text if unit == usual else f"{_unit(unit)}: {text}"


def _word(answer: Answer | None, part: Part) -> str:
    """The verdict in a word, and whether it counts."""
    word = {"holds": "holds", "fails": "**fails**", "undecided": "undecided"}[part.outcome]
    if part.fitted and part.outcome == "holds":
        word = "fitted"
    if part.chance:
        word = CHANCE
    word += ", beyond the paper" if part.beyond else ""
    return word + (", earlier set-up" if answer is not None and answer.old else "")


def _why(part: Part, scenarios: Collection[str]) -> str:
    if part.outcome != "fails":
        return ""
    return linked(_brief(" ".join(part.note.split()), _WHY, _TELLING), scenarios, part.scenario) or "cause not known"


def _brief(text: str, most: int, least: int = 0) -> str:
    """The beginning of a text: whole sentences of ``least`` to ``most`` characters, else clauses or words."""
    text = text.strip()
    if len(text) <= most:
        return text.removesuffix(".")
    ends = [m.start() for m in re.finditer(r"[.;:](?= )|,(?= )", text) if _whole(text[: m.start()])]
    sentences = [end for end in ends if text[end] in ".;" and least <= end <= most]
    clauses = [end for end in ends if end <= most]
    if sentences:
        return text[: sentences[-1]]
    if clauses and clauses[-1] >= most // 2:
        return f"{text[: clauses[-1]]} …"
    words = [m.start() for m in re.finditer(" ", text[: most + 1])]
    end = next((place for place in reversed(words) if _whole(text[:place].replace('"', ""))), most)
    return f"{text[:end].rstrip(',;:')} …" + '"' * (text[:end].count('"') % 2)


def _whole(text: str) -> bool:
    """Whether no quotation, code, bracket or link is open at its end."""
    return text.count("`") % 2 == 0 and text.count('"') % 2 == 0 and text.count("(") == text.count(")")


def details(one: Judged, order: Sequence[tuple[str, str]], scenarios: Collection[str]) -> list[str]:
    """Of each part: where the paper says it, the tolerance, what would refute it, the check, all figures."""
    lines = []
    for number, part in enumerate(one.parts, 1):
        scenario = linked(f"`{part.scenario}`", scenarios)
        lines += [
            f"**{number}. {part.text}** ({part.source}; {scenario}).{_basis(part)} *Check*: `{part.check}`",
            "",
        ]
        by = {(a.unit.method, a.unit.version): a for a in part.answers}
        lines += [f"- {_unit(pair)}: {_said(by[pair], part, one.claim)}" for pair in order if pair in by]
        lines += [""] if by else []
    return lines


def _basis(part: Part) -> str:
    """The paper's figure, the tolerance and what would refute the part, as far as the scenario says so."""
    named = {
        "Paper": part.paper,
        "Tolerance": part.tolerance,
        "Refuted by": part.refuted_by,
        "Fitted": part.fitted,
        "Beyond the paper": part.beyond,
        "Other seeds or clocks": part.chance,
    }
    return "".join(f" *{name}*: {text.removesuffix('.')}." for name, text in named.items() if text)


def _said(answer: Answer, part: Part, claim: Claim) -> str:
    verdict = answer.verdict
    word = {"holds": "holds", "fails": "**fails**", "undecided": "undecided"}[verdict.outcome]
    if part.fitted and verdict.outcome == "holds":
        word = "fitted"
    if part.chance and answer is part.answer:
        word = CHANCE
    text = verdict.explanation
    if verdict.measured:
        text = compared(verdict, bottleneck(part, claim), named=verdict.check != part.check)
    old = " (earlier set-up)" if answer.old else ""
    if part.contradicted and verdict.outcome == "undecided" and answer.hint != "undecided":
        text += f"; on the executed cells alone it {answer.hint}, against the reduced size"
    return f"{word}{old}: {text.removeprefix('Undecided: ')}"


def reasons(one: Judged, scenarios: Collection[str] = ()) -> list[str]:
    """The notes of the scenarios: why parts fail or are undecided, and what limits those that hold.

    Parts that have the same note share it.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for part in one.parts:
        note = " ".join(part.note.split())
        if part.outcome == "fails" and part.expected == "holds":
            note = f"The scenario expected it to hold. {note or 'Cause not known.'}"
        word = _SAID[part.outcome]
        if part.outcome == "undecided" and part.expected == "fails" and note and not part.chance:
            word = "Undecided, and expected to fail"
        if part.outcome == "holds" and part.expected == "fails" and note:
            word = "Holds, although the scenario expected it to fail"
        word = "Fitted" if part.fitted and part.outcome == "holds" else word
        word += ", beyond the paper" if part.beyond else ""
        if note:
            found.setdefault((word, linked(note, scenarios, part.scenario)), []).append(f"*{part.text}.*")
    lines = [f"- {word}: {' '.join(texts)} {note}" for (word, note), texts in found.items()]
    return [*lines, ""] if lines else []
