"""``weir switch``."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import console, emit_json, error_console, examples, json_option
from weir.cli._on import on_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weir.language.units import Quantity
    from weir.study.switches import BetweenRig, Characterised, Fitted, ModelRig

__all__ = ["command"]

_EPILOG = examples(
    ("weir switch characterise dlink-dgs1216t", "characterise a preset"),
    ("weir switch characterise ./my-switch.yaml", "a switch that you describe, with the keys of `switch` in scenarios"),
    ("weir switch characterise --between eth1,eth2,eth3", "a real one between three interfaces of this host"),
)


_UNCOMPARED = "The model was not compared with the switch: weir was interrupted."


class _Amount(click.ParamType[int]):
    """A quantity as scenarios have it, in its base unit."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parses the text, which says what was expected if it is none."""
        try:
            return _quantities()[self.name].parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Amounts(click.ParamType[tuple[int, ...]]):
    """Quantities with commas between them, each once, in ascending order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._one = _Amount(name)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parses the words."""
        if isinstance(value, tuple):
            return value
        return tuple(sorted({self._one.convert(word.strip(), param, ctx) for word in str(value).split(",")}))


def _quantities() -> dict[str, Quantity]:
    """The kinds of quantities of options, by name, with what makes sense."""
    from weir.language.units import DELAY, DURATION, OVERHEAD, RATE, Quantity

    def of(kind: Quantity, name: str, example: str, least: str, most: str) -> Quantity:
        return Quantity(name, example, kind.units, kind.parse(most), most, kind.parse(least), least)

    found = [
        of(RATE, "rate of a port", "100Mbps", "1Mbps", "1Tbps"),
        of(DURATION, "time of an interval", "1ms", "10us", "1s"),
        of(DURATION, "time of a pair of rates", "12s", "1ms", "60s"),
        of(DURATION, "time of TCP flows", "400s", "100ms", "1h"),
        of(DELAY, "round-trip time", "50ms", "0ms", "10s"),
        OVERHEAD,
    ]
    return {one.name: one for one in found}


@click.group(epilog=_EPILOG)
def command() -> None:
    """Find out what is inside a switch, and fit a model of it."""


_CHARACTERISE = examples(
    ("weir switch characterise foundry-x424", "the page is runs/switch-foundry-x424/report.html"),
    ("weir switch characterise ./mine.yaml -o mine", "a file with the keys of a scenario's `switch`"),
    ("weir switch characterise fair --json", "print what was found as JSON"),
    ("weir switch characterise --between a/eth0,b/eth0,c/eth0 --rate 100Mbps", "interfaces in the namespaces a, b, c"),
    ("weir switch characterise --on nodes.yaml --between a1/eth1,a2/eth1,b1/eth1", "interfaces of machines, over SSH"),
)


@command.command(epilog=_CHARACTERISE)
@click.argument("model", metavar="[MODEL]", required=False)
@click.option(
    "--between",
    metavar="IF,IF,IF",
    help="Interfaces of this host at ports of a real switch, three or more; NAMESPACE/IF in a namespace. With --on: "
    "NODE/IF or NODE/NAMESPACE/IF. Needs root.",
)
@on_option
@click.option(
    "--rate",
    type=_Amount("rate of a port"),
    metavar="RATE",
    help="With --between: the ports' rate, 1 Mb/s to 1 Tb/s. Default: what the network cards say; virtual interfaces "
    "need it.",
)
@click.option(
    "--overhead",
    type=_Amount("overhead of a packet"),
    metavar="SIZE",
    default="38B",
    show_default=True,
    help="With --between: bytes that an IP packet has besides on the wire.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder. Default: runs/switch-NAME."
)
@click.option("--seed", type=click.IntRange(0, 2**53 - 1), default=1, show_default=True, help="Seed of random choices.")
@click.option(
    "--points",
    type=click.IntRange(2, 50),
    help="Rates of either input for the isolines; the paper has 50. Default: 20, or 4 with --between.",
)
@click.option(
    "--intervals",
    type=_Amounts("time of an interval"),
    metavar="TIME,TIME",
    help="Intervals over which the rates of two inputs have their deviation. Default: 1ms; the paper has 0.4ms and "
    "100ms, too.",
)
@click.option(
    "--time",
    "pair_ns",
    type=_Amount("time of a pair of rates"),
    metavar="TIME",
    help="How long each of five pairs of rates is measured, at least. Default: until the rates are steady, and twenty "
    "intervals if there are several; the paper has 12s.",
)
@click.option("--tcp/--no-tcp", "with_tcp", default=True, help="Compare TCP flows over switch and model, or do not.")
@click.option(
    "--tcp-time",
    "tcp_ns",
    type=_Amount("time of TCP flows"),
    metavar="TIME",
    help="How long two TCP flows share the port; the second begins after a twentieth of it. Default: 4s; the paper has "
    "400s.",
)
@click.option(
    "--tcp-rtt",
    "tcp_rtts",
    type=_Amounts("round-trip time"),
    metavar="TIME,TIME",
    help="Round-trip times of TCP without the queues. Default: 0ms; the paper has 50ms, too. With --between, more than "
    "0ms needs the kernel's netem.",
)
@click.option(
    "--paper",
    is_flag=True,
    help="As much as LIP 2006-38 measured: --points 50 --intervals 0.4ms,1ms,100ms --time 12s --tcp-rtt 0ms,50ms "
    "--tcp-time 400s. Options beside it count.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 20),
    help="With --between: how often a trial is executed again in which a sender was late. Default: 2.",
)
@click.option(
    "--anew", is_flag=True, help="With --between: execute all trials, also those that an interrupted call has left."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only results and problems, no progress.")
@json_option
def characterise(
    model: str | None,
    between: str | None,
    on: Path | None,
    rate: int | None,
    overhead: int,
    out: Path | None,
    seed: int,
    points: int | None,
    intervals: tuple[int, ...] | None,
    pair_ns: int | None,
    with_tcp: bool,
    tcp_ns: int | None,
    tcp_rtts: tuple[int, ...] | None,
    paper: bool,
    retries: int | None,
    anew: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Characterise the switch MODEL, or one between interfaces, from outside, and fit a model to what was seen.

    MODEL is a preset, or a file with the keys of `switch` in scenarios. weir sends constant rates and bursts through
    it, looks at the packets that come out, and says which class the switch is in, its arbiter, its memory, and how long
    an input starves. The folder then has switch.yaml, which a scenario uses by `switch: {file: switch.yaml}`, and
    report.html. If you interrupt it after the fit, switch.yaml stays, and says that the model was not compared. Trials
    of a real switch stay in the folder, too: the same command continues after them.

    With --between, the last interfaces receive, and all but the receiving one send. They need no addresses; whatever
    else uses them disturbs the measurement. A trial lasts as long as it takes, so that slow ports take minutes. TCP is
    that of this kernel, from hosts of its own behind the interfaces. With --on they belong to machines of an inventory,
    each of which sends and receives for its own.
    """
    from weir.study import switches

    if (model is None) == (between is None):
        both = f", not both: {model} and --between {between}" if model is not None else ""
        raise click.UsageError(f"expected a MODEL, or --between with three or more interfaces{both}")
    if between is None and (rate is not None or overhead != 38):
        raise click.UsageError("--rate and --overhead go with --between; a model has ports of 1 Gb/s")
    if between is None and retries is not None:
        raise click.UsageError("--retries goes with --between; senders of a model are never late")
    if between is None and anew:
        raise click.UsageError("--anew goes with --between; trials of a model are not kept")
    if between is None and on is not None:
        raise click.UsageError("--on goes with --between: the interfaces of its nodes at the switch")
    usual = switches.PAPER if paper else switches.Extent(points=4 if between else 20)
    extent = switches.Extent(
        points or usual.points,
        intervals or usual.intervals_ns,
        pair_ns or usual.pair_ns,
        tcp_rtts or usual.tcp_rtts_ns,
        tcp_ns or usual.tcp_ns,
    )
    again = switches.RETRIES if retries is None else retries

    def tell(said: str) -> None:
        if not quiet:
            error_console().print(said, style="dim", markup=False, highlight=False)

    with _model(str(model), seed) if between is None else _real(between, on, rate, overhead, again) as (name, rig):
        folder = out or Path("runs") / f"switch-{name}"
        written = folder / "switch.yaml"
        head = f"Fitted to measurements of {name} by `weir switch characterise --seed {seed}`."
        kept = None
        if isinstance(rig, switches.BetweenRig):
            rig.kept = kept = switches.KeptTrials(folder / "trials", anew=anew)
            if kept.until is not None:
                ended = f"{kept.until.astimezone():%Y-%m-%d %H:%M}"
                head = f"{head} {kept.left} executions of trials are of an interrupted call until {ended}."
                tell(
                    f"continues an interrupted call: {kept.left} executions until {ended} are kept; --anew removes them"
                )

        def keep(fitted: Fitted) -> None:
            folder.mkdir(parents=True, exist_ok=True)
            text = switches.yaml_text(fitted, [head, *(f"note: {note}" for note in fitted.notes), _UNCOMPARED])
            written.write_text(text, encoding="utf-8")

        found = switches.characterise(rig, name, seed=seed, extent=extent, with_tcp=with_tcp, tell=tell, keep=keep)
    page = switches.build(found, folder / "report.html")
    comments = [head, *(f"{word}: {text}" for word, text in switches.lines(found))]
    written.write_text(switches.yaml_text(found.fitted, comments), encoding="utf-8")
    if kept is not None:
        kept.remove()
    if as_json:
        emit_json(_document(found, written, page))
        return
    for word, said in switches.lines(found):
        console().print(f"{word + ':':<12} {said}", markup=False, highlight=False, soft_wrap=True)
    console().print(f"{written}, {page}: {_age_s():.0f} s", markup=False, highlight=False, soft_wrap=True)


def _age_s() -> float:
    """The time since this process began: its start and the report count, too."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _rig(model: str, seed: int) -> tuple[str, ModelRig]:
    """The name of a switch, and the switch with testers around it.

    Raises:
        click.UsageError: there is no such switch.
        ScenarioError: its file has mistakes.
    """
    from weir.scenario import ScenarioError
    from weir.study.switches import ModelRig, is_file

    here = "MODEL"
    word = json.dumps(model)
    try:
        if not is_file(model):
            return model, ModelRig(word, seed=seed, base=here)
        return Path(model).stem, ModelRig(f"{{file: {json.dumps(str(Path(model).absolute()))}}}", seed=seed, base=here)
    except ScenarioError as error:
        own = [problem.message for problem in error.problems if problem.file == here]
        if own:
            raise click.UsageError(f"{here}: {own[0]}") from error
        raise


@contextlib.contextmanager
def _model(model: str, seed: int) -> Iterator[tuple[str, ModelRig | BetweenRig]]:
    yield _rig(model, seed)


@contextlib.contextmanager
def _real(
    between: str, on: Path | None, rate_bps: int | None, overhead_bytes: int, retries: int
) -> Iterator[tuple[str, ModelRig | BetweenRig]]:
    """The name of a real switch, and the switch with testers at its ports."""
    from weir.study.switches import BetweenRig, over

    words = [word.strip() for word in between.split(",")]
    name = "between-" + "-".join(word.replace("/", ".") for word in words)
    if on is None:
        yield name, BetweenRig(words, rate_bps, overhead_bytes, retries)
        return
    with over(on, words, rate_bps, overhead_bytes, retries=retries) as rig:
        yield name, rig


def _document(found: Characterised, written: Path, page: Path) -> dict[str, Any]:
    from weir.study.switches import switch_words

    fitted, measured, model = found.fitted, found.measured, found.model
    return {
        "name": found.name,
        "seed": found.seed,
        "class": fitted.kind,
        "arbiter": {"kind": fitted.law.kind, **fitted.law.values, "because": fitted.law.why},
        "uncertain": fitted.law.doubt or None,
        "memory": {
            **asdict(fitted.memory),
            "largest_queue": fitted.memory.largest,
            "largest_queue_range": list(fitted.memory.largest_range),
        },
        "resume_bytes": fitted.resume.bytes,
        "resume_range": [fitted.resume.low, fitted.resume.high],
        "forwarding": fitted.forwarding,
        "jitter_ns": fitted.jitter_ns,
        "pause": None if fitted.pause is None else asdict(fitted.pause),
        "starvation_ns": dict(fitted.starvation_ns),
        "notes": list(fitted.notes),
        "switch": switch_words(fitted),
        "isolines": {
            "shares": list(measured.isolines.shares),
            "switch": measured.isolines.ratio.tolist(),
            "model": model.isolines.ratio.tolist(),
            "median_error": found.isoline_error,
            "median_error_at_full_rate": found.error(at_full_rate=True),
            "median_error_elsewhere": found.error(at_full_rate=False),
            "median_by_chance": found.chance,
            "median_by_phase": found.phase,
        },
        "rates": [{"switch": asdict(a), "model": asdict(b)} for a, b in zip(measured.rates, model.rates, strict=True)],
        "bursts": [
            {"switch": asdict(a), "model": asdict(b)} for a, b in zip(measured.bursts, model.bursts, strict=True)
        ],
        "tcp": [{"switch": asdict(a), "model": asdict(b)} for a, b in zip(measured.tcp, model.tcp, strict=True)],
        "no_tcp": found.no_tcp or None,
        "accuracy": None if found.senders is None else asdict(found.senders),
        "file": str(written),
        "page": str(page),
        "wall_s": found.wall_s,
    }
