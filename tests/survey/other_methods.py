"""Methods made from the simulator: one agrees with it, one stands alone, one is absent, one is too small."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from weir.methods import Capacity, MethodError, Need, Outcome, Progress, Sink
from weir.methods.sim import Sim


class Twin(Sim):
    """The simulator under another name."""

    name = "twin"


class Odd(Sim):
    """The simulator on links of half the rate."""

    name = "odd"

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        parsed = json.loads(plan)
        for link in parsed["links"]:
            link["rate_bps"] //= 2
        outcome = super().execute(json.dumps(parsed), sink, progress)
        return Outcome(("half of it",), outcome.stats)


class Absent(Sim):
    """Cannot run here."""

    name = "absent"

    def available(self) -> str | None:
        return "there is no moon"


class Small(Sim):
    """Can carry nothing."""

    name = "small"

    def capacity(self, plan: Mapping[str, Any]) -> Capacity:
        return Capacity((Need("packets a second", 2.0, 1.0, "1/s"),), "made up")


class Broken(Sim):
    """Fails."""

    name = "broken"

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        raise MethodError("it is broken")
