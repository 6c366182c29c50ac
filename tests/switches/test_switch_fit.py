"""Switches that are characterised from outside, and the models fitted to them.

`benches/switches.py` does the same with many drawn models; here are a few, one of each kind.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from weir.study.errors import StudyError
from weir.study.switches import (
    SMALL_MEMORIES,
    USUAL_MEMORIES,
    ModelRig,
    Observation,
    Senders,
    Trial,
    Verdict,
    error_of,
    fit,
    flow_text,
    hidden,
    isolines,
    judged,
)
from weir.study.switches import _programme as programme
from weir.study.switches._arbiter import Evidence, decide, hold_law, hold_range
from weir.study.switches._memory import Choices, fit_memory, fit_with_resume
from weir.study.switches._service import Overtaking, Runs, Service, overtaken
from weir.study.switches._states import states_of
from weir.study.switches._words import range_text

SWITCHES = {
    "fifo": "{memory: {shared: {size: 300kB}}, arbiter: fifo}",
    "round_robin": "{memory: {partitioned: {size: 90kB}}, arbiter: round_robin, forwarding: cut_through}",
    "weighted": "{memory: {shared: {size: 400kB, alpha: 2}}, arbiter: {weighted: {weights: {h0: 3, h2: 2}}}}",
    "islip": "{memory: {mixed: {reserved: 20kB, shared: 300kB, alpha: 1}}, arbiter: islip}",
    "pim": "{memory: {shared: {size: 256KiB, alpha: 0.5}}, arbiter: pim, jitter: 5us}",
    "bursty": "{memory: {partitioned: {size: 200kB}}, arbiter: {bursty: {hold: {exponential: {mean: 1ms}}}}}",
}


@pytest.mark.parametrize("arbiter", SWITCHES)
def test_each_arbiter_is_known_by_what_comes_out(arbiter: str) -> None:
    rig = ModelRig(SWITCHES[arbiter])
    found = fit(rig)
    assert found.law.kind == arbiter
    memory = rig.switch["memory"]
    assert found.memory.kind == memory["kind"]
    expected = {"own": memory.get("reserved_bytes", 0), "pool": memory.get("shared_bytes", memory.get("bytes", 0))}
    if memory["kind"] == "partitioned":
        expected = {"own": memory["bytes"], "pool": 0}
    assert found.memory.own == pytest.approx(expected["own"], rel=0.05, abs=200)
    assert found.memory.pool == pytest.approx(expected["pool"], rel=0.05)
    assert (found.forwarding == "cut_through") == (arbiter == "round_robin")
    assert found.jitter_ns == pytest.approx(rig.switch["jitter_ns"], rel=0.1)


def test_weights_and_bursts_have_their_values() -> None:
    assert fit(ModelRig(SWITCHES["weighted"])).law.values["weights"] == {0: 3, 1: 1, 2: 2, 3: 1}
    hold = fit(ModelRig(SWITCHES["bursty"])).law.values["hold"]
    assert hold["kind"] == "exponential"
    assert hold["mean_ns"] == pytest.approx(1e6, rel=0.2)


def test_hysteresis_and_pause_have_their_bounds() -> None:
    memory = "memory: {shared: {size: 400kB}}"
    assert fit(ModelRig(f"{{{memory}, resume: 60kB}}")).resume.bytes == pytest.approx(60e3, rel=0.1)
    pause = fit(ModelRig(f"{{{memory}, arbiter: round_robin, pause: {{high: 60kB, low: 30kB}}}}"))
    assert pause.pause is not None
    assert pause.pause.high == pytest.approx(60e3, rel=0.03)
    assert pause.pause.low == pytest.approx(30e3, rel=0.05)
    # Nothing is lost, so that nobody knows how large the memory is.
    assert not pause.memory.bound
    assert any("at least" in note for note in pause.notes)


_MIXED = "mixed: {reserved: 4KiB, shared: 64KiB, alpha: 0.25}"
_WEIGHTS = "weighted: {weights: {h0: 1, h1: 16, h2: 2, h3: 4}}"


@pytest.mark.parametrize("forwarding", ["store_and_forward", "cut_through"])
def test_hysteresis_of_a_mixed_memory_is_found(forwarding: str) -> None:
    words = f"memory: {{{_MIXED}}}, arbiter: {{{_WEIGHTS}}}, forwarding: {forwarding}"
    found = fit(ModelRig(f"{{{words}, resume: 3KiB}}"))
    assert found.memory.kind == "mixed"
    assert found.resume.bytes == pytest.approx(3072, rel=0.05)
    assert found.memory.largest == pytest.approx(4096 + 65536 / 5, rel=0.05)


def test_a_mixed_memory_without_hysteresis_has_none() -> None:
    found = fit(ModelRig(f"{{memory: {{{_MIXED}}}, arbiter: {{{_WEIGHTS}}}}}"))
    assert (found.resume.bytes, found.notes) == (0, ())


def test_a_large_queue_with_weights_drains_before_a_trial_ends() -> None:
    """Packets that are still inside at the end would look dropped: this memory became a mixed one of 1e17 B."""
    weights = "weighted: {weights: {h0: 14, h1: 6, h2: 13, h3: 3}}"
    found = fit(ModelRig(f"{{memory: {{partitioned: {{size: 2MB}}}}, arbiter: {{{weights}}}, resume: 19715B}}"))
    assert (found.memory.kind, found.memory.own) == ("partitioned", pytest.approx(2e6, rel=0.01))
    assert found.resume.bytes == pytest.approx(19_715, rel=0.05)


@pytest.mark.parametrize(
    ("memory", "arbiter", "kind", "largest"),
    [
        ("shared: {size: 1538B}", "fifo", "shared", 1538),
        ("shared: {size: 6144B}", "fifo", "shared", 6144),
        ("partitioned: {size: 3000B}", "pim", "partitioned", 3000),
        ("mixed: {reserved: 2KiB, shared: 6KiB}", "round_robin", "mixed", 8192),
    ],
)
def test_small_packets_measure_a_small_memory(memory: str, arbiter: str, kind: str, largest: int) -> None:
    found = fit(ModelRig(f"{{memory: {{{memory}}}, arbiter: {arbiter}}}"))
    assert (found.memory.kind, found.memory.doubt) == (kind, "")
    assert found.memory.largest == pytest.approx(largest, rel=0.05)
    low, high = found.memory.largest_range
    assert low - 1 <= largest <= high + 1 or kind == "mixed"


def test_rounds_that_no_measurement_tells_are_noted() -> None:
    def rounds(memory: str, arbiter: str) -> tuple[int, list[str]]:
        found = fit(ModelRig(f"{{memory: {{{memory}}}, arbiter: {{{arbiter}}}}}"))
        return found.law.values["iterations"], [note for note in found.notes if note.startswith("rounds")]

    assert rounds("partitioned: {size: 30kB}", "islip: {iterations: 1}") == (1, [])
    assert rounds("shared: {size: 200kB}", "pim: {iterations: 1}") == (1, [])
    alike = "rounds of the arbiter: 2 and 4 look alike; the fitted model has 4"
    assert rounds("shared: {size: 300kB}", "islip: {iterations: 2}") == (4, [alike])


@pytest.mark.parametrize(("seed", "number", "between"), [(1402, 7, USUAL_MEMORIES), (1403, 5, SMALL_MEMORIES)])
def test_a_choice_at_random_is_known_in_a_small_memory(seed: int, number: int, between: tuple[float, float]) -> None:
    """Drawn switches that were once called bursty: four inputs have packets at once for 47 and 32 departures only."""
    draw = random.Random(f"{seed}/{number}")
    words = hidden(draw, between)
    assert "pim" in words["arbiter"]
    assert fit(ModelRig(flow_text(words), seed=draw.randrange(2**31))).law.kind == "pim"


def test_the_fitted_memory_holds_a_full_packet() -> None:
    """A drawn switch whose fit had 1534 B for packets of 1538 B, which no scenario may have."""
    draw = random.Random("1403/6")
    words = hidden(draw, SMALL_MEMORIES)
    found = fit(ModelRig(flow_text(words), seed=draw.randrange(2**31)))
    assert found.memory.own + found.memory.pool >= 1538


def test_the_fit_looks_at_nothing_but_trials() -> None:
    """A rig with nothing but what testers know gives the same result."""

    class Outside:
        exact = True
        inputs, outputs = ModelRig.inputs, ModelRig.outputs

        def __init__(self, rig: ModelRig) -> None:
            self.rate_bps, self.out_bps, self.overhead_bytes = rig.rate_bps, rig.out_bps, rig.overhead_bytes
            self.observe, self.counts, self.senders = rig.observe, rig.counts, rig.senders

    inside = fit(ModelRig(SWITCHES["pim"]))
    outside = fit(Outside(ModelRig(SWITCHES["pim"])))
    assert (inside.law, inside.memory) == (outside.law, outside.memory)


@pytest.mark.parametrize("number", range(2))
def test_drawn_switches_are_known(number: int) -> None:
    draw = random.Random(f"3/{number}")
    verdict: Verdict = judged(hidden(draw), seed=draw.randrange(2**31), points=5)
    assert verdict.right_class, verdict
    assert abs(verdict.buffer_error) < 0.1, verdict
    assert verdict.isoline_error < 0.03, verdict


def test_isolines_of_packets_that_were_sent_are_those_of_rates() -> None:
    """A real rig counts what its senders sent; with exact senders both are the same."""
    exact, clocked = ModelRig("fair"), ModelRig("fair")
    clocked.exact = False
    lines = [isolines(rig, 20_000_000, 4) for rig in (exact, clocked)]
    assert float(error_of(lines[1], lines[0], congested=False).max()) < 0.02
    assert lines[0].ratio[0, 1, 3] > 0.99  # a flow that asks for half of the port or less passes untouched
    assert lines[0].ratio[0, 3, 1] < 0.8


def test_a_switch_from_which_nothing_comes_is_told() -> None:
    rig = ModelRig("fair")
    seen = rig.observe

    def silent(trial: Trial) -> Observation:
        found = seen(trial)
        return replace(found, received=[np.full(len(times), -1) for times in found.received])

    rig.observe = silent  # type: ignore[method-assign]
    with pytest.raises(StudyError, match="no packet of 1500 B came out"):
        fit(rig)


def test_laws_of_bursts_by_likelihood() -> None:
    random_ = np.random.default_rng(5)
    packet = 12_000.0

    def law(times: np.ndarray) -> dict[str, object]:
        return hold_law(Runs(packet, np.ceil(times / packet) * packet))

    assert law(np.full(50, 1e6))["kind"] == "fixed"
    assert law(random_.exponential(1e6, 400))["kind"] == "exponential"
    pareto = law(4e5 * (1 + random_.pareto(2.0, 2000)))
    assert pareto["kind"] == "pareto"
    assert pareto["shape"] == pytest.approx(2.0, rel=0.1)


def test_the_simplest_memory_is_taken_that_explains_the_choices() -> None:
    random_ = np.random.default_rng(7)
    held, others = random_.uniform(0, 100e3, 4000), random_.uniform(0, 100e3, (4000, 1))
    wire = np.full(4000, 1538.0)

    def fitted(accepted: np.ndarray) -> object:
        never = np.zeros(4000, np.bool_)
        return fit_memory(Choices(held, others, wire, accepted, never, np.ones(4000)))

    alone = fitted(held + wire <= 50e3)
    assert (alone.kind, alone.own) == ("partitioned", pytest.approx(50e3, rel=0.01))  # type: ignore[attr-defined]
    shared = fitted(held + others[:, 0] + wire <= 90e3)
    assert (shared.kind, shared.pool, shared.alpha) == ("shared", pytest.approx(90e3, rel=0.01), None)  # type: ignore[attr-defined]
    limited = fitted(held < 0.5 * (150e3 - held - others[:, 0]))
    assert limited.kind == "shared"  # type: ignore[attr-defined]
    assert limited.alpha == pytest.approx(0.5, rel=0.05)  # type: ignore[attr-defined]


def memory_choices(held: np.ndarray, others: np.ndarray, accepted: np.ndarray, wire: float) -> Choices:
    never, even = np.zeros(len(held), np.bool_), np.ones(len(held))
    return Choices(held, others, np.full(len(held), wire), accepted, never, even)


def test_schemes_that_look_alike_are_told() -> None:
    """A queue that holds one packet, and one output port alone, have the same losses with any scheme."""
    held = np.array([0.0, 1538.0] * 50)
    few = fit_memory(memory_choices(held, np.zeros((100, 1)), held == 0, 1538.0))
    assert "fewer than 3 packets: all schemes of the memory look alike" in few.doubt
    held = np.linspace(0, 40e3, 500)
    alone = fit_memory(memory_choices(held, np.zeros((500, 1)), held + 538 <= 20e3, 538.0))
    assert "look alike here" in alone.doubt
    other = np.tile(np.array([[0.0], [9e3]]), (250, 1))
    both = fit_memory(memory_choices(held, other, held + other[:, 0] + 538 <= 20e3, 538.0))
    assert (both.kind, both.doubt) == ("shared", "")


def test_a_size_between_two_packets_is_its_middle_with_both_ends() -> None:
    held = np.arange(0, 8000, 1500.0).repeat(20)
    memory = fit_memory(memory_choices(held, np.zeros((len(held), 1)), held + 1500 <= 5000, 1500.0))
    assert memory.largest == 5250
    assert memory.largest_range == (4500, 6000)
    assert range_text(memory.largest, *memory.largest_range) == "4.5 to 6 kB"
    assert range_text(2960, 950, 3061) == "950 B to 3.061 kB"
    assert range_text(50_250, 50_200, 50_300) == "50.25 kB"


def test_hysteresis_that_nothing_shows_is_told() -> None:
    """After each loss the queue had been emptied before another packet came."""
    held = np.concatenate([np.linspace(0, 30e3, 300), np.zeros(50), np.full(50, 30e3)])
    after = np.arange(400) >= 300
    accepted = held + 1538 <= 30e3
    data = Choices(held, np.zeros((400, 1)), np.full(400, 1538.0), accepted, after, np.ones(400))
    memory, resume = fit_with_resume(data)
    assert memory.own == pytest.approx(30e3, abs=200)
    assert resume.bytes == 0
    assert resume.doubt.startswith("hysteresis could not be told: after a loss, a queue may need up to 28")


def test_a_heavy_tail_has_its_interval() -> None:
    low, high, least, most = hold_range({"kind": "pareto", "mean_ns": 2e6, "shape": 1.6}, 400) or (0, 0, 0, 0)
    assert (least, most) == (pytest.approx(1.443, abs=1e-3), pytest.approx(1.757, abs=1e-3))
    assert (low, high) == (pytest.approx(1.74e6, rel=0.01), pytest.approx(2.44e6, rel=0.01))
    assert hold_range({"kind": "fixed", "mean_ns": 2e6}, 400) is None
    many = hold_range({"kind": "exponential", "mean_ns": 1e6}, 40_000)
    assert many == (pytest.approx(0.99e6, rel=0.001), pytest.approx(1.01e6, rel=0.001), 0, 0)


def test_a_heavy_tail_gets_more_runs() -> None:
    arbiter = "{bursty: {hold: {pareto: {mean: 200us, shape: 1.6}}}}"
    found = fit(ModelRig(f"{{memory: {{partitioned: {{size: 300kB}}}}, arbiter: {arbiter}}}"))
    assert found.runs is not None
    assert len(found.runs.times_ns) >= 1900
    assert found.law.values["hold"]["shape"] == pytest.approx(1.6, rel=0.1)


def test_times_of_real_senders_have_fitting_units() -> None:
    senders = Senders(3, 0.99, 0.7, 700.0, 2_079_576_000.0, 45_000)
    assert "packets left 700 ns late at the median, 2.08 s in the worst 1 %" in senders.text
    assert "clocks of nodes within 45 us" in senders.text


def evidence(share: float, *, exact: bool) -> Evidence:
    """A port that serves two inputs in turn, of whose packets this share overtook one of the other input."""
    service = Service((0, 1), 1000, 0.1, (0.5, 0.5), 0.3, (1.0, 1.0))
    runs = Runs(1e4, np.array([1e4, 1e4]))
    return Evidence(Overtaking(share, 5e5), service, service, service, {}, 1.0, runs, exact)


def test_a_real_clock_leaves_a_doubt_where_some_packets_overtake_others() -> None:
    """A switch in a process takes packets late and by input; only what no such switch does is another arbiter."""
    kinds = [decide(evidence(share, exact=False)) for share in (0.001, 0.01, 0.1, 0.4, 0.9)]
    assert [one.kind for one in kinds] == ["fifo", "fifo", "fifo", "round_robin", "round_robin"]
    assert [bool(one.doubt) for one in kinds] == [False, False, True, True, False]
    assert kinds[1].why.startswith("1.0% of the packets overtook one")
    assert "10.0% of the packets overtook one" in kinds[2].doubt
    assert "by 500 us at the median" in kinds[2].doubt
    exact = [decide(evidence(share, exact=True)) for share in (0.001, 0.05)]
    assert [(one.kind, one.doubt) for one in exact] == [("fifo", ""), ("round_robin", "")]


@pytest.mark.parametrize("arbiter", SWITCHES)
def test_over_half_of_the_packets_overtake_others_with_any_arbiter_but_fifo(arbiter: str) -> None:
    """So less on a real clock is a fifo's disorder."""
    rig = ModelRig(SWITCHES[arbiter])
    trials = [programme.pair(rig, 1.0, 0.4, 60_000_000, 60_000_000), programme.four(rig, 60_000_000, 60_000_000)]
    share = max(overtaken(states_of(rig, rig.observe(trial), {}, 5_000.0), 0).share for trial in trials)
    assert share == 0.0 if arbiter == "fifo" else share > 0.5


@pytest.mark.parametrize(("alpha", "cut"), [("", True), (", alpha: 1", False)])
def test_bursts_that_a_full_memory_ends_do_not_tell_their_law(alpha: str, *, cut: bool) -> None:
    arbiter = "{bursty: {hold: {exponential: {mean: 20ms}}}}"
    found = fit(ModelRig(f"{{memory: {{shared: {{size: 200kB{alpha}}}}}, arbiter: {arbiter}}}"))
    assert found.cut == cut


@pytest.mark.parametrize(
    ("own", "pool", "alpha", "known"), [(12_159, 104_270, 0.25, True), (20_000, 300_000, 0.12, False)]
)
def test_the_parts_of_a_mixed_memory_are_known_or_a_note_says_between_which_sizes_they_are(
    own: int, pool: int, alpha: float, *, known: bool
) -> None:
    memory = f"{{mixed: {{reserved: {own}B, shared: {pool}B, alpha: {alpha}}}}}"
    found = fit(ModelRig(f"{{memory: {memory}, arbiter: fifo}}"))
    assert found.memory.largest == pytest.approx(own + pool * alpha / (1 + alpha), rel=0.01)
    assert found.memory.own == pytest.approx(own, rel=0.05 if known else 0.4)
    assert found.memory.pool == pytest.approx(pool, rel=0.05 if known else 0.6)
    assert any("parts are not known within 10%" in note for note in found.notes) != known
