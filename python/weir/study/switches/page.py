"""The page of a characterisation: one HTML file that needs no script and no network."""

from __future__ import annotations

import platform
from pathlib import Path

import jinja2
from markupsafe import Markup

from weir.report.bundle import frame_of, write_page
from weir.study import today
from weir.study.switches._characterise import Characterised
from weir.study.switches._pictures import bursts, isolines_of, sequence
from weir.study.switches._units import time_text
from weir.study.switches._words import class_sentence, lines
from weir.study.switches._yaml import yaml_text

__all__ = ["build"]

_ASSETS = Path(__file__).with_name("assets")


def build(found: Characterised, path: Path) -> Path:
    """Writes the page.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_page(path, _render(found))


def _render(found: Characterised) -> str:
    loader = jinja2.FileSystemLoader(_ASSETS)
    templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    styles = frame_of()
    return templates.get_template("switch.html.j2").render(
        c=found,
        said=lines(found),
        summary=class_sentence(found.fitted),
        yaml=yaml_text(found.fitted, []),
        isolines=Markup(isolines_of(found)),
        sequence=Markup(sequence(found)),
        bursts=Markup(bursts(found)),
        rates=list(zip(found.measured.rates, found.model.rates, strict=True)),
        tcp=[
            (one.faster_first, model.faster_first)
            for one, model in zip(found.measured.tcp, found.model.tcp, strict=True)
        ],
        second=time_text(found.extent.second_ns),
        until=time_text(found.extent.tcp_ns),
        facts=[
            ("Packets counted", f"{found.fitted.packets:,}"),
            ("Seed", str(found.seed)),
            ("Took", f"{found.wall_s:.0f} s"),
            ("Date", today()),
            ("weir", styles["version"]),
            ("Host", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ],
        css=styles["css"],
        version=styles["version"],
    )
