"""Stored response functions: they come out again, and are what the algorithms promise."""

from __future__ import annotations

import datetime
import sys

import pytest

from shared import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import responses
from responses_oracles import ORACLES, RATED_ORACLES

FIGURES = responses.stored()["figures"]

WITHIN = {
    "reno": 0.02,
    "cubic": 0.07,
    "cubic-2005": 0.05,
    "htcp": 0.02,
    "scalable": 0.09,
    "illinois": 0.06,
    "veno": 0.04,
    "vegas": 0.02,
    "yeah": 0.09,
    "hybla": 0.04,
    "multcp": 0.03,
    "relentless": 0.01,
    "compound": 0.09,
    "fast": 0.1,
    "dctcp": 0.02,
    "prague": 0.02,
    "lp": 0.02,
    "cdg": 0.02,
    "nv": 0.05,
}
"""How far the mean window may be from the expected one at p = 1e-4 and below: the round trip of recovery, which that
leaves out, costs most where cycles are short. Controls without a tight closed form are not here."""


def test_every_control_is_measured() -> None:
    assert list(FIGURES) == responses.everyone()


def test_stored_figures_come_out_again() -> None:
    """Another sample each day; a failure says how to repeat it."""
    seed = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert responses.differences(responses.drawn(seed)) == [], f"scripts/responses.py --check {seed}"


def test_a_changed_figure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    known = responses.stored()
    known["figures"]["reno"]["0.01"] += 0.01
    monkeypatch.setattr(responses, "stored", lambda: known)
    (line,) = responses.differences([("reno", "0.01")])
    assert line.startswith("reno at 0.01: ")
    assert f"stored is {known['figures']['reno']['0.01']} packets" in line


@pytest.mark.parametrize("name", WITHIN)
def test_windows_are_those_of_the_closed_form(name: str) -> None:
    for p in ("0.0001", "3e-05", "1e-05"):
        assert FIGURES[name][p] == pytest.approx(ORACLES[name].window(float(p)), rel=WITHIN[name])


def test_equal_flows_of_a_fair_control_share_equally() -> None:
    for name in ("reno", "cubic", "dctcp"):
        first, second = responses.shares(FIGURES[name]["40,40"])
        assert 0.4 < first / (first + second) < 0.6


@pytest.mark.parametrize("name", RATED_ORACLES)
def test_goodput_by_loss_rate_is_what_the_losses_leave(name: str) -> None:
    oracle = RATED_ORACLES[name]
    full = responses.RATE_BPS * 1448 / 1538
    for p in responses.RATED_LOSS_RATES:
        if p <= oracle.most:
            found = FIGURES[name][responses.rated_kind(p)]
            assert 0.88 < found / (full * oracle.share(p)) <= 1, f"{found} at {p}"


def test_bbr_outlives_losses_that_cubic_does_not() -> None:
    bbr, cubic = (FIGURES[name][responses.rated_kind(1e-2)] for name in ("bbr", "cubic"))
    assert bbr > 10 * cubic


def test_bbr_stalls_at_losses_only_if_startup_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 15 %: recovery keeps Startup's window small, and the path seems full. Afterwards 1 - p of the rate remains."""
    monkeypatch.setattr(responses, "RATED_TO_S", 15)
    stalled = responses._limited("bbr", 0.15)
    later = responses._limited("bbr", 0)
    later["changes"] = [{"at": "3s", "link": "bottleneck", "loss": {"bernoulli": 0.15}}]
    rates = [responses.rated(responses._executed(document)) / 1e6 for document in (stalled, later)]
    assert rates[0] < 5
    assert 0.9 < rates[1] / (0.85 * responses.RATE_BPS / 1e6 * 1448 / 1538) <= 1


@pytest.mark.parametrize("name", ["xcp", "rcp"])
def test_flows_with_explicit_feedback_share_and_drop_little(name: str) -> None:
    found = FIGURES[name][responses.STEPS]
    # A new flow of RCP sends its share at once, on top of what the others send for a round trip still.
    assert found["dropped"] == 0 if name == "xcp" else found["dropped"] < 0.003 * sum(found["sent"]) / 1500
    bins = 1000 // responses.STEP_BIN_MS
    alone, all_five = (
        [sum(one[second * bins : (second + 1) * bins]) / bins / 1e3 for one in found["goodput"]] for second in (3, 23)
    )
    assert alone[0] > 85
    assert all_five == pytest.approx([18.8] * 5, rel=0.12)
