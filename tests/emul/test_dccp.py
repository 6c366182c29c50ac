"""DCCP where this machine's kernel lacks it: refused before anything runs, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from emul_support import needs_emul, weir

from shared import has_dccp

_SCENARIO = """\
title: DCCP
topology:
  dumbbell: {pairs: 1, access: {rate: 100Mbps}, bottleneck: {rate: 20Mbps, queue: 60packets}, rtt: 20ms}
transport: {protocol: dccp}
workload: [{name: a, kind: bulk, between: pairs}]
duration: 3s
"""


@needs_emul()
@pytest.mark.skipif(has_dccp(), reason="this kernel has DCCP")
def test_a_kernel_without_dccp_is_named_before_the_run(tmp_path: Path) -> None:
    scenario = tmp_path / "dccp.yaml"
    scenario.write_text(_SCENARIO, encoding="utf-8")
    run = weir("run", str(scenario), "--method", "emul", "--out", str(tmp_path / "run"), "--no-report")
    _, said = run.communicate(timeout=120)
    assert run.returncode == 2, said
    assert "method 'emul' cannot execute this: protocol: dccp: the kernel of this host has no DCCP" in said
