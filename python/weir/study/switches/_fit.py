"""Executes the programme on a rig and fits a switch to what was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from weir.study.errors import StudyError
from weir.study.switches import _programme as programme
from weir.study.switches._arbiter import Evidence, Law, decide
from weir.study.switches._fitted import Class, Fitted, Pause, class_of
from weir.study.switches._iterations import ROUNDS, alike_by_delay, alike_by_share, rounds_note
from weir.study.switches._memory import CLOCKED, EXACT, Choices, MemoryFit, Resume, choices_of, fit_with_resume
from weir.study.switches._model import ModelRig
from weir.study.switches._rig import Observation, Rig, Stream, Trial, gap_ns
from weir.study.switches._service import (
    Runs,
    holds_of,
    overlaps,
    overtaken,
    ran_dry,
    runs_of_counts,
    service_of,
    weights_of,
)
from weir.study.switches._split import split
from weir.study.switches._states import States, packets_of, states_of
from weir.study.switches._yaml import flow_text, switch_words

__all__ = ["Class", "Fitted", "Pause", "class_of", "fit", "window_ns"]

_FIRST_NS, _MOST_NS = 60_000_000, 3_840_000_000
_MATCHING = ("islip", "pim")
_FOUR, _SIZES, _TWO, _ALL = "all inputs to one output", "two sizes", "two outputs", "all inputs to all outputs"
_RUNS, _LONGEST_NS = 400, 30_000_000_000
_RUNS_PARETO, _WINDOW_PARETO = 2000, 50
"""Runs of a law with a heavy tail, and runs in a window over which its rates are steady."""
_COUNTED_NS = 400_000
"""Interval in which packets are counted to find long runs, as the paper's."""
_COUNTED_FROM = 20
"""Intervals of a mean run from which on counts are enough."""
_DRY = 0.1
"""Share of a bursty arbiter's runs that end because an input has no packets, from which on its law is not known."""
_WIDE = 1538
_SMALL_BYTES = 100_000
"""Size of a queue up to which the smallest packets measure it."""
_SMALL_NS = 4_000_000
"""How long the inputs send such packets at 1 Gb/s, at least."""
_GRADED_NS = 20_000_000
"""How long the inputs send packets of several sizes at 1 Gb/s, at least."""
_AT_ONCE = (
    "packets came out sooner than they take on the wire, as between virtual interfaces: cut-through cannot be told "
    "from store-and-forward"
)
_JITTER_LATE = (
    "the time that the fabric takes was not measured: a sender was late in each trial of a slow stream; the fitted "
    "model takes none"
)
_CUT = (
    "the law of the bursts is not known: waiting inputs fill the memory that all share, and the one that is served "
    "runs out of packets before the arbiter's time is over; the fitted model has the runs as they were seen"
)

Tell = Callable[[str], None]


@dataclass
class _Bench:
    """A rig with what is known of it so far."""

    rig: Rig
    tell: Tell
    lead: dict[int, float] = field(default_factory=dict)
    jitter_ns: float = 0.0
    fabric_ns: float | None = None
    """The same from trials in which no sender was late, for the model; ``None`` if there are none."""
    cut: bool = False
    at_once: bool = False
    """Whether packets come out sooner than they take on the wire, as between virtual interfaces."""
    busy_ns: int = _FIRST_NS
    idle_ns: int = _FIRST_NS
    packets: int = 0

    def observe(self, trial: Trial, what: str) -> Observation:
        self.tell(what)
        seen = self.rig.observe(trial)
        self.packets += int(sum((received >= 0).sum() for received in seen.received))
        return seen

    def states(self, seen: Observation) -> States:
        return states_of(self.rig, seen, self.lead, self.jitter_ns)


def fit(rig: Rig, tell: Tell = lambda _: None) -> Fitted:
    """Characterises the switch of a rig.

    Args:
        rig: The rig; only :meth:`Rig.observe` is asked.
        tell: Gets the next step.

    Raises:
        StudyError: nothing comes out of the switch.
    """
    bench = _Bench(rig, tell)
    _calibrate(bench)
    pairs, others = _observed(bench)
    observed = {**pairs, **others}
    states = {name: bench.states(one) for name, one in observed.items()}
    law, runs, starved_ns = _law(bench, states, list(pairs))
    starvation = {name: _starvation(one) for name, one in pairs.items() if not one.late}
    full = _name(rig, 1.0, 1.0)
    if starved_ns is not None:
        starvation[full] = max(starvation.get(full, 0.0), starved_ns)
    if law.kind == "fifo" and rig.exact:
        starvation[f"{full} by one clock"] = _one_clock(bench)
    memory, resume, notes = _memory(bench, states, by_output=law.kind == "fifo")
    memory, resume = _with_room(memory, resume, max(bench.lead))
    pause = _pause(rig, observed, states)
    if pause is not None and not memory.bound:
        notes = (*notes, "PAUSE prevents losses: the memory is a lower bound")
    if memory.bound and memory.largest < 3 * _WIDE:
        notes = (
            *notes,
            "a queue holds fewer than 3 packets of 1500 B: arbiters look alike, and this one is not certain",
        )
    if bench.at_once:
        notes = (*notes, _AT_ONCE)
    if starvation and (late := [name for name, one in pairs.items() if one.late]):
        notes = (*notes, f"starvation leaves out trials in which a sender was late: {', '.join(late)}")
    if bench.fabric_ns is None:
        notes = (*notes, _JITTER_LATE)
    cut = law.kind == "bursty" and _cut(states[full])
    if cut:
        notes = (*notes, _CUT)
    forwarding = "cut_through" if bench.cut else "store_and_forward"
    found = Fitted(
        law, memory, resume, forwarding, round(bench.fabric_ns or 0.0), pause, starvation, bench.packets, notes, runs,
        bench.busy_ns, cut,
    )  # fmt: skip
    return _with_rounds(bench, found, observed) if law.kind in _MATCHING else found


def _observed(bench: _Bench) -> tuple[dict[str, Observation], dict[str, Observation]]:
    """The trials with two inputs, the first at full rate, and all others."""
    rig = bench.rig
    pairs = {_name(rig, 1.0, 1.0): _until_loss(bench)}
    for shares in ((1.0, 0.4), (0.8, 0.6)):
        name = _name(rig, *shares)
        pairs[name] = bench.observe(programme.pair(rig, *shares, 2 * bench.busy_ns, bench.idle_ns), name)
    more = {
        _FOUR: programme.four(rig, bench.busy_ns, 2 * bench.idle_ns),
        _SIZES: programme.sizes(rig, bench.busy_ns, bench.idle_ns),
        _TWO: programme.two_outputs(rig, 2 * bench.busy_ns, 2 * bench.idle_ns),
        _ALL: programme.all_outputs(rig, 3 * bench.busy_ns, 2 * bench.idle_ns),
    }
    return pairs, {name: bench.observe(trial, name) for name, trial in more.items() if trial is not None}


def _tells_small(bench: _Bench) -> bool:
    """Whether instants are exact enough for the smallest packets."""
    least = gap_ns(programme.LEAST + bench.rig.overhead_bytes, bench.rig.rate_bps)
    return bench.rig.exact and bench.jitter_ns <= least


def _small_packets(bench: _Bench, most: float) -> list[States]:
    """Trials with the smallest packets, which tell sizes of a small memory that large ones cannot tell apart.

    A queue has held up to ``most`` bytes.
    """
    rig, size = bench.rig, programme.LEAST
    fills = 4 * gap_ns(most * rig.inputs, rig.out_bps)
    busy = round(max(_SMALL_NS * programme.slowness(rig), fills))
    trials = {
        "one output": programme.four(rig, busy, busy, size),
        "two outputs": programme.two_outputs(rig, busy, busy, size),
        "all outputs": programme.all_outputs(rig, busy, busy, size),
    }
    named = {f"{size} B, {name}": trial for name, trial in trials.items()}
    return [bench.states(bench.observe(trial, name)) for name, trial in named.items() if trial is not None]


def _with_room(memory: MemoryFit, resume: Resume, packet: int) -> tuple[MemoryFit, Resume]:
    """A memory with room for a packet of ``packet`` bytes, since such passed: the fit may be off by a small packet."""
    short = max(packet - (memory.own + memory.pool), 0.0)
    own, pool = (memory.own, memory.pool + short) if memory.pool else (memory.own + short, 0.0)
    memory = replace(memory, own=own, pool=pool)
    return memory, replace(resume, bytes=min(resume.bytes, int(own + pool) - packet))


def _with_rounds(bench: _Bench, found: Fitted, observed: Mapping[str, Observation]) -> Fitted:
    """The switch with the rounds of its matching arbiter, or a note that they are not known."""
    rig = bench.rig
    if not rig.exact or _ALL not in observed or rig.inputs != ModelRig.inputs:
        note = f"rounds of the arbiter were not measured; the fitted model has {found.law.values['iterations']}"
        return replace(found, notes=(*found.notes, note))
    bench.tell("rounds of the arbiter")
    candidates = {rounds: _candidate(rig, found, rounds) for rounds in ROUNDS}
    alike = alike_by_share(observed[_ALL], candidates)
    if len(alike) > 1 and found.law.kind == "islip" and not found.jitter_ns:
        roomy = found.memory.largest > _SMALL_BYTES
        seen = bench.observe(programme.rounds(rig, 1500 if roomy else programme.LEAST), "rounds, bursts")
        alike = alike_by_delay(seen, {rounds: candidates[rounds] for rounds in alike})
    notes = (*found.notes, note) if (note := rounds_note(alike)) else found.notes
    return replace(found, law=replace(found.law, values={"iterations": alike[0]}), notes=notes)


def _candidate(rig: Rig, found: Fitted, rounds: int) -> ModelRig:
    """The fitted switch with this number of rounds."""
    text = flow_text(switch_words(replace(found, law=replace(found.law, values={"iterations": rounds}))))
    return ModelRig(text, rate_bps=rig.rate_bps, overhead_bytes=rig.overhead_bytes)


def _name(rig: Rig, *shares: float) -> str:
    """Rates."""
    return " + ".join(f"{share * rig.rate_bps / 1e6:.0f}" for share in shares) + " Mb/s"


def _calibrate(bench: _Bench) -> None:
    """Measures how long a packet takes through an idle switch."""
    rig = bench.rig
    for trial in programme.calibration(rig):
        (stream,) = trial.streams
        seen = bench.observe(trial, f"alone, {stream.ip_bytes} B")
        packets = packets_of(rig, seen)
        ahead = (packets.ended - packets.left)[np.isfinite(packets.left)]
        if not len(ahead):
            raise StudyError(
                f"no packet of {stream.ip_bytes} B came out of the switch; is every port connected and up?"
            )
        wire = stream.ip_bytes + rig.overhead_bytes
        # On a real clock a few packets are late because a processor was.
        late = float(ahead.min() if rig.exact else np.quantile(ahead, 0.1))
        bench.lead[wire] = float(ahead.max())
        spread = bench.lead[wire] - late
        jitter = spread if spread > 10 else 0.0
        bench.jitter_ns = max(bench.jitter_ns, jitter)
        if not seen.late:
            bench.fabric_ns = max(bench.fabric_ns or 0.0, jitter)
    large, least = max(bench.lead), min(bench.lead)
    # A packet that is cut through is ahead by the time of what comes after its first bytes.
    ahead_ns = bench.lead[large] - bench.lead[least]
    bench.at_once = bench.lead[large] > gap_ns(large, rig.rate_bps)
    bench.cut = not bench.at_once and ahead_ns > 0.5 * gap_ns(large - least, rig.rate_bps)


def _until_loss(bench: _Bench) -> Observation:
    """Two inputs at full rate, for long enough that the memory is full for most of the time."""
    slow = programme.slowness(bench.rig)
    busy = round(_FIRST_NS * slow)
    while True:
        trial = programme.pair(bench.rig, 1.0, 1.0, busy, busy)
        seen = bench.observe(trial, f"{_name(bench.rig, 1.0, 1.0)} for {busy / 1e6:.0f} ms")
        first = _first_loss(bench.rig, seen)
        if first is not None and first < 0.4 * busy:
            bench.busy_ns = min(busy, max(round(_FIRST_NS * slow) // 2, int(4 * first)))
            # A queue that fills in this time may be full for each input when they stop.
            bench.idle_ns = max(round(10_000_000 * slow), int(2.1 * first))
            return seen
        if seen.pauses or busy >= _MOST_NS * slow:
            bench.busy_ns, bench.idle_ns = round(_FIRST_NS * slow), busy
            return seen
        busy *= 4


def _first_loss(rig: Rig, seen: Observation) -> float | None:
    """When the first lost packet arrived, ns."""
    packets = packets_of(rig, seen)
    lost = packets.ended[np.isinf(packets.left)]
    return float(lost.min()) if len(lost) else None


def _law(bench: _Bench, states: Mapping[str, States], pairs: list[str]) -> tuple[Law, Runs | None, float | None]:
    """The arbiter; if it is bursty, also its runs, and the longest starvation if it took a longer trial."""
    rig = bench.rig
    tx = gap_ns(_WIDE, rig.out_bps)
    full, four = states[pairs[0]], states[_FOUR]
    runs = holds_of(full, 0, tx)
    evidence = Evidence(
        max((overtaken(states[name], 0) for name in (*pairs, _FOUR)), key=lambda one: one.share),
        service_of(full, 0),
        service_of(four, 0),
        service_of(states[_SIZES], 0),
        weights_of(four, 0),
        max(overlaps(states[_TWO], port, tx) for port in range(rig.inputs)) if _TWO in states else 1.0,
        runs,
        rig.exact,
    )
    law = decide(evidence)
    if law.kind != "bursty":
        return law, None, None
    starved = None
    for wanted in (_RUNS, _RUNS_PARETO):
        if len(runs.times_ns) >= wanted:
            continue
        if wanted == _RUNS or law.values["hold"]["kind"] == "pareto":
            runs, starved = _longer_runs(bench, runs, wanted)
            law = decide(Evidence(**{**vars(evidence), "runs": runs}))
    return law, runs, starved


def _cut(states: States) -> bool:
    """Whether runs of a bursty arbiter often end before its time is over, because the input has no packets."""
    count, dry = ran_dry(states, 0)
    return dry > 1 and dry >= _DRY * count


def _longer_runs(bench: _Bench, runs: Runs, wanted: int) -> tuple[Runs, float | None]:
    """The runs of a bursty arbiter in a trial that is long enough for so many, and the longest starvation, ns.

    ``None`` instead if a sender was late.
    """
    rig = bench.rig
    tx = gap_ns(_WIDE, rig.out_bps)
    mean = float(np.mean(runs.times_ns)) if len(runs.times_ns) >= 5 else 0.05 * _LONGEST_NS
    busy = int(min(max(wanted * mean, 500e6), _LONGEST_NS))
    trial = programme.pair(rig, 1.0, 1.0, busy, bench.idle_ns)
    if mean > _COUNTED_FROM * _COUNTED_NS:
        bench.tell(f"runs, for {busy / 1e9:.1f} s")
        counted = rig.counts(trial.streams, _COUNTED_NS, busy)
        bench.packets += int(counted.sum())
        runs = runs_of_counts(counted, _COUNTED_NS, tx)
        return runs, float(runs.times_ns.max(initial=0.0))
    longer = bench.observe(trial, f"runs, for {busy / 1e9:.1f} s")
    return holds_of(bench.states(longer), 0, tx), None if longer.late else _starvation(longer)


def _memory(
    bench: _Bench, states: Mapping[str, States], *, by_output: bool
) -> tuple[MemoryFit, Resume, tuple[str, ...]]:
    choices = choices_of(states.values(), by_output=by_output)
    if len(choices.held) == 0:
        held = max(int(one.before.sum(axis=1).max()) for one in states.values())
        note = f"nothing was dropped: the memory has at least {held} B"
        return MemoryFit("shared", 0.0, float(held), None, 0.0, bound=False), Resume(), (note,)
    most = float((choices.held + choices.wire)[choices.accepted].max(initial=0.0))
    if most <= _SMALL_BYTES and _tells_small(bench):
        choices = choices_of([*states.values(), *_small_packets(bench, most)], by_output=by_output)
    memory, resume, choices = _fitted_to(bench, choices)
    if memory.alpha is not None and by_output and _tells_small(bench):
        more = choices_of([*states.values(), *_graded(bench, most)], by_output=True)
        memory, resume, choices = _fitted_to(bench, more)
    memory = split(replace(choices, resume=float(resume.bytes)), memory)
    return memory, resume, tuple(doubt for doubt in (memory.doubt, resume.doubt) if doubt)


def _fitted_to(bench: _Bench, choices: Choices) -> tuple[MemoryFit, Resume, Choices]:
    exact = bench.rig.exact
    blur = bench.jitter_ns / gap_ns(_WIDE, bench.rig.out_bps)
    memory, resume = fit_with_resume(choices, EXACT if exact else CLOCKED, exact=exact, blur=blur)
    return memory, resume, choices


def _graded(bench: _Bench, most: float) -> list[States]:
    """Trials with packets of several sizes to one, two and three outputs, which tell the parts of a mixed memory.

    A queue has held up to ``most`` bytes.
    """
    rig, known = bench.rig, sorted(bench.lead)
    busy = round(max(_GRADED_NS * programme.slowness(rig), 4 * gap_ns(most * rig.inputs, rig.out_bps)))
    trials = {f"sizes, {outputs} outputs": programme.graded(rig, outputs, busy) for outputs in (1, 2, 3)}
    sizes = [size + rig.overhead_bytes for size in programme.GRADES]
    lead = {size: float(np.interp(size, known, [bench.lead[one] for one in known])) for size in sizes}
    return [
        states_of(rig, bench.observe(trial, name), lead, bench.jitter_ns)
        for name, trial in trials.items()
        if trial is not None
    ]


def _pause(rig: Rig, observed: Mapping[str, Observation], states: Mapping[str, States]) -> Pause | None:
    """The bounds of flow control, from what the inputs had in the switch when PAUSE frames were sent."""
    frame = gap_ns(84, rig.rate_bps)
    high: list[float] = []
    low: list[float] = []
    for name, seen in observed.items():
        if not seen.pauses:
            continue
        held = states[name]
        moments = np.concatenate([held.entered, held.departed_at])
        column = np.concatenate([held.arrived, held.departed])
        change = np.concatenate([np.where(held.accepted, held.wire, 0), -held.departed_wire])
        ports = np.array([port for port, _ in held.pairs])[column]
        order = np.argsort(moments, kind="stable")
        for port in range(rig.inputs):
            own = order[ports[order] == port]
            inside = np.cumsum(change[own])
            times = moments[own]
            for at, stop in [(at, stop) for at, of, stop in seen.pauses if of == port]:
                place = int(np.searchsorted(times, at - frame + 2.0)) - 1
                if place >= 0:
                    (high if stop else low).append(float(inside[place]))
    if not high or not low:
        return None
    least = max(1, round(float(np.median(low)) + _WIDE / 2))
    return Pause(max(least + 1, round(float(np.median(high)) - _WIDE / 2)), least)


def _starvation(seen: Observation) -> float:
    """Longest time between two packets of a stream at the output, ns, while it sends."""
    longest = 0.0
    for stream, out in zip(seen.trial.streams, seen.received, strict=True):
        came = out[(out >= 0) & (out <= stop_of(seen, stream.stop_ns))]
        edges = np.concatenate([[stream.start_ns], np.sort(came), [stream.stop_ns]])
        longest = max(longest, float(np.diff(edges).max()))
    return longest


def stop_of(seen: Observation, stop_ns: int) -> int:
    """When a stream stops, at most the end of the trial."""
    return min(stop_ns, seen.trial.end_ns)


def _one_clock(bench: _Bench) -> float:
    """The longest time, ns, without a packet of an input while both send at full rate by the same clock.

    Their packets then meet a full memory in the same order until the phases have drifted, and one of them is lost.
    """
    rig, interval = bench.rig, round(1_000_000 * programme.slowness(bench.rig))
    bench.tell(f"{_name(rig, 1.0, 1.0)} by one clock")
    streams = [Stream(port, 0, rig.rate_bps, 1500, 1000 * port, 1000 * interval) for port in (0, 1)]
    counted = rig.counts(streams, interval, 1000 * interval)
    bench.packets += int(counted.sum())
    edges = [np.flatnonzero(np.concatenate([[1], row, [1]])) for row in counted]
    return float(max(np.diff(edge).max() - 1 for edge in edges) * interval)


def window_ns(fitted: Fitted) -> int:
    """A time over which the rates of this switch are steady: the memory fills, and a bursty arbiter changes often."""
    law = fitted.law.values.get("hold", {})
    hold = law.get("mean_ns", 10_000_000 if fitted.law.kind == "pim" else 0)
    holds = _WINDOW_PARETO if law.get("kind") == "pareto" else 20
    return int(min(max(2 * fitted.busy_ns, 40_000_000, holds * hold), max(1_000_000_000, 2 * fitted.busy_ns)))
