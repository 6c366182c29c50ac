//! Delivery-rate samples for congestion controls that want them (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Each segment records the amount delivered at its transmission. Flows whose congestion control lacks `cong_control`
//! pay nothing.

use std::collections::VecDeque;

use weir_cc::{RateSample, Sock};
use weir_units::Time;

use super::ack::Event;

#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    delivered: u32,
    delivered_us: u64,
    first_sent_us: u64,
    sent_us: u64,
}

/// The amount delivered at the transmission of each outstanding segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// Snapshots of the segments from `base` on.
    snapshots: VecDeque<Snapshot>,
    base: u64,
    /// The snapshot of the most recently sent segment among those delivered by the present acknowledgement.
    newest: Option<(Snapshot, bool)>,
    delivered_us: u64,
    first_sent_us: u64,
}

impl Delivery {
    /// Starts a sample: transmission begins with nothing in flight.
    pub fn restart(&mut self, now: Time) {
        self.delivered_us = now.0 / 1000;
        self.first_sent_us = now.0 / 1000;
    }

    #[inline]
    pub fn on_send(&mut self, now: Time, seq: u64, sock: &Sock, wanted: bool) {
        if wanted {
            self.remember(now, seq, sock);
        }
    }

    fn remember(&mut self, now: Time, seq: u64, sock: &Sock) {
        let snapshot = Snapshot {
            delivered: sock.delivered,
            delivered_us: self.delivered_us,
            first_sent_us: self.first_sent_us,
            sent_us: now.0 / 1000,
        };
        if self.snapshots.is_empty() {
            self.base = seq;
        }
        let index = (seq - self.base) as usize;
        if index < self.snapshots.len() {
            self.snapshots[index] = snapshot;
        } else {
            self.snapshots.push_back(snapshot);
        }
    }

    #[inline]
    pub fn on_delivered(&mut self, seq: u64, resent: bool) {
        if self.snapshots.is_empty() || seq < self.base {
            return;
        }
        if let Some(snapshot) = self.snapshots.get((seq - self.base) as usize)
            && self.newest.is_none_or(|(newest, _)| snapshot.sent_us >= newest.sent_us)
        {
            self.newest = Some((*snapshot, resent));
        }
    }

    /// Takes the sample of the present acknowledgement.
    #[allow(clippy::field_reassign_with_default, reason = "the type has fields that only its own crate sees")]
    pub fn sample(&self, now: Time, sock: &Sock, event: &Event, min_rtt_us: u32) -> RateSample {
        let mut sample = RateSample::default();
        sample.losses = event.newly_lost as i32;
        sample.acked_sacked = event.delivered;
        sample.prior_in_flight = event.prior_in_flight;
        let Some((snapshot, resent)) = self.newest else { return sample };
        let send_us = snapshot.sent_us.saturating_sub(snapshot.first_sent_us);
        let ack_us = (now.0 / 1000).saturating_sub(snapshot.delivered_us);
        let interval = send_us.max(ack_us);
        sample.prior_delivered = snapshot.delivered;
        sample.prior_mstamp = snapshot.delivered_us;
        sample.snd_interval_us = send_us as u32;
        sample.rcv_interval_us = ack_us as u32;
        sample.is_retrans = u8::from(resent);
        sample.rtt_us = event.rtt_us;
        if interval >= u64::from(min_rtt_us) {
            sample.delivered = sock.delivered.wrapping_sub(snapshot.delivered) as i32;
            sample.interval_us = interval as i64;
        }
        sample
    }

    /// Starts the next sample.
    pub fn roll(&mut self, now: Time, una: u64) {
        if let Some((snapshot, _)) = self.newest.take() {
            self.first_sent_us = snapshot.sent_us;
        }
        self.delivered_us = now.0 / 1000;
        while self.base < una && self.snapshots.pop_front().is_some() {
            self.base += 1;
        }
    }
}
