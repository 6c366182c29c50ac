"""Stored response functions: they come out again, and are what the algorithms promise."""

from __future__ import annotations

import datetime
import math
import sys

import pytest

from shared import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import responses
from responses_oracles import MARK_ORACLES, ORACLES, RATED_ORACLES, scalable

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


@pytest.mark.parametrize(
    ("name", "rtt_ms", "within"), [("dctcp", 100, 0.05), ("prague", 100, 0.03), ("prague", 10, 0.05)]
)
def test_windows_by_marks_are_those_of_the_balance(name: str, rtt_ms: int, within: float) -> None:
    for p in (p for p in responses.MARK_RATES if p >= MARK_ORACLES[name].least):
        expected = MARK_ORACLES[name].window(p, rtt_ms / 1000)
        assert FIGURES[name][responses.marked_kind(rtt_ms, p)] == pytest.approx(expected, rel=within)


def test_the_balance_of_prague_is_the_closed_form_where_marks_are_few() -> None:
    """m^2 / 2 = m + 1; m is the marks of a round trip."""
    assert MARK_ORACLES["prague"].window(1e-5, 0.1) * 1e-5 == pytest.approx(1 + math.sqrt(3), rel=1e-3)
    assert MARK_ORACLES["prague"].window(1e-5, 0.025) == MARK_ORACLES["prague"].window(1e-5, 0.1)


def test_prague_has_as_many_marks_a_round_trip_at_any_rate() -> None:
    """RFC 9332, section 1.2: about two, as DCTCP where marks are frequent."""
    found = [FIGURES["prague"][responses.marked_kind(100, p)] / scalable(p) for p in responses.MARK_RATES]
    assert max(found) < 1.15 * min(found)
    assert all(1.2 < one < 1.45 for one in found)
    assert FIGURES["dctcp"][responses.marked_kind(100, 0.05)] == pytest.approx(scalable(0.05), rel=0.15)


def test_dctcp_loses_marks_that_are_rarer_than_its_arithmetic_resolves() -> None:
    """Linux adds F / 16 to alpha in whole 1024ths: nothing for a share below 1/64, or 1/256 with `shift_g: 2`."""
    made = responses._marking("dctcp", 100, 0.01)
    made["transport"]["cc"] = {"name": "dctcp", "shift_g": 2}
    fine = responses.settled_window(responses._executed(made))
    assert fine == pytest.approx(1.71 / 0.01, rel=0.04)
    assert FIGURES["dctcp"][responses.marked_kind(100, 0.01)] > 2 * fine


def test_the_rate_of_prague_hardly_depends_on_a_short_round_trip() -> None:
    """At 10 ms about the rate that the balance has at 25 ms, and not 2.5 times as much."""
    for p in responses.MARK_RATES:
        rate = FIGURES["prague"][responses.marked_kind(10, p)] / 0.010
        assert rate == pytest.approx(MARK_ORACLES["prague"].window(p, 0.025) / 0.025, rel=0.1)


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
