//! Delivery-rate samples for congestion controls with `cong_control`, as Linux' `tcp_rate.c` takes them
//! (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Each transmission records how much had been delivered. The most recently sent segment of an acknowledgement gives the
//! sample: what was delivered since then, over the longer of the times of sending and of acknowledging. Flows whose
//! congestion control lacks `cong_control` pay nothing.

use std::collections::VecDeque;

use weir_cc::{RateSample, Sock};
use weir_units::Time;

use super::ack::Event;
use super::{Sender, micros};

/// The state of delivery at the last transmission of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    delivered: u32,
    delivered_ce: u32,
    delivered_us: u64,
    first_sent_us: u64,
    sent_us: u64,
    /// End of the segment, as a sequence number.
    end_seq: u32,
    is_app_limited: bool,
    /// Less than a full segment.
    is_short: bool,
}

/// The segment that gives the sample of the present acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Newest {
    snapshot: Snapshot,
    seq: u64,
    resent: bool,
}

/// The snapshots of the outstanding segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// Those of the segments from `base` on.
    snapshots: VecDeque<Snapshot>,
    base: u64,
    newest: Option<Newest>,
}

impl Delivery {
    /// Records the transmission of segment `seq`; `is_short` if it is less than a full one.
    fn remember(&mut self, now_us: u64, seq: u64, sock: &Sock, end_seq: u32, is_short: bool) {
        let mut snapshot = Snapshot {
            delivered: sock.delivered,
            delivered_ce: sock.delivered_ce,
            delivered_us: sock.delivered_mstamp_us,
            first_sent_us: sock.first_tx_mstamp_us,
            sent_us: now_us,
            end_seq,
            is_app_limited: sock.app_limited != 0,
            is_short,
        };
        if self.snapshots.is_empty() {
            self.base = seq;
        }
        let index = (seq - self.base) as usize;
        if index < self.snapshots.len() {
            snapshot.end_seq = self.snapshots[index].end_seq;
            self.snapshots[index] = snapshot;
        } else {
            self.snapshots.push_back(snapshot);
        }
    }

    /// Takes the delivery of segment `seq` into account; `resent` if it was retransmitted.
    #[inline]
    pub fn on_delivered(&mut self, seq: u64, resent: bool, sock: &mut Sock) {
        if self.snapshots.is_empty() || seq < self.base {
            return;
        }
        let Some(&snapshot) = self.snapshots.get((seq - self.base) as usize) else { return };
        let first = sock.first_tx_mstamp_us;
        let is_newer = |newest: Newest| snapshot.sent_us > first || snapshot.sent_us == first && seq > newest.seq;
        if self.newest.is_none_or(is_newer) {
            self.newest = Some(Newest { snapshot, seq, resent });
            sock.first_tx_mstamp_us = snapshot.sent_us;
        }
    }

    /// Forgets the sample of an acknowledgement that gives none.
    pub fn drop_sample(&mut self) {
        self.newest = None;
    }

    /// The sample of the present acknowledgement (`tcp_rate_gen`).
    #[allow(clippy::field_reassign_with_default, reason = "the type has fields that only its own crate sees")]
    fn sample(&self, sock: &Sock, event: &Event) -> RateSample {
        let mut sample = RateSample::default();
        sample.losses = event.newly_lost as i32;
        sample.acked_sacked = event.delivered;
        sample.prior_in_flight = event.prior_in_flight;
        sample.rtt_us = event.rtt_us;
        let Some(Newest { snapshot, resent, .. }) = self.newest else { return sample };
        let send_us = snapshot.sent_us.saturating_sub(snapshot.first_sent_us);
        let ack_us = sock.tcp_mstamp_us.saturating_sub(snapshot.delivered_us);
        sample.prior_delivered = snapshot.delivered;
        sample.prior_delivered_ce = snapshot.delivered_ce;
        sample.prior_mstamp = snapshot.delivered_us;
        sample.delivered = sock.delivered.wrapping_sub(snapshot.delivered) as i32;
        sample.delivered_ce = sock.delivered_ce.wrapping_sub(snapshot.delivered_ce) as i32;
        sample.snd_interval_us = send_us as u32;
        sample.rcv_interval_us = ack_us as u32;
        sample.last_end_seq = snapshot.end_seq;
        sample.is_retrans = u8::from(resent);
        sample.is_app_limited = u8::from(snapshot.is_app_limited);
        // A lone segment that is not full: its acknowledgement was probably delayed.
        let alone = event.acked == 1 && !event.newly_sacked && sample.delivered == 1;
        sample.is_ack_delayed = u8::from(alone && snapshot.is_short && !resent);
        let interval = send_us.max(ack_us);
        if interval >= u64::from(sock.rtt_min_us) {
            sample.interval_us = interval as i64;
        }
        sample
    }

    /// Forgets the segments below `una`, and begins the next sample.
    fn roll(&mut self, una: u64) {
        self.newest = None;
        while self.base < una && self.snapshots.pop_front().is_some() {
            self.base += 1;
        }
    }
}

impl Sender {
    /// Records a transmission. With nothing outstanding the sample begins now.
    #[cold]
    pub(super) fn snapshot(&mut self, now: Time, seq: u64, len: u32) {
        let now_us = micros(now);
        let sock = &mut self.cc.sock;
        if sock.packets_out == 0 {
            sock.first_tx_mstamp_us = now_us;
            sock.delivered_mstamp_us = now_us;
        }
        // A retransmission keeps the end that the first transmission recorded.
        let end_seq = sock.snd_nxt.wrapping_add(len);
        self.delivery.remember(now_us, seq, sock, end_seq, len < self.mss);
    }

    /// The packets delivered since the newest one that this acknowledgement delivers was sent (`tcp_clean_rtx_queue`).
    #[cold]
    pub(super) fn delivered_in_flight(&mut self) -> u32 {
        let prior = self.delivery.newest.map_or(0, |newest| newest.snapshot.delivered);
        if !self.cc.has_cong_control() {
            self.delivery.roll(self.board.una);
        }
        self.cc.sock.delivered.wrapping_sub(prior)
    }

    /// Gives the congestion control the sample of an acknowledgement; it sets window and pacing rate.
    pub(super) fn control_by_rate(&mut self, now: Time, event: &Event) {
        let sock = &mut self.cc.sock;
        if sock.app_limited != 0 && (sock.app_limited.wrapping_sub(sock.delivered) as i32) < 0 {
            sock.app_limited = 0;
        }
        if event.delivered > 0 {
            sock.delivered_mstamp_us = sock.tcp_mstamp_us;
        }
        sock.clock_ns = now.0;
        sock.departure_ns = self.next_send.0;
        let sample = self.delivery.sample(&self.cc.sock, event);
        self.cc.cong_control(self.cc.sock.snd_una, 0, &sample);
        self.delivery.roll(self.board.una);
    }

    /// Notes that the application has left the window unused until now (`tcp_rate_check_app_limited`).
    pub(super) fn check_app_limited(&mut self) {
        let (in_flight, sock) = (self.in_flight(), &mut self.cc.sock);
        let is_waiting = self.written_bytes - self.next_bytes < u64::from(self.mss);
        if is_waiting && in_flight < sock.snd_cwnd && sock.lost_out <= sock.retrans_out {
            sock.app_limited = sock.delivered.wrapping_add(in_flight).max(1);
        }
    }
}
