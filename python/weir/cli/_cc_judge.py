"""``weir cc judge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli import _errors
from weir.cli._common import console, emit_json, error_console, examples, json_option, plural

if TYPE_CHECKING:
    from weir.study.judge import Judgement

__all__ = ["command"]

_EXAMPLES = examples(
    ("weir cc judge ./mine.c", "judge it; the page is runs/judge-mine/report.html"),
    ("weir cc judge ./mine.py", "judge one in Python; it has no builds to check"),
    ("weir cc judge ./mine.c --json", "also print every figure"),
)


@click.command("judge", epilog=_EXAMPLES)
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder of page and runs. Default: runs/judge-NAME.")
@click.option("--workers", type=click.IntRange(1), help="Number of processes. Default: one per processor.")
@click.option("-q", "--quiet", is_flag=True, help="Print only results and problems, no progress.")
@json_option
def command(source: Path, out: Path | None, workers: int | None, quiet: bool, as_json: bool) -> None:
    """Judge the congestion control in SOURCE as a referee would: its builds, its checks, and its behaviour.

    weir builds it for the simulator, for BPF and as a kernel module, tries and compares the builds, and runs it in
    telling scenarios beside established controls. A control in Python has no builds, and the page says so. The page
    says what is good and what is bad, with figures and pictures, and what could not be judged on this machine.

    The same command continues an interrupted judgement. After a change of SOURCE, it runs what the change concerns.

    Exits with 1 if the recommendation is to reject; the page has the rule. A SOURCE that does not compile or pass its
    trial is an error, 2, and gets no page.
    """
    from weir.cc import ControlError, is_file_name
    from weir.study import judge as judging

    if not is_file_name(source.name) or source.suffix == ".so":
        raise ControlError(f"{source} is no C or Python file: name the source of a congestion control")
    folder = out or Path("runs") / f"judge-{source.stem}"

    def tell(text: str) -> None:
        if not quiet:
            error_console().print(text, style="dim")

    found = judging.judge(source, folder, workers=workers, tell=tell)
    page = judging.build(found, folder / "report.html")
    if as_json:
        emit_json(_document(found, page))
    else:
        _print(found, page)
    if judging.recommendation(found)[0] == judging.REJECT:
        raise click.exceptions.Exit(_errors.FAILED)


def _print(found: Judgement, page: Path) -> None:
    from weir.study import judge as judging

    out_ = console()
    for check in found.checks:
        out_.print(f"{check.name}: {check.outcome}: {check.said}", markup=False, highlight=False)
    word, why = judging.recommendation(found)
    out_.print(f"{word}: {why}", style="bold")
    for level in ("serious", "weak", "strong"):
        for case, point in found.points(level):
            out_.print(f"{level:<8} {case.case.name}: {judging.sentence(found, point)}", markup=False, highlight=False)
    points = sum(len(case.points) for case in found.cases)
    out_.print(f"{page}: {plural(points, 'figure')} of {plural(len(found.cases), 'scenario')}, {found.wall_s:.0f} s")


def _document(found: Judgement, page: Path) -> dict[str, object]:
    from weir.study.judge import recommendation

    word, why = recommendation(found)
    return {
        "recommendation": word,
        "because": why,
        "page": str(page),
        "wall_s": found.wall_s,
        "checks": [{"name": c.name, "outcome": c.outcome, "said": c.said, "listed": c.listed} for c in found.checks],
        "figures": [
            {
                "scenario": case.case.name,
                "figure": point.measure.name,
                "unit": point.measure.unit,
                "level": point.level,
                "limit": point.limit,
                "rejects": point.rejects,
                "yours": point.yours,
                "others": dict(point.others),
                "differences": {name: [found.low, found.high] for name, found in point.differences.items()},
            }
            for case in found.cases
            for point in case.points
        ],
    }
