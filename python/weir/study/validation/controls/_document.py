"""The results of a comparison of congestion controls, as a document with overlaid windows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from weir.study.validation.controls._measure import PAIRS, Pair, Row, Variants, factors_of

__all__ = ["HEAD", "document", "fields"]

_NAME = "variants"
_DRAWN = "scripted"
"""The case that is drawn: all sides lose the same packets."""
_ABOUT = """\
[`scenarios/validation/variants.yaml`](../../scenarios/validation/variants.yaml) describes the cases. `kernel` is
`cc: linux:NAME`; `lab` is `cc: NAME`, weir's source as a module of the same kernel; `as_linux` is
`cc: {name: NAME, as_linux: true}`; `sim` is the simulator. The first of two numbers is the reference's. *Distance*
compares the windows' traces instant by instant, *of values* regardless of time ([comparisons.md](../comparisons.md)).
**same** means that every row of every table is equal: each sample of each connection, each loss, each event.
`cc/NAME/README.md` explains the differences between weir's and the kernel's.""".splitlines()


def document(variants: Variants, folder: Path, command: str) -> list[Path]:
    """Writes ``variants.md``, ``variants/rows.json`` and the figures to ``folder``; the paths.

    Raises:
        OSError: a file cannot be written.
    """
    place = folder / _NAME
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("*.svg"):
        old.unlink()
    drawn = dict(_figures(variants, place))
    data, page = place / "rows.json", folder / f"{_NAME}.md"
    data.write_text(json.dumps({**variants.to_json(), "command": command}, indent=1) + "\n", encoding="utf-8")
    page.write_text(_markdown(variants, command, drawn), encoding="utf-8")
    return [page, data, *drawn.values()]


def _figures(variants: Variants, place: Path) -> Iterator[tuple[str, Path]]:
    from weir.compare.charts import OVERLAYS
    from weir.report.figures import PAPER, write_figure

    cwnd = next(overlay for overlay in OVERLAYS if overlay.trace == "cwnd")
    for group in variants.comparison.groups:
        if group.factors.get("case") != _DRAWN:
            continue
        drawing = cwnd.draw(variants.comparison, group, PAPER)
        if drawing is not None:
            (svg,) = write_figure(cwnd.chart, drawing, place, ["svg"])
            factors = factors_of(group).values()
            target = place / f"{'-'.join(factors).replace('/', '_')}.svg"
            svg.replace(target)
            yield ", ".join(factors), target


def _markdown(variants: Variants, command: str, drawn: dict[str, Path]) -> str:
    parts = [
        "# weir's congestion controls and the kernel's",
        "",
        f"Made on {variants.date} with `{command}`, Linux {variants.kernel} in virtual time.",
        "",
        *_ABOUT,
        "",
    ]
    for pair in PAIRS:
        rows = variants.of(pair)
        if rows:
            same = sum(row.same for row in rows)
            parts += [
                f"## {pair.title}",
                "",
                f"{same} of {len(rows)} cells are the same.",
                "",
                *_table(pair, rows),
            ]
    parts += ["## The windows of the scripted losses", ""]
    for title, path in drawn.items():
        parts += [f"{title}:", "", f"![{title}]({path.parent.name}/{path.name})", ""]
    return "\n".join(parts).rstrip() + "\n"


def _table(pair: Pair, rows: Sequence[Row]) -> list[str]:
    factors = list(rows[0].factors)
    head = [*factors, *HEAD]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(factors) + "--:|" * len(HEAD)]
    lines += [f"| {' | '.join([*row.factors.values(), *fields(row)])} |" for row in rows]
    return [*lines, ""]


HEAD = ("goodput (Mb/s)", "lost packets", "mean window", "distance", "of values")


def fields(row: Row) -> list[str]:
    """The numbers of a row, formatted for people."""
    if row.same:
        return [f"{row.goodput_bps[0] / 1e6:.2f}", str(row.lost[0]), f"{row.cwnd[0]:.1f}", "**same**", ""]
    a, b = row.goodput_bps
    change = f" ({100 * (b / a - 1):+.1f} %)" if a else ""
    return [
        f"{a / 1e6:.2f}, {b / 1e6:.2f}{change}",
        f"{row.lost[0]}, {row.lost[1]}",
        f"{row.cwnd[0]:.1f}, {row.cwnd[1]:.1f}",
        _share(row.distance),
        _share(row.value_distance),
    ]


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 0.0995 else f"{100 * value:.0f} %"
