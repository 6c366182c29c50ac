//! Rows for the tables.

use weir_plan::{Change, ChangeKind, Measure};
use weir_tcp::{Notice, Sender};
use weir_units::Time;

use crate::application::Application;
use crate::flow::Flow;
use weir_run::{EventKind, EventRow, FlowRow, GoodputRow, ProbeRow, SampleRow, Tables};

const NULL_U32: u32 = u32::MAX;
const NULL_U64: u64 = u64::MAX;

/// Collects the rows of a run.
pub(crate) struct Telemetry {
    pub tables: Tables,
    goodput_ns: u64,
    /// While regions run ahead of each other: the slot by which the present event is ordered, and the rows so far.
    pub ahead: Option<u32>,
    rows: Vec<(u32, EventRow)>,
    /// Memory for the samples of an instant.
    samples: Vec<SampleRow>,
}

impl Telemetry {
    pub fn new(measure: &Measure) -> Telemetry {
        Telemetry {
            tables: Tables::default(),
            goodput_ns: measure.goodput_ns,
            ahead: None,
            rows: Vec::new(),
            samples: Vec::new(),
        }
    }

    pub fn flow_event(&mut self, now: Time, kind: EventKind, flow: u32, value: i64) {
        let row = EventRow { time_ns: now.0, kind: kind as u8, flow, link: NULL_U32, value };
        match self.ahead {
            None => self.tables.events.push(row),
            Some(slot) => self.rows.push((slot, row)),
        }
    }

    /// Adds the rows of regions that ran ahead of each other, in the order of one calendar.
    pub fn regions_met(&mut self) {
        self.ahead = None;
        self.rows.sort_by_key(|(slot, row)| (row.time_ns, *slot));
        self.rows.drain(..).for_each(|(_, row)| self.tables.events.push(row));
    }

    pub fn link_change(&mut self, now: Time, change: &Change) {
        let value = if let ChangeKind::Rate { rate_bps } = change.change { rate_bps as i64 } else { 0 };
        let kind = EventKind::LinkChange as u8;
        self.tables.events.push(EventRow { time_ns: now.0, kind, flow: NULL_U32, link: change.link, value });
    }

    /// A switch stops the sender of a link, or lets it continue.
    pub fn pause(&mut self, now: Time, link: u32, stops: bool) {
        let kind = if stops { EventKind::Pause } else { EventKind::Resume } as u8;
        self.tables.events.push(EventRow { time_ns: now.0, kind, flow: NULL_U32, link, value: 0 });
    }

    #[cold]
    pub fn take_notices(&mut self, now: Time, flow: u32, sender: &mut Sender) {
        sender.take_notices(|notice| {
            let (kind, value) = match notice {
                Notice::Recovery(cwnd) => (EventKind::Recovery, cwnd),
                Notice::RecoveryEnd => (EventKind::RecoveryEnd, 0),
                Notice::Rto(cwnd) => (EventKind::Rto, cwnd),
                Notice::Tlp => (EventKind::Tlp, 0),
                Notice::Undo => (EventKind::Undo, 0),
                Notice::Cwr(cwnd) => (EventKind::Cwr, cwnd),
                Notice::LocalCongestion => (EventKind::LocalCongestion, 0),
            };
            self.flow_event(now, kind, flow, i64::from(value));
        });
    }

    pub fn sample_tcp(&mut self, now: Time, flows: &[Flow]) {
        for (index, flow) in (0..).zip(flows) {
            match sample(now, index, flow) {
                Some(row) => {
                    self.samples.push(row);
                    sender_probes(now, index, flow).for_each(|row| self.tables.probes.push(row));
                }
                None => self.sample_datagrams(now, index, flow),
            }
        }
        self.tables.samples.extend_rows(&self.samples);
        self.samples.clear();
    }

    /// Adds what a flow over TFRC or UDT shows of its rate.
    #[cold]
    fn sample_datagrams(&mut self, now: Time, index: u32, flow: &Flow) {
        if !flow.started || flow.finished {
            return;
        }
        match &flow.application {
            Application::Tfrc(tfrc) => self.probes(now, index, tfrc.sender.probes()),
            Application::Udt(udt) if udt.sender.is_established() => self.probes(now, index, udt.sender.probes()),
            _ => {}
        }
    }

    fn probes(&mut self, now: Time, flow: u32, values: impl IntoIterator<Item = (&'static str, i64)>) {
        for (name, value) in values {
            let mut probe = [0; 16];
            probe[..name.len()].copy_from_slice(name.as_bytes());
            self.tables.probes.push(ProbeRow { time_ns: now.0, flow, probe, value });
        }
    }

    pub fn sample_goodput(&mut self, now: Time, flows: &mut [Flow]) {
        for (index, flow) in flows.iter_mut().enumerate() {
            if !flow.started {
                continue;
            }
            let totals = flow.totals();
            let (delivered, sent) = flow.sampled;
            flow.sampled = (totals.delivered_bytes, totals.sent_ip_bytes);
            let row = GoodputRow {
                time_ns: now.0,
                flow: index as u32,
                delivered_bytes: totals.delivered_bytes - delivered,
                sent_ip_bytes: totals.sent_ip_bytes - sent,
            };
            // An interval without data is a row of zeros, but for a flow that has ended.
            if !flow.finished || row.delivered_bytes + row.sent_ip_bytes > 0 {
                self.tables.goodput.push(row);
            }
        }
        debug_assert!(self.goodput_ns > 0);
    }

    /// Adds the row of the active transfer, or of a constant-bit-rate flow.
    pub fn flow_row(&mut self, index: u32, flow: &Flow, end: Option<Time>) {
        debug_assert!(self.ahead.is_none(), "a row reads both ends of a flow");
        let totals = flow.totals();
        let active = flow.application.active();
        let before = active.map(|active| active.before).unwrap_or_default();
        let job = active.map(|active| active.job);
        let established = active.and_then(|active| active.established);
        self.tables.flows.push(FlowRow {
            flow: index,
            transfer: job.map_or(0, |job| job.number),
            start_ns: job.map_or(flow.start, |job| job.at).0,
            established_ns: established.map_or(NULL_U64, |at| at.0),
            end_ns: end.map_or(NULL_U64, |at| at.0),
            bytes: job.and_then(|job| job.bytes).unwrap_or(NULL_U64),
            delivered_bytes: totals.delivered_bytes - before.delivered_bytes,
            sent_bytes: totals.counters.sent_bytes - before.counters.sent_bytes,
            sent_packets: totals.counters.sent_packets - before.counters.sent_packets,
            retransmitted_packets: totals.counters.retransmitted_packets - before.counters.retransmitted_packets,
            lost_packets: totals.lost_packets - before.lost_packets,
            marked_packets: totals.marked_packets - before.marked_packets,
            timeouts: totals.counters.timeouts - before.counters.timeouts,
        });
    }
}

/// The state of a flow's sender during a transfer.
#[inline]
pub(crate) fn sample(now: Time, index: u32, flow: &Flow) -> Option<SampleRow> {
    let connection = flow.connection.as_ref().filter(|_| flow.application.active().is_some())?;
    let sender = &connection.sender;
    let (before, counters) = (&flow.base, sender.counters());
    Some(SampleRow {
        time_ns: now.0,
        flow: index,
        cwnd: sender.cwnd(),
        ssthresh: sender.ssthresh().unwrap_or(NULL_U32),
        in_flight: sender.in_flight(),
        srtt_ns: sender.srtt().map_or(NULL_U64, |d| d.0),
        min_rtt_ns: sender.min_rtt().map_or(NULL_U64, |d| d.0),
        pacing_rate_bps: sender.pacing_rate().map_or(NULL_U64, |rate| rate.saturating_mul(8)),
        acked_bytes: before.acked_bytes + sender.acked_bytes(),
        sent_bytes: before.counters.sent_bytes + counters.sent_bytes,
        retransmitted_packets: before.counters.retransmitted_packets + counters.retransmitted_packets,
        timeouts: (before.counters.timeouts + counters.timeouts) as u32,
        ca_state: sender.ca_state(),
    })
}

/// What the congestion control of a flow shows by `WEIR_PROBE`.
pub(crate) fn sender_probes(now: Time, index: u32, flow: &Flow) -> impl Iterator<Item = ProbeRow> + '_ {
    let shown = flow.connection.iter().flat_map(|connection| connection.sender.probes());
    shown.map(move |(probe, value)| ProbeRow { time_ns: now.0, flow: index, probe, value })
}
