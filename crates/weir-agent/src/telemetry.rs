//! The rows of an agent's tables.

use weir_run::{
    Column, EventKind, EventRow, Events, FlowRow, Flows, Limits, LimitsRow, ProbeRow, Probes as ProbeRows, Processor,
    ProcessorRow, SampleRow, Samples,
};
use weir_sys::tcp_info::TcpInfo;
use weir_units::Time;

use crate::iperf3::Report;
use crate::output::Output;

const NULL_U32: u32 = u32::MAX;
const NULL_U64: u64 = u64::MAX;
/// The kernel's infinite slow-start threshold.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

const CA_CWR: u8 = 2;
const CA_RECOVERY: u8 = 3;
const CA_LOSS: u8 = 4;

/// Totals of a flow, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Acknowledged payload, bytes.
    pub acked_bytes: u64,
    /// Sent payload with retransmissions, bytes.
    pub sent_bytes: u64,
    /// IP bytes of sent data packets.
    pub sent_ip_bytes: u64,
    /// Sent data packets, with retransmissions.
    pub sent_packets: u64,
    /// Retransmitted data packets.
    pub retransmitted_packets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Time with data waiting or in flight.
    pub busy_ns: u64,
    /// The part of it that the receive window limited.
    pub rwnd_limited_ns: u64,
    /// The part of it that the send buffer limited.
    pub sndbuf_limited_ns: u64,
}

impl std::ops::Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            acked_bytes: self.acked_bytes + other.acked_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            sent_ip_bytes: self.sent_ip_bytes + other.sent_ip_bytes,
            sent_packets: self.sent_packets + other.sent_packets,
            retransmitted_packets: self.retransmitted_packets + other.retransmitted_packets,
            timeouts: self.timeouts + other.timeouts,
            busy_ns: self.busy_ns + other.busy_ns,
            rwnd_limited_ns: self.rwnd_limited_ns + other.rwnd_limited_ns,
            sndbuf_limited_ns: self.sndbuf_limited_ns + other.sndbuf_limited_ns,
        }
    }
}

/// A transfer, for its row.
#[derive(Clone, Copy, Debug)]
pub struct TransferRecord {
    /// Number within the flow.
    pub number: u32,
    /// The instant at which the application requested it.
    pub start: Time,
    /// The instant at which the connection was established.
    pub established: Option<Time>,
    /// The instant at which the last byte was acknowledged (TCP) or sent (UDP).
    pub end: Option<Time>,
    /// Requested size.
    pub bytes: Option<u64>,
    /// The totals at its beginning.
    pub before: Totals,
    /// The totals at its end.
    pub after: Totals,
}

/// Rows of `sent` and of `delivered` that were not yet sent.
#[derive(Debug, Default)]
struct Sent {
    time_ns: Vec<u64>,
    flow: Vec<u32>,
    sent_ip_bytes: Vec<u64>,
}

#[derive(Debug, Default)]
struct Delivered {
    time_ns: Vec<u64>,
    flow: Vec<u32>,
    transfer: Vec<u32>,
    delivered_bytes: Vec<u64>,
}

/// Collects rows.
#[derive(Debug)]
pub struct Telemetry {
    flows: Flows,
    samples: Samples,
    limits: Limits,
    probes: ProbeRows,
    processor: Processor,
    events: Events,
    sent: Sent,
    delivered: Delivered,
    /// The last sampled state of each flow.
    seen: Vec<Seen>,
    /// Delivered payload of all flows.
    pub delivered_bytes: u64,
    /// Acknowledged payload of all transfers that ended or were open at the end.
    pub acked_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ca_state: u8,
    cwnd: u32,
    timeouts: u64,
}

impl Telemetry {
    /// For this number of flows.
    pub fn new(flows: usize) -> Telemetry {
        Telemetry {
            flows: Flows::default(),
            samples: Samples::default(),
            limits: Limits::default(),
            probes: ProbeRows::default(),
            processor: Processor::default(),
            events: Events::default(),
            sent: Sent::default(),
            delivered: Delivered::default(),
            seen: vec![Seen::default(); flows],
            delivered_bytes: 0,
            acked_bytes: 0,
        }
    }

    /// Adds an event of a flow.
    pub fn event(&mut self, at: Time, kind: EventKind, flow: u32, value: i64) {
        self.events.push(EventRow { time_ns: at.0, kind: kind as u8, flow, link: NULL_U32, value });
    }

    /// Adds the row of a transfer.
    pub fn transfer(&mut self, flow: u32, record: &TransferRecord) {
        let TransferRecord { before, after, .. } = record;
        self.acked_bytes += after.acked_bytes - before.acked_bytes;
        self.flows.push(FlowRow {
            flow,
            transfer: record.number,
            start_ns: record.start.0,
            established_ns: record.established.map_or(NULL_U64, |at| at.0),
            end_ns: record.end.map_or(NULL_U64, |at| at.0),
            bytes: record.bytes.unwrap_or(NULL_U64),
            delivered_bytes: 0,
            sent_bytes: after.sent_bytes - before.sent_bytes,
            sent_packets: after.sent_packets - before.sent_packets,
            retransmitted_packets: after.retransmitted_packets - before.retransmitted_packets,
            lost_packets: 0,
            marked_packets: 0,
            timeouts: after.timeouts - before.timeouts,
        });
    }

    /// Adds the IP bytes that a flow sent in the interval that ends at `at`.
    pub fn sent(&mut self, at: Time, flow: u32, bytes: u64) {
        self.sent.time_ns.push(at.0);
        self.sent.flow.push(flow);
        self.sent.sent_ip_bytes.push(bytes);
    }

    /// Adds the payload of one transfer that was delivered in the interval that ends at `at`.
    pub fn delivered(&mut self, at: Time, flow: u32, transfer: u32, bytes: u64) {
        self.delivered_bytes += bytes;
        self.delivered.time_ns.push(at.0);
        self.delivered.flow.push(flow);
        self.delivered.transfer.push(transfer);
        self.delivered.delivered_bytes.push(bytes);
    }

    /// Adds a row of `flows` from the report of another program.
    pub fn flow(&mut self, row: &FlowRow) {
        self.flows.push(*row);
    }

    /// Adds the samples of a report of iperf3.
    pub fn report_samples(&mut self, report: &Report) {
        for row in &report.samples {
            self.foreign_sample(*row);
        }
    }

    /// Adds a sample that does not come from the kernel.
    pub fn foreign_sample(&mut self, row: SampleRow) {
        self.samples.push(row);
        self.limits.push(LimitsRow { busy_ns: NULL_U64, rwnd_limited_ns: NULL_U64, sndbuf_limited_ns: NULL_U64 });
    }

    /// Adds a row of `samples`.
    pub fn sample(&mut self, at: Time, flow: u32, info: &TcpInfo, totals: &Totals, paced: bool) {
        self.samples.push(SampleRow {
            time_ns: at.0,
            flow,
            cwnd: info.snd_cwnd,
            ssthresh: if info.snd_ssthresh >= INFINITE_SSTHRESH { NULL_U32 } else { info.snd_ssthresh },
            in_flight: info.in_flight(),
            srtt_ns: if info.rtt_us == 0 { NULL_U64 } else { u64::from(info.rtt_us) * 1_000 },
            min_rtt_ns: match info.min_rtt_us {
                0 | u32::MAX => NULL_U64,
                us => u64::from(us) * 1_000,
            },
            pacing_rate_bps: if paced { info.pacing_rate.saturating_mul(8) } else { NULL_U64 },
            acked_bytes: totals.acked_bytes,
            sent_bytes: totals.sent_bytes,
            retransmitted_packets: totals.retransmitted_packets,
            timeouts: totals.timeouts as u32,
            ca_state: info.ca_state,
        });
        let Totals { busy_ns, rwnd_limited_ns, sndbuf_limited_ns, .. } = *totals;
        self.limits.push(LimitsRow { busy_ns, rwnd_limited_ns, sndbuf_limited_ns });
    }

    /// Adds the value of a probe of a flow's congestion control.
    pub fn probe(&mut self, at: Time, flow: u32, probe: [u8; 16], value: i64) {
        self.probes.push(ProbeRow { time_ns: at.0, flow, probe, value });
    }

    /// Adds the processor time of this process in an interval.
    pub fn processor(&mut self, row: ProcessorRow) {
        self.processor.push(row);
    }

    /// Adds the events that the difference from the last state shows.
    pub fn observe(&mut self, at: Time, flow: u32, info: &TcpInfo, totals: &Totals) {
        let now = Seen { ca_state: info.ca_state, cwnd: info.snd_cwnd, timeouts: totals.timeouts };
        let before = std::mem::replace(&mut self.seen[flow as usize], now);
        let entered = |state| now.ca_state == state && before.ca_state != state;
        let cwnd = i64::from(before.cwnd);
        if before.ca_state >= CA_RECOVERY && now.ca_state < CA_RECOVERY {
            self.event(at, EventKind::RecoveryEnd, flow, 0);
        }
        if entered(CA_CWR) {
            self.event(at, EventKind::Cwr, flow, cwnd);
        }
        if entered(CA_RECOVERY) {
            self.event(at, EventKind::Recovery, flow, cwnd);
        }
        if now.timeouts > before.timeouts || (entered(CA_LOSS) && !info.counts_timeouts) {
            self.event(at, EventKind::Rto, flow, cwnd);
        }
    }

    /// Sends all rows.
    pub fn flush(&mut self, output: &mut Output) {
        output.table("flows", &std::mem::take(&mut self.flows).into_columns());
        let mut samples = std::mem::take(&mut self.samples).into_columns();
        let shared = samples.len();
        samples.append(&mut std::mem::take(&mut self.limits).into_columns());
        output.table("samples", &samples);
        // Many flows fill this table fast; fresh memory for it would cost as much as the sampling.
        self.limits = Limits::recycled(samples.split_off(shared));
        self.samples = Samples::recycled(samples);
        output.table("probes", &std::mem::take(&mut self.probes).into_columns());
        output.table("processor", &std::mem::take(&mut self.processor).into_columns());
        output.table("events", &std::mem::take(&mut self.events).into_columns());
        let Sent { time_ns, flow, sent_ip_bytes } = std::mem::take(&mut self.sent);
        let columns = [
            ("time_ns", Column::U64(time_ns)),
            ("flow", Column::U32(flow)),
            ("sent_ip_bytes", Column::U64(sent_ip_bytes)),
        ];
        output.table("sent", &columns);
        let Delivered { time_ns, flow, transfer, delivered_bytes } = std::mem::take(&mut self.delivered);
        let columns = [
            ("time_ns", Column::U64(time_ns)),
            ("flow", Column::U32(flow)),
            ("transfer", Column::U32(transfer)),
            ("delivered_bytes", Column::U64(delivered_bytes)),
        ];
        output.table("delivered", &columns);
    }
}
