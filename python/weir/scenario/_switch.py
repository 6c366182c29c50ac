"""Writes the switches of a network into plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weir.language.problem import Log, choose
from weir.language.spec import Spec

from . import _lang_switch as lang
from ._network import Link, Network
from ._queue_plan import shortage
from ._switch_presets import PRESETS

__all__ = ["switch_plan"]

MAX_PORTS = 256


def switch_plan(net: Network, number: int, log: Log) -> dict[str, Any]:
    """The switch at node ``number`` of ``net`` in the form of the plan.

    Raises:
        Invalid: it contradicts itself or its links; the reason is in ``log``.
    """
    switch = net.switches[number]
    ways = [(link.start, link.end) for link in net.links]
    ports = max(sum(number == end for end in ends) for ends in zip(*ways, strict=True)) if ways else 0
    if ports > MAX_PORTS:
        raise log.error(switch.mark, f"a switch with {ports} ports; expected {MAX_PORTS} at most")
    preset = PRESETS[switch.preset] if switch.preset is not None else None
    if switch.memory is None and preset is None:
        raise log.error(switch.mark, "`memory` is missing: the memory of the switch; or give a `preset` or a `file`")
    memory: dict[str, Any] = dict(preset.memory) if preset is not None else {}
    if switch.memory is not None:
        memory = _memory(switch.memory, log)
    plan = {
        "memory": memory,
        "arbiter": dict(preset.arbiter) if preset is not None else {"kind": "fifo"},
        "resume_bytes": preset.resume_bytes if preset is not None else 0,
        "forwarding": switch.forwarding or "store_and_forward",
        "jitter_ns": switch.jitter or 0,
        "pause": _pause(switch.pause, log),
    }
    if switch.resume is not None:
        plan["resume_bytes"] = switch.resume
    if switch.arbiter is not None:
        plan["arbiter"] = _arbiter(
            switch.arbiter, net, number, log, in_file=switch.arbiter.mark.file != switch.mark.file
        )
    _check_room(plan, switch, [link for link in net.links if link.start == number], log)
    if switch.forwarding == "cut_through":
        _check_cut_through(net, number, log)
    if switch.pause is not None:
        _check_pause(net, number, log)
        _warn_of_pause(switch.pause, memory, log)
    return plan


def _memory(memory: Spec, log: Log) -> dict[str, Any]:
    if isinstance(memory, lang.Shared):
        return {"kind": "shared", "bytes": memory.size, "alpha": memory.alpha}
    if isinstance(memory, lang.Partitioned):
        return {"kind": "partitioned", "bytes": memory.size}
    assert isinstance(memory, lang.Mixed)
    return {
        "kind": "mixed",
        "reserved_bytes": memory.reserved,
        "shared_bytes": memory.shared,
        "alpha": memory.alpha,
    }


def _largest_queue(memory: dict[str, Any]) -> int:
    """Bytes that one queue can hold, but for thresholds."""
    return int(memory.get("bytes", 0) + memory.get("reserved_bytes", 0) + memory.get("shared_bytes", 0))


def _check_room(plan: dict[str, Any], switch: lang.Switch, outputs: Sequence[Link], log: Log) -> None:
    """Refuses a memory that holds no full packet, by the rule of the queues of links."""
    room, resume = _largest_queue(plan["memory"]), plan["resume_bytes"]
    if (short := shortage(room, outputs)) is not None:
        raise log.error(switch.at("memory"), f"a queue in the memory holds {room} bytes, {short}")
    if shortage(room - resume, outputs) is not None:
        text = f"a queue of {room} bytes never has room for a full packet beside `resume`, {resume} bytes"
        raise log.error(switch.at("resume"), f"{text}; it would drop everything after its first loss")


def _arbiter(arbiter: Spec, net: Network, number: int, log: Log, *, in_file: bool) -> dict[str, Any]:
    if isinstance(arbiter, lang.Weighted):
        return {"kind": "weighted", "weights": _weights(arbiter, net, number, log, in_file=in_file)}
    if isinstance(arbiter, lang.Bursty):
        return {"kind": "bursty", "hold": _HOLDS[type(arbiter.hold)](arbiter.hold, log)}
    if isinstance(arbiter, lang.Islip | lang.Pim):
        kind = "islip" if isinstance(arbiter, lang.Islip) else "pim"
        return {"kind": kind, "iterations": arbiter.iterations}
    return {"kind": "round_robin" if isinstance(arbiter, lang.RoundRobin) else "fifo"}


def _weights(arbiter: lang.Weighted, net: Network, number: int, log: Log, *, in_file: bool) -> list[dict[str, int]]:
    """By input link. A switch in a file of its own may have more ports than are used here, but some of its weights must
    be of neighbours.
    """
    inputs = [(index, net.nodes[link.start][0]) for index, link in enumerate(net.links) if link.end == number]
    names = [name for _, name in inputs]
    unused = in_file and any(name in names for name in arbiter.weights)
    for name in arbiter.weights:
        if name not in names and not unused:
            text = f"`{name}` has no link to switch `{net.nodes[number][0]}`{choose(name, names)}"
            raise log.error(arbiter.at("weights"), text)
    return [{"link": index, "weight": arbiter.weights[name]} for index, name in inputs if name in arbiter.weights]


def _fixed(hold: lang.Fixed, log: Log) -> dict[str, Any]:
    return {"kind": "fixed", "mean_ns": _positive(hold.time, hold, "time", log)}


def _exponential(hold: lang.Exponential, log: Log) -> dict[str, Any]:
    return {"kind": "exponential", "mean_ns": _positive(hold.mean, hold, "mean", log)}


def _pareto(hold: lang.Pareto, log: Log) -> dict[str, Any]:
    return {"kind": "pareto", "mean_ns": _positive(hold.mean, hold, "mean", log), "shape": hold.shape}


def _positive(time: int, hold: Spec, name: str, log: Log) -> int:
    if time == 0:
        raise log.error(hold.at(name), "an arbiter that keeps to an input for no time; expected more than 0")
    return time


_HOLDS: dict[type, Callable[[Any, Log], dict[str, Any]]] = {
    lang.Fixed: _fixed,
    lang.Exponential: _exponential,
    lang.Pareto: _pareto,
}


def _pause(pause: lang.Pause | None, log: Log) -> dict[str, int] | None:
    if pause is None:
        return None
    if pause.low >= pause.high:
        raise log.error(pause.at("low"), "`low` must be below `high`")
    return {"high_bytes": pause.high, "low_bytes": pause.low}


def _warn_of_pause(pause: lang.Pause, memory: dict[str, Any], log: Log) -> None:
    """Warns of bounds that no input reaches; one whose queues have memories of their own may fill several."""
    whole = _largest_queue(memory)
    if memory["kind"] == "shared" and pause.high > whole:
        text = f"`high` is {pause.high} B, but the memory has {whole} B: it drops packets and never pauses a sender"
        log.warn(pause.at("high"), text)


def _check_pause(net: Network, number: int, log: Log) -> None:
    """Refuses PAUSE over a link without a way back."""
    ways = {(link.start, link.end) for link in net.links}
    for link in net.links:
        if link.end == number and (link.end, link.start) not in ways:
            text = f"no link leads back over `{link.name}`, so that no PAUSE frame reaches its sender"
            raise log.error(net.switches[number].at("pause"), text)


def _check_cut_through(net: Network, number: int, log: Log) -> None:
    """Refuses outputs that would run dry, and inputs without a fixed delay."""
    mark = net.switches[number].at("forwarding")
    inputs = [link for link in net.links if link.end == number]
    outputs = [link for link in net.links if link.start == number]
    for link in inputs:
        if link.jitter is not None or link.reorder is not None:
            raise log.error(mark, f"cut-through forwarding needs a fixed delay of `{link.name}`; it has jitter")
    slowest = min(inputs, key=lambda link: link.rate, default=None)
    fastest = max(outputs, key=lambda link: link.rate, default=None)
    if slowest is not None and fastest is not None and fastest.rate > slowest.rate:
        text = f"`{fastest.name}` is faster than `{slowest.name}`: a packet that is cut through would run dry"
        raise log.error(mark, f"{text}; expected outputs that are not faster than inputs")
