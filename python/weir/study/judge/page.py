"""The page of a judgement: a referee's report in one HTML file that needs no script and no network."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from weir.control import is_python
from weir.report.bundle import frame_of, write_page
from weir.study import today
from weir.study.judge._judge import Judgement
from weir.study.judge._pictures import dots, series
from weir.study.judge._words import at, recommendation, sentence, text_of

__all__ = ["UNJUDGED", "build"]

_ASSETS = Path(__file__).with_name("assets")

UNJUDGED = (
    (
        "Real kernels under load",
        "the builds are checked, but every figure is the simulator's: run your scenarios in the lab or by emul, too",
    ),
    ("Real-time flows that adapt (5.2.2)", "the call here has a constant rate"),
    ("Tunnels and explicit signals (6.2)", "no tunnel is in any scenario"),
    ("Low-rate and constrained nodes (7.4)", "the slowest path here has 10 Mb/s"),
    ("Misbehaving ends and attackers (7.6)", "all receivers are honest"),
    ("Extreme reordering (7.7), multipath (7.10), data centres (7.11)", "no scenario has them"),
    ("Chance", "competition runs three times with other seeds, and the mean counts; other scenarios run once"),
)
"""Questions of RFC 9743 that the report leaves open, and why."""


def build(judgement: Judgement, path: Path) -> Path:
    """Writes the page.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_page(path, _render(judgement))


def _render(judgement: Judgement) -> str:
    loader = jinja2.FileSystemLoader(_ASSETS)
    templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    word, why = recommendation(judgement)
    styles = frame_of()
    own = (_ASSETS / "judge.css").read_text(encoding="utf-8")
    return templates.get_template("judge.html.j2").render(
        j=judgement,
        word=word,
        why=why,
        said=lambda point: sentence(judgement, point),
        text=text_of,
        dots=lambda point: Markup(dots(point, judgement.name)),
        picture=lambda case: Markup(series(judgement, case)),
        at=at,
        facts=_facts(judgement),
        unjudged=_unjudged(judgement),
        css=styles["css"] + Markup(own),
        version=styles["version"],
    )


def _unjudged(judgement: Judgement) -> tuple[tuple[str, str], ...]:
    if not is_python(judgement.source.name):
        return UNJUDGED
    kernels = "no kernel executes Python: whether a control in C with the same decisions behaves alike is open"
    return (("Real kernels", kernels), *UNJUDGED[1:])


def _facts(judgement: Judgement) -> list[tuple[str, Any]]:
    about = judgement.about
    cells = sum(len(case.run.cells) for case in judgement.cases)
    return [
        ("Source", f"{judgement.source.name}, {about.source}".removesuffix(", ")),
        ("Beside", ", ".join(judgement.cases[0].points[0].others)),
        ("Executed", f"{len(judgement.cases)} scenarios, {cells} runs of the simulator"),
        ("Took", f"{judgement.wall_s:.0f} s"),
        ("Date", today()),
        ("weir", frame_of()["version"]),
        ("Host", f"{platform.system()} {platform.release()}, {platform.machine()}"),
    ]
