"""QUIC in the lab: in virtual time, twice the same, and beside TCP."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from shared import dumbbell, execute
from weir.cli._scenarios import load
from weir.lab import Kernel

_SCENARIO = dumbbell(
    access="rate: 100Mbps",
    bottleneck="rate: 20Mbps, queue: {droptail: {size: 60packets}}",
    transport='cc: "linux:cubic"',
    workload='name: quic, kind: bulk, between: "pairs[0]", transport: {protocol: quic, cc: cubic}}\n'
    '  - {name: tcp, kind: bulk, between: "pairs[1]"',
    measure="goodput: 200ms, tcp: 50ms, links: 100ms",
)


def test_quic_beside_tcp_is_the_same_twice(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(_SCENARIO, encoding="utf-8")
    made = load(str(path), overrides=("topology.dumbbell.pairs=2", "duration=6s"), quiet=True).cells()[0].plan()
    first, second = (execute("lab", made)[0] for _ in range(2))
    for table in ("goodput", "samples", "flows", "links", "events"):
        assert first.table(table) == second.table(table), table
    goodput = pl.from_arrow(first.table("goodput"))
    assert isinstance(goodput, pl.DataFrame)
    quic, tcp = (goodput.filter(pl.col("flow") == flow)["delivered_bytes"].sum() for flow in (0, 1))
    # 15 MB in 6 s, of which headers take a twentieth.
    assert 12_500_000 < quic + tcp < 14_600_000
    assert min(quic, tcp) > (quic + tcp) / 10
