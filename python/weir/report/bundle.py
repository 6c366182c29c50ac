"""The parts that all pages of weir share: packed charts, the code that draws them, and the content security policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from weir._files import write_atomic
from weir.report.charts import Chart, Drawing, Medium
from weir.report.spec import columns_of, specification

__all__ = ["chart_item", "environment", "frame_of", "pack", "weir_version", "write_page"]

_ASSETS = Path(__file__).parent / "assets"


def chart_item(chart: Chart, drawing: Drawing | None, drawn: Medium) -> dict[str, Any] | None:
    """A drawn chart in the form that a page's script reads; ``None`` if there is nothing to draw."""
    if drawing is None:
        return None
    return {
        "name": chart.name,
        "title": chart.title,
        "section": chart.section,
        "caption": drawing.caption or chart.caption,
        "notes": list(drawing.notes),
        "columns": drawing.columns,
        "panel": drawing.panel_width,
        "half": drawing.half,
        "spec": specification(chart, drawing, drawn),
        "data": {name: columns_of(frame) for name, frame in drawing.data.items()},
        "csv": dict(drawing.csv_names),
    }


def pack(items: list[dict[str, Any]]) -> Markup:
    """Packs charts into text that a page unpacks: JSON, compressed, in base 64. Equal charts give equal text."""
    text = json.dumps(items, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii"))


def frame_of() -> dict[str, Any]:
    """Context of every page's template: styles, scripts, and the policy that allows these and nothing else."""
    css = (_ASSETS / "report.css").read_text(encoding="utf-8")
    script = (_ASSETS / "report.js").read_text(encoding="utf-8")
    library = _library()
    return {
        "css": Markup(css),
        "library": Markup(library),
        "script": Markup(script),
        "csp": _policy(css, library, script),
        "version": weir_version(),
    }


def weir_version() -> str:
    """The version of weir, empty if it is not installed."""
    try:
        return metadata.version("weir")
    except metadata.PackageNotFoundError:
        return ""


def write_page(path: Path, text: str) -> Path:
    """Writes a page atomically: no reader sees a partial page, and a failed write leaves nothing behind.

    Raises:
        OSError: the page cannot be written; an older one stays.
    """
    write_atomic(path, text)
    return path


@lru_cache(maxsize=1)
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _policy(css: str, *scripts: str) -> str:
    """The content security policy: allows only these scripts and this style sheet, and loads nothing."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; style-src {digest(css)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def inline_code(text: str) -> Markup:
    """The text with what stands between backquotes as code; everything is escaped."""
    parts = [str(escape(part)) for part in text.split("`")]
    if len(parts) % 2 == 0:  # one has no partner
        return escape(text)
    return Markup("".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts)))


@lru_cache(maxsize=4)
def environment(*folders: Path) -> jinja2.Environment:
    """Templates in ``folders`` and of the report, with the macro that renders a table."""
    loader = jinja2.FileSystemLoader([*folders, _ASSETS])
    found = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    found.filters["code"] = inline_code
    macros: Any = found.get_template("table.html.j2").module
    found.globals["render_table"] = macros.render_table
    return found
