//! The receiving end of a connection.
//!
//! It acknowledges as Linux does: by the delayed-ACK timer with its adaptive timeout, in quick-ACK mode at the start
//! and after a silence, and at once at the end of a write of the sender's application. Out-of-order segments are
//! acknowledged at once with SACK and D-SACK blocks (RFC 2018, RFC 2883); pure SACKs are compressed. Congestion marks
//! are echoed: by a flag (RFC 3168), exactly as DCTCP wants it (RFC 8257), or by a counter (RFC 9768). The application
//! reads at once.

use weir_plan::{Ack as AckPolicy, Stack, Tcp};
use weir_units::{Dur, Time};

use crate::packet::{Ack, PlainAck, SackBlocks};
use crate::ranges::Ranges;
use crate::{segment_bytes, ticks};

const MIN_ATO: Dur = Dur::from_millis(40);
const MAX_ATO: Dur = Dur::from_millis(200);
const QUICK_ACKS: u32 = 16;
/// Segments acknowledged at once after the first congestion mark: the sender's window may be small.
const QUICK_ACKS_FOR_CONGESTION: u32 = 2;
/// Limit on SACK blocks for compression: with more, a lost ACK would lose information.
const EXPECTED_BLOCKS: usize = 2;
/// The retransmission timeout before the first round-trip time.
const INITIAL_RTO: Dur = Dur::from_secs(1);
/// Pure SACKs sent at once before compression starts: the duplicate-ACK threshold.
const UNCOMPRESSED_DUPACKS: u32 = 3;
const MAX_COMPRESSED: u32 = 44;
const MAX_COMPRESSION_DELAY: Dur = Dur::from_millis(1);
/// The timer of compression may expire by this later (`tcp_comp_sack_slack_ns`), and does: a soft timer waits for another one or
/// for its last instant.
const COMPRESSION_SLACK: Dur = Dur::from_micros(100);

/// Marks since the last acknowledgement that cause another one (RFC 9768, section 3.2.2.5.1).
const UNREPORTED_MARKS: u32 = 2;
/// The first value of the counter of marks (RFC 9768, section 3.2.1), and the mask of its bits.
pub(crate) const FIRST_ACE: u8 = 5;
pub(crate) const ACE_MASK: u8 = 7;

/// How a receiver tells its sender of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// Echoes a mark until the sender says that it has reduced its window (RFC 3168).
    Flag,
    /// Each acknowledgement echoes the marks of the segments that it covers (RFC 8257, section 3.2).
    Exact,
    /// Counts marks: AccECN (RFC 9768).
    Counter,
}

/// A data segment as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number of the segment.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// The sender's [`timestamp`](crate::timestamp).
    pub tsval: u32,
    /// The ECN field says congestion experienced.
    pub ce: bool,
    /// The congestion-window-reduced flag.
    pub cwr: bool,
    /// The push flag: the end of a write of the sender's application.
    pub push: bool,
}

/// The receiving end of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    next: u64,
    delivered_bytes: u64,
    out_of_order: Ranges,
    /// First segments of the most recently reported ranges, latest first.
    recent: [u64; 4],
    recent_len: usize,
    max_blocks: usize,
    sack: bool,
    every_segment: bool,
    /// Current Linux compresses pure SACKs and acknowledges congestion marks at once.
    modern: bool,
    mss: u32,
    most_quick_acks: u32,

    ts_recent: u32,
    last_ack_sent: u64,
    unacked_bytes: u32,
    quick_acks: u32,
    ato: Dur,
    max_ato: Dur,
    /// A gap after which the sender has probably restarted.
    silence: Dur,
    last_arrival: Option<Time>,
    ack_deadline: Time,
    /// When the delayed-ACK timer that was set last expires. Linux does not stop it when the acknowledgement has gone, and sends
    /// compressed SACKs when it expires.
    idle_timer: Time,

    dupacks: u32,
    dupacks_at: u64,
    compressed: u32,
    compress_deadline: Time,
    rtt: Dur,
    /// What acknowledgements echo, see [`Ack::echo`].
    echo: u8,
    feedback: Feedback,
    /// Marks that came since the last acknowledgement, with a counter.
    unreported_marks: u32,
    last_was_marked: bool,
    /// The acknowledgement to send before the one that a segment caused: what it acknowledges, its echoed timestamp and
    /// mark.
    prior: Option<(u64, u32, u8)>,
}

impl Receiver {
    /// The receiving end of a connection with these settings.
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
            modern: tcp.stack == Stack::Linux,
            mss: segment_bytes(tcp),
            most_quick_acks: quick_acks(tcp),
            ts_recent: 0,
            last_ack_sent: 0,
            unacked_bytes: 0,
            quick_acks: 0,
            ato: Dur::ZERO,
            max_ato: MAX_ATO,
            silence: INITIAL_RTO,
            last_arrival: None,
            ack_deadline: Time::MAX,
            idle_timer: Time::ZERO,
            dupacks: 0,
            dupacks_at: 0,
            compressed: 0,
            compress_deadline: Time::MAX,
            rtt: MAX_COMPRESSION_DELAY * 20,
            echo: 0,
            feedback: Feedback::Flag,
            unreported_marks: 0,
            last_was_marked: false,
            prior: None,
        }
    }

    /// Tells the sender of marks in this way.
    #[must_use]
    pub fn with_feedback(mut self, feedback: Feedback) -> Receiver {
        self.feedback = feedback;
        self.echo = if feedback == Feedback::Counter { FIRST_ACE } else { 0 };
        self
    }

    /// The delayed acknowledgement that the last segment ended, because its mark differs; it precedes the segment's.
    #[inline]
    pub fn take_prior(&mut self) -> Option<Ack> {
        self.prior.take().map(|(ack, tsecr, echo)| Ack { ack, sack: SackBlocks::default(), echo, tsecr })
    }

    /// Sets the round-trip time measured in the handshake.
    pub fn set_rtt(&mut self, rtt: Dur) {
        self.rtt = rtt;
        let in_clock = |span: Dur| if self.modern { ticks::ceil(span) } else { span };
        self.max_ato = in_clock(rtt).clamp(MIN_ATO, MAX_ATO);
        // The retransmission timeout after one sample (RFC 6298, section 2.2).
        self.silence = in_clock(rtt + (rtt * 2).max(MAX_ATO));
    }

    /// Payload handed to the application so far, in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// The next segment expected.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The instant to call [`Receiver::on_timer`]; [`Time::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.ack_deadline.min(self.compress_deadline)
    }

    /// Takes a segment; returns the acknowledgement to send at once, if any.
    #[inline]
    pub fn on_data(&mut self, now: Time, arrival: Arrival) -> Option<Ack> {
        self.note_ecn(&arrival);
        if arrival.seq <= self.last_ack_sent && arrival.tsval.wrapping_sub(self.ts_recent) as i32 >= 0 {
            self.ts_recent = arrival.tsval;
        }
        if arrival.seq == self.next && self.out_of_order.is_empty() {
            self.note_arrival(now);
            self.next += 1;
            self.delivered_bytes += u64::from(arrival.len);
            self.unacked_bytes += arrival.len;
            return self.in_order(now, arrival.push || arrival.len < self.mss);
        }
        self.on_disorder(now, &arrival)
    }

    /// Whether the segment whose number has these low 32 bits is the next one, and nothing is out of order: if it is full
    /// and without flags, [`Receiver::take_next`] may take it.
    #[inline]
    pub fn expects(&self, number: u32) -> bool {
        number == self.next as u32 && self.out_of_order.is_empty() && self.feedback == Feedback::Flag
    }

    /// Takes the next segment, full and without flags, as [`Receiver::on_data`] does. The receiver [expects] it.
    ///
    /// [expects]: Receiver::expects
    #[inline]
    pub fn take_next(&mut self, now: Time, len: u32, tsval: u32) -> Option<PlainAck> {
        if self.next <= self.last_ack_sent && tsval.wrapping_sub(self.ts_recent) as i32 >= 0 {
            self.ts_recent = tsval;
        }
        self.note_arrival(now);
        self.next += 1;
        self.delivered_bytes += u64::from(len);
        self.unacked_bytes += len;
        if !self.answers_at_once(len < self.mss) {
            self.delay_ack(now);
            return None;
        }
        self.acknowledged();
        Some(PlainAck { ack: self.next, echo: self.echo, tsecr: self.ts_recent })
    }

    /// Handles an expired timer; returns the acknowledgement to send, if any.
    pub fn on_timer(&mut self, now: Time) -> Option<Ack> {
        if now >= self.compress_deadline {
            return Some(self.acknowledge());
        }
        if now >= self.ack_deadline {
            // Linux doubles its estimate when the timer fires.
            let most = if self.modern { self.silence } else { MAX_ATO };
            self.ato = Dur((self.ato.0 * 2).clamp(MIN_ATO.0, most.0));
            return Some(self.acknowledge());
        }
        None
    }

    /// Acknowledges in-order data, at once or later. At the end of a write the sender may wait for its ACK: Linux sends
    /// it when the application has read the data (`tcp_cleanup_rbuf`), and treats a short segment as such an end, too.
    #[inline]
    fn in_order(&mut self, now: Time, is_end: bool) -> Option<Ack> {
        if self.answers_at_once(is_end) {
            return Some(self.acknowledge());
        }
        self.delay_ack(now);
        None
    }

    #[inline]
    fn answers_at_once(&self, is_end: bool) -> bool {
        is_end || self.unacked_bytes > self.mss || self.quick_acks > 0 || self.every_segment
    }

    #[inline]
    fn delay_ack(&mut self, now: Time) {
        if self.ack_deadline == Time::MAX {
            let ato = self.ato.clamp(MIN_ATO, self.max_ato);
            self.ack_deadline = if self.modern { ticks::expiry(now, ticks::floor(ato)) } else { now + ato };
            self.idle_timer = self.ack_deadline;
        }
    }

    fn on_disorder(&mut self, now: Time, arrival: &Arrival) -> Option<Ack> {
        let seq = arrival.seq;
        if seq < self.next {
            self.quick_acks = self.quick_acks.max(self.most_quick_acks);
            self.ato = MIN_ATO;
            let ack = self.acknowledge();
            return Some(self.with_duplicate(ack, seq));
        }
        if seq == self.next {
            self.note_arrival(now);
            return self.fill_hole(now, arrival.len);
        }
        if self.out_of_order.find(seq).is_some() {
            self.remember(seq);
            return self.out_of_order_ack(now).map(|ack| self.with_duplicate(ack, seq));
        }
        let overdue = self.compressed > 0 && self.block_beside(seq) >= EXPECTED_BLOCKS;
        let held_back = if overdue { Some(self.acknowledge()) } else { None };
        self.out_of_order.insert(seq, seq + 1, u64::from(arrival.len), |_, _| {});
        self.remember(seq);
        // What was held back goes without this segment, and for Linux the segment is then acknowledged (`tcp_ack_snd_check`).
        held_back.or_else(|| self.out_of_order_ack(now))
    }

    /// Index of the reported block that `seq` extends, latest first; the number of blocks if there is none.
    fn block_beside(&self, seq: u64) -> usize {
        let recent = &self.recent[..self.recent_len];
        let beside = |start: &u64| self.out_of_order.find(*start).is_some_and(|r| r.start <= seq + 1 && seq <= r.end);
        recent.iter().position(beside).unwrap_or(self.recent_len)
    }

    /// Takes the segment that fills the first hole. If it is the only one before another hole, its acknowledgement counts as the
    /// first duplicate, as in Linux (`__tcp_ack_snd_check`).
    fn fill_hole(&mut self, now: Time, len: u32) -> Option<Ack> {
        let before = self.delivered_bytes;
        self.next += 1;
        self.delivered_bytes += u64::from(len);
        if let Some(range) = self.out_of_order.take_first_at(self.next) {
            self.next = range.end;
            self.delivered_bytes += range.bytes;
        }
        if self.out_of_order.is_empty() || self.delivered_bytes - before > u64::from(self.mss) {
            Some(self.acknowledge())
        } else {
            self.out_of_order_ack(now)
        }
    }

    /// Sends a pure SACK, or delays it to compress it with later ones.
    fn out_of_order_ack(&mut self, now: Time) -> Option<Ack> {
        let at_once = !self.modern || !self.sack || self.every_segment || self.quick_acks > 0;
        if at_once || self.compressed >= MAX_COMPRESSED {
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
            let due = now + Dur(self.rtt.0 / 20).min(MAX_COMPRESSION_DELAY) + COMPRESSION_SLACK;
            self.compress_deadline = if self.idle_timer > now { due.min(self.idle_timer) } else { due };
        }
        None
    }

    /// Reports a duplicate in the first block (RFC 2883).
    fn with_duplicate(&self, ack: Ack, seq: u64) -> Ack {
        if !self.sack {
            return ack;
        }
        let mut sack = SackBlocks::default();
        sack.dsack = true;
        sack.push(seq, seq + 1, self.max_blocks);
        for &(start, end) in ack.sack.as_slice() {
            sack.push(start, end, self.max_blocks);
        }
        Ack { sack, ..ack }
    }

    /// An acknowledgement of all segments in order is on its way.
    #[inline]
    fn acknowledged(&mut self) {
        self.unacked_bytes = 0;
        self.ack_deadline = Time::MAX;
        self.compress_deadline = Time::MAX;
        self.compressed = 0;
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            if self.quick_acks == 0 && self.modern {
                self.ato = MIN_ATO;
            }
        }
        self.last_ack_sent = self.next;
    }

    #[inline]
    fn acknowledge(&mut self) -> Ack {
        self.acknowledged();
        self.unreported_marks = 0;
        let sack = if self.out_of_order.is_empty() || !self.sack { SackBlocks::default() } else { self.sack_blocks() };
        Ack { ack: self.next, sack, echo: self.echo, tsecr: self.ts_recent }
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

    /// Moves the block of `seq` to the front of the list.
    fn remember(&mut self, seq: u64) {
        let first = self.recent[..self.recent_len].first();
        if first.is_some_and(|&first| self.out_of_order.find(first) == self.out_of_order.find(seq)) {
            return;
        }
        if !self.modern {
            // Linux of any age remembers a block once. Here, as in the stored results of the papers' claims, one that grows may
            // stand twice until the next report, and push another one out of a full list.
            let keep = self.recent_len.min(self.recent.len() - 1);
            self.recent.copy_within(0..keep, 1);
            self.recent[0] = seq;
            self.recent_len = keep + 1;
            return;
        }
        // A block is remembered once, and so are four of them.
        let block = self.out_of_order.find(seq);
        let mut latest = [seq; 4];
        let mut len = 1;
        for &other in &self.recent[..self.recent_len] {
            if len < latest.len() && self.out_of_order.find(other) != block {
                latest[len] = other;
                len += 1;
            }
        }
        (self.recent, self.recent_len) = (latest, len);
    }

    /// Adapts the delayed-ACK timeout to the gaps between segments, as Linux does.
    #[inline]
    fn note_arrival(&mut self, now: Time) {
        let Some(last) = self.last_arrival.replace(now) else {
            self.quick_acks = self.quick_acks.max(self.most_quick_acks);
            self.ato = MIN_ATO;
            return;
        };
        let gap = now.since(last);
        // A short gap has no more ticks than milliseconds.
        let gap = if self.modern && gap > Dur(MIN_ATO.0 / 2) { ticks::between(last, now) } else { gap };
        if gap <= Dur(MIN_ATO.0 / 2) {
            self.ato = Dur(self.ato.0 / 2 + MIN_ATO.0 / 2);
        } else if gap < self.ato {
            self.ato = Dur((self.ato.0 / 2 + gap.0).min(MAX_ATO.0));
        } else if gap > self.silence {
            // The sender has probably restarted after an idle period and needs ACKs quickly.
            self.quick_acks = self.quick_acks.max(self.most_quick_acks);
        }
    }

    #[inline]
    fn note_ecn(&mut self, arrival: &Arrival) {
        if arrival.cwr || arrival.ce || self.feedback != Feedback::Flag {
            self.note_congestion(arrival);
        }
    }

    #[cold]
    fn note_congestion(&mut self, arrival: &Arrival) {
        match self.feedback {
            Feedback::Flag => {}
            Feedback::Exact => return self.note_mark(arrival),
            Feedback::Counter => return self.count_mark(arrival),
        }
        if arrival.cwr {
            self.echo = 0;
            if self.modern {
                // A sender with a window of one segment waits for this ACK.
                self.quick_acks = self.quick_acks.max(1);
            }
        }
        if arrival.ce {
            if self.modern && self.echo == 0 {
                self.quick_acks = self.quick_acks.max(QUICK_ACKS_FOR_CONGESTION);
                self.ato = MIN_ATO;
            }
            self.echo = 1;
        }
    }
}

impl Receiver {
    /// Echoes a change of the mark at once. A segment with CWR is acknowledged at once, too.
    fn note_mark(&mut self, arrival: &Arrival) {
        if arrival.ce != (self.echo == 1) {
            if self.ack_deadline != Time::MAX {
                let ack = self.acknowledge();
                self.prior = Some((ack.ack, ack.tsecr, ack.echo));
            }
            self.echo = u8::from(arrival.ce);
            self.quick_acks = self.quick_acks.max(1);
        }
        if arrival.cwr {
            self.quick_acks = self.quick_acks.max(1);
        }
    }

    /// Counts a mark. The first one after a segment without, and every second one since the last acknowledgement, is
    /// acknowledged at once (RFC 9768, section 3.2.2.5.1).
    fn count_mark(&mut self, arrival: &Arrival) {
        let is_change = arrival.ce && !self.last_was_marked;
        self.last_was_marked = arrival.ce;
        if !arrival.ce {
            return;
        }
        self.echo = (self.echo + 1) & ACE_MASK;
        self.unreported_marks += 1;
        if is_change || self.unreported_marks >= UNREPORTED_MARKS {
            self.quick_acks = self.quick_acks.max(1);
        }
    }
}

/// Number of segments acknowledged at once in quick-ACK mode: half the window, within bounds.
fn quick_acks(tcp: &Tcp) -> u32 {
    let segments = tcp.receive_buffer_bytes / (2 * u64::from(segment_bytes(tcp)));
    segments.clamp(2, u64::from(QUICK_ACKS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(seq: u64, ce: bool) -> Arrival {
        Arrival { seq, len: 1448, tsval: 1, ce, cwr: false, push: false }
    }

    /// A receiver whose acknowledgements are delayed: quick acknowledgements have ended. It has the segments below 40.
    fn delaying(feedback: Feedback) -> Receiver {
        let tcp = Tcp {
            cc: String::new(),
            cc_options: std::collections::BTreeMap::new(),
            cc_source: None,
            stack: Stack::Linux,
            mss_bytes: 1448,
            timestamps: true,
            sack: true,
            ecn: true,
            accecn: false,
            initial_window: 10,
            initial_ssthresh: 0,
            jump_start: false,
            quick_start_bps: 0,
            profile: Vec::new(),
            send_buffer_bytes: 1 << 24,
            receive_buffer_bytes: 1 << 24,
            pacing: false,
            ack: AckPolicy::Delayed,
            processing_ns: 0,
            sack_cost_ns: 0,
            backlog_packets: 0,
            unmoderated: false,
        };
        let mut receiver = Receiver::new(&tcp).with_feedback(feedback);
        for seq in 0..40 {
            receiver.on_data(Time(seq * 1000), arrival(seq, false));
        }
        while receiver.on_data(Time(40_000), arrival(receiver.next(), false)).is_none() {}
        receiver
    }

    #[test]
    fn an_exact_echo_separates_marked_segments_from_others() {
        let mut receiver = delaying(Feedback::Exact);
        let first = receiver.next();
        assert_eq!(receiver.on_data(Time(50_000), arrival(first, false)), None, "delayed");
        // The delayed acknowledgement comes without the echo, then the marked segment's at once with it.
        let marked = receiver.on_data(Time(51_000), arrival(first + 1, true)).expect("at once");
        let prior = receiver.take_prior().expect("the one before");
        assert_eq!((prior.ack, prior.echo, marked.ack, marked.echo), (first + 1, 0, first + 2, 1));
        // The mark stays: acknowledgements are delayed, and echo it.
        assert_eq!(receiver.on_data(Time(52_000), arrival(first + 2, true)), None);
        assert!(receiver.on_data(Time(53_000), arrival(first + 3, true)).expect("the second").echo == 1);
        let unmarked = receiver.on_data(Time(54_000), arrival(first + 4, false)).expect("at once");
        assert_eq!((receiver.take_prior(), unmarked.echo), (None, 0));
    }

    #[test]
    fn the_standard_s_echo_lasts_until_the_window_is_reduced() {
        let mut receiver = delaying(Feedback::Flag);
        let first = receiver.next();
        receiver.on_data(Time(50_000), arrival(first, true));
        let mut later = (1..5).filter_map(|i| receiver.on_data(Time(51_000), arrival(first + i, false)));
        assert!(later.all(|ack| ack.echo == 1));
        let reduced = receiver.on_data(Time(52_000), Arrival { cwr: true, ..arrival(first + 5, false) });
        assert_eq!(reduced.expect("at once").echo, 0);
        assert_eq!(receiver.take_prior(), None);
    }

    /// RFC 9768: the counter starts at 5 (section 3.2.1); an acknowledgement comes at once for the first mark after a
    /// segment without, and for every second mark since the last acknowledgement (section 3.2.2.5.1).
    #[test]
    fn a_counter_counts_every_mark_modulo_8() {
        let mut receiver = delaying(Feedback::Counter);
        let first = receiver.next();
        assert_eq!(receiver.on_data(Time(50_000), arrival(first, false)), None, "delayed");
        let change = receiver.on_data(Time(51_000), arrival(first + 1, true)).expect("at once");
        assert_eq!((change.ack, change.echo), (first + 2, 6));
        let marks: Vec<_> = (2..8).map(|i| receiver.on_data(Time(52_000), arrival(first + i, true))).collect();
        let echoes: Vec<_> = marks.iter().map(|ack| ack.map(|ack| ack.echo)).collect();
        assert_eq!(echoes, [None, Some(0), None, Some(2), None, Some(4)]);
        // The window is reduced: that changes nothing here.
        receiver.on_data(Time(53_000), Arrival { cwr: true, ..arrival(first + 8, false) });
        let later = receiver.on_data(Time(54_000), arrival(first + 9, false)).expect("the second");
        assert_eq!(later.echo, 4);
        assert_eq!(receiver.take_prior(), None);
    }
}
