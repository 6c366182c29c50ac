"""The simulator as a method on a machine too small for long paths."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from weir.methods import Capacity, Need, Outcome, Progress, Sink
from weir.methods.sim import Sim

MAX_NS = 15_000_000
"""Longest one-way delay of the bottleneck that it can carry."""


class SmallMachine(Sim):
    """The simulator, which declares that it cannot carry long paths."""

    name = "small"

    def capacity(self, plan: Mapping[str, Any]) -> Capacity:
        """One need: the delay of the bottleneck."""
        link = next(link for link in plan["links"] if link["name"] == "bottleneck")
        return Capacity((Need("nanoseconds", link["delay"]["delay_ns"], MAX_NS, "ns"),), "made up")


DISTURBED = "WEIR_TEST_DISTURBED"
"""Environment variable: a folder with a file for each seed that was executed once."""


class Disturbed(Sim):
    """The simulator as if on a real clock: only the first execution of a seed is disturbed.

    A disturbed execution has half the rate. With a file ``always`` in the folder, every execution is disturbed.
    """

    name = "disturbed"
    clock: Literal["virtual", "real"] = "real"

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        folder = Path(os.environ[DISTURBED])
        parsed = json.loads(plan)
        token = (
            folder
            / f"{parsed['seed']}-{parsed['flows'][0]['transport']['cc']}-{parsed['links'][0]['delay']['delay_ns']}"
        )
        if token.exists() and not (folder / "always").exists():
            return super().execute(plan, sink, progress)
        token.touch()
        for link in parsed["links"][:2]:
            link["rate_bps"] //= 2
        outcome = super().execute(json.dumps(parsed), sink, progress)
        return replace(outcome, warnings=("the emulator was late",))
