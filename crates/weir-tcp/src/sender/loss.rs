//! Loss detection.
//!
//! The `linux` stack uses RACK (RFC 8985): a segment is lost when a later transmission was delivered and a reordering
//! window has passed. `linux-2.6` uses FACK (Mathis and Mahdavi 1996): a segment is lost when the highest selectively
//! acknowledged one is more than the reordering degree above it. Without SACK both use NewReno (RFC 6582).

use weir_cc::CaState;
use weir_units::{Dur, Time};

use super::ack::Event;
use super::scoreboard::{EVER_RETRANS, LOST, RETRANS, Record, Retransmission, SACKED};
use super::timers::MIN_TIMEOUT;
use super::{MAX_REORDERING, Sender, recovery};

/// State of RACK: the most recently sent segment among those delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    sent_ns: u64,
    order: u32,
    seq: u64,
    rtt_ns: u64,
    advanced: bool,
    pub window_steps: u32,
    persist: u32,
    dsack_seen: bool,
    /// The instant of the last change of the reordering window.
    widened_ns: u64,
}

/// Recoveries after which a widened reordering window is reset (RFC 8985, section 6.2, step 4).
const WINDOW_PERSISTENCE: u32 = 16;

impl Rack {
    /// Records the delivery of segment `seq`.
    #[inline]
    pub fn advance(&mut self, now: Time, seq: u64, record: &Record, resent: bool, min_rtt_us: u32) {
        let rtt = now.0 - record.sent_ns;
        if resent && rtt / 1000 < u64::from(min_rtt_us) {
            // Too early for the retransmission: the original was delivered.
            return;
        }
        self.advanced = true;
        self.rtt_ns = rtt;
        if !self.sent_before(record.sent_ns, record.order) {
            (self.sent_ns, self.order, self.seq) = (record.sent_ns, record.order, seq);
        }
    }

    /// Whether a transmission precedes the latest one delivered. RFC 8985 breaks ties by sequence number; the number of
    /// the transmission also tells an original from a retransmission.
    #[inline]
    fn sent_before(&self, sent_ns: u64, order: u32) -> bool {
        sent_ns < self.sent_ns || sent_ns == self.sent_ns && (order.wrapping_sub(self.order) as i32) < 0
    }

    /// Whether the reordering window of a segment sent at `sent_ns` has passed.
    fn expired(&self, now: Time, sent_ns: u64, window: Dur) -> bool {
        now.0 - sent_ns >= self.rtt_ns + window.0
    }

    /// A recovery repaired a loss: the widened window expires one recovery sooner.
    pub fn age_window(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was spurious: the widened window lasts longer.
    pub fn renew_window(&mut self) {
        self.persist = (self.persist + 1).min(WINDOW_PERSISTENCE);
    }

    pub fn force(&mut self) {
        self.advanced = true;
    }
}

impl Sender {
    /// Handles a reported duplicate (RFC 2883), a spurious retransmission; false if this sender did not cause it.
    pub(super) fn take_dsack(&mut self, (start, end): (u64, u64), event: &mut Event) -> bool {
        if start >= end || end > self.board.next {
            return false;
        }
        let count = end - start;
        self.dsacks = self.dsacks.saturating_add(count);
        if self.dsacks > self.counters.retransmitted_packets {
            return false;
        }
        event.dsack = true;
        event.dsack_of_probe = self.timer.probed_up_to(end);
        event.delivered += count as u32;
        self.rack.dsack_seen |= self.reordering_seen && !event.dsack_of_probe;
        // The records below are gone: every duplicate counts. Above, only retransmitted segments do.
        let below = end.min(self.board.una).saturating_sub(start);
        let mut spurious = if end > self.recovery.undo_marker.unwrap_or(u64::MAX) { below } else { 0 };
        let mut late = u64::MAX;
        for seq in start.max(self.board.una)..end {
            let record = self.board.get_mut(seq);
            spurious += u64::from(record.flags & EVER_RETRANS != 0);
            if record.flags & (SACKED | EVER_RETRANS) == SACKED | EVER_RETRANS {
                late = late.min(seq);
            }
            // The duplicate is no longer in flight.
            if record.flags & (LOST | RETRANS) == RETRANS {
                record.flags &= !RETRANS;
                self.cc.sock.retrans_out -= 1;
            }
        }
        self.recovery.discount_retransmissions(spurious);
        if late < self.high_sacked && self.reordering_is_certain() {
            // The original was delivered, after later segments.
            self.note_reordering(late);
        }
        true
    }

    /// Adapts RACK's reordering window to reported duplicates, once a round trip (RFC 8985, section 6.2, step 4).
    #[inline]
    pub(super) fn adapt_reordering_window(&mut self, now: Time) {
        let rack = &mut self.rack;
        if self.legacy || !self.sack || (!rack.dsack_seen && rack.window_steps <= 1) {
            return;
        }
        // Widens the window once for each flight: the latest segment delivered was sent after the last change.
        if rack.dsack_seen && rack.sent_ns >= rack.widened_ns {
            rack.window_steps = (rack.window_steps.max(1) + 1).min(255);
            rack.persist = WINDOW_PERSISTENCE;
            rack.widened_ns = now.0;
        } else if rack.persist == 0 {
            rack.window_steps = 1;
        }
        rack.dsack_seen = false;
    }

    fn reordering_window(&self) -> Dur {
        let sock = &self.cc.sock;
        if !self.reordering_seen && (sock.ca_state >= CaState::Recovery as u8 || sock.sacked_out >= self.reordering) {
            return Dur::ZERO;
        }
        let quarters = u64::from(self.rtt.min_us()) / 4 * u64::from(self.rack.window_steps.max(1));
        Dur::from_micros(quarters.min(u64::from(sock.srtt_us >> 3)))
    }

    /// Marks lost segments and counts them in `event`.
    pub(super) fn detect_losses(&mut self, now: Time, event: &mut Event) {
        if self.board.outstanding() == 0 {
            return;
        }
        let lost_before = self.cc.sock.lost;
        let resent_before = self.cc.sock.retrans_out;
        if !self.sack {
            self.newreno_mark(event.una_advanced);
        } else if self.legacy {
            self.fack_mark();
        } else if std::mem::take(&mut self.rack.advanced) {
            let window = self.reordering_window();
            if let Some(timeout) = self.rack_mark(now, window) {
                event.keep_timer = true;
                self.timer.arm_reordering(self.expiry(now, timeout));
            }
        }
        event.newly_lost += self.cc.sock.lost - lost_before;
        event.lost_retransmission |= self.cc.sock.retrans_out < resent_before;
    }

    /// Handles the reordering timer; returns the number of segments found lost.
    pub(super) fn rack_timeout(&mut self, now: Time) -> u32 {
        let window = self.reordering_window();
        let lost_before = self.cc.sock.lost;
        if let Some(timeout) = self.rack_mark(now, window) {
            self.timer.arm_reordering(self.expiry(now, timeout));
        }
        self.cc.sock.lost - lost_before
    }

    /// RACK; returns the time until the next check, if segments are still within their reordering window.
    fn rack_mark(&mut self, now: Time, window: Dur) -> Option<Dur> {
        let originals = self.rack_mark_originals(now, window);
        let retransmissions = self.rack_mark_retransmissions(now, window);
        if !(originals || retransmissions) {
            return None;
        }
        let original = if originals { self.last_overdue_original() } else { 0 };
        let resent = if retransmissions { self.last_overdue_retransmission() } else { 0 };
        let due = Time(original.max(resent) + self.rack.rtt_ns + window.0) + MIN_TIMEOUT;
        Some(due.since(now).min(self.rtt.rto()))
    }

    /// Time of the last original transmission that RACK waits for. If a retransmission was delivered last, its own
    /// time, which is late at worst.
    fn last_overdue_original(&self) -> u64 {
        let latest = self.rack.seq;
        if latest < self.board.una || latest >= self.board.next || self.board.get(latest).flags != SACKED {
            return self.rack.sent_ns;
        }
        let mut seq = latest;
        while seq > self.board.examined {
            seq = self.board.sacked.find(seq).map_or(seq, |range| range.start).saturating_sub(1);
            let record = self.board.get(seq);
            if record.flags == 0 && seq >= self.board.examined {
                return record.sent_ns;
            }
        }
        self.rack.sent_ns
    }

    fn last_overdue_retransmission(&self) -> u64 {
        let entries = &self.board.retransmissions;
        let overdue = entries.partition_point(|entry| self.rack.sent_before(entry.sent_ns, entry.order));
        entries.range(..overdue).rev().find(|entry| self.is_current(entry)).map_or(0, |entry| entry.sent_ns)
    }

    fn rack_mark_originals(&mut self, now: Time, window: Dur) -> bool {
        while self.board.examined < self.board.next {
            let seq = self.board.examined;
            let record = *self.board.get(seq);
            if record.flags & (SACKED | LOST | EVER_RETRANS) == 0 {
                if !self.rack.sent_before(record.sent_ns, record.order) {
                    return false;
                }
                if !self.rack.expired(now, record.sent_ns, window) {
                    return true;
                }
                self.mark_lost(seq);
            }
            self.board.examined += 1;
        }
        false
    }

    fn rack_mark_retransmissions(&mut self, now: Time, window: Dur) -> bool {
        while let Some(&entry) = self.board.retransmissions.front() {
            if self.is_current(&entry) {
                if !self.rack.sent_before(entry.sent_ns, entry.order) {
                    return false;
                }
                if !self.rack.expired(now, entry.sent_ns, window) {
                    return true;
                }
                self.mark_lost(entry.seq);
            }
            self.board.retransmissions.pop_front();
        }
        false
    }

    /// Whether this is the last transmission of an outstanding segment.
    fn is_current(&self, entry: &Retransmission) -> bool {
        if entry.seq < self.board.una {
            return false;
        }
        let record = self.board.get(entry.seq);
        record.sent_ns == entry.sent_ns && record.flags & SACKED == 0 && record.flags & (LOST | RETRANS) != LOST
    }

    fn fack_mark(&mut self) {
        let degree = u64::from(self.reordering);
        let high = self.high_sacked.max(self.board.una);
        if !recovery::reduces_window(self.cc.sock.ca_state) && high - self.board.una <= degree {
            return;
        }
        let mut limit = if self.reordering_seen { self.dupthresh_limit() } else { high.saturating_sub(degree) };
        if self.cc.sock.ca_state >= CaState::Recovery as u8 {
            // Segments sent since the reduction began are examined after its end.
            limit = limit.min(self.recovery.high_seq);
        }
        while self.board.examined < limit {
            let seq = self.board.examined;
            if self.board.get(seq).flags & (SACKED | LOST | EVER_RETRANS) == 0 {
                self.mark_lost(seq);
            }
            self.board.examined += 1;
        }
        if self.cc.sock.ca_state == CaState::Recovery as u8 {
            self.fack_mark_retransmissions();
        }
    }

    /// On a path known to reorder, forward acknowledgement is not reliable: the number of segments selectively
    /// acknowledged above decides (RFC 6675, `IsLost`).
    fn dupthresh_limit(&self) -> u64 {
        let Some(mut below) = self.cc.sock.sacked_out.checked_sub(self.reordering).map(u64::from) else {
            return self.board.una;
        };
        for range in self.board.sacked.iter() {
            let count = range.end - range.start;
            if count > below {
                return range.start;
            }
            below -= count;
        }
        self.board.una
    }

    /// A retransmission is lost when data first sent after it were acknowledged; with a margin if the path reorders.
    fn fack_mark_retransmissions(&mut self) {
        let margin = if self.reordering_seen { u64::from(self.reordering) } else { 1 };
        while let Some(&entry) = self.board.retransmissions.front() {
            if self.is_current(&entry) {
                if self.high_sacked < entry.next_at + margin {
                    return;
                }
                self.mark_lost(entry.seq);
            }
            self.board.retransmissions.pop_front();
        }
    }

    fn newreno_mark(&mut self, una_advanced: bool) {
        let state = self.cc.sock.ca_state;
        let third_dupack = state < CaState::Recovery as u8 && self.cc.sock.sacked_out >= self.reordering;
        let partial_ack = state == CaState::Recovery as u8 && una_advanced;
        let head = self.board.una;
        if (third_dupack || partial_ack) && self.board.get(head).flags & LOST == 0 {
            self.mark_lost(head);
        }
    }

    /// Marks a segment lost and queues it for retransmission.
    pub(super) fn mark_lost(&mut self, seq: u64) {
        let record = self.board.get_mut(seq);
        let flags = record.flags;
        record.flags = (flags | LOST) & !RETRANS;
        let sock = &mut self.cc.sock;
        sock.lost_out += u32::from(flags & LOST == 0);
        sock.retrans_out -= u32::from(flags & RETRANS != 0);
        sock.lost += 1;
        self.board.queue_lost(seq);
    }

    /// After an RTO: all segments not selectively acknowledged are lost, except those within RACK's reordering window.
    pub(super) fn mark_lost_after_timeout(&mut self, now: Time) {
        let head = self.board.una;
        for seq in head..self.board.next {
            let record = *self.board.get(seq);
            let outstanding = record.flags & SACKED == 0 && (record.flags & LOST == 0 || record.flags & RETRANS != 0);
            let recent = !self.legacy && self.sack && !self.rack.expired(now, record.sent_ns, Dur::ZERO);
            if outstanding && (seq == head || !recent) {
                self.mark_lost(seq);
            }
        }
        self.board.examined = if self.legacy || !self.sack { self.board.next } else { self.board.una };
    }

    /// Without SACK, a duplicate ACK stands for one segment that left the network (RFC 5681, RFC 6582).
    pub(super) fn count_dupack(&mut self, event: &mut Event) {
        if !self.sack && event.dupack {
            let before = self.cc.sock.sacked_out;
            self.cc.sock.sacked_out += 1;
            self.limit_dupacks(0);
            event.delivered += self.cc.sock.sacked_out.saturating_sub(before);
        }
    }

    /// Without SACK, an advance of the cumulative acknowledgement fills one hole and consumes the duplicates counted.
    pub(super) fn discount_dupacks(&mut self, event: &mut Event) {
        let sock = &mut self.cc.sock;
        event.delivered = event.acked.saturating_sub(sock.sacked_out).max(1);
        sock.sacked_out = sock.sacked_out.saturating_sub(event.acked - 1);
        self.limit_dupacks(event.acked);
        // The original and its copy cannot be told apart.
        event.original_arrived &= !event.retransmission_acked;
    }

    /// More duplicate ACKs than outstanding segments: the path reorders.
    fn limit_dupacks(&mut self, acked: u32) {
        let sock = &mut self.cc.sock;
        let holes = sock.lost_out.max(1).min(sock.packets_out);
        if sock.sacked_out + holes > sock.packets_out {
            sock.sacked_out = sock.packets_out - holes;
            self.reordering = (sock.packets_out + acked).min(MAX_REORDERING as u32);
            self.reordering_seen = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985, section 6.2, step 4: a quarter of the least RTT for each step, at most the smoothed RTT.
    #[test]
    fn the_reordering_window_grows_in_quarters_up_to_the_smoothed_rtt() {
        let tcp = weir_plan::Tcp {
            cc: "reno".into(),
            cc_options: Default::default(),
            cc_source: None,
            stack: weir_plan::Stack::Linux,
            mss_bytes: 1000,
            timestamps: true,
            sack: true,
            ecn: false,
            accecn: false,
            initial_window: 10,
            initial_ssthresh: 0,
            jump_start: false,
            quick_start_bps: 0,
            profile: Vec::new(),
            send_buffer_bytes: 100_000,
            receive_buffer_bytes: 100_000,
            pacing: false,
            ack: weir_plan::Ack::Delayed,
            processing_ns: 0,
            sack_cost_ns: 0,
            backlog_packets: 0,
            unmoderated: false,
        };
        let mut sender = Sender::new(&tcp, &weir_cc::find("reno").unwrap()).unwrap();
        sender.sample_rtt(Time(0), 80_000);
        sender.sample_rtt(Time(1), 160_000);
        assert_eq!(sender.srtt(), Some(Dur::from_millis(90)));
        sender.reordering_seen = true;
        let mut windows = (0..7).map(|steps| {
            sender.rack.window_steps = steps;
            sender.reordering_window()
        });
        let expected = [20, 20, 40, 60, 80, 90, 90].map(Dur::from_millis);
        assert!(windows.by_ref().eq(expected));
    }
}
