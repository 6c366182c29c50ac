"""Real senders that are late: their trials are repeated, and the model gets the packets as they were sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weir.study.switches import (
    BetweenRig,
    Extent,
    Isolines,
    ModelRig,
    Observation,
    Stream,
    Trial,
    characterise,
    error_of,
    fit,
    lines,
)
from weir.study.switches._rig import as_sent
from weir.study.switches._tcp import Tcp

MS = 1_000_000
SWITCH = "{memory: {partitioned: {size: 75kB}}, arbiter: fifo}"


def test_a_model_sends_each_packet_at_its_instant() -> None:
    rig = ModelRig(SWITCH)
    instants = np.array([5_000, 40_000, 52_400, 3_000_000, 3_012_400], np.int64)
    trial = Trial((Stream(0, 0, 1e9, 1500, 0, 5 * MS, instants), Stream(1, 0, 1e8, 1500, 0, 5 * MS)), 10 * MS)
    seen = rig.observe(trial)
    assert seen.sent[0].tolist() == instants.tolist()
    assert len(seen.sent[1]) == pytest.approx(5 * MS * 1e8 / 8e9 / 1538, abs=1)
    assert (seen.received[0] > instants).all()


def test_packets_that_never_left_are_not_sent_again() -> None:
    trial = Trial((Stream(0, 0, 1e9, 1500, 0, MS),), MS)
    seen = Observation(trial, [np.array([1, 2, 3])], [np.array([False, True, False])], [np.array([9, -1, -1])])
    (stream,) = as_sent(seen).streams
    assert stream.instants is not None
    assert stream.instants.tolist() == [1, 3]


class Stalled:
    """A rig with a real clock: the first sender of each trial stops for a fifth of it."""

    exact = False
    inputs, outputs = ModelRig.inputs, ModelRig.outputs

    def __init__(self) -> None:
        self.model = ModelRig(SWITCH)
        self.rate_bps, self.out_bps = self.model.rate_bps, self.model.out_bps
        self.overhead_bytes, self.senders = self.model.overhead_bytes, self.model.senders

    def observe(self, trial: Trial) -> Observation:
        """See :class:`weir.study.switches.Rig`."""
        late = [self._late(stream) if number == 0 else stream for number, stream in enumerate(trial.streams)]
        return self.model.observe(replace(trial, streams=tuple(late)))

    def counts(self, *_: Any) -> Any:
        """See :class:`weir.study.switches.Rig`."""
        raise AssertionError("no TCP flow is sent")

    @staticmethod
    def _late(stream: Stream) -> Stream:
        gap = (stream.ip_bytes + 38) * 8e9 / stream.wire_bps
        times = np.arange(stream.start_ns, stream.stop_ns, gap)
        length = stream.stop_ns - stream.start_ns
        kept = (times < stream.start_ns + 0.6 * length) | (times >= stream.start_ns + 0.8 * length)
        return replace(stream, instants=times[kept].astype(np.int64))


def test_the_fitted_model_is_compared_under_the_packets_as_they_were_sent() -> None:
    found = characterise(Stalled(), "stalled", extent=Extent(points=3), with_tcp=False)
    assert found.fitted.memory.largest == pytest.approx(75e3, rel=0.05)
    assert found.isoline_error < 0.01
    assert found.phase is not None
    elsewhere = found.error(at_full_rate=False)
    assert elsewhere is not None
    assert elsewhere < 0.01
    # The same rates without the stop would be off: the other input has the port alone meanwhile.
    asked = characterise(ModelRig(SWITCH), "asked", extent=Extent(points=3), with_tcp=False)
    congested = found.measured.isolines.congested
    off = np.abs(asked.measured.isolines.ratio / found.measured.isolines.ratio - 1)[:, congested]
    assert float(np.median(off)) > 0.05
    for measured, model in zip(found.measured.rates, found.model.rates, strict=True):
        assert model.mean == pytest.approx(measured.mean, rel=0.02)
        assert model.starvation_ms == pytest.approx(measured.starvation_ms, rel=0.1, abs=0.1)


class Pausing(ModelRig):
    """A switch with jitter whose first sender pauses for a fifth of chosen trials, which are then late."""

    exact = False

    def __init__(self, *late: int) -> None:
        """Trials by their number, from 0; without any, all of them."""
        super().__init__("{memory: {partitioned: {size: 75kB}}, arbiter: fifo, jitter: 5us}")
        self.chosen, self.number = late, -1

    def observe(self, trial: Trial) -> Observation:
        """See :class:`weir.study.switches.Rig`."""
        self.number += 1
        if self.chosen and self.number not in self.chosen:
            return super().observe(trial)
        first, *others = trial.streams
        return replace(super().observe(replace(trial, streams=(Stalled._late(first), *others))), late=True)


def test_a_trial_with_a_late_sender_gives_no_starvation() -> None:
    # After three slow streams, the fourth trial has two inputs at full rate; the first one pauses for 12 ms.
    asked = fit(Pausing(99))
    found = fit(Pausing(3))
    assert "1000 + 1000 Mb/s" in asked.starvation_ns
    assert set(asked.starvation_ns) - set(found.starvation_ns) == {"1000 + 1000 Mb/s"}
    assert max(found.starvation_ns.values()) < 5 * MS
    assert "starvation leaves out trials in which a sender was late: 1000 + 1000 Mb/s" in found.notes
    assert not any("late" in note for note in asked.notes)


def test_without_a_trial_in_time_starvation_and_jitter_are_not_told() -> None:
    found = characterise(Pausing(), "late", extent=Extent(points=2), with_tcp=False)
    assert found.fitted.starvation_ns == {}
    assert found.fitted.jitter_ns == 0
    said = dict(lines(found))
    assert said["starvation"].startswith("cannot be told: a sender was late")
    assert any("the time that the fabric takes was not measured" in note for note in found.fitted.notes)


class Slow(BetweenRig):
    """Ports of no switch, whose only sender needs this part more of its time, attempt by attempt."""

    def __init__(self, parts: list[float], retries: int) -> None:
        self._parts = iter(parts)
        self.rate_bps, self.overhead_bytes, self.retries, self.clock_error_ns = 1e9, 38, retries, 0
        self.interfaces, self.inputs, self.kept = [], 3, None
        self.accuracy, self.trials, self.repeated, self.late = [], 0, 0, 0
        self.attempts = 0

    def _run(self, trial: Trial) -> Mapping[str, Any]:  # type: ignore[override]
        self.attempts += 1
        (stream,) = trial.streams
        gap = (stream.ip_bytes + 38) * 8e9 / stream.wire_bps
        due = np.arange(stream.start_ns, stream.stop_ns, gap)
        sent = due * (1 + next(self._parts))
        times = sent.astype(np.int64).tolist()
        return {"sent": [times], "due": [due.astype(np.int64).tolist()], "refused": [[]], "received": [[]]}


@pytest.mark.parametrize(
    ("parts", "attempts", "repeated", "late", "achieved"),
    [
        ([0.001, 0.5], 1, 0, 0, 1 / 1.001),
        ([0.05, 0.005], 2, 1, 0, 1 / 1.005),
        ([0.05, 0.02, 0.3], 3, 1, 1, 1 / 1.02),
    ],
)
def test_a_trial_with_a_late_sender_is_repeated_and_the_best_attempt_counts(
    parts: list[float], attempts: int, repeated: int, late: int, achieved: float
) -> None:
    rig = Slow(parts, retries=2)
    seen = rig.observe(Trial((Stream(0, 1, 5e8, 1500, 0, 100 * MS),), 200 * MS))
    said = rig.summary
    assert seen.late == bool(late)
    assert (rig.attempts, said.trials, said.repeated, said.late) == (attempts, 1, repeated, late)
    assert said.streams == 1
    assert said.worst == pytest.approx(achieved, rel=1e-4)
    assert ("1 of 1 trials were repeated" in said.text) == bool(repeated)
    assert ("in 1 of them one still was" in said.text) == bool(late)


def test_the_phase_of_two_inputs_decides_who_is_dropped_only_where_one_sends_at_full_rate() -> None:
    found = characterise(Stalled(), "phases", extent=Extent(points=5), with_tcp=False)
    (said,) = [text for name, text in lines(found) if name == "fit"]
    assert "where an input sends at full rate" in said
    assert found.phase is not None
    assert found.phase > 0.02 > found.isoline_error


def test_errors_are_told_apart_where_an_input_sends_at_full_rate() -> None:
    measured = Isolines((0.4, 0.8, 1.0), np.full((2, 3, 3), 0.5))
    ratio = np.where(measured.at_full_rate, 0.6, 0.51) * np.ones((2, 1, 1))
    fitted = Isolines(measured.shares, ratio)
    assert error_of(fitted, measured, congested=True, at_full_rate=True) == pytest.approx([0.2] * 10)
    assert error_of(fitted, measured, congested=True, at_full_rate=False) == pytest.approx([0.02] * 6)
    assert len(error_of(fitted, measured, congested=True)) == 16


def test_which_of_two_flows_is_faster_is_chance_so_the_faster_one_is_first() -> None:
    flows = Tcp("bic", False, (1.2, 36.1), (5.0, 7.0), (3, 0))
    assert flows.faster_first == Tcp("bic", False, (36.1, 1.2), (7.0, 5.0), (0, 3))
    assert flows.faster_first.faster_first == flows.faster_first
    assert replace(flows, rtt_ns=50 * MS).name == "bic without SACK at 50 ms"
