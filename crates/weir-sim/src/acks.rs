//! Records every acknowledgement and transmission of chosen flows (`measure.acks`).
//!
//! Round-trip times and delivery rates are measured here, for every congestion control and with nanoseconds. The
//! delivery rate follows draft-cheng-iccrg-delivery-rate-estimation: what was delivered since the packet was sent, over
//! the longer of the times of sending and of acknowledging. An acknowledgement that advances the window gives both, by
//! the last packet that it covers, unless that was retransmitted, or packets among them were acknowledged selectively.

use std::collections::VecDeque;

use weir_plan::Plan;
use weir_run::{AckRow, Acks};
use weir_tcp::{Segment, Sender};
use weir_units::Time;

const NULL_U32: u32 = u32::MAX;
const NULL_U64: u64 = u64::MAX;

/// Values of column `kind`.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Acknowledgement,
    Transmission,
    Retransmission,
}

/// A packet in flight.
#[derive(Clone, Copy)]
struct Sent {
    at: Time,
    /// Packets delivered, the time of the last delivery and the first transmission of its interval, when it was sent.
    delivered: u32,
    delivered_at: Time,
    first_sent: Time,
    resent: bool,
}

/// The connection of a recorded flow.
#[derive(Default)]
struct Recorded {
    connection: u8,
    /// The packets from `base` on.
    sent: VecDeque<Sent>,
    base: u64,
    delivered: u32,
    delivered_at: Time,
    first_sent: Time,
}

/// Records the chosen flows.
pub(crate) struct AckLog {
    flows: Vec<Option<Box<Recorded>>>,
    from: Time,
    to: Time,
    /// Rows that may still be recorded.
    left: u64,
    rows: Acks,
}

impl AckLog {
    /// The log that the plan asks for; none if it asks for none.
    pub fn from_plan(plan: &Plan) -> Option<AckLog> {
        let wanted = plan.measure.acks.as_ref()?;
        let chosen = |index: u32| wanted.flows.is_empty() || wanted.flows.contains(&index);
        Some(AckLog {
            flows: (0..plan.flows.len() as u32).map(|index| chosen(index).then(Box::default)).collect(),
            from: Time(wanted.from_ns),
            to: Time(wanted.to_ns),
            left: wanted.max_rows,
            rows: Acks::default(),
        })
    }

    /// A flow sends a segment.
    pub fn sent(&mut self, now: Time, index: usize, connection: u8, segment: &Segment, sender: &Sender) {
        let Some(flow) = self.flows[index].as_mut() else { return };
        flow.begin(connection, sender);
        flow.send(now, segment, sender.una());
        let kind = if segment.retransmission { Kind::Retransmission } else { Kind::Transmission };
        let row = row(now, index, kind, sender);
        self.push(AckRow { packet: segment.seq, ..row });
    }

    /// A flow has processed an acknowledgement.
    pub fn acknowledged(&mut self, now: Time, index: usize, connection: u8, sender: &Sender) {
        let Some(flow) = self.flows[index].as_mut() else { return };
        flow.begin(connection, sender);
        let (delivered_packets, sample) = flow.acknowledge(now, sender);
        let row = row(now, index, Kind::Acknowledgement, sender);
        let bps = |packets_per_s: f64| (packets_per_s * f64::from(sender.segment_bytes()) * 8.0) as u64;
        self.push(AckRow {
            packet: sender.una(),
            delivered_packets,
            rtt_ns: sample.map_or(NULL_U64, |sample| sample.rtt_ns),
            delivery_rate_bps: sample.and_then(|sample| sample.packets_per_s).map_or(NULL_U64, bps),
            ..row
        });
    }

    fn push(&mut self, row: AckRow) {
        let time = Time(row.time_ns);
        if self.left > 0 && time >= self.from && time < self.to {
            self.left -= 1;
            self.rows.push(row);
        }
    }

    /// Adds the rows since the last call.
    pub fn drain(&mut self, rows: &mut Acks) {
        rows.extend(std::mem::take(&mut self.rows));
    }
}

fn row(now: Time, index: usize, kind: Kind, sender: &Sender) -> AckRow {
    AckRow {
        time_ns: now.0,
        flow: index as u32,
        kind: kind as u8,
        packet: 0,
        delivered_packets: 0,
        cwnd: sender.cwnd(),
        ssthresh: sender.ssthresh().unwrap_or(NULL_U32),
        in_flight: sender.in_flight(),
        rtt_ns: NULL_U64,
        delivery_rate_bps: NULL_U64,
        pacing_rate_bps: sender.pacing_rate().map_or(NULL_U64, |rate| rate.saturating_mul(8)),
        ca_state: sender.ca_state(),
    }
}

#[derive(Clone, Copy)]
struct Sample {
    rtt_ns: u64,
    packets_per_s: Option<f64>,
}

impl Recorded {
    /// A new connection has nothing in flight.
    fn begin(&mut self, connection: u8, sender: &Sender) {
        if self.connection != connection {
            *self = Recorded { connection, base: sender.una(), delivered: sender.delivered(), ..Recorded::default() };
        }
    }

    fn send(&mut self, now: Time, segment: &Segment, una: u64) {
        if self.sent.is_empty() {
            (self.base, self.delivered_at, self.first_sent) = (una, now, now);
        }
        let Recorded { delivered, delivered_at, first_sent, .. } = *self;
        let sent = Sent { at: now, delivered, delivered_at, first_sent, resent: segment.retransmission };
        match segment.seq.checked_sub(self.base).and_then(|place| self.sent.get_mut(place as usize)) {
            Some(place) => *place = sent,
            None => self.sent.push_back(sent),
        }
    }

    /// Packets newly delivered, and what the last one that is covered says.
    fn acknowledge(&mut self, now: Time, sender: &Sender) -> (u32, Option<Sample>) {
        let newly = sender.delivered().wrapping_sub(self.delivered);
        self.delivered = sender.delivered();
        if newly > 0 {
            self.delivered_at = now;
        }
        let covered = sender.una().saturating_sub(self.base);
        let mut last = None;
        while self.base < sender.una() {
            self.base += 1;
            last = self.sent.pop_front().or(last);
        }
        // If fewer are new, some were selectively acknowledged before, and the last may be one of them.
        let fresh = u64::from(newly) >= covered;
        let Some(last) = last.filter(|last| fresh && !last.resent) else { return (newly, None) };
        let interval = now.since(last.delivered_at).max(last.at.since(last.first_sent));
        self.first_sent = last.at;
        let delivered = f64::from(self.delivered.wrapping_sub(last.delivered));
        let packets_per_s = (interval.0 > 0).then(|| delivered / (interval.0 as f64 / 1e9));
        (newly, Some(Sample { rtt_ns: now.since(last.at).0, packets_per_s }))
    }
}
