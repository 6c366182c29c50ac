//! Transmission: the choice of the next segment, and pacing.

use weir_cc::CaEvent;
use weir_units::{Dur, Time};

use super::scoreboard::{self, EVER_RETRANS, RETRANS, SACKED};
use super::{Forced, Phase, Sender, Train, Transmit};
use crate::packet::{Segment, timestamp};

const PACING_RATIO_SLOW_START: u64 = 200;
const PACING_RATIO_AVOIDANCE: u64 = 120;
const MAX_QUANTUM_BYTES: u64 = 65_536;
/// `net.ipv4.tcp_limit_output_bytes` of Linux 6.12.
const LIMIT_OUTPUT_BYTES: u64 = 1 << 20;
/// `net.ipv4.tcp_min_tso_segs`.
const LEAST_TRAIN_SEGMENTS: u32 = 2;
/// `net.ipv4.tcp_tso_rtt_log`: a train has half of the largest size for each 512 us of the round trip.
const TRAIN_RTT_SHIFT: u32 = 9;
/// Pacing begins with this segment, so that an initial window is sent at once.
const UNPACED_SEGMENTS: u64 = 10;

impl Sender {
    /// Limit on this flow's bytes in the host's own queue (TCP small queues): a millisecond at the pacing rate, at
    /// least two segments, at most [`most_local_bytes`](Self::most_local_bytes). Unlimited for the `linux-2.6` stack.
    #[inline]
    pub fn local_queue_limit(&self) -> u64 {
        if self.legacy {
            return u64::MAX;
        }
        (self.cc.sock.pacing_rate >> 10).max(u64::from(2 * (self.mss + 256))).min(self.most_local_bytes())
    }

    /// Most bytes in the host's own queue at any pacing rate. As in Linux 6.12, a paced flow has no such limit
    /// (`tcp_small_queue_check`).
    #[inline]
    pub fn most_local_bytes(&self) -> u64 {
        if self.is_paced() { u64::MAX } else { LIMIT_OUTPUT_BYTES }
    }

    /// What the pacing rate sends in a millisecond, bytes.
    #[inline]
    pub fn bytes_a_millisecond(&self) -> u64 {
        self.cc.sock.pacing_rate >> 10
    }

    /// Whether lost segments wait for their retransmission.
    #[inline]
    pub fn has_lost_segments(&self) -> bool {
        self.cc.sock.lost_out > self.cc.sock.retrans_out
    }

    /// Size of a segmentation-offload train at the present rate, bytes: a millisecond, at least two segments or what the
    /// congestion control says (`min_tso_segs`).
    #[inline]
    pub fn quantum_bytes(&mut self) -> u64 {
        let least = self.cc.min_tso_segs().unwrap_or(LEAST_TRAIN_SEGMENTS).max(1);
        (self.cc.sock.pacing_rate >> 10).max(u64::from(least) * u64::from(self.mss)).min(MAX_QUANTUM_BYTES)
    }

    /// Size of a train that pacing releases: a millisecond, and the more the shorter the round trip (`tcp_tso_autosize`).
    fn train_bytes(&mut self) -> u64 {
        let least = self.cc.min_tso_segs().unwrap_or(LEAST_TRAIN_SEGMENTS).max(1);
        let near = MAX_QUANTUM_BYTES.checked_shr(self.rtt.min_us() >> TRAIN_RTT_SHIFT).unwrap_or(0);
        let bytes = ((self.cc.sock.pacing_rate >> 10) + near).min(MAX_QUANTUM_BYTES);
        (bytes / u64::from(self.mss)).max(u64::from(least)) * u64::from(self.mss)
    }

    /// The next packet to transmit now; the driver calls until it gets none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.phase != Phase::Established {
            return self.poll_beginning(now);
        }
        self.poll_data(now)
    }

    #[inline]
    pub(super) fn poll_data(&mut self, now: Time) -> Option<Transmit> {
        if let Some(segment) = self.forced.take().and_then(|forced| self.send_forced(now, forced)) {
            return Some(Transmit::Data(segment));
        }
        let paced = self.is_paced();
        if paced && !self.pacing_allows(now) {
            self.validate_cwnd(now, self.in_flight() >= self.cc.sock.snd_cwnd);
            return None;
        }
        let segment = self.next_segment(now)?;
        if paced {
            self.pace(now, segment.len);
        }
        Some(Transmit::Data(segment))
    }

    /// A train of new, full segments without flags that [`Sender::poll_transmit`] would yield now one by one. No train while
    /// there is anything else to send or to do for each segment.
    #[inline]
    pub fn train(&self, now: Time) -> Option<Train> {
        let sock = &self.cc.sock;
        let calm = self.phase == Phase::Established && self.forced.is_none() && sock.lost_out == 0;
        let flight = self.board.outstanding() > 0 && !self.cwr_pending;
        if !calm || !flight || self.is_paced() || self.delivery.is_some() {
            return None;
        }
        let room = u64::from(sock.snd_cwnd.saturating_sub(self.in_flight()));
        let bytes = room * u64::from(self.mss);
        let (unsent, window) = (self.written_bytes - self.next_bytes, self.permitted());
        // The last segment of the data has a flag.
        let fills_window = unsent > bytes && self.next_bytes - self.una_bytes + bytes <= window;
        let segments = if fills_window { room } else { self.plain_segments(unsent, window) };
        let (seq, len, tsval) = (self.board.next, self.mss, timestamp(now));
        let first = Segment { seq, len, retransmission: false, cwr: false, push: false, tsval };
        Some(Train { first, segments, fills_window })
    }

    /// The new, full segments without flags that data and buffers permit.
    #[inline(never)]
    fn plain_segments(&self, unsent: u64, window: u64) -> u64 {
        let free = window - (self.next_bytes - self.una_bytes);
        unsent.saturating_sub(1).min(free) / u64::from(self.mss)
    }

    /// The first `segments` segments of [`Sender::train`] are sent, at least one; `after_ack`: at once after an
    /// acknowledgement of [`Sender::on_plain_ack`].
    #[inline]
    pub fn sent_train(&mut self, now: Time, segments: u64, after_ack: bool) {
        let mut order = self.counters.sent_packets as u32;
        for _ in 0..segments {
            self.board.push(now.0, order, self.mss as u16);
            order = order.wrapping_add(1);
        }
        let bytes = segments * u64::from(self.mss);
        let sock = &mut self.cc.sock;
        sock.packets_out += segments as u32;
        self.next_bytes += bytes;
        sock.snd_nxt = self.next_bytes as u32;
        self.recovery.note_sent(sock.ca_state, segments as u32);
        self.last_sent = now;
        self.counters.sent_packets += segments;
        self.counters.sent_bytes += bytes;
        if after_ack {
            // What is sent now decides, not that something was acknowledged before.
            if !self.try_arm_probe(now, false) {
                self.rearm(now);
            }
        } else if self.timer.may_probe() {
            self.arm_probe(now);
        }
    }

    /// A train has filled the window: [`Sender::poll_transmit`] would yield nothing.
    #[inline]
    pub fn window_is_full(&mut self, now: Time) {
        debug_assert!(self.in_flight() >= self.cc.sock.snd_cwnd, "the window has room");
        self.validate_cwnd(now, true);
    }

    /// Notes that the host's queue is full: the driver stopped calling [`Sender::poll_transmit`].
    pub fn transmit_blocked(&mut self, now: Time) {
        // The sender waits for the driver, not for pacing.
        self.held_by_pacing = false;
        self.validate_cwnd(now, self.in_flight() >= self.cc.sock.snd_cwnd);
    }

    /// Whether there are data to send within the window.
    pub fn wants_to_send(&self) -> bool {
        self.is_established()
            && (self.forced.is_some()
                || self.in_flight() < self.cc.sock.snd_cwnd
                    && (self.cc.sock.lost_out > self.cc.sock.retrans_out || self.new_data_len() > 0))
    }

    pub(super) fn poll_handshake(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.pending_syn) {
            return None;
        }
        self.syns += 1;
        self.timer.arm_rto(self.expiry(now, self.rtt.syn_timeout(self.syns)));
        Some(Transmit::Syn)
    }

    #[cold]
    fn send_forced(&mut self, now: Time, forced: Forced) -> Option<Segment> {
        match forced {
            Forced::NewData => {
                let segment = Some(self.new_data_len()).filter(|len| *len > 0).map(|len| self.send_new(now, len));
                // No probe after a probe: the timeout decides (RFC 8985, section 7.3).
                self.timer.arm_rto(self.expiry(now, self.rtt.rto()));
                segment
            }
            Forced::Retransmission(seq) | Forced::Probe(seq) => {
                let outstanding = seq >= self.board.una && seq < self.board.next;
                let needed = outstanding && self.board.get(seq).flags & SACKED == 0;
                needed.then(|| self.retransmit(now, seq, matches!(forced, Forced::Retransmission(_))))
            }
        }
    }

    #[inline]
    fn next_segment(&mut self, now: Time) -> Option<Segment> {
        let room = self.in_flight() < self.cc.sock.snd_cwnd;
        if self.cc.sock.lost_out > 0 && self.may_retransmit() {
            if let Some(seq) = self.board.next_lost() {
                if room {
                    return Some(self.retransmit(now, seq, true));
                }
                self.validate_cwnd(now, true);
                return None;
            }
        }
        let len = self.new_data_len();
        if len > 0 && room {
            return Some(self.send_new(now, len));
        }
        self.validate_cwnd(now, !room);
        None
    }

    /// Payload of the next new segment; 0 if the application, the send buffer or the peer's window limits.
    #[inline]
    pub(super) fn new_data_len(&self) -> u32 {
        let available = self.written_bytes - self.next_bytes;
        if available == 0 {
            return 0;
        }
        let len = available.min(u64::from(self.mss));
        let window = self.permitted();
        if self.next_bytes - self.una_bytes + len > window { 0 } else { len as u32 }
    }

    #[inline]
    fn send_new(&mut self, now: Time, len: u32) -> Segment {
        if self.board.outstanding() == 0 {
            self.set_clock(now);
            self.cc.sock.lsndtime = self.jiffies(self.last_sent);
            self.cc.cwnd_event(CaEvent::TxStart);
            self.timer.arm_rto(self.paced_expiry(now, self.rtt.rto()));
        }
        let seq = self.board.push(now.0, self.counters.sent_packets as u32, len as u16);
        if self.delivery.is_some() {
            self.snapshot(now, seq, len);
        }
        let sock = &mut self.cc.sock;
        sock.packets_out += 1;
        self.next_bytes += u64::from(len);
        sock.snd_nxt = self.next_bytes as u32;
        self.recovery.note_sent(sock.ca_state, 1);
        self.last_sent = now;
        if self.timer.may_probe() {
            self.arm_probe(now);
        }
        self.count_sent(len);
        Segment {
            seq,
            len,
            retransmission: false,
            cwr: std::mem::take(&mut self.cwr_pending),
            push: self.is_last(seq),
            tsval: timestamp(now),
        }
    }

    /// Retransmits a segment; `counted`: as a retransmission in flight.
    fn retransmit(&mut self, now: Time, seq: u64, counted: bool) -> Segment {
        let (next_at, order) = (self.board.next, self.counters.sent_packets as u32);
        let record = self.board.get_mut(seq);
        let len = u32::from(record.len);
        record.sent_ns = now.0;
        record.order = order;
        record.flags |= EVER_RETRANS;
        if counted && record.flags & RETRANS == 0 {
            record.flags |= RETRANS;
            self.cc.sock.retrans_out += 1;
        }
        self.board.retransmissions.push_back(scoreboard::Retransmission { seq, sent_ns: now.0, order, next_at });
        if self.delivery.is_some() {
            self.snapshot(now, seq, len);
        }
        if counted {
            self.recovery.note_retransmission(now);
        }
        if seq == self.board.una && self.timer.may_probe() {
            self.timer.arm_rto(self.paced_expiry(now, self.rtt.rto()));
        }
        self.last_sent = now;
        self.counters.retransmitted_packets += 1;
        self.count_sent(len);
        Segment { seq, len, retransmission: true, cwr: false, push: self.is_last(seq), tsval: timestamp(now) }
    }

    /// Whether the segment ends the data written so far.
    #[inline]
    fn is_last(&self, seq: u64) -> bool {
        self.next_bytes == self.written_bytes && seq + 1 == self.board.next
    }

    #[inline]
    fn count_sent(&mut self, len: u32) {
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += u64::from(len);
    }

    /// Whether the flow is paced.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.paced || self.cc.sock.pacing_status != 0
    }

    #[inline]
    fn pacing_allows(&mut self, now: Time) -> bool {
        let allowed = self.burst_left > 0 || now >= self.next_send;
        self.held_by_pacing = !allowed;
        allowed
    }

    /// Releases a segment, or a train of [`Sender::quantum_bytes`], then waits for its time at the pacing rate, less what it was
    /// late, half of it at most (`tcp_update_skb_after_send`). A sender that follows
    /// a profile spaces single packets.
    fn pace(&mut self, now: Time, len: u32) {
        if self.profile.is_some() {
            return self.pace_by_profile(now, len);
        }
        let rate = self.cc.sock.pacing_rate.min(self.cc.sock.max_pacing_rate).max(1);
        let first_window = self.phase == Phase::Starting;
        if now >= self.next_send {
            self.burst_left = if first_window || !self.trains { 0 } else { self.train_bytes() };
            self.pacing_credit = now.since(self.next_send);
            self.next_send = now;
        }
        self.burst_left = self.burst_left.saturating_sub(u64::from(len));
        if rate < u64::MAX && (first_window || self.counters.sent_packets >= UNPACED_SEGMENTS) {
            let wait = Dur((u128::from(len) * 1_000_000_000 / u128::from(rate)) as u64);
            let credit = if first_window { Dur::ZERO } else { self.pacing_credit.min(Dur(wait.0 / 2)) };
            self.pacing_credit = Dur(self.pacing_credit.0 - credit.0);
            self.next_send += Dur(wait.0 - credit.0);
        }
    }

    /// Linux' pacing rate if the congestion control sets none: the window per RTT, with headroom to grow.
    #[inline]
    pub(super) fn update_pacing_rate(&mut self) {
        if self.cc.has_cong_control() {
            return;
        }
        let sock = &mut self.cc.sock;
        if sock.srtt_us == 0 {
            return;
        }
        let ratio =
            if sock.snd_cwnd < sock.snd_ssthresh / 2 { PACING_RATIO_SLOW_START } else { PACING_RATIO_AVOIDANCE };
        let packets = u64::from(sock.snd_cwnd.max(sock.packets_out));
        // srtt is in microseconds times 8: bytes * 10^6 * 8 / srtt, times ratio / 100.
        let rate = packets * u64::from(self.mss) * 80_000 * ratio / u64::from(sock.srtt_us);
        sock.pacing_rate = rate.min(sock.max_pacing_rate);
    }
}
