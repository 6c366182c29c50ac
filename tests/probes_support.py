"""Values that a control shows by ``WEIR_PROBE``: a scenario, and what must hold whatever the method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shared import ROOT, Memory, dumbbell, execute, plan_of

Array = npt.NDArray[Any]

_OPEN = 0
_SHOWN = """\
	WEIR_PROBE(sk, "window", tp->snd_cwnd);
	WEIR_PROBE(sk, "negative", -(s64)tp->snd_cwnd);
	WEIR_PROBE(sk, "twelve_chars", 1ULL << 40);
"""
"""What the example shows when it has an acknowledgement, before it changes the window."""


def probed(method: str, **values: object) -> Memory:
    """Two flows for three seconds, with Illinois unless ``values`` say otherwise."""
    told = {"transport": "cc: illinois", "measure": "goodput: 500ms, tcp: 20ms, links: 100ms", **values}
    return execute(method, plan_of(dumbbell("", **told)))[0]


def series(tables: Memory, probe: str, flow: int = 0) -> tuple[Array, Array]:
    """Times in seconds, and values, of a probe of a flow."""
    rows = tables.table("probes").to_pandas()
    mine = rows[(rows["probe"] == probe) & (rows["flow"] == flow)]
    return mine["time_ns"].to_numpy() / 1e9, mine["value"].to_numpy()


def check_illinois(method: str) -> None:
    """Both values of Illinois come with the samples, within the bounds of the algorithm."""
    tables = probed(method)
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


def check_users_control(method: str, folder: Path) -> None:
    """A control of a user shows what it holds: its window, negative values, and values of more than 32 bits."""
    source = folder / "mine.c"
    example = (ROOT / "examples" / "my_cc" / "my_cc.c").read_text(encoding="utf-8")
    source.write_text(example.replace("(void)ack;", "(void)ack;\n" + _SHOWN), encoding="utf-8")
    tables = probed(method, transport=f"cc: '{source}'")
    for flow in (0, 1):
        at, window = series(tables, "window", flow)
        assert (series(tables, "negative", flow)[1] == -window).all()
        assert (series(tables, "twelve_chars", flow)[1] == 1 << 40).all()
        assert window.min() < window.max()
        rows = tables.table("samples").to_pandas()
        rows = rows[(rows["flow"] == flow) & (rows["ca_state"] == _OPEN)]
        # In recovery the kernel sets the window and does not ask the control, whose last value stays. Else a sample's
        # window is the shown one and the growth by that acknowledgement, of two segments at most.
        _, sampled, shown = np.intersect1d(rows["time_ns"].to_numpy() / 1e9, at, return_indices=True)
        growth = rows["cwnd"].to_numpy()[sampled].astype(np.int64) - window[shown]
        assert len(growth) > 40
        assert np.mean((growth >= 0) & (growth <= 2)) > 0.9
