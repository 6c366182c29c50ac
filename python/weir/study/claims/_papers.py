"""What the papers claim, and what a page about them shows: the file ``claims.toml``, read into types."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.study.errors import StudyError

__all__ = ["Claim", "Drawn", "Figure", "Papers", "Recorded", "Table", "read_papers"]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    id: str
    paper: str
    place: str
    """Section, figure or table of the paper."""
    says: str
    figure: str
    """The paper's figure, in short."""
    open: str = ""
    """What is missing to decide it, if no scenario does."""
    reason: str = ""
    """Why it does not reproduce, if the notes of the scenarios do not say it."""
    assumes: str = ""
    """What was chosen without the paper's word, if the verdict depends on it."""
    condition: str = ""
    """The assumption in some words, for the verdict."""
    untested: str = ""
    """What the paper says about it that no part tests."""
    half: bool = False
    """Whether ``untested`` is half of its sentence: the claim then reproduces in part at most."""
    unexplained: str = ""
    """Which of its failures have no known cause."""
    shown: tuple[str, ...] = ()
    """The parts that the page of all claims shows; empty: the first that is decided."""
    flows: int = 0
    """Number of flows whose share of a bottleneck is printed for one of them; 0: for all."""


@dataclass(frozen=True)
class Drawn:
    """A function of time, or a distribution, that is kept of some cells for a figure."""

    name: str
    metric: str
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    points: int = 140
    scale: float = 1e6
    """By which values are divided before they are stored: Mb/s."""
    bins: int = 0
    """Number of bins of a distribution; 0: a function of time."""
    top: float = 0.0
    """Upper end of the distribution, after scaling; 0: the rate of the slowest link."""


@dataclass(frozen=True)
class Recorded:
    """What is kept of the cells of a scenario, in addition to the values that its claims need."""

    scenario: str
    metrics: tuple[str, ...] = ()
    drawn: tuple[Drawn, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, redrawn."""

    name: str
    paper: str
    title: str
    kind: str
    scenario: str
    claims: tuple[str, ...]
    caption: str = ""
    versions: tuple[str, ...] = ("full", "quick")
    """The versions of the scenario to draw, the first that has results."""
    method: str = ""
    """The method whose results to draw; empty: the first of ``versions``."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Other scenarios whose values of the same version are drawn beside, and their names in the figure."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table of a paper, and the metric that has its values."""

    name: str
    paper: str
    title: str
    scenario: str
    metric: str
    rows: str | tuple[str, ...]
    """A factor, or several whose values name a row together."""
    columns: str
    values: Mapping[str, Sequence[float | str]]
    """By row, in the order of ``heads``."""
    heads: tuple[str, ...]
    claims: tuple[str, ...]
    scale: float = 1.0
    digits: int = 3
    versions: tuple[str, ...] = ("full",)
    others: tuple[str, ...] = ()
    """Other scenarios whose values stand beside."""
    minus: str = ""
    """A metric that is subtracted."""
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of factors: only such cells count."""


@dataclass(frozen=True)
class Papers:
    """Everything that ``claims.toml`` says."""

    titles: Mapping[str, str]
    intros: Mapping[str, str]
    versions: Mapping[str, tuple[str, ...]]
    """By method: the versions of scenarios that it executes."""
    claims: tuple[Claim, ...]
    recorded: Mapping[str, Recorded]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    left_out: Mapping[str, Mapping[str, str]]
    """By paper: figures that are not redrawn, and why."""
    looks: tuple[str, ...] = ()
    """Names that have the same colour and symbol in every figure: the congestion controls."""

    def of(self, paper: str) -> list[Claim]:
        """The claims of a paper, in its order."""
        return [claim for claim in self.claims if claim.paper == paper]


def read_papers(file: Path) -> Papers:
    """Reads ``claims.toml``.

    Raises:
        StudyError: the file cannot be read, or a key is missing or unknown.
    """
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
        return Papers(
            titles={key: value["title"] for key, value in raw["papers"].items()},
            intros={key: value.get("intro", "").strip() for key, value in raw["papers"].items()},
            versions={key: tuple(value) for key, value in raw["versions"].items()},
            claims=tuple(_tupled(Claim, {"paper": entry["id"][0], **entry}) for entry in raw["claims"]),
            recorded={entry["scenario"]: _recorded(entry) for entry in raw["records"]},
            figures=tuple(_figure(entry) for entry in raw["figures"]),
            tables=tuple(_tupled(Table, entry) for entry in raw["tables"]),
            looks=tuple(raw.get("looks", ())),
            left_out={key: value.get("left_out", {}) for key, value in raw["papers"].items()},
        )
    except OSError as error:
        raise StudyError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise StudyError(f"{file}: {error}; expected papers, versions, claims, records, figures and tables") from None


def _recorded(entry: Mapping[str, Any]) -> Recorded:
    drawn = tuple(Drawn(**one) for one in entry.get("drawn", ()))
    return Recorded(entry["scenario"], tuple(entry.get("metrics", ())), drawn)


def _figure(entry: Mapping[str, Any]) -> Figure:
    known = {"name", "paper", "title", "kind", "scenario", "claims", "caption", "versions", "method", "others"}
    own = {key: value for key, value in entry.items() if key in known}
    figure: Figure = _tupled(Figure, {**own, "options": {k: v for k, v in entry.items() if k not in known}})
    return figure


def _tupled(kind: Any, entry: Mapping[str, Any]) -> Any:
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
