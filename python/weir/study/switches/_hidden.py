"""Hidden switches drawn from a seed, characterised and fitted: how far the fit is from them.

Only the judgement looks at the hidden switch. :func:`weir.study.switches.fit` gets the rig alone.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.study.switches._fit import class_of, fit, window_ns
from weir.study.switches._isolines import error_of, isolines
from weir.study.switches._model import ModelRig
from weir.study.switches._yaml import flow_text, switch_words

__all__ = ["SMALL_MEMORIES", "USUAL_MEMORIES", "Verdict", "hidden", "judged", "sizes"]

USUAL_MEMORIES = (15e3, 8e6)
"""Least and greatest size of a drawn memory, bytes."""
SMALL_MEMORIES = (1.6e3, 40e3)
"""The same of memories that hold few packets: one of 1500 B at least."""
_ARBITERS = ("fifo", "round_robin", "weighted", "islip", "pim", "bursty")
_MEMORIES = ("shared", "partitioned", "mixed")


def _log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def hidden(draw: random.Random, between: tuple[float, float] = USUAL_MEMORIES) -> dict[str, Any]:
    """A switch in the words of the scenario language, with a memory ``between`` two sizes in bytes."""
    switch: dict[str, Any] = {"memory": _memory(draw, draw.choice(_MEMORIES), between), "arbiter": _arbiter(draw)}
    largest = _smallest_limit(switch["memory"])
    if draw.random() < 0.25:
        switch["resume"] = f"{round(_log_uniform(draw, 3 * 1538, max(largest / 2, 4 * 1538)))}B"
        if largest < 8 * 1538:
            del switch["resume"]
    if draw.random() < 0.25:
        switch["jitter"] = f"{round(_log_uniform(draw, 100, 30_000))}ns"
    if draw.random() < 0.25:
        switch["forwarding"] = "cut_through"
    if draw.random() < 0.1 and largest > 12 * 1538:
        high = round(largest * draw.uniform(0.3, 0.9))
        switch["pause"] = {"high": f"{high}B", "low": f"{round(high * draw.uniform(0.3, 0.8))}B"}
    return switch


def _memory(draw: random.Random, kind: str, between: tuple[float, float]) -> dict[str, Any]:
    size = round(_log_uniform(draw, *between))
    alpha = {} if draw.random() < 0.4 else {"alpha": round(_log_uniform(draw, 0.1, 16), 3)}
    if kind == "partitioned":
        return {kind: {"size": f"{size}B"}}
    if kind == "shared":
        return {kind: {"size": f"{size}B", **alpha}}
    part = round(size * draw.uniform(0.02, 0.4))
    return {kind: {"reserved": f"{max(part, 2000)}B", "shared": f"{size}B", **alpha}}


def _arbiter(draw: random.Random) -> Any:
    kind = draw.choice(_ARBITERS)
    if kind == "weighted":
        return {kind: {"weights": {f"h{port}": draw.randint(1, 16) for port in range(4)}}}
    if kind in ("islip", "pim"):
        return {kind: {"iterations": draw.choice([1, 2, 4])}}
    if kind != "bursty":
        return kind
    law = draw.choice(["fixed", "exponential", "pareto"])
    mean = f"{round(_log_uniform(draw, 20e3, 100e6))}ns"
    if law == "fixed":
        return {kind: {"hold": {law: {"time": mean}}}}
    shape = {"shape": round(draw.uniform(1.3, 3), 3)} if law == "pareto" else {}
    return {kind: {"hold": {law: {"mean": mean, **shape}}}}


def sizes(words: dict[str, Any]) -> tuple[float, float]:
    """Bytes of all of the memory's parts, and the most that one queue can hold."""
    ((kind, keys),) = words.items()
    size = {name: float(text.removesuffix("B")) for name, text in keys.items() if name != "alpha"}
    pool, own = (
        (size["size"], 0.0)
        if kind == "shared"
        else (size.get("shared", 0.0), size.get("reserved", size.get("size", 0.0)))
    )
    alpha = keys.get("alpha")
    return own + pool, own + pool * (1 if alpha is None else alpha / (1 + alpha))


def _smallest_limit(words: dict[str, Any]) -> float:
    """Bytes that a queue surely has while twelve are full."""
    ((kind, keys),) = words.items()
    total, _ = sizes(words)
    alpha = float(keys.get("alpha", 1))
    return total if kind == "partitioned" else total * min(alpha, 1) / (1 + 12 * min(alpha, 1))


@dataclass
class Verdict:
    """One trial."""

    number: int
    hidden: str
    fitted: str
    right_class: bool
    right_arbiter: bool
    right_memory: bool
    bound: bool
    """Whether anything was dropped; otherwise PAUSE hides the memory."""
    buffer_error: float
    """Of the most that one queue can hold."""
    size_error: float
    """Of all parts together."""
    isoline_error: float
    """Median over all rates."""
    congested_error: float
    """Median over rates that the port cannot carry."""
    seconds: float


def _kind_of(value: Any) -> str:
    return value if isinstance(value, str) else next(iter(value))


def judged(words: dict[str, Any], *, seed: int = 1, number: int = 0, points: int = 10) -> Verdict:
    """Characterises the switch ``words`` and compares the fit with it.

    Args:
        words: The keys of a scenario's ``switch``.
        seed: Of the switch's random choices; the fitted model gets the same when both are compared, so that only
            their difference counts, not chance.
        number: Of the trial.
        points: Rates of either input for the isolines.
    """
    begin = time.monotonic()
    rig = ModelRig(flow_text(words), seed=seed)
    found = fit(rig)
    fitted = switch_words(found)
    whole, largest = sizes(words["memory"])
    got_whole, got = sizes(fitted["memory"])
    span = window_ns(found)
    lines = [isolines(one, span, points) for one in (rig, ModelRig(flow_text(fitted), seed=seed))]
    truth = _kind_of(words["arbiter"])
    return Verdict(
        number, flow_text(words), flow_text(fitted), class_of(truth) == found.kind, truth == found.law.kind,
        _kind_of(words["memory"]) == found.memory.kind, found.memory.bound, got / largest - 1, got_whole / whole - 1,
        float(np.median(error_of(lines[1], lines[0], congested=False))),
        float(np.median(error_of(lines[1], lines[0], congested=True))),
        time.monotonic() - begin,
    )  # fmt: skip
