"""The tables of a run: their columns, types, units and meaning.

Every method writes these tables and every metric reads them; nothing else passes between the two. ``weir schema``
prints them, and each Parquet file carries the descriptions in its field metadata.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["FORMAT", "TABLES", "Column", "Table", "arrow_schema"]


@dataclass(frozen=True)
class Column:
    """One column: its name (with its unit), Arrow type and meaning."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False
    formerly: str | None = None
    """Its name in runs of older versions, if that was another one."""


@dataclass(frozen=True)
class Table:
    """One table of a run."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    optional: bool = False
    """Whether a cell has it only if its plan has something to record there, and the method can tell."""


_TIME = Column("time_ns", pa.uint64(), "End of the interval, since the start of the run.")
_FLOW = Column("flow", pa.uint32(), "Index of the flow in the plan.")

_FLOWS = Table(
    "flows",
    "One row a transfer; a bulk flow and a constant-bit-rate flow are one transfer each.",
    (
        _FLOW,
        Column("transfer", pa.uint32(), "Number of the transfer within its flow, from 0."),
        Column("start_ns", pa.uint64(), "The application asked for the transfer (before any handshake)."),
        Column(
            "established_ns",
            pa.uint64(),
            "The connection was established; null for UDP or if it never was.",
            nullable=True,
        ),
        Column(
            "end_ns",
            pa.uint64(),
            "The last byte was acknowledged (TCP) or sent (UDP); null if the run ended before.",
            nullable=True,
        ),
        Column("bytes", pa.uint64(), "Size asked for; null for a bulk or constant-bit-rate flow.", nullable=True),
        Column("delivered_bytes", pa.uint64(), "Payload handed to the receiving application, in order."),
        Column("sent_bytes", pa.uint64(), "Payload sent, retransmissions included."),
        Column("sent_packets", pa.uint64(), "Data packets sent, retransmissions included."),
        Column("retransmitted_packets", pa.uint64(), "Data packets retransmitted."),
        Column("lost_packets", pa.uint64(), "Data packets dropped on the path (by losses, queues or MTU)."),
        Column("marked_packets", pa.uint64(), "Data packets marked congestion-experienced on the path."),
        Column("timeouts", pa.uint64(), "Retransmission timeouts."),
    ),
)

_GOODPUT = Table(
    "goodput",
    "Per flow and interval of `measure.goodput`: what the receiving application got and the sender sent. A flow has "
    "rows from its start until it has ended.",
    (
        _TIME,
        _FLOW,
        Column("delivered_bytes", pa.uint64(), "Payload handed to the receiving application in the interval."),
        Column(
            "sent_ip_bytes",
            pa.uint64(),
            "IP bytes of the data packets sent in the interval: headers and retransmissions included.",
            formerly="sent_bytes",
        ),
    ),
)

_SAMPLES = Table(
    "samples",
    "Per TCP flow and instant of `measure.tcp`: state of the sender while its connection is open.",
    (
        _TIME,
        _FLOW,
        Column("cwnd", pa.uint32(), "Congestion window, packets."),
        Column("ssthresh", pa.uint32(), "Slow-start threshold, packets; null while infinite.", nullable=True),
        Column("in_flight", pa.uint32(), "Packets in flight as the sender estimates them."),
        Column("srtt_ns", pa.uint64(), "Smoothed round-trip time; null before the first sample.", nullable=True),
        Column("min_rtt_ns", pa.uint64(), "Least round-trip time; null before the first sample.", nullable=True),
        Column("pacing_rate_bps", pa.uint64(), "Pacing rate; null where the flow is not paced.", nullable=True),
        Column("acked_bytes", pa.uint64(), "Payload acknowledged since the start of the flow."),
        Column("sent_bytes", pa.uint64(), "Payload sent since the start of the flow, retransmissions included."),
        Column("retransmitted_packets", pa.uint64(), "Packets retransmitted since the start of the flow."),
        Column("timeouts", pa.uint32(), "Retransmission timeouts since the start of the flow."),
        Column("ca_state", pa.uint8(), "0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss."),
        Column(
            "busy_ns",
            pa.uint64(),
            "Time with data waiting or in flight, since the start of the flow; null where the method cannot tell.",
            nullable=True,
        ),
        Column(
            "rwnd_limited_ns",
            pa.uint64(),
            "Of it, limited by the receive window; null where the method cannot tell.",
            nullable=True,
        ),
        Column(
            "sndbuf_limited_ns",
            pa.uint64(),
            "Of it, limited by the send buffer; null where the method cannot tell.",
            nullable=True,
        ),
    ),
)

_LINKS = Table(
    "links",
    "Per directed link recorded and interval of `measure.links`; intervals without a packet or a queue are left out: "
    "all counts are 0 then. Bytes are IP bytes; the plan has the overhead of a packet.",
    (
        _TIME,
        Column("link", pa.uint32(), "Index of the link in the plan."),
        Column("in_packets", pa.uint64(), "Packets that arrived in the interval."),
        Column("in_bytes", pa.uint64(), "Their IP bytes."),
        Column("out_packets", pa.uint64(), "Packets whose transmission began in the interval."),
        Column("out_bytes", pa.uint64(), "Their IP bytes."),
        Column("drop_packets", pa.uint64(), "Packets dropped in the interval: by losses, the queue or the MTU."),
        Column("drop_bytes", pa.uint64(), "Their IP bytes."),
        Column("mark_packets", pa.uint64(), "Packets marked congestion-experienced in the interval."),
        Column(
            "queue_bytes",
            pa.uint64(),
            "IP bytes waiting at the end of the interval, the one in transmission not counted.",
        ),
        Column("queue_packets", pa.uint64(), "Packets waiting at the end of the interval."),
        Column("queue_max_bytes", pa.uint64(), "Most bytes waiting at any instant of the interval."),
        Column(
            "queue_delay_ns",
            pa.uint64(),
            "Mean time in the queue, over the packets whose time became known in the interval: at admission to a queue "
            "that is first in, first out, at the start of transmission elsewhere. Null if there was none.",
            nullable=True,
        ),
        Column("queue_delay_max_ns", pa.uint64(), "Longest of these times; null if there was none.", nullable=True),
    ),
)

_CLASSES = Table(
    "classes",
    "The rows of table `links` for each class of packets, where the queue of a recorded link has classes. A packet is "
    "counted from its arrival at the queue: packets that the link loses before it, by a loss model or the MTU, belong "
    "to no class. All else adds up to the row of the link, but for the maximum.",
    (
        _TIME,
        Column("link", pa.uint32(), "Index of the link in the plan."),
        Column("class", pa.uint32(), "Number of the class within the queue, from 0."),
        Column("in_packets", pa.uint64(), "Packets of the class that arrived at the queue in the interval."),
        Column("in_bytes", pa.uint64(), "Their IP bytes."),
        Column("out_packets", pa.uint64(), "Packets whose transmission began in the interval."),
        Column("out_bytes", pa.uint64(), "Their IP bytes."),
        Column("drop_packets", pa.uint64(), "Packets that the queue dropped in the interval."),
        Column("drop_bytes", pa.uint64(), "Their IP bytes."),
        Column("mark_packets", pa.uint64(), "Packets marked congestion-experienced in the interval."),
        Column("queue_bytes", pa.uint64(), "IP bytes waiting at the end of the interval."),
        Column("queue_packets", pa.uint64(), "Packets waiting at the end of the interval."),
        Column("queue_max_bytes", pa.uint64(), "Most bytes of the class waiting at any instant of the interval."),
        Column(
            "queue_delay_ns",
            pa.uint64(),
            "Mean time in the queue, over the packets that began their transmission in the interval; null if none did.",
            nullable=True,
        ),
        Column("queue_delay_max_ns", pa.uint64(), "Longest of these times; null if there was none.", nullable=True),
    ),
    optional=True,
)

_PROBES = Table(
    "probes",
    "Per TCP flow, instant of `measure.tcp` and `WEIR_PROBE` of its congestion control: the value that the control "
    "showed last. A flow has no row of a probe that its control has not reached yet. A flow over TFRC, or "
    "over DCCP with CCID 3, shows its allowed rate, loss event rate and round-trip time; one over UDT its rate, window "
    "and round-trip time.",
    (
        _TIME,
        _FLOW,
        Column("probe", pa.string(), "Name of the probe."),
        Column("value", pa.int64(), "The value, in the unit that the control's source gives it."),
    ),
    optional=True,
)

_PROCESSOR = Table(
    "processor",
    "Processor time of the processes of a run, by methods in real time. Agents have a row per interval of "
    "`measure.goodput`, the emulator one per 200 ms. System time is that of system calls: what the kernel does for a "
    "host elsewhere, as when packets arrive, belongs to whoever it interrupts, by `emul` to the emulator, which writes "
    "them to the host. Programs that a scenario names are not counted.",
    (
        _TIME,
        Column(
            "part",
            pa.uint8(),
            "0 a process with sending ends, 1 with receiving ends, 2 with both, 3 the emulator, without the time in "
            "which it waits by spinning.",
        ),
        Column("user_ns", pa.uint64(), "Processor time in user mode in the interval."),
        Column("system_ns", pa.uint64(), "Processor time in system calls in the interval."),
    ),
    optional=True,
)

_ACKS = Table(
    "acks",
    "Every acknowledgement that a flow of `measure.acks` processed, and every packet that it sent, in the order of "
    "time. The state is that afterwards. Round-trip time and delivery rate are the samples that the sender itself "
    "takes, those of a congestion control with `cong_control`, in whole microseconds: of the last packet that the "
    "acknowledgement reports as delivered for the first time, selectively or not. A retransmitted packet gives a "
    "round-trip time only by an echoed timestamp. In the lab, they are the kernel's rate sample; a train of segments "
    "is one row there.",
    (
        Column("time_ns", pa.uint64(), "When, since the start of the run."),
        _FLOW,
        Column("kind", pa.uint8(), "0 acknowledgement, 1 transmission, 2 retransmission."),
        Column(
            "packet",
            pa.uint64(),
            "Transmissions: the number of the packet in its connection, from 0. Acknowledgements: the first packet "
            "that is not acknowledged.",
        ),
        Column(
            "delivered_packets",
            pa.uint32(),
            "Packets that the acknowledgement reports as delivered for the first time, selectively or not.",
        ),
        Column("cwnd", pa.uint32(), "Congestion window, packets."),
        Column("ssthresh", pa.uint32(), "Slow-start threshold, packets; null while infinite.", nullable=True),
        Column("in_flight", pa.uint32(), "Packets in flight as the sender estimates them."),
        Column("rtt_ns", pa.uint64(), "Round-trip time; null without a sample.", nullable=True),
        Column(
            "delivery_rate_bps",
            pa.uint64(),
            "Payload delivered since that packet was sent, over the longer of the times in which it was sent and "
            "acknowledged (draft-cheng-iccrg-delivery-rate-estimation); null without a sample.",
            nullable=True,
        ),
        Column("pacing_rate_bps", pa.uint64(), "Pacing rate; null where the flow is not paced.", nullable=True),
        Column("ca_state", pa.uint8(), "0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss."),
    ),
    optional=True,
)

_PORTS = Table(
    "ports",
    "Per switch, pair of output and input port and interval of `measure.links`, where the output's link is recorded; "
    "intervals in which nothing arrived, waited or left are left out. Summed over inputs, a row is one of the output "
    "port, and over outputs one of the input port. Runs are counted over the ends of intervals.",
    (
        _TIME,
        Column("node", pa.uint32(), "Index of the switch among the nodes of the plan."),
        Column("output", pa.uint32(), "Index of the link that leaves the output port."),
        Column("input", pa.uint32(), "Index of the link that reaches the input port."),
        Column("in_packets", pa.uint64(), "Packets that came into the memory or were dropped there."),
        Column("in_bytes", pa.uint64(), "Their IP bytes."),
        Column("out_packets", pa.uint64(), "Packets whose transmission began in the interval."),
        Column("out_bytes", pa.uint64(), "Their IP bytes."),
        Column("drop_packets", pa.uint64(), "Packets for which the memory had no room."),
        Column("drop_bytes", pa.uint64(), "Their IP bytes."),
        Column("queue_bytes", pa.uint64(), "IP bytes waiting at the end of the interval."),
        Column("queue_packets", pa.uint64(), "Packets waiting at the end of the interval."),
        Column("queue_max_bytes", pa.uint64(), "Most IP bytes waiting at any instant of the interval."),
        Column("loss_runs", pa.uint64(), "Runs of consecutive losses that began in the interval."),
        Column("loss_run_max", pa.uint64(), "Length, so far, of the longest run with a loss in the interval."),
        Column("service_runs", pa.uint64(), "Runs of consecutive packets of this input at the output that began."),
        Column("service_run_max", pa.uint64(), "Length, so far, of the longest run with a packet in the interval."),
        Column(
            "starved_max_ns",
            pa.uint64(),
            "Longest time, so far, without service of the input at the output although packets came or waited.",
        ),
    ),
    optional=True,
)

_DELAYS = Table(
    "delays",
    "Per flow and interval of `measure.delay`: one-way delay and jitter of the data packets that arrived in it, "
    "retransmitted copies among them; intervals without one are left out. The delay of a packet begins when its host "
    "hands it to the queue of its first link, and ends when its last bit has reached the other host. Its jitter is the "
    "difference, without sign, to the delay of the packet of the flow that arrived before it (RFC 3393, RFC 3550).",
    (
        _TIME,
        _FLOW,
        Column("packets", pa.uint64(), "Data packets that arrived in the interval."),
        Column("delay_ns", pa.uint64(), "Mean of their delays, rounded down."),
        Column("delay_min_ns", pa.uint64(), "Shortest of them."),
        Column("delay_max_ns", pa.uint64(), "Longest of them."),
        Column("jitter_packets", pa.uint64(), "Packets that have a jitter: all but the first one of a flow."),
        Column("jitter_ns", pa.uint64(), "Mean of their jitters, rounded down; null if there is none.", nullable=True),
        Column("jitter_max_ns", pa.uint64(), "Longest of them; null if there is none.", nullable=True),
    ),
    optional=True,
)

_DELAY_BINS = Table(
    "delay_bins",
    "The delays and jitters of table `delays` as histograms. Percentiles of intervals cannot be averaged; add the "
    "counts of equal bins over intervals, flows or repeats, and take the percentile of the sum. Empty bins are left "
    "out. Each power of two has 128 bins of equal width: the middle of a bin is off by 0.4 % at most, and by nothing "
    "below 256 ns.",
    (
        _TIME,
        _FLOW,
        Column("low_ns", pa.uint64(), "Shortest delay, or jitter, that belongs to the bin."),
        Column("high_ns", pa.uint64(), "Longest."),
        Column("delay_packets", pa.uint64(), "Packets of the interval whose delay is in the bin."),
        Column("jitter_packets", pa.uint64(), "Packets of the interval whose jitter is in the bin."),
    ),
    optional=True,
)

_EVENTS = Table(
    "events",
    "What happened, in the order of time.",
    (
        Column("time_ns", pa.uint64(), "When, since the start of the run."),
        Column(
            "kind",
            pa.dictionary(pa.uint8(), pa.string()),
            "flow_start, established, transfer_start, transfer_end, flow_end, recovery, recovery_end, rto, tlp, undo, "
            "cwr, local_congestion, link_change; pause, resume: a switch stops the sender of a link, or lets it go on.",
        ),
        Column("flow", pa.uint32(), "Index of the flow; null where no flow is concerned.", nullable=True),
        Column("link", pa.uint32(), "Index of the link; null where no link is concerned.", nullable=True),
        Column(
            "value", pa.int64(), "recovery, rto, cwr: cwnd before, in packets; link_change: new rate, bit/s; else 0."
        ),
    ),
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        *(_FLOWS, _GOODPUT, _SAMPLES, _PROBES, _PROCESSOR, _ACKS, _LINKS, _CLASSES, _PORTS, _DELAYS, _DELAY_BINS),
        _EVENTS,
    )
}


FORMAT = hashlib.sha256(
    repr([(t.name, [(c.name, str(c.type), c.nullable) for c in t.columns]) for t in TABLES.values()]).encode()
).hexdigest()
"""Changes when a table's columns change: a cell of another format is executed again."""


def arrow_schema(name: str) -> pa.Schema:
    """The Arrow schema of table ``name``, with each description in the field's metadata.

    Raises:
        KeyError: no such table.
    """
    return pa.schema(
        [pa.field(c.name, c.type, nullable=c.nullable, metadata={"doc": c.doc}) for c in TABLES[name].columns],
        metadata={"weir.table": name},
    )
