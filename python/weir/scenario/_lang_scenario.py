"""Language definitions of a whole scenario: head, measurements, phases, changes and claims.

`Body` is compiled for each cell of a sweep; `Head` is the rest of the file.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from weir.language.problem import Log
from weir.language.scalars import BOOLEAN, DELAY, DURATION, RATE, TEXT, Choice, Definitions, Integer, Text
from weir.language.spec import ListOf, MapOf, OneOrEach, ShapeOf, Spec, Struct, key
from weir.language.tree import Map, Node, Scalar, describe
from weir.language.units import Amount

from ._declared import QUEUE_SIZE, SHARE
from ._lang_commands import WORKLOAD
from ._lang_hosts import HOSTS, HostSpec
from ._lang_links import LOSS, Jitter, Reorder
from ._lang_methods import Methods
from ._lang_network import TOPOLOGY
from ._lang_transport import Transport
from ._lang_workload import Workload
from ._selector import Selector, SelectorType

__all__ = [
    "BODY",
    "HEAD",
    "Acks",
    "Body",
    "Change",
    "Claim",
    "Figure",
    "Head",
    "Instant",
    "Measure",
    "Phase",
    "Rates",
    "Raw",
    "Trace",
    "scenario_schema",
]


@dataclass(frozen=True, kw_only=True)
class Trace(Spec):
    """A trace of single packets."""

    flows: tuple[Selector, ...] = key(
        OneOrEach(SelectorType("a flow such as `elephants[4]`, or an entry's name"), 100),
        "Flows to trace. Default: all.",
        default=(),
    )
    from_: int = key(DURATION, "Start of the trace. Default: the start of the run.", default=0)
    to: int | None = key(DURATION, "End of the trace. Default: the end of the run.", default=None)
    max_packets: int = key(
        Integer(1, 10**9, "a number of packets"), "Most packets to follow. Default: 1000000.", default=1_000_000
    )


@dataclass(frozen=True, kw_only=True)
class Acks(Spec):
    """A record of every acknowledgement and transmission (`sim` only)."""

    flows: tuple[Selector, ...] = key(
        OneOrEach(SelectorType("a flow such as `elephants[4]`, or an entry's name"), 100),
        "TCP flows to record. Default: all.",
        default=(),
    )
    from_: int = key(DURATION, "Start of the record. Default: the start of the run.", default=0)
    to: int | None = key(DURATION, "End of the record. Default: the end of the run.", default=None)
    max_rows: int = key(
        Integer(1, 10**9, "a number of rows"), "Most rows; the record ends there. Default: 1000000.", default=1_000_000
    )


class _AcksType:
    what = "`true`, `false`, or a mapping such as `{flows: elephants[0], to: 10s}`"

    def parse(self, node: Node, log: Log) -> Acks | None:
        if isinstance(node, Map):
            return Struct(Acks).parse(node, log)
        return Acks(mark=node.mark) if BOOLEAN.parse(node, log) else None

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [BOOLEAN.schema(defs), Struct(Acks).schema(defs)]}


@dataclass(frozen=True, kw_only=True)
class Measure(Spec):
    """What to record, and how often; 0 turns a table off."""

    goodput: int = key(DURATION, "Interval of table `goodput`. Default: 500 ms.", default=500_000_000)
    tcp: int = key(DURATION, "Interval of table `samples`, the senders' state. Default: 100 ms.", default=100_000_000)
    links: int = key(DURATION, "Interval of table `links`. Default: 100 ms.", default=100_000_000)
    delay: int = key(
        DURATION,
        "Interval of the tables `delays` and `delay_bins`: one-way delay and jitter of each flow. Default: none.",
        default=0,
    )
    record: str = key(
        Choice("links to record", {"routers": "those between routers; all, if there are none", "all": "all"}),
        "Links in table `links`: those between routers, or `all`, which is costly with many hosts.",
        default="routers",
    )
    trace: Trace | None = key(Struct(Trace), "Trace of single packets. Default: none.", default=None)
    acks: Acks | None = key(
        _AcksType(),
        "Table `acks`: every acknowledgement and transmission of all TCP flows (`true`) or of some. Default: none.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Instant(Spec):
    """An instant, absolute or relative to the start or stop of a flow."""

    flow: Selector | None = key(SelectorType("a flow such as `elephants[4]`"), "The flow, such as `elephants[4]`.")
    at_: str = key(
        Choice("an instant of a flow", {"start": "", "stop": ""}),
        "Its start or its stop. Default: start.",
        default="start",
    )
    plus: int = key(DURATION, "Time after that instant.", default=0)
    minus: int = key(DURATION, "Time before that instant.", default=0)


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
    """A time window for metrics."""

    from_: Instant = key(_InstantType(), "Start. Default: the start of the run.", default=Instant(flow=None))
    to: Instant | None = key(_InstantType(), "End. Default: the end of the run.", default=None)


_LINK_NAME = Text("the name of a link such as `bottleneck`", r"[A-Za-z][A-Za-z0-9_.>-]*", 200)


_FILE = Text("the name of a file", r"[^\x00-\x1f]+", 1000)


@dataclass(frozen=True, kw_only=True)
class Rates(Spec):
    """A trace of a link's rate."""

    file: str = key(_FILE, "CSV of instants and rates, or a packet-delivery trace; relative to the scenario.")
    every: int = key(
        DURATION,
        "Interval over which the rate of a packet-delivery trace is taken. Default: 100 ms.",
        default=100_000_000,
    )
    repeat: bool = key(BOOLEAN, "Whether the trace begins again at its end. Default: true.", default=True)


class _RatesType:
    what = "a file such as `cellular.csv`, or a mapping such as `{file: cellular.csv, repeat: false}`"

    def parse(self, node: Node, log: Log) -> Rates:
        if isinstance(node, Map):
            return Struct(Rates).parse(node, log)
        return Rates(mark=node.mark, file=_FILE.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [_FILE.schema(defs), Struct(Rates).schema(defs)]}


@dataclass(frozen=True, kw_only=True)
class TokenRates(Spec):
    """New rates of token buckets."""

    rate: int | None = key(RATE, "Rate at which the bucket fills, counted on the wire.", default=None)
    ceil: int | None = key(RATE, "Most that a class of `htb` may send with what it borrows.", default=None)
    peak: int | None = key(RATE, "Peak rate of a two-rate policer.", default=None)


class _TokenRatesType:
    what = "a rate such as `20Mbps`, or a mapping such as `{rate: 20Mbps, ceil: 50Mbps}`"

    def parse(self, node: Node, log: Log) -> TokenRates:
        if isinstance(node, Map):
            return Struct(TokenRates).parse(node, log)
        return TokenRates(mark=node.mark, rate=RATE.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [RATE.schema(defs), Struct(TokenRates).schema(defs)]}


@dataclass(frozen=True, kw_only=True)
class Change(Spec):
    """A change of links during the run. Values that it does not name stay."""

    at_: tuple[int, ...] = key(OneOrEach(DURATION), "One instant or several.")
    link: tuple[str, ...] = key(OneOrEach(_LINK_NAME), "One link or several.")
    rate: int | None = key(RATE, "New rate; 0 stops the transmitter until the next change.", default=None)
    rates: Rates | None = key(_RatesType(), "From that instant on, the rates of a trace.", default=None)
    delay: int | None = key(DELAY, "New one-way delay.", default=None)
    jitter: Jitter | None = key(Struct(Jitter), "New jitter.", default=None)
    reorder: Reorder | None = key(Struct(Reorder), "New reordering.", default=None)
    loss: Spec | None = key(LOSS, "New losses; `none` ends them.", default=None)
    weights: dict[str, int] | None = key(
        MapOf(SHARE, "the name of a class"), "New weights of classes of the link's scheduler.", default=None
    )
    quanta: dict[str, Amount] | None = key(
        MapOf(QUEUE_SIZE, "the name of a class"), "New quanta of classes of the link's scheduler.", default=None
    )
    queue_rate: TokenRates | None = key(
        _TokenRatesType(), "New rates of the link's shaper or policer, or of the root of `htb`.", default=None
    )
    class_rates: dict[str, TokenRates] | None = key(
        MapOf(_TokenRatesType(), "the name of a class", r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*"),
        "New rates of classes of `htb`, or of classes whose queue is a shaper or policer.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Body(Spec):
    """The part of a scenario that is compiled for each cell of the sweep."""

    topology: Spec = key(TOPOLOGY, "The network.")
    hosts: dict[str, HostSpec] | None = key(
        HOSTS, "What the components of hosts can do, by name; `src` are `src0`, `src1` and so on.", default=None
    )
    transport: Transport = key(Struct(Transport), "TCP settings of all workload entries.", default=Transport())
    workload: tuple[Workload, ...] = key(ListOf(WORKLOAD, 1, 1_000), "The traffic: who sends what to whom, and when.")
    changes: tuple[Change, ...] = key(ListOf(Struct(Change), 0, 10_000), "Changes of links during the run.", default=())
    duration: int | None = key(
        DURATION, "End of the run. Default: the last instant at which a flow stops.", default=None
    )
    measure: Measure = key(Struct(Measure), "What to record, and how often.", default=Measure())
    phases: dict[str, Phase] | None = key(
        MapOf(Struct(Phase), "a name"), "Named time windows for metrics.", default=None
    )
    methods: Methods = key(Struct(Methods), "Options of methods.", default=Methods())


class Raw:
    """Any value, kept unparsed: other code reads it, the schema shows only its outline."""

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
class QuickClaim(Spec):
    """Changes to a claim in the quick version."""

    expected: str | None = key(
        Choice("an outcome", {"holds": "", "fails": ""}), "The expected outcome there.", default=None
    )
    note: str = key(TEXT, "The reason, for a reader.", default="")


@dataclass(frozen=True, kw_only=True)
class RealtimeClaim(Spec):
    """Changes to a claim in the real-time version."""

    check: str | None = key(Text(most=1000), "The check with figures for that version.", default=None)
    expected: str | None = key(
        Choice("an outcome", {"holds": "", "fails": ""}), "The expected outcome there.", default=None
    )
    note: str = key(TEXT, "The reason, for a reader.", default="")
    skip: str = key(
        Text(most=500), "Why that version cannot decide the claim, which is then listed as not judged.", default=""
    )


@dataclass(frozen=True, kw_only=True)
class Claim(Spec):
    """A claim about the results, checked after the run. If it fails, `weir run` exits with 1."""

    id: str = key(
        Text("an identifier such as `A1`", "[A-Za-z][A-Za-z0-9_.-]*", 20),
        "Identifier of the claim in a list of claims, such as `A1`. Several checks may decide parts of one claim.",
        default="",
    )
    claim: str = key(TEXT, "The claim in words.")
    paper: str = key(Text(most=500), "What the source reports: its figure, such as `784 Mb/s`.", default="")
    tolerance: str = key(TEXT, "Why the check allows as much as it does, and not more.", default="")
    refuted_by: str = key(TEXT, "The result that would refute the claim.", default="")
    fitted: str = key(
        TEXT,
        "What of the set-up was chosen to give this figure. Agreement then confirms the choice, not the claim.",
        default="",
    )
    beyond: str = key(TEXT, "Why the claim is not the source's, such as a queue that it does not have.", default="")
    chance: str = key(
        TEXT, "Another seed or clock reverses the verdict of the one repeat: which, and to what figure.", default=""
    )
    where: dict[str, tuple[str, Node]] | None = key(
        MapOf(_WhereValue(), "a swept factor", "[A-Za-z][A-Za-z0-9_.-]*"),
        "The cells that the claim covers: swept factors by short name, and their values. Default: all cells.",
        default=None,
    )
    check: str = key(Text(most=1000), "The claim as an expression, such as `goodput.aggregate.max <= 3.5Gbps`.")
    source: str = key(TEXT, "Where the claim comes from.", default="")
    note: str = key(TEXT, "A remark for the reader, such as why the claim fails.", default="")
    expected: str = key(
        Choice(
            "an outcome",
            {"holds": "", "fails": "known to fail here, for the reason in `note`; does not fail the run"},
        ),
        "The expected outcome. Default: holds.",
        default="holds",
    )
    full_only: bool = key(
        BOOLEAN, "Only the full version can decide the claim: `--quick` and `--realtime` leave it out.", default=False
    )
    realtime_only: bool = key(
        BOOLEAN,
        "Only the version for real time can decide the claim, because it is about what only real machines have, such "
        "as processor time: the full version and `--quick` leave it out.",
        default=False,
    )
    quick: QuickClaim | None = key(
        Struct(QuickClaim), "Changes for `--quick`, such as an outcome that depends on the size.", default=None
    )
    realtime: RealtimeClaim | None = key(
        Struct(RealtimeClaim),
        "Changes for `--realtime`. Without them, a check with an absolute rate or time is not judged there.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Figure(Spec):
    """A figure of the summary."""

    value: str = key(
        Text("an expression such as `goodput.mean(download)`", most=1000),
        "A number in the language of checks: a metric, arithmetic, a function over a factor.",
    )
    title: str = key(
        Text("text of one line", r"[^\n]+", 100),
        "Its name in tables and pictures. Default: the expression.",
        default="",
    )


class _FigureType:
    """A figure, or its expression alone."""

    def __init__(self) -> None:
        self._mapping = Struct(Figure)
        self._text = self._mapping.keys["value"].type
        self.what = f"{self._text.what}, or {{value: ..., title: ...}}"
        self._shape: ShapeOf[Any] = ShapeOf(self.what, scalar=self._text, mapping=self._mapping)

    def parse(self, node: Node, log: Log) -> Figure:
        if isinstance(node, Map) and len(node.entries) == 1:
            name, value = node.entries[0].key.text, node.entries[0].value
            if isinstance(value, Scalar) and re.search(r"[\[{]", name):  # YAML ended the key at the `: ` inside
                written = f"{name}: {value.text}"[:100]
                raise log.error(node.mark, f'an expression with `: ` needs quotes: "{written}"')
        found = self._shape.parse(node, log)
        return found if isinstance(found, Figure) else Figure(mark=node.mark, value=found)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._shape.schema(defs)


_PATH = r"[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*(\.[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*)*"
_VALUES = {
    "anyOf": [
        {"type": "array", "minItems": 1, "description": "The values."},
        {"type": "object", "minProperties": 1, "description": "The values, each with a name."},
    ]
}
_ROW = {"type": "object", "patternProperties": {f"^{_PATH}$": True}, "additionalProperties": False, "minProperties": 1}
_ROWS = {"type": "array", "minItems": 1, "items": _ROW}
_ZIP = {
    "anyOf": [
        _ROWS,
        {"type": "object", "patternProperties": {f"^{_PATH}$": {"type": "array", "minItems": 1}}, "minProperties": 1},
    ],
    "description": "Rows of values that belong together; `case` names a row.",
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
    """The parts of a scenario besides the experiment itself."""

    title: str = key(Text("text of one line", r"[^\n]+", 200), "What the experiment shows, in one line.")
    source: str = key(TEXT, "Origin of the experiment: a paper and its section.", default="")
    rationale: str = key(TEXT, "Why the experiment is interesting.", default="")
    tags: tuple[str, ...] = key(
        ListOf(Text("a word", r"[A-Za-z0-9][A-Za-z0-9_.+-]*", 64), 0, 100), "Keywords.", default=()
    )
    seed: int = key(Integer(0, 2**53 - 1, "a seed"), "Seed of all random choices. Default: 1.", default=1)
    repeat: int = key(
        Integer(1, 10_000, "a number of repeats"),
        "Number of runs of each cell, each with its own seed. Default: 1.",
        default=1,
    )
    sweep: Node | None = key(
        Raw("a mapping of dotted paths to values", _SWEEP),
        "Dotted paths (`transport.cc`) with lists of values. Every combination is one cell. `zip` contains rows of "
        "values that belong together.",
        default=None,
    )
    quick: Node | None = key(
        Raw("a mapping of dotted paths to values", _QUICK),
        "Changes for `--quick`, by dotted path: shorter times, fewer cells (`sweep.transport.cc: [reno]`).",
        default=None,
    )
    realtime: Node | None = key(
        Raw("a mapping of dotted paths to values", _QUICK),
        "Changes for `--realtime`, after `quick`, by dotted path: rates, sizes and times that one machine carries on a "
        "real clock.",
        default=None,
    )
    summary: tuple[Figure, ...] = key(
        ListOf(_FigureType(), 0, 12),
        "The few figures on top of the report, such as `[completion.mean(page), delay.p95(call)]`.",
        default=(),
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
