"""Plans for the tests of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared import dumbbell
from weir.cli._scenarios import load

_SCENARIO = dumbbell(
    access="rate: 100Mbps",
    bottleneck="rate: 20Mbps, queue: {droptail: {size: 1bdp}}",
    transport='cc: "linux:reno", buffers: 2MB',
    workload="name: a, between: pairs, kind: bulk, start: {every: 1s}, until: 6s",
)


def plan(folder: Path, *overrides: str) -> dict[str, Any]:
    """The plan of two flows that share 20 Mb/s for six seconds, with values changed."""
    path = folder / "scenario.yaml"
    path.write_text(_SCENARIO, encoding="utf-8")
    compiled: dict[str, Any] = load(str(path), overrides=overrides, quiet=True).cells()[0].plan()
    return compiled
