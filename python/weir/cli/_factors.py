"""Values of factors in tables of the terminal: which columns a table needs, and short names of long values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weir.language.problem import Invalid, Log
from weir.language.tree import Map, Node, Scalar, flow_text, read
from weir.run.quantity import same_value

__all__ = ["is_named", "short_names", "told_factors"]

_CASE = "case"
_LONG = 32  # with a longer one, all mappings of a factor get short names, characters


def told_factors(factors: Sequence[str], keys: Sequence[tuple[str, ...]]) -> list[int]:
    """Indices of the shown ``factors``: all, except those implied by a `case` of a ``zip``, which names its rows."""
    if _CASE not in factors:
        return list(range(len(factors)))
    case = list(factors).index(_CASE)
    cases = {key[case] for key in keys}
    return [i for i in range(len(factors)) if i == case or len({(key[case], key[i]) for key in keys}) > len(cases)]


def short_names(texts: Iterable[str]) -> dict[str, str]:
    """The values of a factor by text, each with its name in a table.

    If a mapping is long, such as a queue, each of them is named by its kind and by the keys that tell it from the other
    values of this kind: ``red max: 60ms``. A single key is told anyway, since the kind alone would read as its
    defaults. Every name is unique; a value keeps its text if its name would not be.
    """
    values = list(dict.fromkeys(texts))
    found = {text: parsed for text in values if (parsed := _kind(text)) is not None}
    names = {text: text for text in values}
    if not any(len(text) > _LONG for text in found):
        return names
    for text, (kind, own) in found.items():
        alike = [leaves for other, leaves in found.values() if other == kind] + [{}] * (kind in values)
        told = {key for key, value in own.items() if len(own) == 1 or any(one.get(key) != value for one in alike)}
        odd = [f"{key}: {value}" for key, value in own.items() if key in told]
        names[text] = " ".join([kind, ", ".join(odd)]).strip()
    count = list(names.values())
    return {text: name if count.count(name) == 1 and len(name) < len(text) else text for text, name in names.items()}


def is_named(text: str, short: str, given: str) -> bool:
    """Whether ``given`` means the value ``text``: by its text, however spaced, by its short name, or as a quantity."""
    return given == short or same_value(text, given) or _flow(text) == _flow(given)


def _flow(text: str) -> str:
    """A mapping or a list as weir writes it; other text as it is."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return flow_text(read(text, Log("<value>")))
    except Invalid:
        return text


def _kind(text: str) -> tuple[str, dict[str, str]] | None:
    """The kind of a value that is a mapping, and its other keys; ``None`` if nothing names a kind.

    The kind is the only key (``{red: {...}}``), or the key ``name`` (``{name: cubic, beta: 900}``).
    """
    if not text.startswith("{"):
        return None
    try:
        node = read(text, Log("<value>"))
    except Invalid:
        return None
    if not isinstance(node, Map) or not node.entries:
        return None
    name = node.get("name")
    if isinstance(name, Scalar):
        return name.text, _leaves(node.without("name"))
    if len(node.entries) > 1:
        return None
    return node.entries[0].key.text, _leaves(node.entries[0].value)


def _leaves(node: Node, before: str = "") -> dict[str, str]:
    """The values below a node, by dotted path."""
    if isinstance(node, Map):
        return {k: v for e in node.entries for k, v in _leaves(e.value, f"{before}.{e.key.text}".lstrip(".")).items()}
    return {before: node.text if isinstance(node, Scalar) else flow_text(node)}
