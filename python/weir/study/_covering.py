"""Covering arrays: few combinations of factors in which every two values of two factors meet.

Results depend on single factors and on interactions of two far more often than on interactions of three (Kuhn, Wallace
and Gallo, IEEE Trans. Software Engineering 30, 2004). An array of strength 2 and index n has each pair of values of two
factors in at least n rows. Its size grows with the two largest factors, not with the product of all. It is built
greedily, row by row; each row is the best of several candidates, the idea of AETG (Cohen, Dalal, Fredman and Patton,
IEEE Trans. Software Engineering 23, 1997).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import combinations, product

__all__ = ["covering_array"]

Row = tuple[str, ...]
_Pair = tuple[int, str, int, str]
_CANDIDATES = 40


def covering_array(
    values: Sequence[Sequence[str]], times: int, seed: int, allowed: Collection[Row] | None = None
) -> list[Row]:
    """Different rows, one value of each factor in each, such that each pair of values is in at least ``times`` rows.

    If ``allowed`` (default: all rows) has fewer rows with a pair, all of them are taken. The same arguments give the
    same rows.
    """
    missing = {
        (i, a, j, b): times for i, j in combinations(range(len(values)), 2) for a in values[i] for b in values[j]
    }
    rng = random.Random(f"covering array {seed}")
    rows: dict[Row, None] = {}
    while missing:
        most = max(missing.values())
        pair = rng.choice([pair for pair, n in missing.items() if n == most])
        candidates = (_candidate(values, pair, missing, rng) for _ in range(_CANDIDATES))
        fresh = [row for row in candidates if row not in rows and (allowed is None or row in allowed)]
        if not fresh:
            fresh = _left(values, pair, rows, allowed)
        if not fresh:
            del missing[pair]  # all rows with it are taken
            continue
        row = max(fresh, key=lambda row: sum(missing.get(pair, 0) for pair in _pairs(row)))
        rows[row] = None
        for met in _pairs(row):
            if met in missing:
                missing[met] -= 1
                if missing[met] == 0:
                    del missing[met]
    return sorted(rows, key=lambda row: [values[i].index(value) for i, value in enumerate(row)])


def _left(
    values: Sequence[Sequence[str]], pair: _Pair, taken: Collection[Row], allowed: Collection[Row] | None
) -> list[Row]:
    """A row with ``pair`` that is not taken yet; ``None`` if there is none."""
    i, a, j, b = pair
    every = allowed if allowed is not None else product(*values)
    return next(([row] for row in every if row[i] == a and row[j] == b and row not in taken), [])


def _pairs(row: Row) -> list[_Pair]:
    return [(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)]


def _candidate(values: Sequence[Sequence[str]], pair: _Pair, missing: dict[_Pair, int], rng: random.Random) -> Row:
    """A row with ``pair``: the other factors in any order, each with the value whose pairs are missing most."""
    i, a, j, b = pair
    chosen = {i: a, j: b}
    order = [k for k in range(len(values)) if k not in chosen]
    rng.shuffle(order)
    for k in order:
        scores = {value: _gain(k, value, chosen, missing) for value in values[k]}
        most = max(scores.values())
        chosen[k] = rng.choice([value for value, score in scores.items() if score == most])
    return tuple(chosen[k] for k in range(len(values)))


def _gain(k: int, value: str, chosen: dict[int, str], missing: dict[_Pair, int]) -> int:
    pairs = ((k, value, i, v) if k < i else (i, v, k, value) for i, v in chosen.items())
    return sum(missing.get(pair, 0) for pair in pairs)
