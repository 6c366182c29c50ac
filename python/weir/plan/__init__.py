"""Plans: their types, which are made of the schema of the crate ``weir-plan``, and what follows from them."""

from weir.plan import _types
from weir.plan._documents import PlanError, canonical, plan_hash, typed, with_transports
from weir.plan._facts import (
    ack_bytes,
    base_rtt_ns,
    bdp_packets,
    bottleneck,
    greatest_rate_bps,
    header_bytes,
    is_reverse,
    kind_of,
    offered_bps,
    option_bytes,
    packet_bytes,
    payload_bytes,
    probabilities,
    queue_bytes,
    queue_packets,
    tcp_flows,
    transit_ns,
    wire_bytes,
)
from weir.plan._types import *  # noqa: F403

__all__ = [
    *_types.__all__,
    "PlanError",
    "ack_bytes",
    "base_rtt_ns",
    "bdp_packets",
    "bottleneck",
    "canonical",
    "greatest_rate_bps",
    "header_bytes",
    "is_reverse",
    "kind_of",
    "offered_bps",
    "option_bytes",
    "packet_bytes",
    "payload_bytes",
    "probabilities",
    "plan_hash",
    "queue_bytes",
    "queue_packets",
    "tcp_flows",
    "transit_ns",
    "typed",
    "wire_bytes",
    "with_transports",
]
