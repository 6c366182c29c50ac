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
from weir.study.judge._cases import REPEATS
from weir.study.judge._judge import Judgement
from weir.study.judge._pictures import dots, legend, series
from weir.study.judge._words import at, chance, intervals, levels, limit, recommendation, rule, sentence, text_of

__all__ = ["UNJUDGED", "build"]

_ASSETS = Path(__file__).with_name("assets")

UNJUDGED = (
    (
        "Real kernels under load",
        "the builds are checked, but every figure is the simulator's: run your scenarios in the lab or by emul, too",
    ),
    (
        "Short flows of its own (5.1.5)",
        "its flows here last until the end of a scenario; only pages beside them are short, and those are CUBIC's",
    ),
    ("Real-time flows that adapt (5.2.2)", "the call here has a constant rate"),
    ("Deployment and security (5.3, 8)", "the RFC asks for a discussion, which no simulation replaces"),
    ("Tunnels (6.2)", "no tunnel is in any scenario"),
    (
        "Radio links (6.4)",
        "losses are random and the rate changes twice; no link layer retransmits or waits for its turn",
    ),
    (
        "Other queues that mark (7.1)",
        "DualPI2 is the only one; a data centre's step, RED, CoDel and FQ-CoDel with ECN are in no scenario, and the "
        "managed queues here drop",
    ),
    ("Circuit breakers (7.2)", "none is on a path"),
    ("Low-rate and constrained nodes (7.4), satellites (7.5)", "paths here have 10 to 300 Mb/s, and up to 150 ms"),
    ("Misbehaving ends and attackers (7.6)", "all receivers are honest"),
    ("Extreme reordering (7.7), multipath (7.10), data centres (7.11)", "no scenario has them"),
    ("Applications that pause", "flows here always have data; the shared suite asks for the window after a pause"),
    ("Options", "every scenario has them at their defaults"),
    ("Rare events", f"every scenario runs {REPEATS} times; what happens once in a hundred runs may be in none of them"),
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
        levels=levels(),
        chance=chance(),
        rule=rule(),
        text=text_of,
        limit=limit,
        intervals=intervals,
        dots=lambda point: Markup(dots(point, judgement.name)),
        legend=Markup(legend(judgement)),
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
        ("ECN", _ecn(judgement)),
        ("Beside", ", ".join(judgement.cases[0].points[0].others)),
        ("Executed", f"{len(judgement.cases)} scenarios, {cells} runs of the simulator"),
        ("Took", f"{judgement.wall_s:.0f} s"),
        ("Date", today()),
        ("weir", frame_of()["version"]),
        ("Host", f"{platform.system()} {platform.release()}, {platform.machine()}"),
    ]


def _ecn(judgement: Judgement) -> str:
    """Whether the control gets marks."""
    if not judgement.about.needs_ecn:
        return "it does not ask for it: queues that mark drop its packets instead"
    kind = "ECT(1)" if judgement.about.needs_accecn else "ECT(0)"
    return f"it asks for it, and has it where a queue marks, as {kind}; the others have none"
