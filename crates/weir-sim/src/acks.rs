//! Records every acknowledgement and transmission of chosen flows (`measure.acks`).
//!
//! Round-trip times and delivery rates are the samples that the sender takes for a congestion control with `cong_control`.
//! It takes them for every recorded flow ([`Sender::keep_samples`]), whatever its congestion control.

use weir_plan::Plan;
use weir_run::{AckRow, Acks};
use weir_tcp::{Sample, Segment, Sender};
use weir_units::{Dur, Time};

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

/// The connection of a recorded flow.
#[derive(Clone, Copy, Default)]
struct Recorded {
    connection: u8,
    /// Packets delivered up to the last acknowledgement.
    delivered: u32,
}

/// Records the chosen flows.
pub(crate) struct AckLog {
    flows: Vec<Option<Recorded>>,
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
        let recorded = |index| AckLog::records(plan, index).then(Recorded::default);
        Some(AckLog {
            flows: (0..plan.flows.len()).map(recorded).collect(),
            from: Time(wanted.from_ns),
            to: Time(wanted.to_ns),
            left: wanted.max_rows,
            rows: Acks::default(),
        })
    }

    /// Whether the plan asks for the rows of a flow.
    pub fn records(plan: &Plan, index: usize) -> bool {
        let chosen = |flows: &[u32]| flows.is_empty() || flows.contains(&(index as u32));
        plan.measure.acks.as_ref().is_some_and(|wanted| chosen(&wanted.flows))
    }

    /// A flow sends a segment.
    pub fn sent(&mut self, now: Time, index: usize, connection: u8, segment: &Segment, sender: &Sender) {
        let Some(flow) = self.flows[index].as_mut() else { return };
        flow.begin(connection, sender);
        let kind = if segment.retransmission { Kind::Retransmission } else { Kind::Transmission };
        let row = row(now, index, kind, sender);
        self.push(AckRow { packet: segment.seq, ..row });
    }

    /// A flow has processed an acknowledgement.
    pub fn acknowledged(&mut self, now: Time, index: usize, connection: u8, sender: &mut Sender) {
        let Some(flow) = self.flows[index].as_mut() else { return };
        flow.begin(connection, sender);
        let delivered_packets = flow.deliver(sender);
        let Sample { rtt, delivered } = sender.take_sample().unwrap_or_default();
        let payload_bps = |(packets, interval)| bps(packets, sender.segment_bytes(), interval);
        let row = row(now, index, Kind::Acknowledgement, sender);
        self.push(AckRow {
            packet: sender.una(),
            delivered_packets,
            rtt_ns: rtt.map_or(NULL_U64, |rtt| rtt.0),
            delivery_rate_bps: delivered.map_or(NULL_U64, payload_bps),
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

/// Rounded down, as the lab does.
fn bps(packets: u32, bytes: u32, interval: Dur) -> u64 {
    u64::from(packets) * u64::from(bytes) * 8 * 1_000_000 / (interval.0 / 1000)
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

impl Recorded {
    /// A new connection has delivered nothing but its request.
    fn begin(&mut self, connection: u8, sender: &Sender) {
        if self.connection != connection {
            *self = Recorded { connection, delivered: sender.delivered() };
        }
    }

    /// Packets newly delivered.
    fn deliver(&mut self, sender: &Sender) -> u32 {
        sender.delivered().wrapping_sub(std::mem::replace(&mut self.delivered, sender.delivered()))
    }
}
