"""Says in one sentence how a smaller version of a scenario differs from the scenario that its title describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.language.problem import Enough, Invalid, Log
from weir.language.tree import Map, Node, Scalar, Seq, flow_text, read

from ._sweep import Step, parse_path

__all__ = ["reduced"]

_TOLD = 5
"""Changes that are told; the others are counted."""
_RATES = ("rate", "wire_rate")
_LENGTHS = ("repeat", "duration", "until", "size")
_LONG = 30


def reduced(text: str, settings: Mapping[str, Any]) -> str:
    """What the version that ``settings`` name changes of the scenario ``text``; empty for the scenario itself.

    Checks only the reader's limits; text that is not YAML within them yields nothing.

    Args:
        text: a scenario.
        settings: of a run: ``quick`` or ``realtime`` are true, and ``set`` has the values of ``--set``.
    """
    log = Log("")
    try:
        root = read(text, log)
        if not isinstance(root, Map):
            return ""
        sections = {name: node for name in ("quick", "realtime") if isinstance(node := root.get(name), Map)}
        wanted = [name for name in ("quick", "realtime") if settings.get(name) or settings.get("realtime")]
        there = [name for name in wanted if name in sections]
        changes = {e.key.text: (e.key, e.value) for name in there for e in sections[name].entries}
        for path in settings.get("set") or {} if there else ():
            changes.pop(path, None)  # told by the settings of the run
        told, others = _told(root, changes.values(), log)
    except (Invalid, Enough):
        return ""
    if not there:
        return ""
    name = "Real-time version" if there[-1] == "realtime" else "Quick version"
    rest = len(told) - _TOLD + others if len(told) > _TOLD else others
    if rest:
        told = [*told[:_TOLD], f"{rest} other {'setting' if rest == 1 else 'settings'}"]
    head = f"{name} of the scenario, not the size that its texts describe"
    return f"{head}: {'; '.join(told)}." if told else f"{head}."


def _told(root: Map, changes: Any, log: Log) -> tuple[list[str], int]:
    """The changes worth telling, the most telling first, and the number of the others."""
    rates: list[str] = []
    sweeps: list[str] = []
    lengths: list[str] = []
    leaves: dict[tuple[str, ...], tuple[str, str]] = {}
    for key, value in changes:
        if key.text.startswith("sweep."):
            sweeps += _swept(root, key.text.removeprefix("sweep."), value)
            continue
        steps = parse_path(key, log)
        leaves |= {path: (new, old) for path, new, old in _changed(steps, value, _at(root, steps))}
    others = 0
    for path, (new, old) in leaves.items():
        where = next((word for word in reversed(path[:-1]) if not word.isdigit()), "")
        if path[-1] in _RATES and where:
            rates.append(f"{where} {new}{_not(old)}")
        elif path[-1] in _LENGTHS and path[0] != "topology":
            name = "repeats" if path[-1] == "repeat" else " ".join(word for word in (where, path[-1]) if word)
            lengths.append(f"{name} {new}{_not(old)}")
        else:
            others += 1
    return list(dict.fromkeys([*rates, *sweeps, *lengths])), others


def _not(old: str) -> str:
    return f" (not {old})" if old else ""


def _swept(root: Map, path: str, value: Node) -> Iterator[str]:
    """The change of an axis of the sweep: how many of its values are left."""
    sweep = root.get("sweep")
    axis = sweep.get(path) if isinstance(sweep, Map) else None
    new, old = _values(value), [] if axis is None else _values(axis)
    if new == old or not new:
        return
    what = "combinations" if path == "zip" else f"values of {path.rpartition('.')[2]}"
    if len(new) < len(old):
        yield f"{len(new)} of {len(old)} {what}"
    else:
        yield f"other {what}"


def _values(node: Node) -> list[str]:
    if isinstance(node, Map):
        return [f"{entry.key.text}: {_text(entry.value)}" for entry in node.entries]
    return [_text(item) for item in node.items] if isinstance(node, Seq) else [_text(node)]


def _changed(steps: tuple[Step, ...], value: Node, before: Node | None) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The leaves below a path whose text differs: their path, their text, and the text before, if it is short."""
    names = [step.name.strip("[]") for step in steps]
    old = dict(_leaves(before, ())) if before is not None else {}
    for path, text in _leaves(value, ()):
        if old.get(path) != text:
            known = old.get(path, "")
            yield (*names, *path), text, known if len(known) <= _LONG else ""


def _leaves(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, Map):
        for entry in node.entries:
            yield from _leaves(entry.value, (*path, entry.key.text))
    else:
        yield path, _text(node)


def _text(node: Node) -> str:
    return node.text if isinstance(node, Scalar) else flow_text(node)


def _at(root: Node, steps: tuple[Step, ...]) -> Node | None:
    """The node at a path, or ``None``; an item of a list has its index or its name."""
    node: Node | None = root
    for step in steps:
        if isinstance(node, Seq) and step.index is not None:
            node = node.items[step.index] if step.index < len(node.items) else None
        elif isinstance(node, Seq):
            node = next((i for i in node.items if isinstance(i, Map) and _named(i) == step.name), None)
        else:
            node = node.get(step.name) if isinstance(node, Map) else None
    return node


def _named(item: Map) -> str | None:
    name = item.get("name")
    return name.text if isinstance(name, Scalar) else None
