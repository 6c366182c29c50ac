"""Runs of every shape that a report meets, small enough to be drawn by each chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from synthetic import Cell, Dumbbell, sweep

__all__ = ["SHAPES", "Shape", "seen"]

Factors = Mapping[str, str]
_BELL = Dumbbell(flows=3, duration=12, every=2, step=0.5, queue_bytes=2e6, capacity=1e9, access=8e8)


def _nothing(factors: Factors) -> str:
    return ""


@dataclass(frozen=True)
class Shape:
    """A run, and the expected look of its sweep, written by hand."""

    cells: tuple[Cell, ...]
    bell: Dumbbell = _BELL
    complete: bool = True
    x: str = ""
    """The factor on the x axis of metrics; empty without one."""
    series: str = ""
    """The factor shown by colour, or by the names of rows."""
    further: tuple[str, ...] = ()
    """Factors whose values are in the titles of panels."""
    column: Callable[[Factors], str] = field(default=_nothing)
    """The title above a cell's panel among the panels of all cells."""
    row: Callable[[Factors], str] = field(default=_nothing)
    """The title beside it."""

    @property
    def drawn(self) -> tuple[Cell, ...]:
        """The cells that have a result: the first repeat of each combination."""
        return tuple(c for c in self.cells if c.repeat == 0 and not (c.missing or c.failed))


def _zip(*rows: dict[str, str]) -> tuple[Cell, ...]:
    return tuple(Cell(row) for row in rows)


_ODD = ('a "quoted" \\ one', "</script><b>&amp;", "[x].y", "constructor", "{cc: cubic, hystart: 2}", "ü \u2028 \u2192")


def seen(text: str) -> str:
    """A name as it can be displayed: without characters that have no glyph, and never the name of a property."""
    return f"{text}\u00a0" if text == "constructor" else text.replace("\u2028", "\ufffd")


_LONG = tuple(
    f"{{cc: cubic, hystart: 2, max_ssthresh: 100, tcp_friendliness: {i}, beta: 717, scale: 41}}" for i in (0, 1, 2)
)


def _with(cells: list[Cell], changes: dict[int, dict[str, object]]) -> tuple[Cell, ...]:
    return tuple(Cell(c.factors, c.repeat, **changes.get(i, {})) for i, c in enumerate(cells))  # type: ignore[arg-type]


def _cc(factors: Factors) -> str:
    return factors["cc"]


def _rtt(factors: Factors) -> str:
    return f"rtt {factors['rtt']}"


def _case(factors: Factors) -> str:
    return factors["case"]


_FIRST, _SECOND = ("100Mbps", "200Mbps", "400Mbps"), ("200Mbps", "600Mbps", "1Gbps")


def _offered(switches: tuple[str, ...]) -> tuple[Cell, ...]:
    """Two constant rates through switches; the share of each that passes depends on both."""
    cells = []
    for (i, switch), (j, one), (k, two) in product(enumerate(switches), enumerate(_FIRST), enumerate(_SECOND)):
        passes = (1 - 0.07 * (j + 1) * (k + i), 1 - 0.31 * k * (i + 0.3) - 0.03 * j)
        bell = Dumbbell(flows=2, duration=6, every=0.5, step=0.5, protocol="udp", groups=("a", "b"), passes=passes)
        cells.append(Cell({"switch": switch, "one": one, "two": two}, bell=bell))
    return tuple(cells)


_GRID = {"x": "rtt", "series": "cc", "column": _rtt, "row": _cc}
_CCS, _RTTS = ("reno", "bic", "scalable"), ("20ms", "100ms", "200ms")

SHAPES: dict[str, Shape] = {
    "one cell": Shape((Cell(),)),
    "uploads beside downloads": Shape(
        (Cell(),), Dumbbell(flows=7, duration=24, every=2, step=0.5, uploads=3, groups=("a", "b"), queue_bytes=2e6)
    ),
    "uploads beside downloads, many": Shape(
        (Cell(),), Dumbbell(flows=40, duration=12, every=0.1, step=0.5, uploads=15, queue_bytes=2e6, phase_names=())
    ),
    "uploads beside downloads, a grid": Shape(
        tuple(sweep(("reno", "bic"), ("20ms", "100ms"), 2)), replace(_BELL, flows=5, uploads=2), **_GRID
    ),
    "uploads beside downloads, names": Shape(
        tuple(Cell({"cc": cc}) for cc in _CCS), replace(_BELL, flows=5, uploads=2), series="cc", column=_cc
    ),
    "uploads alone": Shape((Cell(),), replace(_BELL, uploads=3)),
    "delays": Shape((Cell(),), replace(_BELL, delays=True, groups=("call", "web"))),
    "delays, a grid": Shape(
        tuple(sweep(("reno", "bic"), ("20ms", "100ms"))), replace(_BELL, delays=True, groups=("call", "web")), **_GRID
    ),
    "delays, thinned": Shape((Cell(),), replace(_BELL, delays=True, duration=450, every=20)),
    "delays of many": Shape(
        (Cell(),), Dumbbell(flows=30, duration=12, every=0.1, step=0.5, delays=True, groups=("call", "web"))
    ),
    "classes": Shape((Cell(),), replace(_BELL, classes=("be", "af"))),
    "classes, thinned": Shape((Cell(),), replace(_BELL, duration=450, every=20, classes=("af", "ef", "constructor"))),
    "classes, a grid": Shape(
        tuple(sweep(("reno", "bic"), ("20ms", "100ms"))), replace(_BELL, classes=("af", "be")), **_GRID
    ),
    "classes in both directions": Shape((Cell(),), replace(_BELL, uploads=1, classes=("be", "af"))),
    "classes, more than colours": Shape((Cell(),), replace(_BELL, classes=tuple(f"class {i}" for i in range(9)))),
    "changes": Shape(
        (Cell(),),
        replace(
            _BELL, changes=(0, 3, 7.5, 12, 13), classes=("be", "af"), delays=True, probes=("alpha", "beta"), acks=2
        ),
    ),
    "changes, uploads beside downloads": Shape(
        (Cell(),), replace(_BELL, changes=(3, 7.5), flows=5, uploads=2, classes=("be", "af"))
    ),
    "changes, many": Shape(
        (Cell(),), Dumbbell(flows=30, duration=12, every=0.1, step=0.5, delays=True, changes=(3, 7.5), queue_bytes=2e6)
    ),
    "changes, a grid": Shape(
        tuple(sweep(("reno", "bic"), ("20ms", "100ms"))), replace(_BELL, changes=(3, 7.5)), **_GRID
    ),
    "probes": Shape((Cell(),), replace(_BELL, probes=("alpha", "beta"))),
    "probes, thinned": Shape((Cell(),), replace(_BELL, duration=450, every=20, probes=("bw",))),
    "probes of many": Shape(
        (Cell(),), Dumbbell(flows=30, duration=12, every=0.1, step=0.5, probes=("a", "constructor"))
    ),
    "acknowledgements": Shape((Cell(),), replace(_BELL, acks=2)),
    "acknowledgements of many": Shape((Cell(),), replace(_BELL, flows=9, every=0.5, acks=9)),
    "two rates": Shape(
        _offered(("fair", "fifo")),
        x="one",
        series="switch",
        further=("two",),
        column=lambda f: f"one {f['one']}",
        row=lambda f: f"{f['switch']}, two {f['two']}",
    ),
    "a trace": Shape((Cell(),), replace(_BELL, trace=50)),
    "a trace without losses": Shape((Cell({"cc": "bic"}),), replace(_BELL, flows=1, trace=50, protocol="udp")),
    "a trace of many": Shape((Cell(),), replace(_BELL, flows=8, every=0.5, trace=1200)),
    "no phase": Shape((Cell(),), Dumbbell(flows=3, duration=12, every=2, step=0.5, phase_names=())),
    "nothing gets through": Shape((Cell(),), Dumbbell(flows=3, duration=12, every=2, step=0.5, capacity=1.0)),
    "two phases": Shape((Cell(),), Dumbbell(flows=7, duration=24, every=2, step=0.5)),
    "one flow": Shape((Cell(),), Dumbbell(flows=1, duration=12, step=0.5)),
    "two hundred flows": Shape(
        (Cell(),),
        Dumbbell(flows=200, duration=20, every=0.05, step=0.5, access=1e8, capacity=1e9, queue_bytes=2e6),
    ),
    "a long run": Shape((Cell(),), Dumbbell(flows=3, duration=450, every=20, step=0.5, queue_bytes=2e6, capacity=1e9)),
    "groups with odd names": Shape(
        (Cell(),),
        Dumbbell(
            flows=5,
            duration=12,
            every=1,
            step=0.5,
            groups=("constructor", "a-b_c", "toString"),
            phase_names=("<five>", "constructor"),
            bottleneck="R1->R2 'x'",
        ),
    ),
    "long names": Shape(
        (Cell(),),
        Dumbbell(
            flows=4,
            duration=12,
            every=1,
            step=0.5,
            groups=("elephants" * 10 + "a", "elephants" * 10 + "b"),
            phase_names=("f" * 80, "all" * 40),
            bottleneck="transatlantic" * 8,
        ),
    ),
    "transfers": Shape(
        tuple(sweep(("reno", "bic"), ("20ms", "100ms"))),
        Dumbbell(
            flows=4,
            duration=12,
            every=1,
            step=0.5,
            groups=("mice", "rats"),
            sizes=(0, 10_000_000, 200_000_000, 900_000_000, 900_000_000),
        ),
        **_GRID,
    ),
    "pages": Shape(
        tuple(sweep(("reno", "bic"), ("20ms", "100ms"))),
        Dumbbell(
            flows=4,
            duration=12,
            every=1,
            step=0.5,
            groups=("readers", "others"),
            sizes=(10_000_000, 100_000_000, 50_000_000, 200_000_000, 900_000_000, 900_000_000),
            page=2,
        ),
        **_GRID,
    ),
    "machines": Shape(
        (Cell({"cc": "reno"}, machines=True), Cell({"cc": "bic"})),
        replace(_BELL, flows=4, uploads=1, groups=("call", "web")),
        series="cc",
        column=_cc,
    ),
    "machines, until a stop": Shape((Cell(machines=True),), replace(_BELL, stop=9.0)),
    "machines, transfers": Shape(
        (Cell(machines=True),),
        Dumbbell(
            flows=4,
            duration=12,
            every=1,
            step=0.5,
            uploads=2,
            groups=("mice", "rats"),
            sizes=(0, 20_000_000, 100_000_000, 0, 50_000_000, 20_000_000, 900_000_000),
            waits=(0.004, 1.1, -0.4, 0.34, 0.3, 0.7, 0.0),
        ),
    ),
    "grid": Shape(tuple(sweep(_CCS, _RTTS)), **_GRID),
    "grid of repeats": Shape(tuple(sweep(("reno", "bic"), ("20ms", "100ms"), 3)), **_GRID),
    "names alone": Shape(tuple(Cell({"cc": cc}) for cc in _CCS), series="cc", column=_cc),
    "names alone, repeats": Shape(
        tuple(Cell({"cc": cc}, repeat) for cc in _CCS for repeat in range(3)), series="cc", column=_cc
    ),
    "numbers alone": Shape(tuple(Cell({"rtt": rtt}) for rtt in _RTTS), x="rtt", column=_rtt),
    "a longer axis": Shape(tuple(sweep(("reno", "bic"), ("20ms", "50ms", "100ms", "200ms"), 2)), **_GRID),
    "three factors": Shape(
        tuple(
            Cell({"cc": cc, "rtt": rtt, "buffers": size})
            for cc, rtt, size in product(("reno", "bic"), ("20ms", "50ms", "100ms"), ("4MB", "50MB"))
        ),
        x="rtt",
        series="cc",
        further=("buffers",),
        column=_rtt,
        row=lambda f: f"{f['cc']}, buffers {f['buffers']}",
    ),
    "zip with names": Shape(
        _zip(
            {"case": "bic-1", "cc": "bic", "streams": "1"},
            {"case": "bic-4", "cc": "bic", "streams": "4"},
            {"case": "bic-16", "cc": "bic", "streams": "16"},
            {"case": "reno-16", "cc": "reno", "streams": "16"},
        ),
        series="case",
        column=_case,
    ),
    "zip without names": Shape(
        _zip(
            {"cc": "bic", "rtt": "20ms"},
            {"cc": "bic", "rtt": "100ms"},
            {"cc": "scalable", "rtt": "20ms"},
            {"cc": "reno", "rtt": "200ms"},
        ),
        x="rtt",
        series="cc",
        column=lambda f: f"{f['cc']}, rtt {f['rtt']}",
    ),
    "zip crossed with a list": Shape(
        tuple(
            Cell({"cc": cc, "case": case, "rtt": rtt, "buffers": size})
            for cc in ("reno", "bic")
            for case, rtt, size in (("near", "20ms", "4MB"), ("far", "200ms", "4MB"), ("deep", "200ms", "50MB"))
        ),
        series="cc",
        further=("case",),
        column=_cc,
        row=_case,
    ),
    "zip of a number and a name": Shape(
        _zip(*({"label": f"path {i}", "rtt": rtt} for i, rtt in enumerate(_RTTS))), x="rtt", column=_rtt
    ),
    "many names": Shape(
        tuple(Cell({"cc": f"cc{i}", "rtt": rtt}) for i in range(9) for rtt in ("20ms", "100ms")), **_GRID
    ),
    "odd names": Shape(
        tuple(sweep(_ODD, ("20ms", "100ms"))),
        x="rtt",
        series="cc",
        column=_rtt,
        row=lambda f: seen(f["cc"]),
    ),
    "long, similar names": Shape(
        tuple(sweep(_LONG, ("20ms", "100ms"))),
        x="rtt",
        series="cc",
        column=_rtt,
        row=lambda f: f"{{cc: cub…liness: {f['cc'][61]}, beta: 717, …",
    ),
    "names that look alike when joined": Shape(
        tuple(
            Cell({"rtt": rtt, "one": one, "two": two})
            for rtt in ("20ms", "100ms")
            for one, two in (("a, b", "c"), ("a", "b, c"), ("a", "c"))
        ),
        x="rtt",
        series="one",
        further=("two",),
        column=lambda f: f"{f['one']}, {f['two']}" + " (2)" * (f["one"] == "a" and f["two"] == "b, c") + f", {_rtt(f)}",
    ),
    "a grid with holes": Shape(
        _with(sweep(_CCS, _RTTS), {0: {"missing": True}, 4: {"failed": True}, 8: {"missing": True}}), **_GRID
    ),
    "a table is missing": Shape(
        _with(sweep(("reno", "bic"), ("20ms", "100ms")), {1: {"drop_tables": ("goodput", "flows")}}), **_GRID
    ),
    "interrupted": Shape(
        _with(sweep(_CCS, _RTTS), {i: {"missing": True} for i in (5, 7, 8)}),
        complete=False,
        x="rtt",
        series="cc",
        column=lambda f: f"{f['cc']}, rtt {f['rtt']}",
    ),
}
