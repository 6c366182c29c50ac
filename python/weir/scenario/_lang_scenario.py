"""The language's words for a whole scenario: its head, what is measured, phases, changes, and what is claimed.

`Body` is what one cell of a sweep is compiled from; `Head` is the rest of the file.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._lang_commands import WORKLOAD
from ._lang_links import LOSS, Jitter, Reorder
from ._lang_methods import Methods
from ._lang_network import TOPOLOGY
from ._lang_transport import Transport
from ._lang_workload import Selector, SelectorType, Workload
from ._problem import Log
from ._scalars import BOOLEAN, DELAY, DURATION, RATE, TEXT, Choice, Definitions, Integer, Text
from ._spec import ListOf, MapOf, OneOrEach, Spec, Struct, key
from ._yaml import Map, Node, Scalar, describe

__all__ = [
    "BODY",
    "HEAD",
    "Body",
    "Change",
    "Claim",
    "Head",
    "Instant",
    "Measure",
    "Phase",
    "Raw",
    "Trace",
    "scenario_schema",
]


@dataclass(frozen=True, kw_only=True)
class Trace(Spec):
    """A trace of single packets."""

    flows: tuple[Selector, ...] = key(
        OneOrEach(SelectorType("a flow such as `elephants[4]`, or an entry's name"), 100),
        "Flows traced; all.",
        default=(),
    )
    from_: int = key(DURATION, "Start of the window traced; the start of the run.", default=0)
    to: int | None = key(DURATION, "End of the window traced; the end of the run.", default=None)
    max_packets: int = key(
        Integer(1, 10**9, "a number of packets"), "No more than this many packets; 1000000.", default=1_000_000
    )


@dataclass(frozen=True, kw_only=True)
class Measure(Spec):
    """What is recorded and how often; 0 switches a table off."""

    goodput: int = key(DURATION, "Interval of table `goodput`; 500 ms.", default=500_000_000)
    tcp: int = key(DURATION, "Interval of table `samples`, the senders' state; 100 ms.", default=100_000_000)
    links: int = key(DURATION, "Interval of table `links`; 100 ms.", default=100_000_000)
    delay: int = key(
        DURATION, "Interval of tables `delays` and `delay_bins`: one-way delay and jitter, each flow; none.", default=0
    )
    record: str = key(
        Choice("links to record", {"routers": "those between routers; all, where there is none", "all": "all"}),
        "The links of table `links`: those between routers, or `all`, which a run with many hosts pays for.",
        default="routers",
    )
    trace: Trace | None = key(Struct(Trace), "Per-packet trace; none.", default=None)


@dataclass(frozen=True, kw_only=True)
class Instant(Spec):
    """An instant, absolute or relative to the start or stop of a flow."""

    flow: Selector | None = key(SelectorType("a flow such as `elephants[4]`"), "The flow, such as `elephants[4]`.")
    at_: str = key(
        Choice("an instant of a flow", {"start": "", "stop": ""}), "Its start or its stop; start.", default="start"
    )
    plus: int = key(DURATION, "So much later.", default=0)
    minus: int = key(DURATION, "So much earlier.", default=0)


class _InstantType:
    what = "an instant such as `20s`, or one of a flow such as `{flow: elephants[4], plus: 20s}`"

    def parse(self, node: Node, log: Log) -> Instant:
        if isinstance(node, Map):
            return Struct(Instant).parse(node, log)
        if not isinstance(node, Scalar) or node.null:
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")
        return Instant(mark=node.mark, flow=None, plus=DURATION.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [*DURATION.schema(defs)["anyOf"], Struct(Instant).schema(defs)]}


@dataclass(frozen=True, kw_only=True)
class Phase(Spec):
    """A window that metrics are computed on."""

    from_: Instant = key(_InstantType(), "Start; the start of the run.", default=Instant(flow=None))
    to: Instant | None = key(_InstantType(), "End; the end of the run.", default=None)


_LINK_NAME = Text("the name of a link such as `bottleneck`", r"[A-Za-z][A-Za-z0-9_.>-]*", 200)


@dataclass(frozen=True, kw_only=True)
class Change(Spec):
    """A change of links while the run goes on. What is not named stays."""

    at_: tuple[int, ...] = key(OneOrEach(DURATION), "When; one instant or several.")
    link: tuple[str, ...] = key(OneOrEach(_LINK_NAME), "Which link, or several.")
    rate: int | None = key(RATE, "New rate; 0 stops the transmitter until the next change.", default=None)
    delay: int | None = key(DELAY, "New one-way delay.", default=None)
    jitter: Jitter | None = key(Struct(Jitter), "New jitter.", default=None)
    reorder: Reorder | None = key(Struct(Reorder), "New reordering.", default=None)
    loss: Spec | None = key(LOSS, "New losses; `none` ends them.", default=None)


@dataclass(frozen=True, kw_only=True)
class Body(Spec):
    """What one cell of the sweep is compiled from."""

    topology: Spec = key(TOPOLOGY, "The network.")
    transport: Transport = key(Struct(Transport), "TCP settings of all entries.", default=Transport())
    workload: tuple[Workload, ...] = key(ListOf(WORKLOAD, 1, 1_000), "Who sends what to whom, and when.")
    changes: tuple[Change, ...] = key(ListOf(Struct(Change), 0, 10_000), "Changes of links.", default=())
    duration: int | None = key(DURATION, "The run ends here; the last instant at which a flow stops.", default=None)
    measure: Measure = key(Struct(Measure), "What is recorded and how often.", default=Measure())
    phases: dict[str, Phase] | None = key(
        MapOf(Struct(Phase), "a name"), "Named windows that metrics are computed on.", default=None
    )
    methods: Methods = key(Struct(Methods), "Options of methods.", default=Methods())


class Raw:
    """Any value, kept as it is: read elsewhere, with only its outline in the schema."""

    def __init__(self, what: str, schema: dict[str, Any]) -> None:
        self.what = what
        self._schema = schema

    def parse(self, node: Node, log: Log) -> Node:
        return node

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return dict(self._schema)


class _WhereValue:
    """The text of a swept value; unlike other text it may look like a number."""

    what = "the text of a swept value"

    def parse(self, node: Node, log: Log) -> tuple[str, Node]:
        if not isinstance(node, Scalar) or node.null:
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")
        return node.text, node

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, kw_only=True)
class RealtimeClaim(Spec):
    """What is different about a claim in the version for real time."""

    check: str | None = key(Text(most=1000), "The check with the figures of that version.", default=None)
    expected: str | None = key(
        Choice("an outcome", {"holds": "", "fails": ""}), "The outcome that is known there.", default=None
    )
    note: str = key(TEXT, "Why, for a reader.", default="")
    skip: str = key(Text(most=500), "Why that version cannot decide it; it is listed as not judged.", default="")


@dataclass(frozen=True, kw_only=True)
class Claim(Spec):
    """A claim about the results, checked after the run; a claim that does not hold makes `weir run` fail."""

    claim: str = key(TEXT, "The claim in words.")
    where: dict[str, tuple[str, Node]] | None = key(
        MapOf(_WhereValue(), "a swept factor", "[A-Za-z][A-Za-z0-9_.-]*"),
        "The cells it is about: swept factors by short name, and their values. Without: all cells.",
        default=None,
    )
    check: str = key(Text(most=1000), "The claim as an expression, such as `goodput.aggregate.max <= 3.5Gbps`.")
    source: str = key(TEXT, "Where the claim comes from.", default="")
    note: str = key(
        TEXT, "Anything a reader should know: the reason of a tolerance, or why the claim does not hold.", default=""
    )
    expected: str = key(
        Choice(
            "an outcome",
            {"holds": "", "fails": "it is known not to hold here, for the reason in `note`; no failure of the run"},
        ),
        "The outcome that is known; holds.",
        default="holds",
    )
    full_only: bool = key(BOOLEAN, "Only the full version can decide it: `--quick` leaves it out.", default=False)
    realtime: RealtimeClaim | None = key(
        Struct(RealtimeClaim),
        "What is different with `--realtime`. Without it, a check with an absolute rate or time is not judged there.",
        default=None,
    )


_PATH = r"[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*(\.[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*)*"
_VALUES = {
    "anyOf": [
        {"type": "array", "minItems": 1, "description": "The values."},
        {"type": "object", "minProperties": 1, "description": "The values, each with a name of its own."},
    ]
}
_ROW = {"type": "object", "patternProperties": {f"^{_PATH}$": True}, "additionalProperties": False, "minProperties": 1}
_ROWS = {"type": "array", "minItems": 1, "items": _ROW}
_ZIP = {
    "anyOf": [
        _ROWS,
        {"type": "object", "patternProperties": {f"^{_PATH}$": {"type": "array", "minItems": 1}}, "minProperties": 1},
    ],
    "description": "Values taken together, row by row; `case` names a row.",
}
_SWEEP = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"zip": _ZIP},
            "patternProperties": {f"^(?!zip$){_PATH}$": _VALUES},
            "additionalProperties": False,
        },
        _ROWS,
    ]
}
_QUICK = {"type": "object", "patternProperties": {f"^{_PATH}$": True}, "additionalProperties": False}


@dataclass(frozen=True, kw_only=True)
class Head(Spec):
    """What a scenario says besides the experiment itself."""

    title: str = key(Text("text of one line", r"[^\n]+", 200), "One line that says what happens.")
    source: str = key(TEXT, "Where the experiment comes from: a paper and its section.", default="")
    rationale: str = key(TEXT, "Why it is interesting.", default="")
    tags: tuple[str, ...] = key(
        ListOf(Text("a word", r"[A-Za-z0-9][A-Za-z0-9_.+-]*", 64), 0, 100), "Words to find it by.", default=()
    )
    seed: int = key(Integer(0, 2**53 - 1, "a seed"), "Seed of all that is random; 1.", default=1)
    repeat: int = key(
        Integer(1, 10_000, "a number of repeats"), "Runs of each cell, each with a seed of its own; 1.", default=1
    )
    sweep: Node | None = key(
        Raw("a mapping of dotted paths to values", _SWEEP),
        "What varies: dotted paths (`transport.cc`), each with its values; every combination is one cell. `zip` has "
        "rows of values that are taken together.",
        default=None,
    )
    quick: Node | None = key(
        Raw("a mapping of dotted paths to values", _QUICK),
        "What `--quick` changes, by dotted path: shorter times, fewer cells (`sweep.transport.cc: [reno]`).",
        default=None,
    )
    realtime: Node | None = key(
        Raw("a mapping of dotted paths to values", _QUICK),
        "What `--realtime` changes after `quick`, by dotted path: rates, sizes and times that one machine carries on a "
        "real clock.",
        default=None,
    )
    expect: tuple[Claim, ...] = key(ListOf(Struct(Claim), 0, 1000), "Claims about the results.", default=())


HEAD = Struct(Head)
BODY = Struct(Body)


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of a scenario file."""
    defs: Definitions = {}
    head, body = HEAD.body(defs), BODY.body(defs)
    order = ["title", "source", "rationale", "tags", "seed", "topology", "transport", "workload", "changes", "duration"]
    properties = {**head["properties"], **body["properties"]}
    ordered = {name: properties[name] for name in [*order, *(n for n in properties if n not in order)]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir scenario",
        "description": "A description of an experiment with transport protocols; see docs/scenario-language.md.",
        "type": "object",
        "properties": ordered,
        "required": [*head["required"], *body["required"]],
        "additionalProperties": False,
        "$defs": dict(sorted(defs.items())),
    }
