//! The sending end of a connection.
//!
//! `mod.rs` holds the state, transmission and the way of an acknowledgement through the parts: `scoreboard` (what became
//! of each segment), `rtt` (estimates and RTO), `loss` (which segments are lost: RACK, FACK or NewReno), `recovery` (the
//! congestion state machine, PRR, undo) and `timers` (RTO, tail-loss probe, reordering timer).

mod check;
mod loss;
mod rate;
mod recovery;
mod rtt;
mod scoreboard;
mod timers;

use weir_cc::{AckSample, Algorithm, CaEvent, CaState, CcError, INFINITE_SSTHRESH, Instance};
use weir_plan::{Stack, Tcp};
use weir_units::{Dur, Time};

use crate::packet::{Ack, Segment};
use crate::segment_bytes;
use loss::Rack;
use rate::Delivery;
use recovery::Recovery;
use rtt::Rtt;
use scoreboard::{EVER_RETRANS, LOST, RETRANS, SACKED, Scoreboard};
use timers::Timer;

/// Segments below the highest delivered one that may be late without being lost.
const REORDERING: u32 = 3;
const MAX_REORDERING: u64 = 300;
const MAX_REORDERING_LEGACY: u64 = 127;
const PACING_RATIO_SLOW_START: u64 = 200;
const PACING_RATIO_AVOIDANCE: u64 = 120;
const MAX_QUANTUM_BYTES: u64 = 65_536;
/// Pacing begins with this segment, so that an initial window is not stretched over a round trip.
const UNPACED_SEGMENTS: u64 = 10;

/// What the driver shall put on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// A connection request.
    Syn,
    /// A data segment.
    Data(Segment),
}

/// Something worth recording, drained by [`Sender::take_notices`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Fast recovery began; the window before.
    Recovery(u32),
    /// Fast recovery ended.
    RecoveryEnd,
    /// The retransmission timer expired; the window before.
    Rto(u32),
    /// A tail-loss probe was sent.
    Tlp,
    /// A window reduction turned out unnecessary and was undone.
    Undo,
    /// The window was reduced for a congestion mark; the window before.
    Cwr(u32),
    /// The window was reduced because the host's own queue was full.
    LocalCongestion,
}

/// Totals since the connection was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Payload sent, retransmissions included.
    pub sent_bytes: u64,
    /// Data segments sent, retransmissions included.
    pub sent_packets: u64,
    /// Data segments retransmitted.
    pub retransmitted_packets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// A transmission that the congestion window does not hold back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forced {
    Retransmission(u64),
    /// A tail-loss probe: sent again without counting as a retransmission in flight.
    Probe(u64),
    NewData,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Closed,
    SynSent,
    Established,
}

/// The sending end of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    cc: Instance,
    board: Scoreboard,
    phase: Phase,
    legacy: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    paced: bool,
    mss: u32,
    initial_window: u32,
    send_buffer: u64,
    peer_buffer: u64,
    halving_undershoot: u32,

    /// Payload acknowledged, sent for the first time, and written by the application.
    una_bytes: u64,
    next_bytes: u64,
    written_bytes: u64,

    rtt: Rtt,
    rack: Rack,
    recovery: Recovery,
    timer: Timer,
    delivery: Delivery,
    /// Highest segment selectively acknowledged, plus one.
    high_sacked: u64,
    reordering: u32,
    reordering_seen: bool,

    syns: u32,
    syn_at: Time,
    pending_syn: bool,
    /// What to send whatever the window says: after an RTO, or as a probe.
    forced: Option<Forced>,
    held_by_pacing: bool,
    next_send: Time,
    burst_left: u64,
    cwr_pending: bool,
    cwnd_usage_next: u64,
    /// The next new segment when the use of the window was looked at last.
    validated_next: u64,
    cwnd_used: u32,
    cwnd_stamp: Time,
    last_sent: Time,
    /// Duplicates reported so far: more than were retransmitted are the network's.
    dsacks: u64,

    counters: Counters,
    notices: Vec<Notice>,
}

/// What one acknowledgement turned out to mean.
#[derive(Clone, Copy, Debug)]
struct Event {
    una_advanced: bool,
    /// Segments newly acknowledged, selectively or not.
    delivered: u32,
    acked: u32,
    newly_sacked: bool,
    newly_lost: u32,
    dsack: bool,
    /// The duplicate is the tail-loss probe's.
    dsack_of_probe: bool,
    /// Neither progress nor a report of a duplicate.
    dupack: bool,
    ece: bool,
    /// Data sent once and outstanding at the last reduction arrived after all.
    original_arrived: bool,
    retransmission_acked: bool,
    lost_retransmission: bool,
    keep_timer: bool,
    prior_in_flight: u32,
    prior_una: u64,
    tsecr: u32,
    /// Round-trip time for the congestion control, microseconds; negative without a sample.
    rtt_us: i64,
    /// Lowest segment sent once, and not selectively acknowledged before, that the cumulative ACK covers now.
    first_original: u64,
    first_sent: u64,
    last_sent: u64,
    first_sacked_sent: u64,
    last_sacked_sent: u64,
}

const NO_TIME: u64 = u64::MAX;

/// An acknowledgement that means nothing yet.
const NO_EVENT: Event = Event {
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
    /// A closed connection with these settings.
    ///
    /// # Errors
    /// When the congestion control does not take the options.
    pub fn new(tcp: &Tcp, algorithm: &Algorithm) -> Result<Sender, CcError> {
        let mut cc = Instance::new(algorithm, &tcp.cc_options)?;
        cc.sock.mss_cache = segment_bytes(tcp);
        cc.sock.snd_cwnd = tcp.initial_window;
        cc.sock.ecn_flags = u8::from(tcp.ecn);
        Ok(Sender {
            cc,
            board: Scoreboard::new(),
            phase: Phase::Closed,
            legacy: tcp.stack == Stack::Linux26,
            sack: tcp.sack,
            timestamps: tcp.timestamps,
            ecn: tcp.ecn,
            paced: tcp.pacing,
            mss: segment_bytes(tcp),
            initial_window: tcp.initial_window,
            send_buffer: tcp.send_buffer_bytes,
            peer_buffer: tcp.receive_buffer_bytes,
            halving_undershoot: recovery::halving_undershoot(algorithm.name()),
            una_bytes: 0,
            next_bytes: 0,
            written_bytes: 0,
            rtt: Rtt::new(tcp.stack),
            rack: Rack::default(),
            recovery: Recovery::default(),
            timer: Timer::default(),
            delivery: Delivery::default(),
            high_sacked: 0,
            reordering: REORDERING,
            reordering_seen: false,
            syns: 0,
            syn_at: Time::ZERO,
            pending_syn: false,
            forced: None,
            held_by_pacing: false,
            next_send: Time::ZERO,
            burst_left: 0,
            cwr_pending: false,
            cwnd_usage_next: 0,
            validated_next: 0,
            cwnd_used: 0,
            cwnd_stamp: Time::ZERO,
            last_sent: Time::ZERO,
            dsacks: 0,
            counters: Counters::default(),
            notices: Vec::new(),
        })
    }

    /// Asks for a connection; [`Sender::poll_transmit`] yields the request.
    pub fn connect(&mut self, now: Time) {
        self.phase = Phase::SynSent;
        self.pending_syn = true;
        self.syn_at = now;
    }

    /// The peer accepted: data may flow.
    pub fn on_syn_ack(&mut self, now: Time) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.phase = Phase::Established;
        self.pending_syn = false;
        self.timer.clear();
        self.set_clock(now);
        if self.syns <= 1 {
            self.sample_rtt(now, now.since(self.syn_at).0 / 1000);
        } else {
            self.rtt.handshake_without_sample();
        }
        // RFC 6928, section 2 asks for a window of one segment when a SYN was lost; Linux allows for one spurious SYN.
        if self.syns > if self.legacy { 1 } else { 2 } {
            self.cc.sock.snd_cwnd = 1;
        }
        self.last_sent = now;
        self.cwnd_stamp = now;
        self.publish();
        self.cc.init();
        self.update_pacing_rate();
    }

    /// Whether data may flow.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The application wrote `bytes` more; [`u64::MAX`] for an endless supply.
    pub fn write(&mut self, now: Time, bytes: u64) {
        if self.is_established() && self.board.outstanding() == 0 {
            self.restart_after_idle(now);
        }
        self.written_bytes = self.written_bytes.saturating_add(bytes);
    }

    /// The application stops writing: only what the send buffer holds by now is still sent.
    pub fn stop_writing(&mut self) {
        let buffered = self.una_bytes.saturating_add(self.send_buffer);
        self.written_bytes = if self.is_established() { self.written_bytes.min(buffered) } else { self.una_bytes };
    }

    /// Whether everything written was acknowledged.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.una_bytes == self.written_bytes
    }

    /// The first segment not acknowledged.
    #[inline]
    pub fn una(&self) -> u64 {
        self.board.una
    }

    /// Payload acknowledged.
    pub fn acked_bytes(&self) -> u64 {
        self.una_bytes
    }

    /// Congestion window, packets.
    pub fn cwnd(&self) -> u32 {
        self.cc.sock.snd_cwnd
    }

    /// Slow-start threshold, packets; none while infinite.
    pub fn ssthresh(&self) -> Option<u32> {
        Some(self.cc.sock.snd_ssthresh).filter(|s| *s < INFINITE_SSTHRESH)
    }

    /// Packets in flight, as the sender estimates them (RFC 6675's pipe, Linux' way).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        let sock = &self.cc.sock;
        (sock.packets_out + sock.retrans_out).saturating_sub(sock.sacked_out + sock.lost_out)
    }

    /// Smoothed round-trip time; none before the first sample.
    pub fn srtt(&self) -> Option<Dur> {
        self.rtt.srtt()
    }

    /// Least round-trip time; none before the first sample.
    pub fn min_rtt(&self) -> Option<Dur> {
        Some(self.rtt.min_us()).filter(|us| *us < u32::MAX).map(|us| Dur::from_micros(u64::from(us)))
    }

    /// The pacing rate in bytes a second; none where the flow is not paced.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.is_paced().then_some(self.cc.sock.pacing_rate)
    }

    /// State of the congestion state machine, as Linux numbers it.
    pub fn ca_state(&self) -> u8 {
        self.cc.sock.ca_state
    }

    /// Totals since the connection was opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What happened since the last call.
    pub fn take_notices(&mut self, mut each: impl FnMut(Notice)) {
        self.notices.drain(..).for_each(&mut each);
    }

    /// Whether [`Sender::take_notices`] has anything to tell.
    #[inline]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Bytes of this flow that may wait in the host's own queue (Linux' small-queue limit): a millisecond at the pacing
    /// rate, at least two segments. Unlimited for the `linux-2.6` stack.
    #[inline]
    pub fn local_queue_limit(&self) -> u64 {
        if self.legacy {
            return u64::MAX;
        }
        (self.cc.sock.pacing_rate >> 10).clamp(u64::from(2 * (self.mss + 256)), 4 << 20)
    }

    /// Bytes that are worth a wake-up: the size of a segmentation-offload train at the present rate.
    #[inline]
    pub fn quantum_bytes(&self) -> u64 {
        (self.cc.sock.pacing_rate >> 10).clamp(2 * u64::from(self.mss), MAX_QUANTUM_BYTES)
    }

    /// The next thing to transmit now, or nothing; the driver calls again until it gets nothing.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.phase != Phase::Established {
            return self.poll_handshake(now);
        }
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

    /// The driver stopped asking although there may be more: the host's queue is full.
    pub fn transmit_blocked(&mut self, now: Time) {
        // Until it is asked again, pacing is not what it waits for.
        self.held_by_pacing = false;
        self.validate_cwnd(now, self.in_flight() >= self.cc.sock.snd_cwnd);
    }

    /// Whether there is something to send that the window allows.
    pub fn wants_to_send(&self) -> bool {
        self.is_established()
            && (self.forced.is_some()
                || self.in_flight() < self.cc.sock.snd_cwnd
                    && (self.cc.sock.lost_out > self.cc.sock.retrans_out || self.new_data_len() > 0))
    }

    fn poll_handshake(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.pending_syn) {
            return None;
        }
        self.syns += 1;
        self.timer.arm_rto(now + self.rtt.syn_timeout(self.syns));
        Some(Transmit::Syn)
    }

    #[cold]
    fn send_forced(&mut self, now: Time, forced: Forced) -> Option<Segment> {
        match forced {
            Forced::NewData => {
                let segment = Some(self.new_data_len()).filter(|len| *len > 0).map(|len| self.send_new(now, len));
                // No probe after a probe: the timeout decides (RFC 8985, section 7.3).
                self.timer.arm_rto(now + self.rtt.rto());
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

    /// Payload of the next new segment; 0 if the application, the send buffer or the peer's window has no more.
    #[inline]
    fn new_data_len(&self) -> u32 {
        let available = self.written_bytes - self.next_bytes;
        if available == 0 {
            return 0;
        }
        let len = available.min(u64::from(self.mss));
        let window = self.send_buffer.min(self.peer_buffer);
        if self.next_bytes - self.una_bytes + len > window { 0 } else { len as u32 }
    }

    #[inline]
    fn send_new(&mut self, now: Time, len: u32) -> Segment {
        if self.board.outstanding() == 0 {
            self.set_clock(now);
            self.cc.sock.lsndtime = self.jiffies(self.last_sent);
            self.cc.cwnd_event(CaEvent::TxStart);
            self.timer.arm_rto(now + self.rtt.rto());
            self.delivery.restart(now);
        }
        let seq = self.board.push(now.0, self.counters.sent_packets as u32, len as u16);
        self.delivery.on_send(now, seq, &self.cc.sock, self.cc.has_cong_control());
        let sock = &mut self.cc.sock;
        sock.packets_out += 1;
        self.next_bytes += u64::from(len);
        sock.snd_nxt = self.next_bytes as u32;
        self.recovery.note_sent(sock.ca_state);
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
            tsval: micros(now) as u32,
        }
    }

    /// Sends a segment again; `counted`: as a retransmission in flight.
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
        self.delivery.on_send(now, seq, &self.cc.sock, self.cc.has_cong_control());
        if counted {
            self.recovery.note_retransmission(now);
        }
        if seq == self.board.una && self.timer.may_probe() {
            self.timer.arm_rto(now + self.rtt.rto());
        }
        self.last_sent = now;
        self.counters.retransmitted_packets += 1;
        self.count_sent(len);
        Segment { seq, len, retransmission: true, cwr: false, tsval: micros(now) as u32 }
    }

    #[inline]
    fn count_sent(&mut self, len: u32) {
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += u64::from(len);
    }

    /// An acknowledgement arrived.
    #[inline]
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        if self.phase != Phase::Established || ack.ack > self.board.next {
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
            ece: ack.ece && self.ecn,
            tsecr: ack.tsecr,
            ..NO_EVENT
        };
        self.cc.in_ack_event(if event.ece { 4 } else { 0 });
        let prior_high = self.high_sacked;
        if self.sack && !ack.sack.is_empty() {
            self.take_sack(now, ack, &mut event);
        }
        if ack.ack > self.board.una {
            self.take_cumulative(now, ack.ack, &mut event);
            if event.first_original < prior_high {
                // It was late: others sent after it had been reported before.
                self.note_reordering(event.first_original);
            }
            if !self.sack {
                self.discount_dupacks(&mut event);
            }
        }
        self.cc.sock.delivered += event.delivered;
        if event.ece {
            self.cc.sock.delivered_ce += event.delivered;
        }
        if event.una_advanced || event.newly_sacked {
            self.learn_rtt(now, &mut event);
            self.adapt_reordering_window(now);
        }
        self.react(now, &mut event);
    }

    /// An acknowledgement overtaken by a later one, or when nothing is outstanding: only its SACK blocks are of use.
    #[cold]
    fn on_stale_ack(&mut self, now: Time, ack: &Ack) {
        let nothing_out = self.board.outstanding() == 0;
        let mut event = Event { prior_in_flight: self.in_flight(), prior_una: self.board.una, ..NO_EVENT };
        if self.sack && !ack.sack.is_empty() {
            self.take_sack(now, ack, &mut event);
            self.cc.sock.delivered += event.delivered;
            if event.dsack || !nothing_out {
                self.alert(now, &mut event);
            }
        }
        if nothing_out && ack.ack == self.board.una && self.timer.probing() {
            self.resolve_probe(now, &event);
        }
    }

    /// Loss detection, state machine, timers and window growth, in the order Linux runs them.
    #[inline]
    fn react(&mut self, now: Time, event: &mut Event) {
        if self.timer.probing() {
            self.resolve_probe(now, event);
        }
        if self.legacy {
            self.grow_legacy(now, event);
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

    /// A selective ACK of data sent before the head was sent last: the head's timeout may start anew, because nothing
    /// sent after it was heard of yet.
    fn sacked_before_head_was_resent(&self, event: &Event) -> bool {
        event.first_sacked_sent != NO_TIME
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
            // A block that begins at or below the cumulative ACK, or ends beyond what was sent, makes no sense.
            if start <= una || start >= end || end > self.board.next {
                continue;
            }
            // The set is moved out while the records of its new members are updated.
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

    /// After a timeout, what was late and what was lost cannot be told apart.
    fn reordering_is_certain(&self) -> bool {
        self.cc.sock.ca_state != CaState::Loss as u8 || !self.legacy && self.recovery.undo_marker.is_some()
    }

    /// Takes note of one selectively acknowledged segment; tells whether it had been sent just once.
    fn sack_one(&mut self, now: Time, seq: u64, event: &mut Event) -> bool {
        let high_seq = self.recovery.high_seq;
        let record = self.board.get_mut(seq);
        let (sent, flags, plain) = (record.sent_ns, record.flags, *record);
        // What was sent again without being lost is still under way a second time.
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
        self.delivery.on_delivered(seq, !once);
        self.rack.advance(now, seq, &plain, !once, self.rtt.min_us());
        once
    }

    #[inline]
    fn take_cumulative(&mut self, now: Time, ack: u64, event: &mut Event) {
        let mut bytes = 0;
        let mut last_plain = None;
        let rate_samples = self.cc.has_cong_control();
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
                if rate_samples {
                    self.delivery.on_delivered(seq, false);
                }
            } else {
                self.acknowledge_marked(now, seq, record, event);
            }
        }
        if let Some((seq, record)) = last_plain {
            // Segments sent just once were sent in their order: the last stands for all.
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
        self.delivery.on_delivered(seq, resent);
        // The echoed time is that of an earlier transmission (RFC 8985, section 6.2, step 2).
        let echo_is_older = (event.tsecr.wrapping_sub((record.sent_ns / 1000) as u32) as i32) < 0;
        let spurious = resent && self.timestamps && event.tsecr != 0 && echo_is_older;
        if !spurious {
            self.rack.advance(now, seq, &record, resent, self.rtt.min_us());
        }
    }

    /// A segment sent once was delivered after others sent later had been: the path reorders.
    fn note_reordering(&mut self, late: u64) {
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
        let since = |sent: u64| (now.0.saturating_sub(sent) / 1000) as i64;
        let mut rtt = -1;
        let mut cc_rtt = -1;
        if event.first_sent != NO_TIME && !event.retransmission_acked {
            rtt = since(event.first_sent);
            cc_rtt = since(event.last_sent);
        }
        if event.first_sacked_sent != NO_TIME {
            cc_rtt = since(event.last_sacked_sent);
            if rtt < 0 {
                rtt = since(event.first_sacked_sent);
            }
        }
        if rtt < 0 && self.timestamps && event.una_advanced && event.tsecr != 0 {
            // An echo from the future is none.
            rtt = i64::from((micros(now) as u32).wrapping_sub(event.tsecr) as i32);
            cc_rtt = rtt;
        }
        if rtt >= 0 {
            self.rtt.sample_min(now, cc_rtt as u32);
            self.sample_rtt(now, rtt as u64);
        }
        event.rtt_us = cc_rtt;
        let (pkts_acked, in_flight) = (event.acked, event.prior_in_flight);
        self.cc.pkts_acked(&AckSample { pkts_acked, rtt_us: cc_rtt as i32, in_flight });
    }

    fn sample_rtt(&mut self, now: Time, rtt_us: u64) {
        self.rtt.sample(now, rtt_us as u32, self.board.una, self.board.next);
        let sock = &mut self.cc.sock;
        sock.srtt_us = self.rtt.srtt_us8;
        sock.mdev_us = self.rtt.mdev_us4;
        sock.rtt_min_us = self.rtt.min_us();
    }

    fn restart_after_idle(&mut self, now: Time) {
        if self.cc.has_cong_control() {
            return;
        }
        let rto = self.rtt.rto();
        let mut idle = now.since(self.last_sent);
        if idle <= rto {
            return;
        }
        self.set_clock(now);
        self.cc.cwnd_event(CaEvent::CwndRestart);
        self.cc.sock.snd_ssthresh = self.current_ssthresh();
        let floor = self.initial_window.min(self.cc.sock.snd_cwnd);
        let mut cwnd = self.cc.sock.snd_cwnd;
        while idle > rto && cwnd > floor {
            idle = idle - rto;
            cwnd >>= 1;
        }
        self.cc.sock.snd_cwnd = cwnd.max(floor);
        self.stamp_cwnd(now);
        self.cwnd_used = 0;
    }

    /// Congestion-window validation (RFC 7661 in Linux' form): tells the congestion control whether the window was
    /// what limited the flight, and decays a window that was not used for an RTO.
    #[inline]
    fn validate_cwnd(&mut self, now: Time, limited: bool) {
        if !limited && self.validated_next == self.board.next {
            // Nothing was sent since: that says nothing of the window.
            return;
        }
        self.validated_next = self.board.next;
        let sock = &mut self.cc.sock;
        if self.board.una >= self.cwnd_usage_next
            || limited
            || (sock.is_cwnd_limited == 0 && sock.packets_out > sock.max_packets_out)
        {
            sock.is_cwnd_limited = u8::from(limited);
            sock.max_packets_out = sock.packets_out;
            self.cwnd_usage_next = self.board.next;
        }
        if self.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(self.cc.sock.packets_out);
        if now.since(self.cwnd_stamp) >= self.rtt.rto() && !self.cc.has_cong_control() {
            self.decay_unused_cwnd(now);
        }
    }

    fn decay_unused_cwnd(&mut self, now: Time) {
        let buffer_limited = self.written_bytes - self.una_bytes >= self.send_buffer;
        if self.cc.sock.ca_state == CaState::Open as u8 && !buffer_limited {
            let used = self.cwnd_used.max(self.initial_window);
            if used < self.cc.sock.snd_cwnd {
                self.cc.sock.snd_ssthresh = self.current_ssthresh();
                self.cc.sock.snd_cwnd = (self.cc.sock.snd_cwnd + used) / 2;
            }
            self.cwnd_used = 0;
        }
        self.stamp_cwnd(now);
    }

    #[inline]
    fn is_cwnd_limited(&self) -> bool {
        let sock = &self.cc.sock;
        sock.is_cwnd_limited != 0 || sock.snd_cwnd < sock.snd_ssthresh && sock.snd_cwnd < 2 * sock.max_packets_out
    }

    /// The threshold to remember when the window shrinks for want of use (RFC 2861: three quarters of the window).
    fn current_ssthresh(&self) -> u32 {
        let sock = &self.cc.sock;
        if recovery::reduces_window(sock.ca_state) {
            sock.snd_ssthresh
        } else {
            sock.snd_ssthresh.max((sock.snd_cwnd >> 1) + (sock.snd_cwnd >> 2))
        }
    }

    fn stamp_cwnd(&mut self, now: Time) {
        self.cwnd_stamp = now;
        self.cc.sock.snd_cwnd_stamp = self.jiffies(now);
    }

    fn jiffies(&self, at: Time) -> u32 {
        (micros(at) * u64::from(self.cc.sock.hz) / 1_000_000) as u32
    }

    /// Whether the transport holds segments back to a rate.
    #[inline]
    fn is_paced(&self) -> bool {
        self.paced || self.cc.sock.pacing_status != 0
    }

    #[inline]
    fn pacing_allows(&mut self, now: Time) -> bool {
        let allowed = self.burst_left > 0 || now >= self.next_send;
        self.held_by_pacing = !allowed;
        allowed
    }

    /// Lets a train of [`Sender::quantum_bytes`] go at once, then waits for as long as it takes at the pacing rate.
    fn pace(&mut self, now: Time, len: u32) {
        let rate = self.cc.sock.pacing_rate.min(self.cc.sock.max_pacing_rate).max(1);
        if now >= self.next_send {
            self.burst_left = self.quantum_bytes();
            self.next_send = now;
        }
        self.burst_left = self.burst_left.saturating_sub(u64::from(len));
        if rate < u64::MAX && self.counters.sent_packets >= UNPACED_SEGMENTS {
            self.next_send += Dur((u128::from(len) * 1_000_000_000 / u128::from(rate)) as u64);
        }
    }

    /// Linux' rate for flows whose congestion control sets none: the window per RTT, with head room to grow.
    #[inline]
    fn update_pacing_rate(&mut self) {
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

    #[inline]
    fn set_clock(&mut self, now: Time) {
        self.cc.sock.tcp_mstamp_us = micros(now);
    }

    fn publish(&mut self) {
        let sock = &mut self.cc.sock;
        sock.snd_una = self.una_bytes as u32;
        sock.snd_nxt = self.next_bytes as u32;
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

#[inline]
fn micros(now: Time) -> u64 {
    now.0 / 1000
}
