"""The central relative clock: offset, drift, and instants corrected by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from weir.hosts.messages import Frame
from weir.hosts.place import Clock
from weir.methods.hosts._clock import fit
from weir.methods.hosts._times import Times

_S = 1_000_000_000
_AHEAD = 123_456_789_012_345
_DRIFT = 40e-6


def reading(here_ns: int, error_ns: int = 50_000, off_ns: int = 0) -> Clock:
    """A reading of a clock that is ahead and gains 40 us a second."""
    return Clock(here_ns, here_ns + _AHEAD + round(_DRIFT * here_ns) + off_ns, error_ns)


def test_offset_and_drift_are_those_of_the_clock() -> None:
    found = fit([reading(second * _S, off_ns=20_000 * (-1) ** second) for second in range(60)])
    assert found.drift == pytest.approx(_DRIFT, abs=1e-6)
    assert found.there(100 * _S) == pytest.approx(reading(100 * _S).reading_ns, abs=50_000)
    assert found.error_ns == pytest.approx(52_000 * 5 / 3, rel=0.02), "of the end of a line through equal readings"
    assert found.residual_ns == pytest.approx(20_000, rel=0.05)


def test_readings_that_waited_behind_traffic_do_not_count() -> None:
    late = [reading(second * _S + 5, error_ns=20_000_000, off_ns=15_000_000) for second in range(60)]
    found = fit([*(reading(second * _S) for second in range(60)), *late])
    assert found.readings == 60
    assert found.there(30 * _S) == pytest.approx(reading(30 * _S).reading_ns, abs=1000)


@pytest.mark.parametrize("late_ns", [30_000, 70_000, 150_000])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_error_bounds_delays_that_turn_round_when_a_machine_becomes_busy(late_ns: int, sign: int) -> None:
    """Many good readings before, then ones whose one way waits, at last the other: the worst for the line's end."""
    before = [reading(n * 1_000_000, error_ns=40_000, off_ns=-40_000 * sign) for n in range(18)]
    after = [reading(n * _S, error_ns=late_ns, off_ns=late_ns * sign) for n in range(5, 9)]
    found = fit([*before, *after])
    assert found.drift != 0
    off_ns = abs(found.there(found.at_ns) - reading(found.at_ns).reading_ns)
    assert off_ns <= found.error_ns <= 1.2 * off_ns + 5_000, "a bound, and one that is reached"


def test_one_way_that_always_waits_is_within_the_error() -> None:
    """All readings are off by the same: their agreement says nothing about it."""
    found = fit([reading(n * _S, error_ns=50_000, off_ns=50_000) for n in range(20)])
    assert found.residual_ns < 1
    assert 50_000 <= abs(found.there(19 * _S) - reading(19 * _S).reading_ns) + 1 <= found.error_ns


def test_a_moment_is_too_short_for_a_drift() -> None:
    found = fit([reading(n * 1_000_000, off_ns=40_000 * (n % 2)) for n in range(9)])
    assert found.drift == 0
    with pytest.raises(ValueError, match="no reading"):
        fit([])


@dataclass
class _Member:
    """What :class:`Times` needs of a node."""

    name: str
    readings: list[Clock] = field(default_factory=list)


def test_instants_are_corrected_by_what_the_clock_gained() -> None:
    member = _Member("a", [reading(n * 1_000_000) for n in range(9)])
    begin_ns = _S
    times = Times(begin_ns, [member])  # type: ignore[list-item]
    told = times.start(member)  # type: ignore[arg-type]
    true_start = told["reading_ns"] + told["after_ns"]
    member.readings += [reading(second * _S) for second in range(1, 61)]
    times.finish()

    # By its own clock, the node begins 40 us before: the drift was not known then.
    began_ns = (true_start - _AHEAD) / (1 + _DRIFT)
    assert began_ns - begin_ns == pytest.approx(-40_000, abs=2000)
    stats = {"a.start_late_ns": 1000.0}
    assert times.to_json(stats)["nodes"]["a"]["start_off_ns"] == pytest.approx(-39_000, abs=2000)

    null = np.iinfo(np.uint64).max
    counted = np.array([0, 50 * _S, null], np.uint64)
    frame = Frame("flows", {"start_ns": counted, "flow": np.arange(3)})
    moved = times.corrected("a", frame).columns["start_ns"]
    assert moved[0] == 0, "no instant is before the begin"
    assert int(moved[1]) - 50 * _S == pytest.approx(-40_000 - 50 * 40_000, abs=5000)
    assert moved[2] == null
    assert list(moved.dtype.str) == list(counted.dtype.str)


def test_a_large_skew_of_starts_is_told() -> None:
    members = [SimpleNamespace(name=name, readings=[reading(n * 1_000_000) for n in range(9)]) for name in "ab"]
    times = Times(_S, members)  # type: ignore[arg-type]
    times.finish()
    assert not [*times.warnings({"a.start_late_ns": 0.0, "b.start_late_ns": 5e6})]
    (said,) = times.warnings({"a.start_late_ns": 0.0, "b.start_late_ns": 25e6})
    assert "within 25.0 ms" in said
    assert "b the last" in said
