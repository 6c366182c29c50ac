"""The rate of ports that interfaces say, and why there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from weir._errors import UnavailableError
from weir._interfaces import Interface, Run, common_rate_bps


def answers(speed: str, *, device: bool = True) -> Run:
    """Commands of a host whose interfaces say this rate, with a device behind them or none."""

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        if "cat" in command:
            return (0, speed, "") if speed else (1, "", "cat: Invalid argument")
        if "test" in command:
            return 0 if device else 1, "", ""
        return 0, json.dumps([{"flags": ["UP"], "address": "02:00:00:00:00:01"}]), ""

    return run


def interfaces(**runs: Run) -> dict[str, Interface]:
    return {f"a/{name}": Interface.of(f"a/{name}", run) for name, run in runs.items()}


def test_cards_that_say_one_rate_have_it() -> None:
    assert common_rate_bps(interfaces(eth1=answers("1000\n"), eth2=answers("1000\n"))) == 1e9


@pytest.mark.parametrize("unknown", ["", "-1\n", "0\n"])
def test_an_interface_that_says_no_rate_is_named(unknown: str) -> None:
    with pytest.raises(UnavailableError, match=r"do not say their rate: a/eth2; give --rate$"):
        common_rate_bps(interfaces(eth1=answers("1000\n"), eth2=answers(unknown)))


def test_different_rates_are_told_with_who_says_them() -> None:
    with pytest.raises(UnavailableError, match=r"\(a/eth1: 1000 Mb/s, a/eth2: 10000 Mb/s\); give --rate$"):
        common_rate_bps(interfaces(eth1=answers("1000\n"), eth2=answers("10000\n")))


def test_the_constant_of_a_virtual_interface_is_no_rate() -> None:
    veth = answers("10000\n", device=False)
    with pytest.raises(UnavailableError, match=r"virtual interfaces have no rate .*: a/p0, a/p1; give --rate$"):
        common_rate_bps(interfaces(p0=veth, p1=veth, eth1=answers("10000\n")))
