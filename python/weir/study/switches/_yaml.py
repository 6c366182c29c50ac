"""A fitted switch in the words of the scenario language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.study.switches._arbiter import Law
from weir.study.switches._fitted import Fitted
from weir.study.switches._memory import MemoryFit

__all__ = ["flow_text", "switch_words", "yaml_text"]


def switch_words(fitted: Fitted) -> dict[str, Any]:
    """The keys of ``switch`` in a scenario, with their values; weights are by the input's host, ``h0`` and so on."""
    words: dict[str, Any] = {"memory": _memory(fitted.memory), "arbiter": _arbiter(fitted.law)}
    if fitted.resume.bytes:
        words["resume"] = f"{fitted.resume.bytes}B"
    if fitted.forwarding != "store_and_forward":
        words["forwarding"] = fitted.forwarding
    if fitted.jitter_ns:
        words["jitter"] = f"{fitted.jitter_ns}ns"
    if fitted.pause is not None:
        words["pause"] = {"high": f"{fitted.pause.high}B", "low": f"{fitted.pause.low}B"}
    return words


def _memory(memory: MemoryFit) -> dict[str, Any]:
    if memory.kind == "partitioned":
        return {"partitioned": {"size": f"{round(memory.own)}B"}}
    limit = {} if memory.alpha is None else {"alpha": float(f"{memory.alpha:.4g}")}
    if memory.kind == "shared":
        return {"shared": {"size": f"{round(memory.pool)}B", **limit}}
    return {"mixed": {"reserved": f"{round(memory.own)}B", "shared": f"{round(memory.pool)}B", **limit}}


def _arbiter(law: Law) -> Any:
    if law.kind == "weighted":
        return {"weighted": {"weights": {f"h{port}": weight for port, weight in sorted(law.values["weights"].items())}}}
    if law.kind in ("islip", "pim"):
        return {law.kind: dict(law.values)}
    if law.kind != "bursty":
        return law.kind
    hold = law.values["hold"]
    name = "time" if hold["kind"] == "fixed" else "mean"
    shape = {"shape": hold["shape"]} if "shape" in hold else {}
    return {"bursty": {"hold": {hold["kind"]: {name: f"{hold['mean_ns']}ns", **shape}}}}


def flow_text(value: Any) -> str:
    """YAML in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def yaml_text(fitted: Fitted, comments: list[str]) -> str:
    """The file ``switch.yaml``, with comments at its head."""
    lines = [f"# {line}" for line in comments]
    lines += [f"{key}: {flow_text(value)}" for key, value in switch_words(fitted).items()]
    return "\n".join(lines) + "\n"
