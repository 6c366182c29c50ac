"""Numbers of steps, and the time that is left."""

from __future__ import annotations

from weir.study.switches import Extent, ModelRig, characterise
from weir.study.switches._steps import Phase, Steps, phases


class Clock:
    """A clock that stands still until it is told."""

    now_s = 0.0

    def __call__(self) -> float:
        """The time, s."""
        return self.now_s


def test_a_step_has_its_number_and_the_time_that_all_others_take_at_the_pace_so_far() -> None:
    told, clock = list[str](), Clock()
    step = Steps(told.append, [Phase((1.0, 3.0), False), Phase((6.0,) * 2, False)], clock)
    step("first")
    clock.now_s += 20.0
    step("second")  # 20 s for 1 s in the switch: 20 * (3 + 6 + 6)
    clock.now_s += 20.0
    step.next_phase()
    step("third")  # 40 s for 4 s: 10 * (6 + 6)
    assert told == ["1/4 first", "2/4 second (about 5 min left)", "3/4 third (about 2 min left)"]


def test_what_is_simulated_has_a_pace_of_its_own() -> None:
    told, clock = list[str](), Clock()
    step = Steps(told.append, [Phase((10.0,), False), Phase((10.0,) * 2, True)], clock)
    step("real")
    clock.now_s += 10.0
    step.next_phase()
    step("simulated")
    clock.now_s += 1.0
    step("simulated, too")
    assert told[1:] == ["2/3 simulated (about 20 s left)", "3/3 simulated, too (about 1 s left)"]


def test_a_phase_with_more_steps_or_fewer_than_planned_changes_the_total() -> None:
    told, clock = list[str](), Clock()
    step = Steps(told.append, [Phase((1.0,), False), Phase((1.0,) * 3, False), Phase((1.0,), False)], clock)
    step("one")
    step("one more")
    step.plan([Phase((1.0,) * 4, False), Phase((1.0,), False)])
    step.next_phase()
    step("only one of four")
    step.next_phase()
    step("last")
    assert told == ["1/5 one", "2/6 one more", "3/7 only one of four", "4/4 last"]


def test_the_estimate_of_a_simulated_switch_is_near_what_it_takes() -> None:
    """Times of the steps of dlink-dgs1216t: isolines and TCP simulate far more seconds than the rest, but faster."""
    told, clock = list[str](), Clock()
    rig, extent = ModelRig("{memory: 60kB}"), Extent(points=20)
    planned = phases(
        rig, extent, simulated=True, with_tcp=True, pairs=5, bursts=6, window_ns=120_000_000
    )  # fmt: skip
    step = Steps(told.append, planned, clock)
    shown = [0.25] * 5 + [0.13] * 6 + [0.17] * 20
    took = [[0.33] * len(planned[0].step_s), shown, shown, [0.35] * 4, [0.35] * 4]
    begun = []
    for one in took:
        for seconds in one:
            begun.append(clock.now_s)
            step("a step")
            clock.now_s += seconds
        step.next_phase()
    estimates = [
        (float(text.partition("about ")[2].split()[0]), clock.now_s - at)
        for at, text in zip(begun, told, strict=True)
        if " s left" in text
    ]
    assert len(estimates) == sum(at >= 5 for at in begun), "none is of minutes"
    assert all(0.5 * left - 1 <= said <= 2 * left + 1 for said, left in estimates), estimates


def test_the_last_step_of_a_characterisation_has_the_number_of_all() -> None:
    told = list[str]()
    characterise(ModelRig("{memory: 60kB}"), "small", extent=Extent(points=2), with_tcp=False, tell=told.append)
    numbers = [text.partition(" ")[0].split("/") for text in told]
    assert [int(number) for number, _ in numbers] == list(range(1, len(told) + 1))
    assert numbers[-1][1] == str(len(told))
    # Before the switch is known, only the trials that not every switch needs are missing: three with small packets, and
    # one by one clock.
    assert len(told) - int(numbers[0][1]) in range(5)
