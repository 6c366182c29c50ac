//! What a congestion control does, observed between the protocol and the control.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// The state of a connection's sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Congestion window, bytes of QUIC packets.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` while infinite, and for controls that have none.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed RTT; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Least RTT; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Pacing rate, bits of UDP payload per second.
    pub pacing_rate_bps: Option<u64>,
    /// Whether the last loss is not recovered yet (RFC 9002, section 7.3.2).
    pub recovering: bool,
    /// Acknowledged payload, bytes: sizes of acknowledged packets less their headers.
    pub acked_bytes: u64,
    /// Sent payload with retransmissions, bytes: sizes of sent packets less their headers.
    pub sent_bytes: u64,
    /// Bytes of sent datagrams, without headers of UDP and IP.
    pub udp_bytes: u64,
    /// Sent datagrams.
    pub datagrams: u64,
    /// Packets that were declared lost; their data were sent again.
    pub lost_packets: u64,
    /// Collapses of the window after persistent congestion (RFC 9002, section 7.6).
    pub collapses: u64,
}

/// A change of a sender's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A loss begins a recovery.
    Recovery,
    /// An acknowledgement ends the recovery.
    RecoveryEnd,
    /// Persistent congestion: everything sent for several timeouts was lost.
    Collapse,
}

/// A change, its instant, and the window before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Instant,
    /// What.
    pub turn: Turn,
    /// Congestion window before, bytes.
    pub cwnd: u64,
}

/// What an [`Observer`] has seen, shared with the owner of the connection.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Record>>);

#[derive(Default)]
pub(crate) struct Record {
    pub acked_bytes: u64,
    pub acked_packets: u64,
    pub in_flight: u64,
    pub ssthresh: Option<u64>,
    pub collapses: u64,
    /// Start of the last recovery.
    pub since: Option<Instant>,
    pub recovering: bool,
    pub moments: Vec<Moment>,
}

impl Seen {
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A congestion control that records what passes it, and leaves the work to another one.
pub(crate) struct Observer {
    control: Box<dyn Controller>,
    seen: Seen,
}

/// Makes observers.
pub(crate) struct Factory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    seen: Seen,
}

impl Observer {
    pub fn factory(inner: Arc<dyn ControllerFactory + Send + Sync>, seen: &Seen) -> Factory {
        Factory { inner, seen: seen.clone() }
    }

    fn note(&self, record: &mut Record) {
        record.ssthresh = self.control.metrics().ssthresh.filter(|bytes| *bytes != u64::MAX);
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let control = Arc::clone(&self.inner).build(now, current_mtu);
        Box::new(Observer { control, seen: self.seen.clone() })
    }
}

impl Controller for Observer {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.control.on_sent(now, bytes, last_packet_number);
        self.seen.record().in_flight += bytes;
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let cwnd = self.control.window();
        self.control.on_ack(now, sent, bytes, app_limited, rtt);
        let mut record = self.seen.record();
        record.acked_bytes += bytes;
        record.acked_packets += 1;
        if record.recovering && record.since.is_some_and(|since| sent > since) {
            record.recovering = false;
            record.moments.push(Moment { at: now, turn: Turn::RecoveryEnd, cwnd });
        }
        self.note(&mut record);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.control.on_end_acks(now, in_flight, app_limited, largest);
        let mut record = self.seen.record();
        record.in_flight = in_flight;
        self.note(&mut record);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        let cwnd = self.control.window();
        self.control.on_congestion_event(now, sent, persistent, lost_bytes);
        let mut record = self.seen.record();
        record.in_flight = record.in_flight.saturating_sub(lost_bytes);
        if record.since.is_none_or(|since| sent > since) {
            record.since = Some(now);
            record.recovering = true;
            record.moments.push(Moment { at: now, turn: Turn::Recovery, cwnd });
            if persistent {
                record.collapses += 1;
                record.moments.push(Moment { at: now, turn: Turn::Collapse, cwnd });
            }
        }
        self.note(&mut record);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.control.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.control.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.control.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Observer { control: self.control.clone_box(), seen: self.seen.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.control.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
