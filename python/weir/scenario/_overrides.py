"""Applies changes to a scenario by dotted path: its `quick` and `realtime` sections, and ``--set`` of the command line.

Their order is fixed, whatever order they are given in: the sweep as a whole, then its axes, then the rest, mappings
before their contents. So each change finds what it changes. A change from the command line without effect is refused,
because its author would misread the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from weir.language.problem import Invalid, Log, choose
from weir.language.tree import Map, Node, Scalar, Seq

from ._lang_scenario import Body
from ._lang_workload import Workload
from ._sweep import Step, Sweep, parse_path, path_text, substitute

__all__ = ["Override", "override", "refuse_replaced", "refuse_unused", "yaml_texts"]

Override = tuple[Scalar, Node]
"""A path and its value, each with its place."""

_MAX_NAME = 60


def yaml_text(value: Any) -> str:
    """Converts a value of Python to the YAML text that ``--set`` takes; a text is returned unchanged.

    >>> yaml_text(4), yaml_text(True), yaml_text(["reno", {"name": "cubic", "beta": 700}])
    ('4', 'true', '["reno", {"name": "cubic", "beta": 700}]')

    Raises:
        ValueError: YAML has no such value.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        what = f"{value!r} ({type(value).__name__})"
        raise ValueError(
            f"{what} is no value of a scenario; expected a text, a number, a truth value, a list or a mapping of these"
        ) from None


def yaml_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values by path, each as :func:`yaml_text`.

    Raises:
        ValueError: YAML has no such value; the message names the path.
    """
    texts = {}
    for path, value in values.items():
        try:
            texts[path] = yaml_text(value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return texts


def override(root: Map, changes: Iterable[Override], log: Log) -> Map:
    """Applies the changes of a ``quick`` section or of the command line to ``root``.

    Raises:
        Invalid: a path leads nowhere; the reasons are in ``log``.
    """
    result: Node = root
    failed = False
    for key, value in sorted(changes, key=_rank):
        try:
            result = _changed(result, key, value, log)
        except Invalid:
            failed = True
    if failed or not isinstance(result, Map):
        raise Invalid
    return result


def _rank(change: Override) -> tuple[int, int]:
    path = change[0].text
    if path == "sweep":
        return 0, 0
    return 1 if path.startswith("sweep.") else 2, path.count(".") + path.count("[")


def _changed(root: Node, key: Scalar, value: Node, log: Log) -> Node:
    if key.text.startswith("sweep."):
        return substitute(root, _axis(key, root, log), value, log)
    steps = parse_path(key, log)
    if steps[0].name in ("quick", "realtime"):
        raise log.error(key.mark, f"`{steps[0].name}` cannot be changed here")
    swept = _swept(root).get(key.text)
    if swept is None:
        return substitute(root, steps, value, log)
    # The factor stays, with this one value: results keep their column, claims their `where`.
    return substitute(root, (_sweep_step(key), Step(key.text, None, swept)), Seq(value.mark, (value,)), log)


def _swept(root: Node) -> dict[str, Scalar]:
    """The keys of the sweep, by their text."""
    sweep = root.get("sweep") if isinstance(root, Map) else None
    return {e.key.text: e.key for e in sweep.entries} if isinstance(sweep, Map) else {}


def _sweep_step(key: Scalar) -> Step:
    return Step("sweep", None, Scalar(key.mark, "sweep"))


def _axis(key: Scalar, root: Node, log: Log) -> tuple[Step, ...]:
    """The steps to an axis of the sweep: the text after ``sweep.`` is one key, itself a path."""
    rest = key.text.removeprefix("sweep.")
    mark = key.mark.shifted(len("sweep.")) if key.plain else key.mark
    known = _swept(root)
    if rest not in known:
        raise log.error(mark, f"`{rest[:_MAX_NAME]}` is not swept{choose(rest, known)}")
    return (_sweep_step(key), Step(rest, None, Scalar(mark, rest)))


def refuse_replaced(root: Map, changes: Sequence[Override], sweep: Sweep, log: Log) -> None:
    """Reports changes whose value another change, or the sweep, replaces in every cell of ``root``."""
    taken: dict[tuple[str | int, ...], str] = {}
    swept = {place for factor in _first(sweep) for place in [_place(root, steps) for steps, _ in factor]}
    fixed = _swept(root)
    for key, _ in sorted(changes, key=_rank):
        with suppress(Invalid):
            steps = parse_path(Scalar(key.mark, key.text.removeprefix("sweep.")), log)
            place = _place(root, steps)
            if place in taken:
                raise log.error(key.mark, f"this and `--set {taken[place]}` set the same value; give one of them")
            taken[place] = key.text
            if key.text.startswith("sweep") or key.text in fixed:
                continue
            replaced = next((place[:n] for n in range(1, len(place) + 1) if place[:n] in swept), None)
            if replaced is not None:
                text = path_text(next(s for f in _first(sweep) for s, _ in f if _place(root, s) == replaced))
                message = f"this has no effect: the sweep sets `{text}` in each cell; change `sweep`, or empty it: "
                raise log.error(key.mark, message + "`--set sweep={}`")


def _first(sweep: Sweep) -> list[tuple[tuple[tuple[Step, ...], Node], ...]]:
    """The places that the first alternative of each axis sets; the others set the same places."""
    return [axis[0].values for axis in sweep.axes]


def _place(root: Node, steps: Sequence[Step]) -> tuple[str | int, ...]:
    """The place of a path, with named items as indices."""
    node: Node | None = root
    place: list[str | int] = []
    for step in steps:
        if step.index is not None:
            place.append(step.index)
            node = node.items[step.index] if isinstance(node, Seq) and step.index < len(node.items) else None
        elif isinstance(node, Seq):
            index = next((i for i, item in enumerate(node.items) if _is_named(item, step.name)), None)
            place.append(step.name if index is None else index)
            node = None if index is None else node.items[index]
        else:
            place.append(step.name)
            node = node.get(step.name) if isinstance(node, Map) else None
    return tuple(place)


def _is_named(item: Node, name: str) -> bool:
    own = item.get("name") if isinstance(item, Map) else None
    return isinstance(own, Scalar) and own.text == name


def refuse_unused(body: Body, changes: Sequence[Override], log: Log) -> None:
    """Reports changes of the common TCP settings that no entry of the workload uses."""
    for key, _ in changes:
        first, _, rest = key.text.partition(".")
        name = rest.partition(".")[0]
        if first == "transport" and name:
            users = [entry for entry in body.workload if not entry.udp_only]
            if not users:
                log.error(key.mark, "this has no effect: no entry of the workload uses TCP")
            elif all(_has(entry, name) for entry in users):
                example = f"workload.{users[0].name}.transport.{name}"
                log.error(key.mark, f"this has no effect: each entry of the workload has its own; set `{example}`")


def _has(entry: Workload, name: str) -> bool:
    """Whether an entry has a TCP setting of this name that overrides the common one."""
    own = entry.transport
    return own.has(name) or (name in ("send_buffer", "receive_buffer") and own.has("buffers"))
