"""Values that a control shows by ``WEIR_PROBE``, from modules of the lab, and beside those of the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from probes_support import check_illinois, check_users_control, probed, series
from weir.lab import Kernel


def test_modules_in_the_lab(kernel: Kernel) -> None:
    check_illinois("lab")


def test_a_users_control_shows_what_it_holds(kernel: Kernel, tmp_path: Path) -> None:
    check_users_control("lab", tmp_path)


def test_the_simulator_shows_what_the_lab_shows(kernel: Kernel) -> None:
    """One flow that only its own queue delays, and hosts that answer in no time: what differs is rounding."""
    told = {
        "transport": "cc: illinois, processing: 0s",
        "pairs": 1,
        "access": "rate: 100Mbps",
        "bottleneck": "rate: 20Mbps, queue: 200packets",
        "rtt": "40ms",
        "workload": "name: flows, between: pairs, kind: bulk, until: 10s",
    }
    sim, lab = probed("sim", **told), probed("lab", **told)
    for name in ("alpha", "beta"):
        (at, expected), (lab_at, found) = series(sim, name), series(lab, name)
        both, i, j = np.intersect1d(at, lab_at, return_indices=True)
        assert len(both) > 450
        assert expected.min() < 0.9 * expected.max()
        assert np.mean(expected[i] == found[j]) > 0.9
        assert (np.abs(expected[i] - found[j]) <= 0.02 * expected[i]).all()
