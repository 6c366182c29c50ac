//! Delivery-rate samples for congestion controls with `cong_control` and for records, as Linux' `tcp_rate.c` takes them
//! (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Each transmission records how much had been delivered. The most recently sent segment of an acknowledgement gives the
//! sample: what was delivered since then, over the longer of the times of sending and of acknowledging. Flows without
//! record whose congestion control lacks `cong_control` pay nothing.

use std::collections::VecDeque;

use weir_cc::{RateSample, Sock};
use weir_units::Time;

use super::ack::Event;
use super::{Sample, Sender, micros};

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
    /// Whether the congestion control asks for samples. A record alone shows it nothing, so that it changes nothing.
    shown: bool,
    /// Those of the segments from `base` on.
    snapshots: VecDeque<Snapshot>,
    base: u64,
    newest: Option<Newest>,
    /// Time of the last delivery.
    delivered_us: u64,
    /// Time of sending of the segment that gave the last sample.
    first_sent_us: u64,
    /// The samples of the last acknowledgement.
    taken: Option<Sample>,
}

impl Delivery {
    /// Samples for a congestion control, or for a record alone.
    pub fn new(for_control: bool) -> Delivery {
        Delivery { shown: for_control, ..Delivery::default() }
    }

    /// Shows the congestion control the times of its samples.
    fn show(&self, sock: &mut Sock) {
        if self.shown {
            sock.delivered_mstamp_us = self.delivered_us;
            sock.first_tx_mstamp_us = self.first_sent_us;
        }
    }

    /// Records the transmission of segment `seq`; `is_short` if it is less than a full one.
    fn remember(&mut self, now_us: u64, seq: u64, sock: &Sock, end_seq: u32, is_short: bool) {
        let mut snapshot = Snapshot {
            delivered: sock.delivered,
            delivered_ce: sock.delivered_ce,
            delivered_us: self.delivered_us,
            first_sent_us: self.first_sent_us,
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
    pub fn on_delivered(&mut self, seq: u64, resent: bool) {
        if self.snapshots.is_empty() || seq < self.base {
            return;
        }
        let Some(&snapshot) = self.snapshots.get((seq - self.base) as usize) else { return };
        let first = self.first_sent_us;
        let is_newer = |newest: Newest| snapshot.sent_us > first || snapshot.sent_us == first && seq > newest.seq;
        if self.newest.is_none_or(is_newer) {
            self.newest = Some(Newest { snapshot, seq, resent });
            self.first_sent_us = snapshot.sent_us;
        }
    }

    /// Forgets the sample of an acknowledgement that gives none.
    pub fn drop_sample(&mut self, sock: &mut Sock) {
        self.newest = None;
        self.taken = None;
        self.show(sock);
    }

    /// The packets delivered since the newest one that this acknowledgement delivers was sent (`tcp_clean_rtx_queue`); none
    /// unless the congestion control asks for it.
    #[cold]
    pub fn in_flight(&self, sock: &mut Sock) -> Option<u32> {
        self.show(sock);
        let prior = self.newest.map_or(0, |newest| newest.snapshot.delivered);
        self.shown.then(|| sock.delivered.wrapping_sub(prior))
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
    /// From now on the samples of acknowledgements are kept for [`Sender::take_sample`]. Sending and the congestion control
    /// do not depend on it.
    pub fn keep_samples(&mut self) {
        self.delivery.get_or_insert_with(|| Box::new(Delivery::new(false)));
    }

    /// Removes and returns the samples of the last acknowledgement, if they are kept and it gave any.
    pub fn take_sample(&mut self) -> Option<Sample> {
        self.delivery.as_mut()?.taken.take()
    }

    /// Records a transmission. With nothing outstanding the sample begins now.
    #[cold]
    pub(super) fn snapshot(&mut self, now: Time, seq: u64, len: u32) {
        let Some(delivery) = &mut self.delivery else { return };
        let now_us = micros(now);
        let sock = &mut self.cc.sock;
        if sock.packets_out == 0 {
            delivery.first_sent_us = now_us;
            delivery.delivered_us = now_us;
            delivery.show(sock);
        }
        // A retransmission keeps the end that the first transmission recorded.
        let end_seq = sock.snd_nxt.wrapping_add(len);
        delivery.remember(now_us, seq, sock, end_seq, len < self.mss);
    }

    /// Ends the sample of an acknowledgement. A congestion control with `cong_control` gets it, and sets window and pacing
    /// rate; false for one without.
    #[cold]
    pub(super) fn end_sample(&mut self, now: Time, event: &Event) -> bool {
        let controls = self.cc.has_cong_control();
        let Some(delivery) = &mut self.delivery else { return false };
        let sock = &mut self.cc.sock;
        if controls && sock.app_limited != 0 && (sock.app_limited.wrapping_sub(sock.delivered) as i32) < 0 {
            sock.app_limited = 0;
        }
        if event.delivered > 0 {
            delivery.delivered_us = sock.tcp_mstamp_us;
        }
        delivery.show(sock);
        let sample = delivery.sample(sock, event);
        delivery.taken = Some(Sample::of(&sample));
        delivery.roll(self.board.una);
        if controls {
            sock.clock_ns = now.0;
            sock.departure_ns = self.next_send.0;
            self.cc.cong_control(self.cc.sock.snd_una, 0, &sample);
        }
        controls
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
