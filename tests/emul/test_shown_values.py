"""Values that a control shows by ``WEIR_PROBE``, from BPF in this host's kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from emul_support import needs_emul

from probes_support import check_illinois, check_users_control
from weir.bpf import status

_NO_BPF = status().why_not

pytestmark = [needs_emul(), pytest.mark.skipif(_NO_BPF is not None, reason=f"no BPF here: {_NO_BPF}")]


def test_bpf_in_this_kernel() -> None:
    check_illinois("emul")


def test_a_users_control_shows_what_it_holds(tmp_path: Path) -> None:
    check_users_control("emul", tmp_path)
