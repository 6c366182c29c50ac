//! The receiving end of a connection.
//!
//! Models what shapes the acknowledgement stream on Linux: the delayed-ACK timer with its adaptive timeout, quick-ACK
//! mode at the start and after a silence, an immediate ACK for anything out of order with SACK and D-SACK blocks
//! (RFC 2018, RFC 2883), compression of SACK-only ACKs, and the ECN echo (RFC 3168). The application reads at once.

use weir_plan::{Ack as AckPolicy, Stack, Tcp};
use weir_units::{Dur, Time};

use crate::packet::{Ack, SackBlocks};
use crate::ranges::Ranges;

const MIN_ATO: Dur = Dur::from_millis(40);
const MAX_ATO: Dur = Dur::from_millis(200);
const QUICK_ACKS: u32 = 16;
/// SACK-only ACKs that are sent at once before compression starts: the duplicate-ACK threshold.
const UNCOMPRESSED_DUPACKS: u32 = 3;
const MAX_COMPRESSED: u32 = 44;
/// Blocks that a compressed ACK may hold back without risk of losing one.
const EXPECTED_BLOCKS: usize = 2;
const MAX_COMPRESSION_DELAY: Dur = Dur::from_millis(1);

/// A data segment as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number of the segment.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// The sender's timestamp, microseconds.
    pub tsval: u32,
    /// Marked congestion-experienced.
    pub ce: bool,
    /// The sender says that it reduced its window.
    pub cwr: bool,
}

/// The receiving end of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    next: u64,
    delivered_bytes: u64,
    out_of_order: Ranges,
    /// First segments of the ranges reported last, most recent first.
    recent: [u64; 4],
    recent_len: usize,
    max_blocks: usize,
    sack: bool,
    every_segment: bool,
    compress: bool,
    mss: u32,

    ts_recent: u32,
    last_ack_sent: u64,
    unacked_bytes: u32,
    quick_acks: u32,
    ato: Dur,
    last_arrival: Option<Time>,
    ack_deadline: Time,

    dupacks: u32,
    dupacks_at: u64,
    compressed: u32,
    compress_deadline: Time,
    rtt: Dur,
    echo_ce: bool,
}

impl Receiver {
    /// The receiving end for a connection with these settings.
    pub fn new(tcp: &Tcp) -> Receiver {
        Receiver {
            next: 0,
            delivered_bytes: 0,
            out_of_order: Ranges::default(),
            recent: [0; 4],
            recent_len: 0,
            max_blocks: if tcp.timestamps { 3 } else { 4 },
            sack: tcp.sack,
            every_segment: tcp.ack == AckPolicy::Every,
            compress: tcp.stack == Stack::Linux,
            mss: tcp.mss_bytes,
            ts_recent: 0,
            last_ack_sent: 0,
            unacked_bytes: 0,
            quick_acks: 0,
            ato: Dur::ZERO,
            last_arrival: None,
            ack_deadline: Time::MAX,
            dupacks: 0,
            dupacks_at: 0,
            compressed: 0,
            compress_deadline: Time::MAX,
            rtt: MAX_COMPRESSION_DELAY * 20,
            echo_ce: false,
        }
    }

    /// The round-trip time seen during the handshake.
    pub fn set_rtt(&mut self, rtt: Dur) {
        self.rtt = rtt;
    }

    /// Payload handed to the application so far, in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// The next segment expected.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// When [`Receiver::on_timer`] wants to be called; [`Time::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.ack_deadline.min(self.compress_deadline)
    }

    /// A segment arrived; returns the acknowledgement to send at once, if any.
    #[inline]
    pub fn on_data(&mut self, now: Time, arrival: Arrival) -> Option<Ack> {
        self.note_ecn(&arrival);
        if arrival.seq <= self.last_ack_sent {
            self.ts_recent = arrival.tsval;
        }
        if arrival.seq == self.next && self.out_of_order.is_empty() {
            self.note_arrival(now);
            self.next += 1;
            self.delivered_bytes += u64::from(arrival.len);
            self.unacked_bytes += arrival.len;
            return self.in_order(now);
        }
        self.on_disorder(now, &arrival)
    }

    /// A timer expired; returns the acknowledgement it asks for.
    pub fn on_timer(&mut self, now: Time) -> Option<Ack> {
        if now >= self.compress_deadline {
            return Some(self.acknowledge());
        }
        if now >= self.ack_deadline {
            // Linux backs its estimate off when the timer had to fire.
            self.ato = Dur((self.ato.0 * 2).clamp(MIN_ATO.0, MAX_ATO.0));
            return Some(self.acknowledge());
        }
        None
    }

    #[inline]
    fn in_order(&mut self, now: Time) -> Option<Ack> {
        if self.unacked_bytes > self.mss || self.quick_acks > 0 || self.every_segment {
            return Some(self.acknowledge());
        }
        if self.ack_deadline == Time::MAX {
            self.ack_deadline = now + Dur(self.ato.0.clamp(MIN_ATO.0, MAX_ATO.0));
        }
        None
    }

    fn on_disorder(&mut self, now: Time, arrival: &Arrival) -> Option<Ack> {
        self.note_arrival(now);
        let seq = arrival.seq;
        if seq < self.next || self.out_of_order.find(seq).is_some() {
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
            return Some(self.acknowledge_duplicate(seq));
        }
        if seq == self.next {
            return Some(self.fill_hole(arrival.len));
        }
        self.out_of_order.insert(seq, seq + 1, u64::from(arrival.len), |_, _| {});
        let fresh = self.remember(seq);
        if fresh && self.recent_len > EXPECTED_BLOCKS {
            // Waiting could push a block out of the list before it was ever reported.
            return Some(self.acknowledge());
        }
        self.out_of_order_ack(now)
    }

    /// The segment that everything waited for.
    fn fill_hole(&mut self, len: u32) -> Ack {
        self.next += 1;
        self.delivered_bytes += u64::from(len);
        if let Some(range) = self.out_of_order.take_first_at(self.next) {
            self.next = range.end;
            self.delivered_bytes += range.bytes;
        }
        self.acknowledge()
    }

    /// Sends a SACK-only acknowledgement, or lets it wait for more of its kind.
    fn out_of_order_ack(&mut self, now: Time) -> Option<Ack> {
        if !self.compress || !self.sack || self.compressed >= MAX_COMPRESSED {
            return Some(self.acknowledge());
        }
        if self.dupacks_at != self.next {
            self.dupacks_at = self.next;
            self.dupacks = 0;
        }
        if self.dupacks < UNCOMPRESSED_DUPACKS {
            self.dupacks += 1;
            return Some(self.acknowledge());
        }
        self.compressed += 1;
        if self.compress_deadline == Time::MAX {
            self.compress_deadline = now + Dur(self.rtt.0 / 20).min(MAX_COMPRESSION_DELAY);
        }
        None
    }

    fn acknowledge_duplicate(&mut self, seq: u64) -> Ack {
        let mut ack = self.acknowledge();
        if self.sack {
            let mut blocks = SackBlocks::default();
            blocks.dsack = true;
            blocks.push(seq, seq + 1, self.max_blocks);
            for &(start, end) in ack.sack.as_slice() {
                blocks.push(start, end, self.max_blocks);
            }
            ack.sack = blocks;
        }
        ack
    }

    #[inline]
    fn acknowledge(&mut self) -> Ack {
        self.unacked_bytes = 0;
        self.ack_deadline = Time::MAX;
        self.compress_deadline = Time::MAX;
        self.compressed = 0;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.last_ack_sent = self.next;
        let sack = if self.out_of_order.is_empty() || !self.sack { SackBlocks::default() } else { self.sack_blocks() };
        Ack { ack: self.next, sack, ece: self.echo_ce, tsecr: self.ts_recent }
    }

    fn sack_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let mut kept = 0;
        for i in 0..self.recent_len {
            let Some(range) = self.out_of_order.find(self.recent[i]) else { continue };
            let (start, end) = (range.start, range.end);
            if blocks.as_slice().contains(&(start, end)) {
                continue;
            }
            blocks.push(start, end, self.max_blocks);
            self.recent[kept] = start;
            kept += 1;
        }
        self.recent_len = kept;
        blocks
    }

    /// Puts the block of `seq` first in the list; false if it was there.
    fn remember(&mut self, seq: u64) -> bool {
        let first = self.recent[..self.recent_len].first();
        if first.is_some_and(|&first| self.out_of_order.find(first) == self.out_of_order.find(seq)) {
            return false;
        }
        let keep = self.recent_len.min(self.recent.len() - 1);
        self.recent.copy_within(0..keep, 1);
        self.recent[0] = seq;
        self.recent_len = keep + 1;
        true
    }

    /// Adapts the delayed-ACK timeout to the gaps between segments, as Linux does.
    #[inline]
    fn note_arrival(&mut self, now: Time) {
        let Some(last) = self.last_arrival.replace(now) else {
            self.quick_acks = QUICK_ACKS;
            self.ato = MIN_ATO;
            return;
        };
        let gap = now.since(last);
        if gap <= Dur(MIN_ATO.0 / 2) {
            self.ato = Dur(self.ato.0 / 2 + MIN_ATO.0 / 2);
        } else if gap < self.ato {
            self.ato = Dur((self.ato.0 / 2 + gap.0).min(MAX_ATO.0));
        } else if gap > MAX_ATO {
            // The sender probably restarted after an idle period: it needs its ACKs quickly.
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
        }
    }

    #[inline]
    fn note_ecn(&mut self, arrival: &Arrival) {
        if arrival.cwr {
            self.echo_ce = false;
        }
        if arrival.ce {
            self.echo_ce = true;
        }
    }
}
