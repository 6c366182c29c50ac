//! Processing of an acknowledgement: delivery of segments, round-trip time, loss detection, state machine, timers,
//! window growth.

use weir_cc::{AckSample, CaState};
use weir_units::Time;

use super::scoreboard::{self, EVER_RETRANS, LOST, RETRANS, SACKED};
use super::{MAX_REORDERING, Phase, Sender};
use crate::packet::{Ack, timestamp};
use crate::receiver::ACE_MASK;

const MAX_REORDERING_LEGACY: u64 = 127;

/// The effects of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub una_advanced: bool,
    /// Segments newly acknowledged, selectively or not.
    pub delivered: u32,
    pub acked: u32,
    pub newly_sacked: bool,
    pub newly_lost: u32,
    pub dsack: bool,
    /// The duplicate is that of the tail-loss probe.
    pub dsack_of_probe: bool,
    /// A duplicate acknowledgement without a report of a duplicate segment.
    pub dupack: bool,
    pub ece: bool,
    /// A segment sent once and outstanding at the last reduction was delivered.
    pub original_arrived: bool,
    pub retransmission_acked: bool,
    pub lost_retransmission: bool,
    pub keep_timer: bool,
    pub prior_in_flight: u32,
    pub prior_una: u64,
    pub tsecr: u32,
    /// Round-trip time for the congestion control, microseconds; negative without a sample.
    pub rtt_us: i64,
    /// Lowest segment that was sent once and is newly acknowledged by the cumulative acknowledgement alone.
    pub first_original: u64,
    pub first_sent: u64,
    pub last_sent: u64,
    pub first_sacked_sent: u64,
    pub last_sacked_sent: u64,
}

const NO_TIME: u64 = u64::MAX;

/// An acknowledgement without effects.
pub(super) const NO_EVENT: Event = Event {
    una_advanced: false,
    delivered: 0,
    acked: 0,
    newly_sacked: false,
    newly_lost: 0,
    dsack: false,
    dsack_of_probe: false,
    dupack: false,
    ece: false,
    original_arrived: false,
    retransmission_acked: false,
    lost_retransmission: false,
    keep_timer: false,
    prior_in_flight: 0,
    prior_una: 0,
    tsecr: 0,
    rtt_us: -1,
    first_original: u64::MAX,
    first_sent: NO_TIME,
    last_sent: 0,
    first_sacked_sent: NO_TIME,
    last_sacked_sent: 0,
};
impl Sender {
    /// Processes an acknowledgement.
    #[inline]
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        if self.phase != Phase::Established && !self.ends_first_window(ack) || ack.ack > self.board.next {
            return;
        }
        self.set_clock(now);
        if ack.ack < self.board.una || self.board.outstanding() == 0 {
            self.on_stale_ack(now, ack);
            return;
        }
        let mut event = Event {
            prior_in_flight: self.in_flight(),
            prior_una: self.board.una,
            ece: ack.echo != self.quiet_echo && self.ecn,
            tsecr: ack.tsecr,
            ..NO_EVENT
        };
        let prior_high = self.high_sacked;
        if self.sack && !ack.sack.is_empty() {
            self.take_sack(now, ack, &mut event);
        }
        if ack.ack > self.board.una {
            self.take_cumulative(now, ack.ack, &mut event);
            if event.first_original < prior_high {
                // The segment was late: later ones had been delivered before.
                self.note_reordering(event.first_original);
            }
            if !self.sack {
                self.discount_dupacks(&mut event);
            }
        }
        self.cc.sock.delivered += event.delivered;
        if event.ece || self.counts_marks {
            self.take_marks(ack, &mut event);
        }
        if event.una_advanced || event.newly_sacked {
            self.learn_rtt(now, &mut event);
            self.adapt_reordering_window(now);
        }
        self.cc.in_ack_event(ack_flags(ack, &event));
        self.react(now, &mut event);
    }

    /// Adds up marks. A flag marks all segments that the acknowledgement delivers. A counter is read only if the
    /// acknowledgement brings news: it may have been overtaken. Its three bits may have gone round if acknowledgements
    /// were lost: then the largest possible number counts (RFC 9768, appendix A.2.1). Pure SACKs that the receiver held
    /// back tell of no more marks than the bits say.
    #[cold]
    fn take_marks(&mut self, ack: &Ack, event: &mut Event) {
        if !self.counts_marks {
            self.cc.sock.delivered_ce += event.delivered;
            return;
        }
        event.ece = false;
        if !event.una_advanced && !event.newly_sacked {
            return;
        }
        let mask = u32::from(ACE_MASK);
        let mut marks = u32::from(ack.echo.wrapping_sub(self.quiet_echo)) & mask;
        if event.delivered > mask && ack.sack.is_empty() {
            marks = event.delivered - ((event.delivered - marks) & mask);
        }
        self.quiet_echo = ack.echo & ACE_MASK;
        self.cc.sock.delivered_ce += marks;
        event.ece = marks > 0;
    }

    /// Takes the SACK blocks of an acknowledgement that a later one overtook, or that came with nothing outstanding.
    #[cold]
    fn on_stale_ack(&mut self, now: Time, ack: &Ack) {
        let nothing_out = self.board.outstanding() == 0;
        let mut event = Event { prior_in_flight: self.in_flight(), prior_una: self.board.una, ..NO_EVENT };
        if self.sack && !ack.sack.is_empty() {
            self.take_sack(now, ack, &mut event);
            self.cc.sock.delivered += event.delivered;
        }
        if let Some(delivery) = &mut self.delivery {
            delivery.drop_sample(&mut self.cc.sock);
        }
        if nothing_out && ack.ack == self.board.una {
            self.cc.in_ack_event(ack_flags(ack, &event));
        }
        if self.sack && !ack.sack.is_empty() && (event.dsack || !nothing_out) {
            self.alert(now, &mut event);
        }
        if nothing_out && ack.ack == self.board.una && self.timer.probing() {
            self.resolve_probe(now, &event);
        }
    }

    /// Runs loss detection, state machine, timers and window growth in Linux' order.
    #[inline]
    fn react(&mut self, now: Time, event: &mut Event) {
        if self.timer.probing() {
            self.resolve_probe(now, event);
        }
        if self.legacy {
            self.react_legacy(now, event);
        }
        let unusual = !event.una_advanced || event.newly_sacked || event.ece || event.dsack;
        if unusual || self.cc.sock.ca_state != CaState::Open as u8 {
            event.dupack = !event.una_advanced && !event.dsack;
            self.alert(now, event);
        }
        if (event.una_advanced || self.sacked_before_head_was_resent(event)) && !event.keep_timer {
            self.rearm(now);
        }
        self.control_window(now, event);
        self.update_pacing_rate();
    }

    /// Restarts the head's timeout if the newly SACKed data were sent before the head's last transmission: nothing sent
    /// after it has been acknowledged yet.
    fn sacked_before_head_was_resent(&self, event: &Event) -> bool {
        event.first_sacked_sent != NO_TIME
            && !self.untimed_sacks
            && self.board.outstanding() > 0
            && event.first_sacked_sent < self.board.get(self.board.una).sent_ns
    }

    fn take_sack(&mut self, now: Time, ack: &Ack, event: &mut Event) {
        let mut blocks = [(0, 0); 4];
        let mut count = ack.sack.as_slice().len();
        blocks[..count].copy_from_slice(ack.sack.as_slice());
        if ack.sack.dsack && self.take_dsack(blocks[0], event) {
            blocks.copy_within(1.., 0);
            count -= 1;
        }
        blocks[..count].sort_unstable();
        let una = self.board.una.max(ack.ack);
        let prior_high = self.high_sacked;
        let mut lowest_late = u64::MAX;
        for &(start, end) in &blocks[..count] {
            // Ignores blocks at or below the cumulative acknowledgement and beyond the data sent.
            if start <= una || start >= end || end > self.board.next {
                continue;
            }
            // Moves the set out to update the records of its new members.
            let mut sacked = std::mem::take(&mut self.board.sacked);
            sacked.insert(start, end, 0, |from, to| {
                for seq in from..to {
                    if self.sack_one(now, seq, event) && seq < prior_high {
                        lowest_late = lowest_late.min(seq);
                    }
                }
            });
            self.board.sacked = sacked;
            self.high_sacked = self.high_sacked.max(end);
        }
        if lowest_late < prior_high && self.reordering_is_certain() {
            self.note_reordering(lowest_late);
        }
    }

    /// After a timeout, late and lost segments cannot be told apart.
    pub(super) fn reordering_is_certain(&self) -> bool {
        self.cc.sock.ca_state != CaState::Loss as u8 || !self.legacy && self.recovery.undo_marker.is_some()
    }

    /// Records one selectively acknowledged segment; returns whether it had been sent once only.
    fn sack_one(&mut self, now: Time, seq: u64, event: &mut Event) -> bool {
        let high_seq = self.recovery.high_seq;
        let record = self.board.get_mut(seq);
        let (sent, flags, plain) = (record.sent_ns, record.flags, *record);
        // The retransmission of a segment not marked lost is still in flight.
        let gone = if flags & LOST != 0 { LOST | RETRANS } else { 0 };
        record.flags = (flags | SACKED) & !gone;
        let once = flags & EVER_RETRANS == 0;
        let sock = &mut self.cc.sock;
        sock.sacked_out += 1;
        sock.lost_out -= u32::from(flags & LOST != 0);
        sock.retrans_out -= u32::from(flags & gone & RETRANS != 0);
        event.newly_sacked = true;
        event.delivered += 1;
        if once {
            if event.first_sacked_sent == NO_TIME {
                event.first_sacked_sent = sent;
            }
            event.last_sacked_sent = sent;
            event.original_arrived |= seq < high_seq;
        }
        if let Some(delivery) = &mut self.delivery {
            delivery.on_delivered(seq, !once);
        }
        self.rack.advance(now, seq, &plain, !once, self.rtt.min_us());
        once
    }

    #[inline]
    fn take_cumulative(&mut self, now: Time, ack: u64, event: &mut Event) {
        let mut bytes = 0;
        let mut last_plain = None;
        let sampled = self.delivery.is_some();
        for seq in self.board.una..ack {
            let record = *self.board.get(seq);
            bytes += u64::from(record.len);
            if record.flags == 0 {
                if event.first_sent == NO_TIME {
                    event.first_sent = record.sent_ns;
                    event.first_original = seq;
                }
                event.last_sent = record.sent_ns;
                event.delivered += 1;
                event.original_arrived |= seq < self.recovery.high_seq;
                last_plain = Some((seq, record));
                if sampled && let Some(delivery) = &mut self.delivery {
                    delivery.on_delivered(seq, false);
                }
            } else {
                self.acknowledge_marked(now, seq, record, event);
            }
        }
        if let Some((seq, record)) = last_plain {
            // Segments sent once were sent in order: the last stands for all.
            self.rack.advance(now, seq, &record, false, self.rtt.min_us());
        }
        event.acked = (ack - self.board.una) as u32;
        event.una_advanced = true;
        self.cc.sock.packets_out -= event.acked;
        self.board.una = ack;
        self.una_bytes += bytes;
        self.cc.sock.snd_una = self.una_bytes as u32;
        self.board.advanced();
    }

    fn acknowledge_marked(&mut self, now: Time, seq: u64, record: scoreboard::Record, event: &mut Event) {
        let sock = &mut self.cc.sock;
        let flags = record.flags;
        sock.lost_out -= u32::from(flags & LOST != 0);
        sock.retrans_out -= u32::from(flags & RETRANS != 0);
        let resent = flags & EVER_RETRANS != 0;
        event.retransmission_acked |= resent;
        if flags & SACKED != 0 {
            sock.sacked_out -= 1;
            return;
        }
        event.delivered += 1;
        if !resent {
            if event.first_sent == NO_TIME {
                event.first_sent = record.sent_ns;
                event.first_original = seq;
            }
            event.last_sent = record.sent_ns;
            event.original_arrived |= seq < self.recovery.high_seq;
        }
        if let Some(delivery) = &mut self.delivery {
            delivery.on_delivered(seq, resent);
        }
        // The ACK echoes the time of an earlier transmission (RFC 8985, section 6.2, step 2).
        let echo_is_older = (event.tsecr.wrapping_sub(timestamp(Time(record.sent_ns))) as i32) < 0;
        let spurious = resent && self.timestamps && event.tsecr != 0 && echo_is_older;
        if !spurious {
            self.rack.advance(now, seq, &record, resent, self.rtt.min_us());
        }
    }

    /// Records reordering: a segment sent once was delivered after later ones.
    pub(super) fn note_reordering(&mut self, late: u64) {
        let high = if self.cc.sock.sacked_out == 0 { self.board.una } else { self.high_sacked };
        let max = if self.legacy { MAX_REORDERING_LEGACY } else { MAX_REORDERING };
        let distance = high.saturating_sub(late).min(max) as u32;
        let farther = distance > self.reordering;
        if farther {
            self.reordering = distance;
        }
        self.reordering_seen |= farther || !self.legacy;
    }

    /// Updates the RTT estimate (RFC 6298, Karn's algorithm) and tells the congestion control.
    #[inline]
    fn learn_rtt(&mut self, now: Time, event: &mut Event) {
        let since = |sent: u64| self.elapsed_us(now, sent) as i64;
        let mut rtt = -1;
        let mut cc_rtt = -1;
        if event.first_sent != NO_TIME && !event.retransmission_acked {
            rtt = since(event.first_sent);
            cc_rtt = since(event.last_sent);
        }
        if event.first_sacked_sent != NO_TIME && !self.untimed_sacks {
            cc_rtt = since(event.last_sacked_sent);
            if rtt < 0 {
                rtt = since(event.first_sacked_sent);
            }
        }
        if rtt < 0 && self.timestamps && event.una_advanced && event.tsecr != 0 {
            rtt = echo_rtt_us(now, event.tsecr);
            cc_rtt = rtt;
        }
        if rtt >= 0 {
            self.rtt.sample_min(now, cc_rtt as u32);
            self.sample_rtt(now, rtt as u64);
        }
        event.rtt_us = cc_rtt;
        let delivered = self.delivery.as_ref().and_then(|delivery| delivery.in_flight(&mut self.cc.sock));
        let in_flight = delivered.unwrap_or(event.prior_in_flight).wrapping_mul(self.mss);
        self.cc.pkts_acked(&AckSample { pkts_acked: event.acked, rtt_us: cc_rtt as i32, in_flight });
    }

    pub(super) fn sample_rtt(&mut self, now: Time, rtt_us: u64) {
        self.rtt.sample(now, rtt_us as u32, self.board.una, self.board.next);
        let sock = &mut self.cc.sock;
        sock.srtt_us = self.rtt.srtt_us8;
        sock.mdev_us = self.rtt.mdev_us4;
        sock.rtt_min_us = self.rtt.min_us();
    }
}

/// Linux' flags of `in_ack_event`: a change of the peer's window, an acknowledgement that header prediction does not
/// expect, the echo of a congestion mark. The peer's window never changes here without an advance.
#[inline]
fn ack_flags(ack: &Ack, event: &Event) -> u32 {
    let unexpected = !event.una_advanced || event.ece || !ack.sack.is_empty();
    u32::from(unexpected) | u32::from(event.una_advanced) << 1 | u32::from(event.ece) << 2
}

/// Round-trip time from an echoed timestamp, microseconds; whole milliseconds, at least one, as in Linux
/// (`tcp_rtt_tsopt_us`). -1 for an echo from the future.
fn echo_rtt_us(now: Time, tsecr: u32) -> i64 {
    let elapsed = timestamp(now).wrapping_sub(tsecr) as i32;
    if elapsed < 0 { -1 } else { i64::from(elapsed.max(1)) * 1000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echoed_timestamp_counts_milliseconds() {
        let rtt = |now_us: u64, sent_us: u64| echo_rtt_us(Time(now_us * 1000), timestamp(Time(sent_us * 1000)));
        // 10.018 ms span 10 or 11 ticks of the clock; less than a tick counts as one.
        assert_eq!(rtt(1_010_018, 1_000_000), 10_000);
        assert_eq!(rtt(1_010_999, 1_000_981), 10_000);
        assert_eq!(rtt(1_011_008, 1_000_990), 11_000);
        assert_eq!(rtt(1_000_300, 1_000_100), 1_000);
        assert_eq!(rtt(1_000_999, 1_001_000), -1, "from the future");
        let wrap_us = (1 << 32) * 1000;
        assert_eq!(rtt(wrap_us + 5_000, wrap_us - 15_000), 20_000, "of a clock that has gone round");
    }
}
