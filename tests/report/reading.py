"""Reads a report back: its elements in order, and the packed data of its charts."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from weir.report import build
from weir.run import open_run

__all__ = ["Element", "Page", "page_of", "read_page"]


@dataclass
class Element:
    """A start tag, and the text up to its end tag (tags inside it left out)."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """A parsed page."""

    source: str = ""
    elements: list[Element] = field(default_factory=list)
    _open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {k: v or "" for k, v in attrs})
        self.elements.append(element)
        if tag not in ("meta", "br", "input", "link", "img"):
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, name: str = "") -> list[Element]:
        """Elements of a tag, and of a class if ``name`` is given."""
        return [
            e for e in self.elements if e.tag == tag and (not name or name in e.attributes.get("class", "").split())
        ]

    def by_id(self, id: str) -> Element:  # noqa: A002
        """The element with an id."""
        return next(e for e in self.elements if e.attributes.get("id") == id)

    def charts(self, blob: str = "cell-0-data") -> dict[str, dict[str, Any]]:
        """The charts packed under an id, by name."""
        packed = base64.b64decode(self.by_id(blob).text)
        return {item["name"]: item for item in json.loads(gzip.decompress(packed))}


@cache
def page_of(run: Path) -> Page:
    """The report of one of the shared runs, made once."""
    return read_page(build(open_run(run)))


def read_page(path: Path) -> Page:
    """Parses a report."""
    page = Page(path.read_text(encoding="utf-8"))
    page.feed(page.source)
    return page
