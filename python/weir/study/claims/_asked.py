"""Which part of the papers' claims a call asks for; a word that selects nothing is a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.language.problem import choose
from weir.metrics.summary import parts
from weir.run.quantity import same_value
from weir.scenario import Scenario
from weir.study.claims._judge import version_of
from weir.study.claims._papers import Papers
from weir.study.claims._store import Unit
from weir.study.errors import StudyError

__all__ = ["Asked", "read_where", "wanted_units"]


@dataclass(frozen=True)
class Asked:
    """A selection of units and of their cells; what is empty selects all."""

    papers: Sequence[str] = ()
    only: Sequence[str] = ()
    """Claims, such as ``E2``, or scenarios."""
    methods: Sequence[str] = ()
    versions: Sequence[str] = ()
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of factors."""


def read_where(texts: Iterable[str]) -> dict[str, list[str]]:
    """Reads ``rtt=50ms,100ms`` or ``rtt=50ms,cc=reno``: a part without ``=`` is another value of the factor before it.

    Raises:
        StudyError: a text does not begin with a factor.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        name = ""
        for word in parts(text):
            part = word.strip()
            before, sign, value = part.partition("=")
            # a mapping such as {max: 60ms} is a value, whatever is in it
            if sign and before.strip().replace("_", "").isalnum():
                name, part = before.strip(), value.strip()
            if not name or not part:
                raise StudyError(f"--where {text}: expected a factor with its values, such as rtt=50ms,100ms")
            found.setdefault(name, []).append(part)
    return found


def wanted_units(asked: Asked, papers: Papers, scenarios: Mapping[str, Scenario]) -> tuple[list[Unit], Asked]:
    """The units that are asked for, in the order of ``papers``, and ``asked`` with factors' values as scenarios write
    them.

    Raises:
        StudyError: a word of ``asked`` names nothing, or nothing has all that it names.
    """
    claims = {one.basis.get("id", "") for s in scenarios.values() for one in s.expect} | {c.id for c in papers.claims}
    known = sorted(claims - {""})
    _expect("--paper", asked.papers, list(papers.titles))
    _expect("--only", asked.only, [*known, *scenarios], "; expected a claim, such as E2, or a scenario")
    _expect("--method", asked.methods, list(papers.versions))
    _expect("--version", asked.versions, sorted({v for versions in papers.versions.values() for v in versions}))
    units = [
        Unit(name, version, method)
        for method, versions in papers.versions.items()
        if not asked.methods or method in asked.methods
        for name, scenario in scenarios.items()
        if _is_asked(name, scenario, asked)
        for version in versions
        if not asked.versions or version in asked.versions
    ]
    if not units:
        raise StudyError(f"no scenario has all of {_said(asked)}")
    return units, _as_written(asked, [scenarios[unit.scenario].version(version_of(unit.version)) for unit in units])


def _expect(option: str, words: Sequence[str], known: Sequence[str], what: str = "") -> None:
    for word in words:
        if word not in known:
            raise StudyError(f"{option} {word}: not known{what}{choose(word, known, [] if what else known)}")


def _is_asked(name: str, scenario: Scenario, asked: Asked) -> bool:
    claims = {one.basis.get("id", "") for one in scenario.expect}
    if asked.papers and not any(claim.startswith(paper) for claim in claims for paper in asked.papers):
        return False
    return not asked.only or any(one == name or one in claims for one in asked.only)


def _as_written(asked: Asked, scenarios: Sequence[Scenario]) -> Asked:
    """``asked`` with the values of factors as the scenarios write them: ``100ms`` for ``0.1s``."""
    factors: dict[str, dict[str, None]] = {}
    for scenario in scenarios:
        for name, texts in scenario.factors.items():
            factors.setdefault(name, {}).update(dict.fromkeys(texts))
    found: dict[str, list[str]] = {}
    for name, values in asked.where.items():
        if name not in factors:
            raise StudyError(f"--where {name}: not a factor of what is asked for{choose(name, factors)}")
        found[name] = []
        for value in values:
            same = [known for known in factors[name] if same_value(known, value)]
            if not same:
                raise StudyError(f"--where {name}={value}: no cell has this value{choose(value, factors[name])}")
            found[name] += same
    if found and not any(_has(scenario, found) for scenario in scenarios):
        raise StudyError(f"no cell has all of {_said(asked)}")
    return Asked(asked.papers, asked.only, asked.methods, asked.versions, found)


def _has(scenario: Scenario, where: Mapping[str, Sequence[str]]) -> bool:
    return any(all(cell.factors.get(k) in values for k, values in where.items()) for cell in scenario.combinations())


def _said(asked: Asked) -> str:
    words = {"--paper": asked.papers, "--only": asked.only, "--method": asked.methods, "--version": asked.versions}
    said = [f"{option} {' or '.join(values)}" for option, values in words.items() if values]
    return ", ".join([*said, *(f"{name}={' or '.join(values)}" for name, values in asked.where.items())])
