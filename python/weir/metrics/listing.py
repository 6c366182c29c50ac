"""The catalogue of metrics as a document, generated from the registry: ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Iterable

from weir.metrics.registry import Category, MetricInfo, Param, View, catalogue

__all__ = ["catalogue_markdown"]

_HEAD = """\
# Metrics

Each metric has one definition, computed from the tables of a run, whichever method wrote them. `weir metrics NAME`
prints it; `run.metrics(...)` computes metrics in a notebook; the checks of a scenario's `expect` compare them.

## How a metric is written

    name[.statistic...][parameters][@phase][{factors}][(flows or links)]

| part | meaning | default |
|---|---|---|
| `.statistic` | `mean`, `median`, `min`, `max`, `sd`, `var`, `cov`, `sum`, `last`, `p1` to `p99`, `p99_9` | `mean` |
| `[alpha: 2]` | a parameter of the metric | its default |
| `@twelve` | a phase of the scenario | the whole run |
| `{cc: reno}` | in a check: the cells with this factor value | the cells that the check is about |
| `(elephants[4])` | links or flows (`elephants`, `elephants[0:5]`, `role:background`, `*`) | the flows under test |

## What it means

- A **series** takes its first statistic over time and its second over flows or links: `goodput.p99.min` is the smallest
  of the flows' 99th percentiles. Without a second one, `min` and `max` apply to the flows as well; any other statistic
  is averaged over them.
- A **sample** (completion times) takes its statistic over the whole population; a **value** over its flows or links.
- A phase begins with its first instant and ends before its last. An interval that is not wholly inside is left out.
- Flows under test are those without `background: true`, in both directions: `direction:forward`, `direction:reverse`.
  The others are `role:background` and, from sink to source, `role:reverse`. Metrics of links are about the bottleneck
  from source to sink unless a link is named.
- A flow counts from its start until its source stops, its last transfer ends, or the run ends.
- A value is *censored* if the window ended before the event: the true value is larger. A frame marks it in its column
  `censored`, and a check decides by it only where the bound suffices.
- Over repeats: mean, standard deviation (n - 1) and a 95 % interval of Student's t, or a bootstrap interval. One repeat
  has no interval.

## What DataTAG calls throughput

The paper took received throughput from iperf, which counts payload. UIF, QEF and the coefficient of variation
therefore have one reading here: goodput, the payload delivered in order (`uif`, `qef`, `goodput.cov`). For UIF and the
coefficient of variation headers cancel out. For QEF they do not, and table 1 decides: at 10:90 both classes have
100 %, at 90:10 Standard TCP has 96.5 % of 900 Mb/s and best effort 132.1 % of 100 Mb/s, 1000.6 Mb/s together. Gigabit
Ethernet carries 941 Mb/s of TCP payload and 956 Mb/s of iperf's UDP payload. So 100 % in table 1 is the payload that
the allocation can carry, and `qef` divides by that. Without retransmissions it equals `class.efficiency`, the share of
the wire over the weight, by which B5 to B8 are judged.
"""

_NOT_COUNTED = """
## What is not here

Table 2.III also names hardware upgrades and the modification of applications. Their cost is a judgement about an
organisation; no table of a run contains it. `deployability.network` and `deployability.application` count the places
that a plan requires to change. Lines of code are a count; they do not measure how hard an algorithm is to get right.
"""


def catalogue_markdown() -> str:
    """The document: notation, metrics by category, and the metrics that each point of view asks for."""
    infos = catalogue()
    parts = [_HEAD]
    for category in Category:
        some = [info for info in infos if info.category is category]
        parts += [f"\n## {category.value.capitalize()}\n", *map(_metric, some)]
    return "\n".join([*parts, _views(infos), _NOT_COUNTED.strip("\n"), ""])


def _metric(info: MetricInfo) -> str:
    facts = [
        ("formula", f"{info.symbol} = {info.formula}"),
        ("unit", info.unit),
        ("kind", f"{info.kind}, one a {info.scope}" if info.scope != "group" else f"{info.kind}, one for all flows"),
        ("asked by", ", ".join(view.value for view in info.views)),
        ("source", info.source),
        ("reads", ", ".join(f"`{table}`" for table in info.tables) or "the plan"),
        *((f"`{param.name}`", _param(param)) for param in info.params),
    ]
    rows = [f"| {name} | {_cell(text)} |" for name, text in facts]
    return "\n".join([f"### `{info.name}`\n", "| | |", "|---|---|", *rows, "", _links(info.doc), ""])


def _param(param: Param) -> str:
    if param.required:
        default = "required"
    elif param.default is None:
        default = "optional"
    else:
        default = f"default {param.default:g}" if isinstance(param.default, float) else f"default {param.default}"
    return f"{param.doc} ({param.unit}, {default})"


def _views(infos: Iterable[MetricInfo]) -> str:
    """The thesis' Table 2.III, filled with weir's metrics."""
    lines = ["## Whose question a metric answers\n", "| | " + " | ".join(view.value for view in View) + " |"]
    lines.append("|---" * (len(View) + 1) + "|")
    for category in Category:
        cells = [
            ", ".join(f"`{info.name}`" for info in infos if info.category is category and view in info.views) or "-"
            for view in View
        ]
        lines.append(f"| {category.value} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def _links(doc: str) -> str:
    """Converts a docstring to Markdown: double backticks to single ones."""
    return doc.replace("``", "`")
