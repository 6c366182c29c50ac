"""Lost packets, as the ends of flows see them: nobody else does on a network that is not weir's.

Of TCP and UDT, every retransmission stands for a lost packet, which counts those too many that were in vain; of UDP,
a lost packet is one that was sent and did not arrive. Marks are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from weir.hosts.messages import Frame

__all__ = ["losses"]

_COUNT = re.compile(r"\.(?:cbr|tfrc|dccp)\.(\d+)\.lost$")


def losses(flows: Iterable[Frame], stats: Mapping[str, float]) -> Iterator[Frame]:
    """Tables ``drops`` (:mod:`weir.hosts.merge`) from ``flows``, and the receivers' counts ``NODE.cbr.FLOW.lost``,
    and those of ``tfrc`` and ``dccp``."""
    for frame in flows:
        columns = frame.columns
        again = columns["retransmitted_packets"] > 0
        yield _drops(columns["start_ns"][again] + 1, columns["flow"][again], columns["retransmitted_packets"][again])
    for name, count in stats.items():
        found = _COUNT.search(name)
        if found is not None and count > 0:
            yield _drops([1], [int(found[1])], [int(count)])


def _drops(time_ns: object, flow: object, packets: object) -> Frame:
    """Rows that belong to the transfer that has begun before ``time_ns``."""
    flows = np.asarray(flow, np.uint32)
    return Frame(
        "drops",
        {
            "time_ns": np.asarray(time_ns, np.uint64),
            "flow": flows,
            "link": np.zeros(len(flows), np.uint32),
            "packets": np.asarray(packets, np.uint64),
        },
    )
