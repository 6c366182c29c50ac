//! Which segments are lost.
//!
//! The `linux` stack uses RACK (RFC 8985): a segment is lost when one sent later was delivered and a reordering window
//! has passed. `linux-2.6` uses FACK (Mathis and Mahdavi 1996): a segment is lost when the highest selectively
//! acknowledged one is more than the reordering degree above it. Without SACK both use NewReno (RFC 6582).

use weir_cc::CaState;
use weir_units::{Dur, Time};

use super::scoreboard::{LOST, RETRANS, SACKED};
use super::{EVER_RETRANS, Event, Sender, recovery};

/// State of RACK: the most recently sent segment that was delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    sent_ns: u64,
    seq: u64,
    rtt_ns: u64,
    advanced: bool,
    pub window_steps: u32,
    persist: u32,
    dsack_seen: bool,
    round_end: u64,
}

impl Rack {
    /// Segment `seq`, last sent at `sent_ns`, was delivered.
    #[inline]
    pub fn advance(&mut self, now: Time, sent_ns: u64, seq: u64, resent: bool, min_rtt_us: u32) {
        let rtt = now.0 - sent_ns;
        if resent && rtt / 1000 < u64::from(min_rtt_us) {
            // Too soon for the retransmission: the original was delivered.
            return;
        }
        self.advanced = true;
        self.rtt_ns = rtt;
        if (sent_ns, seq) > (self.sent_ns, self.seq) {
            (self.sent_ns, self.seq) = (sent_ns, seq);
        }
    }

    fn sent_before(&self, sent_ns: u64, seq: u64) -> bool {
        (sent_ns, seq) < (self.sent_ns, self.seq)
    }

    /// Whether a segment sent at `sent_ns` has had its time.
    fn expired(&self, now: Time, sent_ns: u64, window: Dur) -> bool {
        now.0 - sent_ns >= self.rtt_ns + window.0
    }

    pub fn note_dsack(&mut self) {
        self.dsack_seen = true;
    }

    pub fn force(&mut self) {
        self.advanced = true;
    }
}

impl Sender {
    /// A duplicate was reported (RFC 2883): a retransmission was for nothing.
    pub(super) fn take_dsack(&mut self, (start, end): (u64, u64), event: &mut Event) {
        event.dsack = true;
        self.rack.note_dsack();
        self.reordering_seen |= !self.legacy;
        if self.recovery.undo_retransmissions > 0 && end > self.recovery.undo_marker.unwrap_or(u64::MAX) {
            let resent = (end - start).min(u64::from(self.recovery.undo_retransmissions as u32)) as i32;
            self.recovery.undo_retransmissions -= resent;
        }
    }

    /// Once a round, adapts RACK's reordering window to duplicates seen (RFC 8985, section 6.2, step 4).
    #[inline]
    pub(super) fn adapt_reordering_window(&mut self, event: &Event) {
        let rack = &mut self.rack;
        if self.legacy || !self.sack || (!rack.dsack_seen && rack.window_steps <= 1) {
            return;
        }
        if event.prior_una < rack.round_end {
            return;
        }
        if rack.dsack_seen {
            rack.window_steps = (rack.window_steps.max(1) + 1).min(255);
            rack.persist = 16;
            rack.round_end = self.board.next;
        } else if rack.persist == 0 {
            rack.window_steps = 1;
        }
        rack.dsack_seen = false;
    }

    /// At the end of a recovery, the adapted window lives a little shorter.
    pub(super) fn age_reordering_window(&mut self) {
        self.rack.persist = self.rack.persist.saturating_sub(1);
    }

    fn reordering_window(&self) -> Dur {
        let sock = &self.cc.sock;
        if !self.reordering_seen && (sock.ca_state >= CaState::Recovery as u8 || sock.sacked_out >= self.reordering) {
            return Dur::ZERO;
        }
        let quarters = u64::from(self.rtt.min_us()) / 4 * u64::from(self.rack.window_steps.max(1));
        Dur::from_micros(quarters.min(u64::from(sock.srtt_us >> 3)))
    }

    /// Marks what is lost; counts it in `event`.
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
                self.timer.arm_reordering(timeout);
            }
        }
        event.newly_lost += self.cc.sock.lost - lost_before;
        event.lost_retransmission |= self.cc.sock.retrans_out < resent_before;
    }

    /// The reordering timer expired; returns how many segments it found lost.
    pub(super) fn rack_timeout(&mut self, now: Time) -> u32 {
        let window = self.reordering_window();
        let lost_before = self.cc.sock.lost;
        if let Some(timeout) = self.rack_mark(now, window) {
            self.timer.arm_reordering(timeout);
        }
        self.cc.sock.lost - lost_before
    }

    /// RACK: returns when to look again, if some segments are overdue but still within the reordering window.
    fn rack_mark(&mut self, now: Time, window: Dur) -> Option<Time> {
        let mut pending = self.rack_mark_originals(now, window);
        pending |= self.rack_mark_retransmissions(now, window);
        pending.then(|| Time(self.rack.sent_ns + self.rack.rtt_ns + window.0).max(now + Dur::from_micros(1)))
    }

    fn rack_mark_originals(&mut self, now: Time, window: Dur) -> bool {
        while self.board.examined < self.board.next {
            let seq = self.board.examined;
            let record = *self.board.get(seq);
            if record.flags & (SACKED | LOST | EVER_RETRANS) == 0 {
                if !self.rack.sent_before(record.sent_ns, seq) {
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
                if !self.rack.sent_before(entry.sent_ns, entry.seq) {
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

    /// Whether this is still the last transmission of a segment that is outstanding.
    fn is_current(&self, entry: &super::scoreboard::Retransmission) -> bool {
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
        let limit = if self.reordering_seen { self.sacked_limit() } else { high.saturating_sub(degree) };
        while self.board.examined < limit {
            let seq = self.board.examined;
            if self.board.get(seq).flags & (SACKED | LOST | EVER_RETRANS) == 0 {
                self.mark_lost(seq);
            }
            self.board.examined += 1;
        }
        self.fack_mark_retransmissions();
    }

    /// Once the path is known to reorder, forward acknowledgement is not trusted: one segment for each selectively
    /// acknowledged one beyond the reordering degree.
    fn sacked_limit(&self) -> u64 {
        let count = u64::from(self.cc.sock.sacked_out.saturating_sub(self.reordering));
        (self.board.una + count).min(self.high_sacked)
    }

    /// A retransmission is lost when data first sent after it were acknowledged.
    fn fack_mark_retransmissions(&mut self) {
        while let Some(&entry) = self.board.retransmissions.front() {
            if self.is_current(&entry) {
                if self.high_sacked <= entry.next_at + u64::from(self.reordering) {
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
        if (third_dupack || partial_ack) && self.board.get(head).flags & (LOST | RETRANS) == 0 {
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

    /// After an RTO: everything not selectively acknowledged is lost, except what RACK says was sent just now.
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

    /// Without SACK a duplicate ACK says that one more segment left the network (RFC 5681, RFC 6582).
    pub(super) fn count_dupack(&mut self, event: &mut Event) {
        if !self.sack
            && !event.una_advanced
            && self.cc.sock.sacked_out + self.cc.sock.lost_out < self.cc.sock.packets_out
        {
            self.cc.sock.sacked_out += 1;
            event.delivered += 1;
        }
    }

    /// Without SACK an advance of the cumulative ACK uses up the duplicates counted.
    pub(super) fn discount_dupacks(&mut self, event: &Event) {
        if !self.sack && event.una_advanced {
            let sock = &mut self.cc.sock;
            sock.sacked_out = sock.sacked_out.saturating_sub(event.acked.saturating_sub(1));
            sock.sacked_out = sock.sacked_out.min(sock.packets_out.saturating_sub(sock.lost_out));
        }
    }
}
