"""Synthetic runs, made once for all tests of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import Cell, Dumbbell, sweep, write_run

CCS = ("reno", "bic", "cubic", "highspeed", "htcp", "scalable")
RTTS = ("0ms", "11.5ms", "20ms", "50ms", "75ms", "100ms", "150ms", "200ms")
CLAIMS = (
    {"claim": "Reno stays below 3.5 Gb/s", "source": "RR-6034 fig. 10", "check": "goodput.aggregate.max <= 3.5Gbps",
     "where": {"cc": "reno", "rtt": "100ms"}},
    {"claim": "The link is used", "source": "thesis 2.3", "check": "goodput.aggregate.mean@all >= 1Mbps"},
    {"claim": "Twelve flows get something", "source": "", "check": "goodput.mean@all >= 1Mbps"},
    {"claim": "A variant that was not run", "source": "nowhere", "check": "goodput.mean >= 1Mbps",
     "where": {"cc": "vegas"}},
)  # fmt: skip


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A single cell of twelve flows."""
    return write_run(tmp_path_factory.mktemp("one"), bell=Dumbbell(duration=120, every=8))


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A single cell of two hundred flows."""
    bell = Dumbbell(flows=200, duration=60, every=0.1, access=1e8, capacity=1e9, queue_bytes=2.5e6)
    return write_run(tmp_path_factory.mktemp("many"), bell=bell, title="Two hundred flows")


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six variants, eight round-trip times, two repeats."""
    bell = Dumbbell(duration=60, every=4, step=0.2)
    return write_run(tmp_path_factory.mktemp("grid"), sweep(CCS, RTTS, 2), bell=bell, expect=CLAIMS)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants and two round-trip times, with a warning in one cell."""
    cells = sweep(("reno", "bic"), ("20ms", "100ms"))
    cells[1] = Cell(cells[1].factors, warnings=("the emulator was late by 3 ms",))
    bell = Dumbbell(flows=3, duration=30, every=3, step=0.2)
    return write_run(tmp_path_factory.mktemp("small"), cells, bell=bell, expect=CLAIMS)
