"""The live state of a real-time execution, for displays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Live", "LiveFlow", "LiveLink", "Upcoming"]


@dataclass(frozen=True)
class LiveFlow:
    """A flow now; ``None`` while unknown."""

    name: str
    goodput_bps: float | None = None
    """Over the last interval of ``measure.goodput``."""
    cwnd: int | None = None
    """Packets."""
    srtt_ns: int | None = None
    retransmitted_packets: int | None = None
    """Since the start of the flow."""


@dataclass(frozen=True)
class LiveLink:
    """A link now."""

    name: str
    queue_bytes: int
    """IP bytes waiting at the end of the last interval of ``measure.links``."""
    out_bps: float
    """IP bits that left, over that interval."""
    drop_packets: int
    """Since the start of the run."""


@dataclass(frozen=True)
class Upcoming:
    """A future event of the plan."""

    at_ns: int
    what: str


@dataclass(frozen=True)
class Live:
    """The state of an execution now."""

    now_ns: int
    end_ns: int
    flows: tuple[LiveFlow, ...] = ()
    more_flows: int = 0
    """Number of active flows that are not listed."""
    total_goodput_bps: float = 0.0
    links: tuple[LiveLink, ...] = ()
    upcoming: tuple[Upcoming, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The state as JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Live:
        """The inverse of :meth:`to_json`.

        Raises:
            TypeError: ``value`` is something else.
        """
        return cls(
            **{
                **value,
                "flows": tuple(LiveFlow(**flow) for flow in value["flows"]),
                "links": tuple(LiveLink(**link) for link in value["links"]),
                "upcoming": tuple(Upcoming(**event) for event in value["upcoming"]),
            }
        )
