//! Plain acknowledgements: the next segments in order, while nothing is missing.
//!
//! Nearly all acknowledgements are plain, and what they cause is little (V. Jacobson, "4BSD header prediction", Computer
//! Communication Review 20(2), 1990). The effects are those of [`Sender::on_ack`], step by step; a property test compares
//! both.

use weir_cc::{AckSample, CaState};
use weir_units::Time;

use super::{Phase, Sender};

/// Flags of `in_ack_event`: an advance that header prediction expects.
const EXPECTED_ADVANCE: u32 = 1 << 1;

impl Sender {
    /// Processes an acknowledgement without SACK blocks and echo of a congestion mark; `ack`: the low 32 bits of the next
    /// segment expected. False, and nothing done, unless it is plain. Afterwards the caller says what follows: a train that
    /// the acknowledgement [permits](Sender::sent_train), or [none](Sender::sent_no_train).
    #[inline]
    pub fn on_plain_ack(&mut self, now: Time, ack: u32) -> bool {
        let una = self.board.una;
        let count = ack.wrapping_sub(una as u32);
        if count == 0 || u64::from(count) >= self.board.outstanding() || !self.misses_nothing() {
            return false;
        }
        let ack = una + u64::from(count);
        let (mut bytes, mut flags) = (0, 0);
        for seq in una..ack {
            let record = self.board.get(seq);
            bytes += u64::from(record.len);
            flags |= record.flags;
        }
        if flags != 0 {
            return false;
        }
        let (first_sent, last) = (self.board.get(una).sent_ns, *self.board.get(ack - 1));
        let flight = self.cc.sock.packets_out;
        self.set_clock(now);
        self.rack.advance(now, ack - 1, &last, false, self.rtt.min_us());
        self.board.una = ack;
        self.board.advanced();
        self.una_bytes += bytes;
        let sock = &mut self.cc.sock;
        sock.packets_out -= count;
        sock.snd_una = self.una_bytes as u32;
        sock.delivered += count;
        let rtt_us = self.elapsed_us(now, last.sent_ns);
        self.rtt.sample_min(now, rtt_us as u32);
        self.sample_rtt(now, self.elapsed_us(now, first_sent));
        self.cc.pkts_acked(&AckSample {
            pkts_acked: count,
            rtt_us: rtt_us as i32,
            in_flight: flight.wrapping_mul(self.mss),
        });
        self.adapt_reordering_window(now);
        self.cc.in_ack_event(EXPECTED_ADVANCE);
        self.recovery.timeouts_in_row = 0;
        if self.legacy {
            self.grow_legacy(now, flight);
        } else {
            self.cc.cong_avoid(self.cc.sock.snd_una, count);
            self.cwnd_stamp = now;
        }
        self.update_pacing_rate();
        true
    }

    /// No train followed a plain acknowledgement at once: the timer is set as after any progress.
    #[inline]
    pub fn sent_no_train(&mut self, now: Time) {
        self.rearm(now);
    }

    /// Whether nothing is believed lost, late or twice under way, and the window grows with each acknowledgement. A
    /// counter of marks may be 0, as no echo is, so that no acknowledgement with one is plain.
    #[inline]
    fn misses_nothing(&self) -> bool {
        let sock = &self.cc.sock;
        let complete = sock.sacked_out | sock.lost_out | sock.retrans_out == 0 && self.high_sacked <= self.board.una;
        let calm = self.phase == Phase::Established && sock.ca_state == CaState::Open as u8 && !self.timer.probing();
        complete && calm && self.sack && self.delivery.is_none() && !self.counts_marks
    }
}
