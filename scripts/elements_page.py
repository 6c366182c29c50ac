"""Writes ``docs/elements.md`` from what the elements of links declare of themselves."""

from __future__ import annotations

from collections.abc import Iterator

from weir import queues
from weir.queues import Element, Form, Key

__all__ = ["elements_page"]

_HEAD = """\
# Elements of a link

A packet that enters a link passes a check of its size, losses, the queue, the transmitter and the delay line, in this
order. This page lists what a scenario can write for each; [the language](scenario-language.md#links) has examples.
Each element is implemented in a file of `crates/weir-elements`, whose declaration this page is made of.

*Random* elements draw numbers while a cell runs, so that another seed has another result. A size is in bytes on the
wire (`64KiB`), packets (`100packets`), time at the rate of the link (`100ms`), or multiples of the bandwidth-delay
product (`0.5bdp`).
"""
_PLACES = {
    "mtu": ("Size of packets", "A key of the link."),
    "loss": ("Losses", "`loss` of a link. A probability alone stands for `bernoulli`."),
    "queue": ("Queues", f"`queue` of a link. A size alone stands for `{queues.DEFAULT}`."),
    "transmitter": ("Transmitter", "Keys of the link."),
    "delay": ("Delay line", "`delay` is a key of the link; the other keys stand in its `jitter` or `reorder`."),
}
"""Title of each place, and where a scenario writes its elements."""
_TYPES = {
    "limit": "size",
    "at_least": "packets",
    "threshold": "size",
    "time": "duration",
    "packet_bytes": "bytes",
    "probability": "probability",
    "flag": "`true`, `false`",
    "ecn": "`true`, `false`",
    "code_points": "code point, or list",
    "distribution": "`normal`, `uniform`",
    "packet_numbers": "list of numbers",
    "rate": "rate",
    "bytes": "bytes",
    "named_classes": "mapping",
    "queue": "queue",
    "flows": "flows, or list",
    "links": "link, or list",
    "share": "share, as `90%`",
}


def elements_page() -> str:
    """The page as Markdown.

    Raises:
        KeyError: an element is at a place, or a key of a type, that is not foreseen here.
    """
    lines = [_HEAD]
    place = None
    for one in queues.elements():
        if one.place != place:
            place = one.place
            title, written = _PLACES[place]
            lines += [f"## {title}", "", written, ""]
        lines += _element(one)
    return "\n".join(lines).rstrip() + "\n"


def _element(one: Element) -> Iterator[str]:
    yield f"### `{one.name}`"
    yield ""
    facts = [f"{one.title}."]
    facts += [f"Source: {one.source}."] * bool(one.source) + ["Random."] * one.random
    yield " ".join(facts)
    yield ""
    for form in one.forms:
        if len(one.forms) > 1 and form.name != one.name:
            yield f"As `{form.name}`: {form.title}"
            yield ""
        yield from _table(form.keys)
        for key in form.keys:
            if key.type in {"classes", "named_classes"}:
                each = Form(name=key.name, title=key.kind["title"], keys=tuple(Key(**k) for k in key.kind["keys"]))
                yield f"Each of `{key.name}`: {each.title}"
                yield ""
                yield from _table(each.keys)
    if one.place == "queue":
        yield _in_linux(one)
        yield ""


def _table(keys: tuple[Key, ...]) -> Iterator[str]:
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for key in keys:
        default = f"`{key.default}`" if key.default is not None else "none" if key.optional else "required"
        yield f"| `{key.name}` | {_value(key)} | {default} | {key.meaning} |"
    yield ""


def _value(key: Key) -> str:
    match key.type:
        case "number" | "integer":
            least = "above " if key.kind.get("positive") else ""
            return f"{least}{key.kind['min']:.12g} to {key.kind['max']:.12g}"
        case "classes":
            return "list"
        case "choice":
            return ", ".join(f"`{value}`" for value in key.kind["values"])
        case _:
            return _TYPES[key.type]


def _in_linux(one: Element) -> str:
    equivalent = queues.discipline(one.name)
    if not equivalent.names:
        return "weir uses no discipline of the kernel for it: methods whose links are the kernel's own refuse it."
    names = ", ".join(f"`{name}`" for name in equivalent.names)
    return f"In Linux: {names}. {equivalent.differs}".strip()
