"""The claims of a scenario: those that a version decides, and the reasons for the others.

The real-time version has other rates, sizes and times than the scenario. A check against an absolute rate, size or time
is meaningless there, unless the scenario gives a separate check. Such a claim is not judged, and the reason is
reported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from weir.language.problem import Log, Mark, choose

from ._lang_scenario import Claim, QuickClaim, RealtimeClaim
from ._sweep import Sweep

__all__ = [
    "Expectation",
    "Unjudged",
    "Values",
    "Version",
    "expectations",
    "read_check",
    "report_unreadable",
    "values_left_out",
]

Version: TypeAlias = Literal["full", "quick", "realtime"]

Values: TypeAlias = Mapping[str, tuple[str, ...]]
"""Values of the swept factors, by short name."""

_BASIS = ("id", "paper", "tolerance", "refuted_by", "fitted", "beyond", "chance")


@dataclass(frozen=True)
class Expectation:
    """A claim about the results of the cells whose factors have the values in ``where`` (empty: all cells).

    ``expected`` is ``holds``, or ``fails`` for a claim that is known not to hold here, for the reason in ``note``.
    ``claim`` begins with the identifier, if there is one: ``A1: one flow alone fills its link``.
    """

    claim: str
    where: dict[str, str]
    check: str
    source: str
    note: str
    line: int
    expected: str = "holds"
    basis: Mapping[str, str] = field(default_factory=dict)
    """What else the scenario says about the claim: ``id``, ``paper``, ``tolerance``, ``refuted_by``, ``fitted``,
    ``beyond``, ``chance``; each if given."""
    realtime_only: bool = False
    """Whether the version for real time alone decides it."""


@dataclass(frozen=True)
class Unjudged:
    """A claim that a version of a scenario does not decide."""

    claim: str
    source: str
    reason: str
    basis: Mapping[str, str] = field(default_factory=dict)
    """As for an expectation."""
    realtime_only: bool = False
    """As for an expectation."""


def expectations(
    claims: Sequence[Claim],
    sweep: Sweep,
    written: Values,
    phases: Sequence[str] | None,
    log: Log,
    version: Version,
) -> tuple[tuple[Expectation, ...], tuple[Unjudged, ...]]:
    """The claims that a version decides, and the others with reasons.

    Args:
        claims: the claims of the file.
        sweep: the sweep of this version.
        written: the values of the file's sweep.
        phases: names of the phases; ``None`` if they could not be read.
        log: receives the problems of the claims.
        version: the version.
    """
    decided: list[Expectation] = []
    others: list[Unjudged] = []
    for claim in claims:
        expectation, missing, left_out = _expectation(claim, sweep, written, phases, log, version)
        reason = missing or _undecidable(claim, expectation, version) or left_out
        if reason:
            others.append(Unjudged(_titled(claim), claim.source, reason, _basis(claim), claim.realtime_only))
        else:
            decided.append(expectation)
    return tuple(decided), tuple(others)


def _expectation(
    claim: Claim, sweep: Sweep, written: Values, phases: Sequence[str] | None, log: Log, version: Version
) -> tuple[Expectation, str, str]:
    """The expectation of a claim, and the values it names that this version or an override removed, if any.

    The first text is about its `where`, the second about its check.
    """
    factors = sweep.values()
    quick = claim.quick if version == "quick" and claim.quick is not None else QuickClaim()
    other = claim.realtime if version == "realtime" and claim.realtime is not None else RealtimeClaim()
    where: dict[str, str] = {}
    missing = ""
    for name, (text, node) in (claim.where or {}).items():
        where[name] = text
        if name not in factors and name in written:
            missing = f"it is about {name} {text}, and {name} is not swept in this version"
        elif name not in factors:
            hint = choose(name, factors) if factors else "; nothing is swept"
            log.error(node.mark, f"`{name}` is not a swept factor{hint}")
        elif text not in factors[name]:
            missing = f"it is about {name} {text}, which this version leaves out"
            if text not in written.get(name, ()):
                known = written.get(name, factors[name])
                log.error(node.mark, f"`{text[:60]}` is not a value of `{name}` in the sweep{choose(text, known)}")
    check = other.check or claim.check
    read = _checked_syntax(claim, check, list(factors), phases, log)
    left_out = "" if read is None or missing else values_left_out(claim.at, "check", read, where, sweep, written, log)
    note = other.note or quick.note or claim.note
    expected = other.expected or quick.expected or claim.expected
    if expected == "fails" and not note:
        log.error(claim.at("expected"), "a claim that is known to fail needs a `note` that says why")
    if claim.fitted and claim.beyond:
        message = "a claim is either `fitted` to a figure of the source or `beyond` the source, not both"
        log.error(claim.at("beyond"), message)
    line = claim.mark.line
    only = claim.realtime_only
    found = Expectation(_titled(claim), where, check, claim.source, note, line, expected, _basis(claim), only)
    return found, missing, left_out


def _titled(claim: Claim) -> str:
    return f"{claim.id}: {claim.claim}" if claim.id else claim.claim


def _basis(claim: Claim) -> dict[str, str]:
    given = {name: str(getattr(claim, name)) for name in _BASIS}
    return {name: " ".join(text.split()) for name, text in given.items() if text}


def _undecidable(claim: Claim, expectation: Expectation, version: Version) -> str:
    """Why a version cannot decide a claim; empty if it can."""
    if claim.realtime_only and version != "realtime":
        return "it is about what only real machines have: `--realtime` judges it"
    if version == "full":
        return ""
    if version == "realtime" and claim.realtime is not None:
        return claim.realtime.skip  # the author's reason
    if claim.full_only:
        return "only the full version can decide it"
    absolute = _absolute(expectation.check) if version == "realtime" else ""
    return f"{absolute} is absolute, and this version has other rates, sizes and times" if absolute else ""


def _absolute(check: str) -> str:
    """The first rate, size or time that a check compares with; empty if there is none, or the check is malformed."""
    read = read_check(check, None, None)
    return "" if isinstance(read, Exception) else _first_absolute(read.node)


@lru_cache(maxsize=2000)
def read_check(
    check: str, factors: tuple[str, ...] | None, phases: tuple[str, ...] | None, *, number: bool = False
) -> Any:
    """Parses a check (with ``number``, an expression whose value is a number) with the metrics' parser.

    Returns it, or the error. Cached: aliases and versions repeat checks. The parser is imported late, because it
    imports every metric.
    """
    expect = importlib.import_module("weir.metrics.expect")
    try:
        return (expect.parse_number if number else expect.parse)(check, factors=factors, phases=phases)
    except expect.ExpectError as e:
        return e


def _first_absolute(node: Any) -> str:
    syntax = importlib.import_module("weir.metrics.expect.syntax")
    for part in syntax.walk(node):
        if isinstance(part, syntax.Number) and any(part.dimension):
            return str(part.text)
        if isinstance(part, syntax.Metric):
            units = {p.name: p.unit for p in part.reference.metric.params}
            for name, value in part.reference.arguments:
                if isinstance(value, float) and units.get(name, "1") != "1":
                    return f"{name} of {part.reference.name}"
    return ""


def _checked_syntax(claim: Claim, check: str, factors: list[str], phases: Sequence[str] | None, log: Log) -> Any | None:
    """The parsed check; ``None`` if it is malformed, which is reported."""
    read = read_check(check, tuple(factors), None if phases is None else tuple(phases))
    if not isinstance(read, Exception):
        return read
    report_unreadable(claim.at("check"), "check", read, log)
    return None


def report_unreadable(mark: Mark, key: str, error: Any, log: Log) -> None:
    """Reports the error of an expression, the value of ``key`` at ``mark``."""
    # Quotes or a block would shift the column of the check's text; only the place of the value is exact.
    expected = f"; expected {error.expected}" if error.expected else ""
    log.error(mark, f"{key}, at its character {error.column}: {error.message}{expected}")


def values_left_out(
    at: Callable[[str], Mark],
    key: str,
    read: Any,
    where: Mapping[str, str],
    sweep: Sweep,
    written: Values,
    log: Log,
) -> str:
    """Reports values in an expression that are not in the sweep, and selections that no cell has.

    Args:
        at: the place of a key's value; ``key`` has the expression.
        key: the key.
        read: the parsed expression.
        where: the factors that are fixed for it.
        sweep: the sweep of this version.
        written: the values of the file's sweep.
        log: receives the problems.

    Returns:
        The value of the file's sweep that this version or an override removed; empty if none.
    """
    same = importlib.import_module("weir.metrics.expect").same_value
    factors = sweep.values()

    def there(value: str, values: Sequence[str]) -> bool:
        return any(same(known, value) for known in values)

    missing, wrong = "", False
    for name, value, needed in read.values:
        if name not in factors or there(value, factors[name]):
            continue
        if there(value, written.get(name, ())):
            missing = missing or (f"it is about {name} {value}, which this version leaves out" if needed else "")
        else:
            known = written.get(name, factors[name])
            text = f"`{value[:60]}` is not a value of `{name}` in the sweep{choose(value, known)}"
            log.error(at(key), f"{key}: {text}")
            wrong = True
    if not missing and not wrong:
        _refuse_no_cell(at, key, read, where, sweep, same, log)
    return missing


def _refuse_no_cell(
    at: Callable[[str], Mark],
    key: str,
    read: Any,
    where: Mapping[str, str],
    sweep: Sweep,
    same: Callable[[str, str], bool],
    log: Log,
) -> None:
    """Reports values that are in the sweep, but never together in one cell."""
    if where and not sweep.has(where, same):
        log.error(at("where"), f"no cell has {_listed(where)}")
        return
    # A summary has no value where no cell is, but a check without one is never decided.
    points = _points(read, where, sweep, same) if key == "check" else [{}]
    for point in points:
        for own in read.selections:
            # As the metrics read it: factors in a metric's braces override those that are zipped with them one to one,
            # and of those that the check does not name all whose values they imply.
            kept = {
                name: value
                for name, value in {**where, **point}.items()
                if name not in read.over
                and not _overrides(own, name, sweep, named=name in where or name in read.chosen)
            }
            if not sweep.has({**kept, **own}, same):
                wanted = {**kept, **own}
                text = f"no cell has {_listed(wanted)}{_instead(wanted, sweep, same)}"
                loose = [name for name in kept if name not in where and name not in read.chosen]
                log.error(at(key), f"{key}: {text}{_left_free(loose)}")
                return


_MOST_POINTS = 5_000


def _points(
    read: Any, where: Mapping[str, str], sweep: Sweep, same: Callable[[str, str], bool]
) -> Iterator[Mapping[str, str]]:
    """The values at which a check is made of the factors that a `for each` names or that it leaves free: every cell's.

    One empty point if nothing is left free, or if `for some` looks for any.
    """
    factors = [name for name, values in sweep.values().items() if len(values) > 1 and name not in read.over]
    free = {name for own in read.selections for name in factors if not _fixes(own, name, sweep)} | set(read.chosen)
    free -= set(where)
    if not read.each or not free:
        yield {}
        return
    known: dict[tuple[tuple[str, str], ...], None] = {}
    for cell in sweep.probes(_MOST_POINTS):
        names = dict(pair for factor in cell for pair in factor.names)
        if all(same(names.get(name, ""), value) for name, value in where.items()) and _is_chosen(read, names, same):
            known[tuple((name, names[name]) for name in sorted(free) if name in names)] = None
    yield from (dict(point) for point in known)
    if not known:
        # Values that this version leaves out are no mistake.
        swept = sweep.values()
        named = {name: _first(values, swept.get(name, ()), same) for name, values in read.chosen.items() if values}
        yield named if all(named.values()) else {}


def _first(values: Sequence[str], known: Sequence[str], same: Callable[[str, str], bool]) -> str:
    """The first of ``values`` that is known; empty without one."""
    return next((value for value in values if any(same(value, other) for other in known)), "")


def _overrides(own: Mapping[str, str], name: str, sweep: Sweep, *, named: bool) -> bool:
    relation = sweep.tied if named else sweep.implies
    return name in own or any(relation(other, name) for other in own)


def _fixes(own: Mapping[str, str], name: str, sweep: Sweep) -> bool:
    return name in own or any(sweep.implies(other, name) for other in own)


def _is_chosen(read: Any, names: Mapping[str, str], same: Callable[[str, str], bool]) -> bool:
    return all(
        not values or any(same(names.get(name, ""), value) for value in values) for name, values in read.chosen.items()
    )


def _left_free(names: Sequence[str]) -> str:
    """Why factors that a check does not name matter, and what to do."""
    if not names:
        return ""
    which, them = " and ".join(names), "it" if len(names) == 1 else "them"
    todo = f"name {them} in the braces, or fix {them} by `where`"
    return f". The check leaves {which} free, so it is made at each value: {todo}"


def _instead(wanted: Mapping[str, str], sweep: Sweep, same: Callable[[str, str], bool]) -> str:
    """What the factor has whose value fits least with the others: ``; with cc reno, rtt is 40ms or 60ms``."""
    for name in reversed(list(wanted)):
        others = {other: value for other, value in wanted.items() if other != name}
        values = [value for value in sweep.values().get(name, ()) if sweep.has({**others, name: value}, same)]
        if others and values:
            return f"; with {_listed(others)}, {name} is {' or '.join(values[:8])}"
    return ""


def _listed(values: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {value}" for name, value in values.items())
