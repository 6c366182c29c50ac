"""Values that a control shows by ``WEIR_PROBE``: in the simulator, in modules of the lab, in BPF of this kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from shared import ROOT, Memory, dumbbell, execute, plan_of
from weir import methods
from weir.bpf import status
from weir.lab import Kernel

Array = npt.NDArray[Any]

EXAMPLE = (ROOT / "examples" / "my_cc" / "my_cc.c").read_text(encoding="utf-8")
SHOWN = """\
	WEIR_PROBE(sk, "window", tp->snd_cwnd);
	WEIR_PROBE(sk, "negative", -(s64)tp->snd_cwnd);
	WEIR_PROBE(sk, "twelve_chars", 1ULL << 40);
"""
"""What the example shows at the end of each acknowledgement."""


def probed(method: str, **values: object) -> Memory:
    """Two flows for three seconds, with Illinois unless ``values`` say otherwise."""
    told = {"transport": "cc: illinois", "measure": "goodput: 500ms, tcp: 20ms, links: 100ms", **values}
    return execute(method, plan_of(dumbbell(**told)))[0]


def series(tables: Memory, probe: str, flow: int = 0) -> tuple[Array, Array]:
    """Times in seconds, and values, of a probe of a flow."""
    rows = tables.table("probes").to_pandas()
    mine = rows[(rows["probe"] == probe) & (rows["flow"] == flow)]
    return mine["time_ns"].to_numpy() / 1e9, mine["value"].to_numpy()


def check(tables: Memory) -> None:
    """Both values of Illinois come with the samples, within the bounds of the algorithm."""
    probes, samples = tables.table("probes"), tables.table("samples")
    assert set(probes["probe"].to_pylist()) == {"alpha", "beta"}
    of_samples = set(zip(samples["time_ns"].to_pylist(), samples["flow"].to_pylist(), strict=True))
    assert set(zip(probes["time_ns"].to_pylist(), probes["flow"].to_pylist(), strict=True)) <= of_samples
    assert probes.num_rows > 1.8 * len(of_samples)  # two for each, but for the first
    for flow in (0, 1):
        for name, least, most in (("alpha", 307, 10240), ("beta", 128, 512)):
            _, own = series(tables, name, flow)
            assert least <= own.min() <= own.max() <= most
            assert own.min() < own.max()


def needs_emul() -> None:
    """Skips where this host's kernel takes no congestion control."""
    if (why := methods.get("emul").available() or status().why_not) is not None:
        pytest.skip(why)


def test_modules_in_the_lab(kernel: Kernel) -> None:
    check(probed("lab"))


def test_bpf_in_this_kernel() -> None:
    needs_emul()
    check(probed("emul"))


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


@pytest.mark.parametrize("method", ["lab", "emul"])
def test_a_users_control_shows_what_it_holds(method: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("kernel") if method == "lab" else needs_emul()
    source = tmp_path / "mine.c"
    source.write_text(EXAMPLE.replace("(void)ack;", "(void)ack;\n" + SHOWN), encoding="utf-8")
    tables = probed(method, transport=f"cc: '{source}'")
    _, window = series(tables, "window")
    assert (series(tables, "negative")[1] == -window).all()
    assert (series(tables, "twelve_chars")[1] == 1 << 40).all()
    assert window.min() < window.max() <= max(tables.columns("samples")["cwnd"])
