"""The order of departures, and what it says about the arbiter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weir.study.switches._states import States

__all__ = [
    "Overtaking",
    "Runs",
    "Service",
    "holds_of",
    "overlaps",
    "overtaken",
    "ran_dry",
    "runs_of_counts",
    "service_of",
    "weights_of",
]

_MOST_WEIGHT = 20
_SHORT, _LONG, _LONGEST = 16, 64, 4096
"""Departures of a stretch."""
_ENOUGH = 30
"""Runs from which on stretches count for themselves."""


@dataclass(frozen=True)
class Service:
    """Departures of an output port while all its inputs had packets."""

    pairs: tuple[int, ...]
    """The pairs of the port, as in the states."""
    count: int
    stay: float
    """Share of departures after one of the same input."""
    shares: tuple[float, ...]
    """Of each pair, in packets."""
    spread: float
    """How far two inputs part from their shares within a stretch, in units of what random choices do."""
    runs: tuple[float, ...]
    """By pair: mean number of departures without one of another input."""


@dataclass(frozen=True)
class Overtaking:
    """Departures that overtook an accepted packet which had come earlier, by more than the fabric's time."""

    share: float
    """Of the departures while several inputs had packets."""
    median_ns: float
    """By how much they had come later than the earliest packet that they overtook."""


@dataclass(frozen=True)
class Runs:
    """Times for which an output port kept to one input."""

    packet_ns: float
    times_ns: npt.NDArray[np.float64]


def overtaken(states: States, output: int) -> Overtaking:
    """The departures of an output port that overtook others."""
    chosen = _of_output(states, output)
    held = (states.at_departure[:, _columns(states, output)] > 0).sum(axis=1) > 1
    entered = states.departed_entered[chosen]
    # The last packet of those that leave later, from behind.
    earliest = np.minimum.accumulate(entered[::-1])[::-1]
    later = entered - earliest
    late = later > states.late + 1.0
    count = int(held[chosen].sum())
    return Overtaking(float(late.sum() / count) if count else 0.0, float(np.median(later[late])) if late.any() else 0.0)


def service_of(states: States, output: int) -> Service:
    """The service of an output port while all its inputs had packets."""
    columns = _columns(states, output)
    busy, pair = _busy(states, output)
    # Two departures count as neighbours only if all inputs had packets at both.
    both = busy[1:] & busy[:-1]
    stay = float((pair[1:] == pair[:-1])[both].mean()) if both.any() else 0.0
    inside = pair[busy]
    shares = [float((inside == column).mean()) if len(inside) else 0.0 for column in columns]
    runs = [_mean_run(pair, busy, column) for column in columns]
    return Service(tuple(columns), int(both.sum()), stay, tuple(shares), _spread(states, output), tuple(runs))


def _columns(states: States, output: int) -> list[int]:
    return [number for number, (_, of) in enumerate(states.pairs) if of == output]


def _of_output(states: States, output: int) -> npt.NDArray[np.bool_]:
    return np.isin(states.departed, _columns(states, output))


def _busy(states: States, output: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """By departure of the port: whether all its inputs had packets that surely were there, and its pair."""
    columns = _columns(states, output)
    chosen = _of_output(states, output)
    held = states.at_departure[chosen][:, columns]
    busy: npt.NDArray[np.bool_] = np.all(held > 0, axis=1)
    return busy, states.departed[chosen]


def _stretches(busy: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Begin and end of the stretches of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], busy.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _mean_run(pair: npt.NDArray[np.int64], busy: npt.NDArray[np.bool_], column: int) -> float:
    own = (pair == column) & busy
    begins = int((own[1:] & ~(own[:-1] & busy[:-1])).sum()) + int(own[0] if len(own) else 0)
    return float(own.sum() / begins) if begins else 0.0


def _sequences(states: States, output: int) -> list[tuple[int, int, npt.NDArray[np.bool_], npt.NDArray[np.int64]]]:
    """By two pairs of the port: their departures while both had packets, one after another.

    Each has the numbers of both, whether a departure is of the second, and its bytes. Other inputs may be served
    between.
    """
    columns = _columns(states, output)
    chosen = _of_output(states, output)
    held, pair, wire = states.at_departure[chosen], states.departed[chosen], states.departed_wire[chosen]
    found = []
    for place, first in enumerate(columns):
        for second in columns[place + 1 :]:
            both = (held[:, first] > 0) & (held[:, second] > 0)
            for begin, end in _stretches(both):
                own = np.isin(pair[begin:end], (first, second))
                found.append((first, second, pair[begin:end][own] == second, wire[begin:end][own]))
    return found


def _spread(states: States, output: int) -> float:
    """The median, over stretches of departures of two inputs, of how far they part from their shares.

    In units of the standard deviation of as many random choices: 1.2 if each departure is one, half of that or less if
    the order is determined, more if one input is served for long. A stretch has 64 departures, or so many that the
    input with fewer has twelve, or less if there are no such; those without both inputs say nothing.
    """
    sequences = [one for *_, one, _ in _sequences(states, output) if len(one) >= _SHORT]
    for shorter in (1, 2, 4):
        found = []
        for sequence in sequences:
            share = float(sequence.mean())
            rarer = max(min(share, 1 - share), 1e-3)
            length = max(_SHORT, int(min(max(_LONG, 12 / rarer), _LONGEST)) // shorter)
            found += [_parted(sequence[at : at + length]) for at in range(0, len(sequence) - length + 1, length)]
        known = [value for value in found if np.isfinite(value)]
        if known:
            return float(np.median(known))
    return np.nan


def _parted(part: npt.NDArray[np.bool_]) -> float:
    """How far two inputs part from their shares; little if an order keeps them within a packet and a half."""
    share = float(part.mean())
    if share in (0.0, 1.0):
        return np.nan
    line = np.cumsum(part - share)
    width = float(line.max() - line.min())
    return min(width / float(np.sqrt(share * (1 - share) * len(part))), 0.4 * width)


def weights_of(states: States, output: int) -> dict[int, int]:
    """Weights by input, from the bytes that each two got while both had packets.

    The least weight is as small as possible with whole weights up to 20 that are within 3 % of the shares. Empty if two
    inputs cannot be compared.
    """
    columns = _columns(states, output)
    got = np.zeros((len(columns), len(columns)))
    for first, second, of_second, wire in _sequences(states, output):
        a, b = columns.index(first), columns.index(second)
        # Whole turns: from one departure of the second to another, so that neither is cut.
        marks = np.flatnonzero(of_second)
        if len(marks) > 1:
            inside = slice(int(marks[0]), int(marks[-1]))
            got[a, b] += wire[inside][~of_second[inside]].sum()
            got[b, a] += wire[inside][of_second[inside]].sum()
    return _whole(_shares(got), [states.pairs[column][0] for column in columns])


def _shares(got: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The shares with ratios nearest to those of ``got``, by least squares of logarithms; zeros if there are none."""
    count = len(got)
    rows, logs = [], []
    for a in range(count):
        for b in range(a + 1, count):
            if got[a, b] > 0 and got[b, a] > 0:
                row = np.zeros(count)
                weight = np.sqrt(min(got[a, b], got[b, a]))
                row[a], row[b] = weight, -weight
                rows.append(row)
                logs.append(weight * np.log(got[a, b] / got[b, a]))
    if not rows or np.linalg.matrix_rank(np.array(rows)) < count - 1:
        return np.zeros(count)
    solution, *_ = np.linalg.lstsq(np.array(rows), np.array(logs), rcond=None)
    shares: npt.NDArray[np.float64] = np.exp(solution - solution.min())
    return shares


def _whole(shares: npt.NDArray[np.float64], inputs: Sequence[int]) -> dict[int, int]:
    if not shares.all():
        return {}
    for least in range(1, _MOST_WEIGHT + 1):
        whole = np.maximum(np.rint(shares * least), 1)
        if np.all(np.abs(whole / least / shares - 1) < 0.03):
            break
    else:
        whole = np.rint(shares * _MOST_WEIGHT)
    divisor = int(np.gcd.reduce(whole.astype(np.int64)))
    return {port: int(weight) // divisor for port, weight in zip(inputs, whole, strict=True)}


def overlaps(states: States, input_: int, tx_ns: float) -> float:
    """Share of an input's departures during which it also sent to another output port."""
    own = np.array([pair for pair, (of, _) in enumerate(states.pairs) if of == input_])
    chosen = np.isin(states.departed, own)
    at, pair = states.departed_at[chosen], states.departed[chosen]
    if len(at) < 2:
        return 0.0
    near = (np.diff(at) < tx_ns * 0.98) & (np.diff(pair) != 0)
    return float(near.mean())


def holds_of(states: States, output: int, packet_ns: float) -> Runs:
    """How long the port kept to an input, each time; the first and the last one are left out, because they are cut.

    Where the inputs have packets together for many runs, each such stretch counts for itself. Otherwise departures
    without packets of all are left out: then an input that ran dry for a moment was not left for another one.
    """
    busy, pair = _busy(states, output)
    at = states.departed_at[_of_output(states, output)]
    inside = [_runs_in(at[begin:end], pair[begin:end]) for begin, end in _stretches(busy)]
    times = np.concatenate(inside) if inside else np.zeros(0)
    lengths = np.array([end - begin for begin, end in _stretches(busy)], np.float64)
    if len(times) >= _ENOUGH and float((lengths**2).sum() / lengths.sum()) * packet_ns > 10 * float(times.mean()):
        return Runs(packet_ns, times)
    return Runs(packet_ns, _runs_in(at[busy], pair[busy]))


def _runs_in(at: npt.NDArray[np.float64], pair: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    changes = np.flatnonzero(np.diff(pair)) + 1
    times: npt.NDArray[np.float64] = np.diff(at[changes]).astype(np.float64)
    return times


def ran_dry(states: States, output: int) -> tuple[int, int]:
    """How often the port went on to another input while packets were lost, and how often because it had to.

    It had to if nothing else of the input was inside when its last packet left: others have filled a shared memory.
    """
    lost = states.entered[~states.accepted]
    if not len(lost):
        return 0, 0
    chosen = _of_output(states, output)
    pair, at, wire = states.departed[chosen], states.departed_at[chosen], states.departed_wire[chosen]
    held = states.at_departure[chosen]
    last = np.flatnonzero(np.diff(pair))
    last = last[(at[last] >= lost.min()) & (at[last + 1] <= lost.max())]
    return len(last), int((held[last, pair[last]] <= wire[last]).sum())


def runs_of_counts(counted: npt.NDArray[np.int64], interval_ns: int, packet_ns: float) -> Runs:
    """The same from the packets of two inputs in each interval; runs shorter than half an interval are not seen."""
    both = counted.sum(axis=0)
    share = counted[0] / np.maximum(both, 1)
    first = share >= 0.5
    changes = np.flatnonzero(first[1:] != first[:-1]) + 1
    # The change lies within the interval that both inputs share: the one before or after the edge.
    before, after = share[changes - 1], share[changes]
    to_first = first[changes]
    late = np.where(to_first, 1 - after, after)
    early = np.where(to_first, before, 1 - before)
    at = (changes + late - early) * float(interval_ns)
    return Runs(packet_ns, np.diff(at))
