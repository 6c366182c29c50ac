"""What a characterisation found, in sentences."""

from __future__ import annotations

from weir.study.switches._arbiter import hold_range
from weir.study.switches._characterise import Characterised
from weir.study.switches._fitted import Fitted
from weir.study.switches._memory import MemoryFit
from weir.study.switches._tcp import Tcp
from weir.study.switches._units import size_text, time_text

__all__ = ["class_sentence", "lines", "memory_sentence", "range_text"]

_CLASSES = {
    "fair": "fair: it serves its inputs in turn, so that none starves",
    "proportional": "proportional: inputs share the port by what they offer, in the order of arrival",
    "bursty": "bursty: it forwards one input at a time, and the others starve meanwhile",
}
_ARBITERS = {
    "fifo": "first in, first out (fifo)",
    "round_robin": "round robin",
    "weighted": "weighted",
    "islip": "iSLIP",
    "pim": "parallel iterative matching (pim)",
    "bursty": "bursty",
}

_PLAIN = 0.05
"""Width of an interval, as a share, from which on its ends are said."""


def range_text(size: float, low: float, high: float) -> str:
    """Bytes for people, as an interval if packets are too large to tell them well."""
    if high - low <= _PLAIN * size:
        return size_text(size)
    (least, unit), (most, other) = (size_text(end).split(" ") for end in (low, high))
    return f"{least}{'' if unit == other else f' {unit}'} to {most} {other}"


def _buffer(memory: MemoryFit) -> str:
    if not memory.bound:
        return f"at least {size_text(memory.largest)}"
    return range_text(memory.largest, *memory.largest_range)


def class_sentence(fitted: Fitted) -> str:
    """The class and its meaning."""
    return _CLASSES[fitted.kind]


def memory_sentence(memory: MemoryFit) -> str:
    """The memory scheme and its sizes."""
    least = "" if memory.bound else "at least "
    if memory.kind == "partitioned":
        text = f"{least}{size_text(memory.own)} for each queue alone"
    elif memory.kind == "mixed":
        text = f"{least}{size_text(memory.own)} for each queue alone and {size_text(memory.pool)} shared"
    else:
        text = f"{least}{size_text(memory.pool)} shared by all queues"
    if memory.alpha is not None:
        text += f", a queue takes at most {memory.alpha:.3g} times what is free"
    return text


def lines(found: Characterised) -> list[tuple[str, str]]:
    """The findings, each with its name."""
    fitted = found.fitted
    said = [
        ("class", class_sentence(fitted)),
        ("arbiter", f"{_ARBITERS[fitted.law.kind]}: {fitted.law.why}"),
        ("memory", memory_sentence(fitted.memory)),
        ("buffer", f"one queue holds {_buffer(fitted.memory)}"),
        ("starvation", _starvation(fitted)),
    ]
    if fitted.law.doubt:
        said.insert(1, ("uncertain", fitted.law.doubt))
    hold = fitted.law.values.get("hold")
    if hold is not None:
        said.insert(-3, ("bursts", _bursts(fitted)))
    if fitted.resume.bytes:
        room = range_text(fitted.resume.bytes, fitted.resume.low, fitted.resume.high)
        said.append(("hysteresis", f"after a loss, a queue needs {room} of room"))
    if fitted.forwarding == "cut_through":
        said.append(("forwarding", "cut-through: the first bytes of a packet leave before its last ones arrive"))
    if fitted.jitter_ns:
        said.append(("fabric", f"takes up to {time_text(fitted.jitter_ns)} more for some packets"))
    if fitted.pause is not None:
        low, high = size_text(fitted.pause.low), size_text(fitted.pause.high)
        said.append(("PAUSE", f"stops a sender at {high} of it in the switch, until {low}"))
    said += [("note", note) for note in fitted.notes]
    packets = ", which gets the packets as they were sent," if found.measured.isolines.trials else ""
    off = f"off by {found.isoline_error:.2%} at the median, where the port is full"
    error = f"isolines of the fitted model{packets} are {off}"
    error += _by_rate(found)
    if found.chance is not None:
        error += f"; those of two fitted models with other random numbers differ by {found.chance:.2%}"
    senders = [("senders", found.senders.text)] if found.senders is not None else []
    return [*said, ("fit", error), *senders, *_tcp_lines(found)]


def _starvation(fitted: Fitted) -> str:
    """The longest one, and where it was seen."""
    if not fitted.starvation_ns:
        return "cannot be told: a sender was late in each trial that measures it"
    place, longest = max(fitted.starvation_ns.items(), key=lambda item: item[1])
    return f"{time_text(longest)} without a packet of one input, at {place}"


def _by_rate(found: Characterised) -> str:
    """The error with and without an input at full rate, and how much of it is phase: only for real senders."""
    if found.phase is None:
        return ""
    full, elsewhere = found.error(at_full_rate=True), found.error(at_full_rate=False)
    apart = "" if elsewhere is None else f", {elsewhere:.2%} elsewhere"
    return (
        f": {full:.2%} where an input sends at full rate{apart}; if its second input sends half of a packet's time "
        f"later, the model's own differ by {found.phase:.2%} where an input sends at full rate"
    )


def _bursts(fitted: Fitted) -> str:
    """The law of the times for which a bursty arbiter keeps to an input, and how well it is known."""
    hold = fitted.law.values["hold"]
    count = 0 if fitted.runs is None else len(fitted.runs.times_ns)
    shape = f", shape {hold['shape']:.3g}" if "shape" in hold else ""
    if fitted.cut:
        return f"law not known; as seen, {hold['kind']}, {time_text(hold['mean_ns'])} in the mean{shape} ({count} runs)"
    text = f"{hold['kind']}, {time_text(hold['mean_ns'])} in the mean{shape} ({count} runs seen"
    known = hold_range(hold, count)
    if known is None:
        return f"{text})"
    shapes = f", shape {known[2]:.3g} to {known[3]:.3g}" if shape else ""
    return f"{text}; with 95 %, mean {time_text(known[0])} to {time_text(known[1])}{shapes})"


def _tcp_lines(found: Characterised) -> list[tuple[str, str]]:
    """Goodputs through the switch and its model, and why some or all are missing."""
    pairs = zip(found.measured.tcp, found.model.tcp, strict=True)
    said = [("TCP", f"{one.name}: {_goodputs(one)}; the fitted model {_goodputs(model)}") for one, model in pairs]
    if said:
        said.append(("TCP", "the faster flow is first: which of the two that is, is chance, so only the pairs compare"))
    return [*said, ("TCP", f"left out: {found.no_tcp}")] if found.no_tcp else said


def _goodputs(flows: Tcp) -> str:
    faster, slower = flows.faster_first.goodput_mbps
    return f"{faster:.4g} and {slower:.4g} Mb/s"
