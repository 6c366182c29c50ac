"""What a hook is told and what it may answer: one JSON object each (docs/hosts.md, "Hooks")."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.inventory import Inventory

__all__ = ["CONTRACT", "MAX_BYTES", "Answer", "parse", "question"]

CONTRACT = 1
"""The version of the contract, which every question has."""
MAX_BYTES = 1 << 24
"""Of an answer."""
MAX_UNDO = 1 << 16
MAX_FILES = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KEYS = ("facts", "files", "undo")


@dataclass(frozen=True)
class Answer:
    """What a hook said."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    undo: Mapping[str, Any] | None = None
    """What it is given at stage ``clean``; ``None``: it has nothing to undo."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by name."""


def question(inventory: Inventory, *, scenario: str, run: Path | None) -> dict[str, Any]:
    """What hooks are told at every stage; the stage, its cell and what is to be undone are added to it.

    Args:
        inventory: With the nodes that were reserved.
        scenario: Its title; empty without one.
        run: The folder of the run, if there is one.
    """
    nodes = [
        {
            "name": node.name,
            "set": node.set,
            "address": node.address,
            "port": node.port,
            "user": node.user,
            "interface": node.interface,
            "experiment_address": node.experiment_address,
        }
        for node in inventory.nodes
    ]
    connections = [
        {"between": list(each.between), "rate_bps": each.rate_bps, "rtt_ns": each.rtt_ns}
        for each in inventory.connections
    ]
    return {
        "contract": CONTRACT,
        "scenario": scenario,
        "inventory": str(Path(inventory.file).absolute()),
        "run": None if run is None else str(run.absolute()),
        "nodes": nodes,
        "connections": connections,
    }


def parse(said: bytes) -> Answer:
    """The answer that a hook wrote to its standard output; nothing but white space is an empty one.

    Raises:
        ValueError: it is none; the message says what was expected.
    """
    if not said.strip():
        return Answer()
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        raise ValueError(f"expected one JSON object or nothing, got {_shown(said)}") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected one JSON object or nothing, got {_shown(said)}")
    for key in found:
        if key not in _KEYS:
            raise ValueError(f"{_shown(key)} is no key of an answer; there are: {', '.join(_KEYS)}")
    for key in _KEYS:
        if not isinstance(found.get(key) or {}, dict):
            raise ValueError(f"`{key}`: expected an object, got {_shown(found[key])}")
    undo = found.get("undo")
    if undo is not None and len(json.dumps(undo)) > MAX_UNDO:
        raise ValueError(f"`undo` has more than {MAX_UNDO >> 10} KiB")
    return Answer(found.get("facts") or {}, undo, _files(found.get("files") or {}))


def _files(found: Mapping[str, Any]) -> Mapping[str, str]:
    if len(found) > MAX_FILES:
        raise ValueError(f"`files` has {len(found)} files; the limit is {MAX_FILES}")
    for name, text in found.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"`files`: {_shown(name)} is no plain name (letters, digits, `.`, `_`, `-`; no folder)")
        if not isinstance(text, str):
            raise ValueError(f"`files`: expected the text of {name}, got {_shown(text)}")
    return found


def _shown(said: object) -> str:
    """The beginning of what was said, as a terminal can take it."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return repr(text[:100])
