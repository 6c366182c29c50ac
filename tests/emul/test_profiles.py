"""Rate profiles on this machine's Linux: a transfer is never ahead of its profile, and its steps are followed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from emul_support import cell_of, needs_emul, weir

_SCENARIO = """\
title: A step of a profile
seed: 1
topology:
  dumbbell:
    pairs: 1
    access: {rate: 100Mbps}
    bottleneck: {rate: 20Mbps, queue: 100kB}
    rtt: 20ms
transport: {cc: {name: constant, window: 600}, buffers: 1.3MB}
workload:
  - {name: file, kind: transfer, between: pairs, size: 1448kB, profile: [{rate: 2.4Mbps}, {at: 1s, rate: 12Mbps}]}
duration: 8s
measure: {goodput: 100ms, tcp: 20ms, links: 100ms}
"""


@needs_emul()
def test_a_transfer_follows_its_profile(tmp_path: Path) -> None:
    scenario = tmp_path / "profile.yaml"
    scenario.write_text(_SCENARIO)
    run = weir("run", str(scenario), "--method", "emul", "--out", str(tmp_path / "run"), "--no-report")
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    cell = cell_of(tmp_path / "run")
    (transfer,) = pl.read_parquet(cell / "flows.parquet").to_dicts()
    # 200 packets until the step, and 800 more; at the first rate alone they would take five seconds, at the second one.
    lasted = transfer["end_ns"] - transfer["established_ns"]
    assert 1_780_000_000 <= lasted <= 2_900_000_000
    rates = pl.read_parquet(cell / "samples.parquet")["pacing_rate_bps"].unique().sort().to_list()
    assert [round(rate / 1e5) for rate in rates] == [23, 116], "the payload of the profile"
