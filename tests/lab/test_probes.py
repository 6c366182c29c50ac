"""Values that a control shows by ``WEIR_PROBE``, from kernel modules in the lab and from BPF in this host's kernel."""

from __future__ import annotations

import numpy as np
import pytest

from shared import Memory, dumbbell, execute, plan_of
from weir import methods
from weir.bpf import status
from weir.lab import Kernel


def probed(method: str) -> Memory:
    """Two flows of Illinois for three seconds; the queue holds ten round trips of the path alone."""
    text = dumbbell(transport="cc: illinois", measure="goodput: 500ms, tcp: 20ms, links: 100ms")
    tables, _ = execute(method, plan_of(text))
    return tables


def check(tables: Memory) -> None:
    """Both values come with the samples, within the bounds of the algorithm."""
    probes, samples = tables.table("probes"), tables.table("samples")
    assert set(probes["probe"].to_pylist()) == {"alpha", "beta"}
    of_samples = set(zip(samples["time_ns"].to_pylist(), samples["flow"].to_pylist(), strict=True))
    assert set(zip(probes["time_ns"].to_pylist(), probes["flow"].to_pylist(), strict=True)) <= of_samples
    names, values = np.array(probes["probe"].to_pylist()), probes["value"].to_numpy()
    assert len(values) > len(of_samples)  # two for each, but for the first
    for name, least, most in (("alpha", 307, 10240), ("beta", 128, 512)):
        own = values[names == name]
        assert least <= own.min() <= own.max() <= most
        assert own.min() < own.max()


def test_modules_in_the_lab(kernel: Kernel) -> None:
    check(probed("lab"))


def test_bpf_in_this_kernel() -> None:
    if (why := methods.get("emul").available()) is not None:
        pytest.skip(why)
    if (why := status().why_not) is not None:
        pytest.skip(why)
    check(probed("emul"))
