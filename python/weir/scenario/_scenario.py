"""Scenarios and their cells: from text to plans."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from weir.language.problem import Enough, Invalid, Log, Mark, Problem, choose
from weir.language.tree import MAX_BYTES, Map, Node, Scalar, describe, read
from weir.queues import children, elements, inner

from ._claims import Expectation, Unjudged, Values, Version, expectations, read_check
from ._compile import Context, compile_plan
from ._errors import ScenarioError
from ._lang_scenario import BODY, HEAD, Body, Head, scenario_schema
from ._named import Named
from ._overrides import Override, override, refuse_replaced, refuse_unused, yaml_texts
from ._summary import Shown, summary_of
from ._sweep import MANY_CELLS, MAX_CELLS, Factor, Sweep, parse_sweep, substitute

__all__ = ["Cell", "Scenario", "check", "load", "parse", "schema"]

T = TypeVar("T")
_MAX_CHECKED = 500
_MAX_WORK = 100_000  # limit on compiling cells to check a sweep, in the log's unit of work
_MAX_WORK_TWICE = 20_000  # limit for a cell that is compiled with a second seed


@dataclass(frozen=True)
class Cell:
    """One run: a combination of swept values, and one of its repeats.

    Attributes:
        id: Number of the combination and of the repeat, such as ``0003-r1``; the name of the cell's folder.
        factors: The swept values by short name, as the scenario has them.
        repeat: Number of the repeat, from 0.
        seed: Seed of this repeat, for the workload's draws and all randomness during the run. Cells that differ only in
            their factors share it, so that they get the same workload.
    """

    id: str
    factors: dict[str, str]
    repeat: int
    seed: int
    _scenario: Scenario = field(repr=False, compare=False)
    _values: tuple[Factor, ...] = field(repr=False, compare=False)

    def plan(self) -> dict[str, Any]:
        """The plan, as ``crates/weir-plan`` defines it: JSON-like data.

        Raises:
            ScenarioError: there is no plan for these values.
            ImportError: weir's extension, which makes random draws, is not built.
        """
        return self.weighed()[0]

    def weighed(self) -> tuple[dict[str, Any], int]:
        """The plan and the work of compiling it, in units of about 25 us that do not depend on the machine.

        Raises:
            ScenarioError: there is no plan for these values.
            ImportError: weir's extension, which makes random draws, is not built.
        """
        log = Log(self._scenario.file)
        try:
            return self._scenario._compile(self._values, self.seed, log), log.work
        except (Invalid, Enough):
            raise ScenarioError(log.problems) from None


@dataclass(frozen=True)
class Scenario:
    """A parsed scenario.

    Attributes:
        file: The file name in problems: the path as given, or another name in angle brackets.
        text: The text of the file, without the changes of its ``quick`` section or the command line.
        factors: The swept factors by short name, each with the texts of its values.
        expect: Claims about its results that this version decides.
        summary: The few figures that its author wants on top of a report.
        unjudged: The other claims of the file, and why this version does not decide them.
        problems: Warnings and notes.
        heaviest: Maximum work of compiling one of the checked cells; see `Cell.weighed`.
    """

    file: str
    text: str
    title: str
    source: str
    rationale: str
    tags: tuple[str, ...]
    seed: int
    repeat: int
    factors: dict[str, tuple[str, ...]]
    expect: tuple[Expectation, ...]
    summary: tuple[Shown, ...]
    unjudged: tuple[Unjudged, ...]
    problems: tuple[Problem, ...]
    heaviest: int
    _tree: Map = field(repr=False, compare=False)
    _sweep: Sweep = field(repr=False, compare=False)
    _quick: Scenario | None = field(repr=False, compare=False)
    _realtime: Scenario | None = field(repr=False, compare=False)

    @property
    def path(self) -> Path | None:
        """The file, if there is one."""
        return None if self.file.startswith("<") else Path(self.file)

    def quick(self) -> Scenario:
        """The scenario with the changes of its ``quick`` section; itself, if it has none."""
        return self if self._quick is None else self._quick

    def realtime(self) -> Scenario:
        """The scenario with the changes of its ``quick`` and ``realtime`` sections; ``quick`` if it has no
        ``realtime``.
        """
        return self.quick() if self._realtime is None else self._realtime

    def version(self, version: Version) -> Scenario:
        """The scenario, its quick version, or the one for real time."""
        return {"full": lambda: self, "quick": self.quick, "realtime": self.realtime}[version]()

    def meanings(self) -> dict[str, dict[str, str]]:
        """What the labels of the sweep's values stand for, by factor: ``{"queue": {"deep": "16MB"}}``."""
        return self._sweep.meanings()

    def cells(self, quick: bool = False) -> list[Cell]:
        """The cells in the order of the sweep (the last factor varies fastest), the repeats of a cell in sequence.

        Their plans are compiled on demand.
        """
        if quick:
            return self.quick().cells()
        return self.repeats(self.combinations())

    def combinations(self) -> list[Cell]:
        """The first repeat of each cell, in the order of the sweep."""
        seed, cells = derive_seed(self.seed, 0), []
        for number, values in enumerate(self._sweep.combinations()):
            factors = {name: text for value in values for name, text in value.names}
            cells.append(Cell(f"{number:04d}-r0", factors, 0, seed, self, values))
        return cells

    def repeats(self, first: Iterable[Cell]) -> list[Cell]:
        """All repeats of some cells of :meth:`combinations`, those of a cell in sequence."""
        seeds = [derive_seed(self.seed, r) for r in range(self.repeat)]
        return [
            replace(cell, id=f"{cell.id.removesuffix('0')}{r}", repeat=r, seed=seed)
            for cell in first
            for r, seed in enumerate(seeds)
        ]

    def _compile(self, values: tuple[Factor, ...], seed: int, log: Log) -> dict[str, Any]:
        """The plan of a combination of swept values; raises ``Invalid`` with the reasons in ``log``."""
        tree = self._tree
        for factor in values:
            for steps, value in factor.values:
                with suppress(Invalid):
                    # The first step of a path is a key, so this stays a mapping.
                    tree = cast(Map, substitute(tree, steps, value, log))
        body = _parse_body(tree, log)
        if log.failed:
            raise Invalid
        folder = "" if self.path is None else str(self.path.parent)
        return compile_plan(body, Context(self.title, seed, folder), log)


def derive_seed(seed: int, repeat: int) -> int:
    """The seed of a repeat: below 2^53, so that every JSON reader keeps it exactly."""
    digest = hashlib.blake2b(f"{seed}/{repeat}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 11


def load(
    path: str | os.PathLike[str],
    *,
    quick: bool = False,
    realtime: bool = False,
    overrides: Mapping[str, Any] | None = None,
    sampled: bool = False,
) -> Scenario:
    """Reads and checks a scenario file.

    Args:
        quick: Apply the changes of its ``quick`` section.
        realtime: Apply these, then the changes of its ``realtime`` section.
        overrides: Values by dotted path, as YAML text or as values of Python, applied last and in the order that
            `_overrides.py` defines; a swept path keeps its factor with this one value. Relative paths of files in them
            are relative to the working directory, not to the scenario.
        sampled: The caller executes a sample of the cells: the number of all runs is not limited.

    Raises:
        ScenarioError: the file cannot be read, or has errors; all of them are in ``problems``.
        ValueError: an override has no YAML equivalent.
    """
    file = os.fspath(path)
    return _parse(_bytes_of(file), file, _version(quick, realtime), yaml_texts(overrides or {}), sampled=sampled)


def parse(
    text: str | bytes,
    file: str = "<text>",
    *,
    quick: bool = False,
    realtime: bool = False,
    overrides: Mapping[str, Any] | None = None,
) -> Scenario:
    """Reads and checks a scenario like :func:`load`; ``file`` is its name in problems.

    Raises:
        ScenarioError: there are errors; all of them are in ``problems``.
    """
    return _parse(text, file, _version(quick, realtime), yaml_texts(overrides or {}))


def _version(quick: bool, realtime: bool) -> Version:
    return "realtime" if realtime else "quick" if quick else "full"


def check(path: str | os.PathLike[str]) -> list[Problem]:
    """All problems of a scenario file in its order, including warnings and notes; never raises for bad content."""
    try:
        return list(load(path).problems)
    except ScenarioError as e:
        return e.problems


def schema() -> dict[str, Any]:
    """The JSON schema of a scenario file, generated from the parser's definitions."""
    return scenario_schema()


def _bytes_of(file: str) -> bytes:
    try:
        with Path(file).open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise ScenarioError([Problem(file, 1, 1, f"cannot be read: {reason}")]) from None


def _parse(
    text: str | bytes, file: str, version: Version, overrides: Mapping[str, str], *, sampled: bool = False
) -> Scenario:
    log = Log(file)
    try:
        scenario = _scenario(text, log, version, overrides, sampled=sampled)
    except (Invalid, Enough):
        raise ScenarioError(log.problems) from None
    if log.failed:
        raise ScenarioError(log.problems)
    return _with_problems(scenario, tuple(log.problems)).version(version)


def _with_problems(scenario: Scenario, problems: tuple[Problem, ...]) -> Scenario:
    quick, realtime = (
        None if part is None else replace(part, problems=problems) for part in (scenario._quick, scenario._realtime)
    )
    return replace(scenario, problems=problems, _quick=quick, _realtime=realtime)


def _scenario(text: str | bytes, log: Log, wanted: Version, overrides: Mapping[str, str], *, sampled: bool) -> Scenario:
    """The scenario and its other versions, all checked; in the wanted one, every override must have an effect."""
    root = read(text, log)
    if not isinstance(root, Map):
        raise log.error(root.mark, f"expected a mapping with `title`, `topology`, `workload`; found {describe(root)}")
    written = text if isinstance(text, str) else text.decode("utf-8")
    changes = [_override(path, value, log) for path, value in overrides.items()]
    quick, realtime = _section(root, "quick", log), _section(root, "realtime", log)
    bare = root.without("quick").without("realtime")
    sweep = _tried(partial(parse_sweep, bare.get("sweep"), Log(log.file)))
    values = {} if sweep is None else sweep.values()

    there: dict[Version, bool] = {"realtime": realtime is not None, "quick": quick is not None, "full": True}
    falls: dict[Version, tuple[Version, ...]] = {"realtime": ("realtime", "quick"), "quick": ("quick",), "full": ()}
    chosen: Version = next((version for version in falls[wanted] if there[version]), "full")

    def variant(tree: Map, version: Version) -> Scenario:
        effective = changes if version == chosen else []
        changed = override(tree, changes, log)
        return _variant(changed, written, values, effective, log, version, version == chosen, sampled=sampled)

    full = variant(bare, "full")
    shorter = bare if quick is None else override(bare, ((e.key, e.value) for e in quick.entries), log)
    if quick is not None:
        full = replace(full, _quick=variant(shorter, "quick"))
    if realtime is not None:
        smaller = override(shorter, ((e.key, e.value) for e in realtime.entries), log)
        full = replace(full, _realtime=variant(smaller, "realtime"))
    return full


def _section(root: Map, name: str, log: Log) -> Map | None:
    """The section that makes another version of a scenario; ``None`` without one."""
    section = root.get(name)
    if section is None or isinstance(section, Map):
        return section
    raise log.error(section.mark, f"expected a mapping of dotted paths to values, found {describe(section)}")


def _override(path: str, value: str, log: Log) -> tuple[Scalar, Node]:
    source = f"--set {path[:60]}"
    return Scalar(Mark(1, 1, source), path), read(value, log, source)


def _variant(
    root: Map,
    text: str,
    written: Values,
    effective: Sequence[Override],
    log: Log,
    version: Version,
    needed: bool,
    *,
    sampled: bool,
) -> Scenario:
    """The scenario of one tree, with its cells checked.

    ``written`` has the swept values of the file, ``effective`` the overrides in ``root`` that must have an effect;
    ``needed`` says whether this version was asked for, ``sampled`` that only some of its cells are executed.
    """
    _check_keys(root, log)
    head = _tried(partial(HEAD.parse_map, root, log, _keys_of(root)))
    sweep = _tried(partial(parse_sweep, root.get("sweep"), log))
    body = _tried(partial(_parse_body, root, log))
    if head is None or sweep is None:
        raise Invalid
    refuse_replaced(root, effective, sweep, log)
    if body is not None:
        refuse_unused(body, effective, log)
    phases = _names_of_phases(root)
    expect, unjudged = expectations(head.expect, sweep, written, phases, log, version)
    scenario = Scenario(
        file=log.file,
        text=text,
        title=head.title,
        source=head.source,
        rationale=head.rationale,
        tags=head.tags,
        seed=head.seed,
        repeat=head.repeat,
        factors=sweep.values(),
        expect=expect,
        summary=summary_of(head.summary, sweep, written, phases, log),
        unjudged=unjudged,
        problems=(),
        heaviest=0,
        _tree=root,
        _sweep=sweep,
        _quick=None,
        _realtime=None,
    )
    runs = 0 if sampled else len(sweep) * head.repeat
    if runs > MAX_CELLS:
        raise log.error(
            head.at("repeat"), f"{runs} runs ({len(sweep)} cells, {head.repeat} repeats): at most {MAX_CELLS}"
        )
    if runs > MANY_CELLS:
        log.warn(head.at("sweep"), f"{runs} runs ({len(sweep)} cells, {head.repeat} repeats) will take long")
    # Reports problems of the sweep's values together with the others.
    if needed or (body is not None and log.work <= _MAX_WORK):  # the first version may have used up the limit
        return replace(scenario, heaviest=_check_cells(scenario, head, log))
    return scenario


def _names_of_phases(root: Map) -> list[str] | None:
    """The named phases, valid or not; ``None`` if the scenario has no mapping of them."""
    phases = root.get("phases")
    if phases is None:
        return []
    return [entry.key.text for entry in phases.entries] if isinstance(phases, Map) else None


def _parse_body(root: Map, log: Log) -> Body:
    return BODY.parse_map(root, log, _keys_of(root))


def _keys_of(root: Map) -> frozenset[str]:
    """All top-level keys. Readers of some of them ignore the rest; `_check_keys` reports unknown ones."""
    return frozenset(e.key.text for e in root.entries)


def _check_keys(root: Map, log: Log) -> None:
    known = [*HEAD.keys, *BODY.keys]
    free = [name for name in known if root.get(name) is None]
    for entry in root.entries:
        if entry.key.text not in known:
            usable = known if entry.key.mark.file else free  # --set also changes what is there
            log.error(entry.key.mark, f"unknown key {describe(entry.key)}{choose(entry.key.text, known, usable)}")


def _tried(part: Callable[[], T]) -> T | None:
    try:
        return part()
    except Invalid:
        return None


def _check_cells(scenario: Scenario, head: Head, log: Log) -> int:
    """Compiles cells to find their problems: all, or a selection if all would take too long.

    Returns:
        The work of the most expensive cell.
    """
    work = heaviest = 0
    varies = scenario.repeat == 1
    named = Named(_marked(scenario, head))
    for values in scenario._sweep.probes(_MAX_CHECKED):
        cell = Log(log.file)
        with suppress(Invalid, Enough):
            plan = scenario._compile(values, derive_seed(scenario.seed, 0), cell)
            named.see({name: text for value in values for name, text in value.names}, plan)
            varies = varies or cell.work > _MAX_WORK_TWICE or _seed_matters(scenario, values, plan, cell)
        log.extend(cell)
        work += cell.work
        heaviest = max(heaviest, cell.work)
        log.work += cell.work
        if work > _MAX_WORK:
            break
    named.report(log)
    if work <= _MAX_WORK and not varies and not log.failed:
        text = "nothing is random here: repeats are equal, and intervals have no width; `processing` is a way out"
        log.warn(head.at("repeat"), text)
    return heaviest


def _marked(scenario: Scenario, head: Head) -> list[tuple[Any, Mapping[str, str], Mark]]:
    """The expressions of the claims and of the summary with the factors that are fixed, and their places."""
    places: dict[str, Mark] = {}
    for claim in head.expect:
        if claim.realtime is not None and claim.realtime.check is not None:
            places.setdefault(claim.realtime.check, claim.realtime.at("check"))
        places.setdefault(claim.check, claim.at("check"))
    shown = {figure.value: figure.at("value") for figure in head.summary}
    return [
        *((read_check(one.check, None, None), one.where, places[one.check]) for one in scenario.expect),
        *((read_check(one.value, None, None, number=True), {}, shown[one.value]) for one in scenario.summary),
    ]


_RANDOM = frozenset(one.name for one in elements() if one.random)
"""Elements of a plan that draw random numbers during the run."""


_RANDOM_ARBITERS = ("bursty", "pim")


def _with_children(queue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A queue of a plan, and the queues of its classes."""
    yield queue
    within = inner(queue)
    if within is not None:
        yield from _with_children(within)
    for one in children(queue):
        yield from _with_children(one["queue"])


def _seed_matters(scenario: Scenario, values: tuple[Factor, ...], plan: dict[str, Any], log: Log) -> bool:
    """Whether another repeat of the cell with this plan may have other results; adds its work to ``log``."""
    if any(flow["transport"].get("processing_ns") for flow in plan["flows"]):
        return True
    parts = [part for link in plan["links"] for part in (*_with_children(link["queue"]), link["delay"], link["loss"])]
    parts += [part for c in plan["changes"] for part in (c["change"].get("delay"), c["change"].get("loss"))]
    if any(part is not None and part["kind"] in _RANDOM for part in parts):
        return True
    switches = [node["switch"] for node in plan["nodes"] if node.get("switch") is not None]
    if any(one["arbiter"]["kind"] in _RANDOM_ARBITERS or one["jitter_ns"] for one in switches):
        return True
    again = Log(scenario.file)
    other = scenario._compile(values, derive_seed(scenario.seed, 1), again)
    log.work += again.work
    return {**other, "seed": 0} != {**plan, "seed": 0}
