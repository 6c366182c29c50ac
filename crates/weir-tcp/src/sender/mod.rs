//! The sending end of a connection.
//!
//! `mod.rs` holds the state; `transmit` sends; `ack` processes acknowledgements by the other parts: `scoreboard` (the
//! state of each segment), `rtt` (estimates and RTO), `loss` (loss detection by RACK, FACK or NewReno), `recovery` (the
//! congestion state machine, PRR, undo), `timers` (RTO, tail-loss probe, reordering timer) and `window` (validation).
//! `startup` has the beginnings without slow start, `profile` the rates of a sender that follows a profile.

mod ack;
mod check;
mod loss;
mod plain;
mod profile;
mod rate;
mod recovery;
mod rtt;
mod scoreboard;
mod startup;
mod timers;
mod transmit;
mod window;

use weir_cc::{Algorithm, Announcement, CcError, Feedback, INFINITE_SSTHRESH, Instance, ProbeName, RateSample};
use weir_plan::{Stack, Tcp};
use weir_units::{Dur, Time, fetch_first};

use crate::packet::Segment;
use crate::receiver::{self, FIRST_ACE};
use crate::{feedback, segment_bytes};
use loss::Rack;
use profile::Profile;
use rate::Delivery;
use recovery::Recovery;
use rtt::Rtt;
use scoreboard::Scoreboard;
use startup::Startup;
use timers::Timer;

/// Number of segments by which delivery may be out of order without a loss.
/// The largest window of a packet of the handshake.
const UNSCALED_WINDOW: u64 = 65_535;
const REORDERING: u32 = 3;
const MAX_REORDERING: u64 = 300;

/// A packet for the driver to transmit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// A connection request.
    Syn,
    /// A data segment.
    Data(Segment),
}

/// New, full segments without flags, to be sent at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Train {
    /// The first of them.
    pub first: Segment,
    /// Their number; it may be 0.
    pub segments: u64,
    /// Whether they fill the congestion window; else data or buffers end the train.
    pub fills_window: bool,
}

/// An event for the run's tables, drained by [`Sender::take_notices`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Fast recovery began; the window before it.
    Recovery(u32),
    /// Fast recovery ended.
    RecoveryEnd,
    /// The retransmission timer expired; the window before it.
    Rto(u32),
    /// A tail-loss probe was sent.
    Tlp,
    /// A spurious window reduction was undone.
    Undo,
    /// The window was reduced for a congestion mark; the window before it.
    Cwr(u32),
    /// The window was reduced because the host's own queue was full.
    LocalCongestion,
}

/// What an acknowledgement says about the path: the samples that a congestion control with `cong_control` gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// Round-trip time of the last segment that is newly acknowledged, selectively or not, in whole microseconds.
    pub rtt: Option<Dur>,
    /// Segments delivered since the last of them was sent, and the longer of the times in which they were sent and
    /// acknowledged.
    pub delivered: Option<(u32, Dur)>,
}

impl Sample {
    fn of(sample: &RateSample) -> Sample {
        let interval = u64::try_from(sample.interval_us).ok().filter(|us| *us > 0).map(Dur::from_micros);
        let delivered = u32::try_from(sample.delivered).ok().filter(|segments| *segments > 0);
        Sample {
            rtt: u64::try_from(sample.rtt_us).ok().filter(|us| *us > 0).map(Dur::from_micros),
            delivered: delivered.zip(interval),
        }
    }
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

/// A transmission regardless of the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forced {
    Retransmission(u64),
    /// A tail-loss probe: a retransmission that does not count as one in flight.
    Probe(u64),
    NewData,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Closed,
    SynSent,
    Established,
    /// Established, and the first window is not that of slow start.
    Starting,
}

/// The sending end of a connection; what most acknowledgements and each sample need comes first ([`Sender::fetch`]).
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Sender {
    cc: Instance,
    counters: Counters,
    /// Payload acknowledged, payload sent for the first time, payload written by the application.
    una_bytes: u64,
    rtt: Rtt,
    board: Scoreboard,
    timer: Timer,
    rack: Rack,
    recovery: Recovery,
    next_bytes: u64,
    written_bytes: u64,
    send_buffer: u64,
    peer_buffer: u64,
    /// Highest segment selectively acknowledged, plus one.
    high_sacked: u64,
    cwnd_usage_next: u64,
    /// The next new segment at the last check of the use of the window.
    validated_next: u64,
    cwnd_stamp: Time,
    last_sent: Time,
    /// A transmission regardless of the window: after an RTO, or a probe.
    forced: Option<Forced>,
    /// A beginning without slow start, until its consequences are over.
    startup: Option<Box<Startup>>,
    /// The rates that the sender follows, if it follows any.
    profile: Option<Box<Profile>>,
    /// The samples of the delivery rate, for a congestion control or a record that asks for them.
    delivery: Option<Box<Delivery>>,
    mss: u32,
    cwnd_used: u32,
    phase: Phase,
    legacy: bool,
    /// Congestion moderation: the window exceeds the flight by little after an unusual acknowledgement.
    moderated: bool,
    /// After a recovery that nothing undoes, acknowledgements count as unusual until one acknowledges data sent after it
    /// (`undo_marker` of Linux 2.4, in `tcp_try_to_open`).
    lingers: bool,
    /// Selective acknowledgements give no round-trip time and restart no timeout (Linux before 3.12).
    untimed_sacks: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// The peer counts marks (RFC 9768).
    counts_marks: bool,
    /// What an acknowledgement echoes that tells of no new mark.
    quiet_echo: u8,
    paced: bool,
    held_by_pacing: bool,
    cwr_pending: bool,

    initial_window: u32,
    /// The peer's window until its first acknowledgement of data.
    first_peer_window: u64,
    reordering: u32,
    reordering_seen: bool,
    syns: u32,
    syn_at: Time,
    pending_syn: bool,
    next_send: Time,
    /// Pacing releases trains of segments, not single ones.
    trains: bool,
    burst_left: u64,
    /// How late the last train was, as far as it was not yet made up for.
    pacing_credit: Dur,
    /// Duplicates reported so far; the network caused those beyond the number of retransmissions.
    dsacks: u64,
    notices: Vec<Notice>,
}
impl Sender {
    /// A closed connection with these settings.
    ///
    /// # Errors
    /// The congestion control refuses the options.
    pub fn new(tcp: &Tcp, algorithm: &Algorithm) -> Result<Sender, CcError> {
        let mut cc = Instance::new(algorithm, &tcp.cc_options)?;
        cc.sock.mss_cache = segment_bytes(tcp);
        cc.sock.snd_cwnd = tcp.initial_window;
        if tcp.initial_ssthresh > 0 {
            cc.sock.snd_ssthresh = tcp.initial_ssthresh;
        }
        cc.sock.ecn_flags = u8::from(tcp.ecn);
        let mut rtt = Rtt::new(tcp.stack);
        if tcp.quick_start_bps > 0 {
            // Routers may drop a request for its option (RFC 4782, section 4.7.2).
            rtt.handshake_without_sample();
        }
        // Windows in the handshake are not scaled (RFC 7323, section 2.2). What sends more than Linux does at the beginning, and
        // older stacks, have the whole buffer, as if the peer had said so.
        let usual =
            tcp.stack == Stack::Linux && !tcp.jump_start && tcp.quick_start_bps == 0 && algorithm.queue().is_none();
        let first_peer_window = if usual { UNSCALED_WINDOW } else { u64::MAX }.min(tcp.receive_buffer_bytes);
        let counts_marks = feedback(tcp, algorithm) == receiver::Feedback::Counter;
        Ok(Sender {
            cc,
            board: Scoreboard::new(),
            phase: Phase::Closed,
            legacy: tcp.stack != Stack::Linux,
            moderated: tcp.stack != Stack::Linux && !tcp.unmoderated,
            lingers: tcp.stack == Stack::Linux24,
            untimed_sacks: tcp.stack == Stack::Linux24,
            sack: tcp.sack,
            timestamps: tcp.timestamps,
            ecn: tcp.ecn,
            counts_marks,
            quiet_echo: if counts_marks { FIRST_ACE } else { 0 },
            paced: tcp.pacing || !tcp.profile.is_empty(),
            mss: segment_bytes(tcp),
            initial_window: tcp.initial_window,
            send_buffer: tcp.send_buffer_bytes,
            peer_buffer: tcp.receive_buffer_bytes,
            first_peer_window,
            una_bytes: 0,
            next_bytes: 0,
            written_bytes: 0,
            rtt,
            rack: Rack::default(),
            recovery: Recovery::default(),
            timer: Timer::default(),
            delivery: algorithm.needs_samples().then(|| Box::new(Delivery::new(true))),
            high_sacked: 0,
            reordering: REORDERING,
            reordering_seen: false,
            syns: 0,
            syn_at: Time::ZERO,
            pending_syn: false,
            forced: None,
            held_by_pacing: false,
            next_send: Time::ZERO,
            trains: false,
            burst_left: 0,
            pacing_credit: Dur::ZERO,
            cwr_pending: false,
            cwnd_usage_next: 0,
            validated_next: 0,
            cwnd_used: 0,
            cwnd_stamp: Time::ZERO,
            last_sent: Time::ZERO,
            startup: Startup::of(tcp),
            profile: Profile::of(tcp),
            dsacks: 0,
            counters: Counters::default(),
            notices: Vec::new(),
        })
    }

    /// The most that may be outstanding: the send buffer and the peer's window.
    #[inline]
    fn permitted(&self) -> u64 {
        let peer = if self.board.una == 0 { self.first_peer_window } else { self.peer_buffer };
        self.send_buffer.min(peer)
    }

    /// Sets the seed of choices that flows should not make alike.
    pub fn seed(&mut self, seed: u32) {
        self.cc.sock.random = seed;
    }

    /// Pacing releases trains of segments from now on, as for a network card that splits them.
    pub fn send_trains(&mut self) {
        self.trains = true;
    }

    /// Asks for a connection; [`Sender::poll_transmit`] yields the request.
    pub fn connect(&mut self, now: Time) {
        self.phase = Phase::SynSent;
        self.pending_syn = true;
        self.syn_at = now;
    }

    /// Handles the peer's SYN-ACK: data may flow.
    pub fn on_syn_ack(&mut self, now: Time) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.phase = Phase::Established;
        self.pending_syn = false;
        self.timer.clear();
        self.set_clock(now);
        if self.syns <= 1 {
            self.sample_rtt(now, self.elapsed_us(now, self.syn_at.0));
        } else {
            self.rtt.handshake_without_sample();
        }
        // RFC 6928, section 2 asks for a window of one segment when a SYN was lost; Linux allows for one spurious SYN.
        if self.syns > if self.legacy { 1 } else { 2 } {
            self.cc.sock.snd_cwnd = 1;
        }
        self.last_sent = now;
        self.cwnd_stamp = now;
        // The connection request counts, as in Linux.
        self.cc.sock.delivered = 1;
        self.publish();
        self.cc.init();
        self.update_pacing_rate();
        self.begin_startup();
    }

    /// Whether the connection is established.
    pub fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Established | Phase::Starting)
    }

    /// Adds `bytes` written by the application; [`u64::MAX`] for an endless supply.
    pub fn write(&mut self, now: Time, bytes: u64) {
        if self.is_established() && self.board.outstanding() == 0 {
            self.restart_after_idle(now);
        }
        if self.cc.has_cong_control() {
            self.check_app_limited();
        }
        self.written_bytes = self.written_bytes.saturating_add(bytes);
    }

    /// Ends the application's writing: only the present content of the send buffer is still sent.
    pub fn stop_writing(&mut self) {
        let buffered = self.una_bytes.saturating_add(self.send_buffer);
        self.written_bytes = if self.is_established() { self.written_bytes.min(buffered) } else { self.una_bytes };
    }

    /// Whether all data written are acknowledged.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.una_bytes == self.written_bytes
    }

    /// Fetches what most acknowledgements need into the cache.
    #[inline]
    pub fn fetch(&self) {
        fetch_first(self, std::mem::offset_of!(Sender, initial_window));
    }

    /// Fetches the records of the next segments to be acknowledged and to be sent into the cache.
    #[inline]
    pub fn fetch_records(&self) {
        self.board.fetch_ends();
    }

    /// The first segment not acknowledged.
    #[inline]
    pub fn una(&self) -> u64 {
        self.board.una
    }

    /// Payload written by the application that was never sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.written_bytes.saturating_sub(self.next_bytes)
    }

    /// Payload acknowledged.
    pub fn acked_bytes(&self) -> u64 {
        self.una_bytes
    }

    /// Segments delivered, retransmissions included; it wraps.
    pub fn delivered(&self) -> u32 {
        self.cc.sock.delivered
    }

    /// Payload of a full segment.
    pub fn segment_bytes(&self) -> u32 {
        self.mss
    }

    /// From now on the values that the congestion control shows are kept for [`Sender::probes`].
    pub fn keep_probes(&mut self) {
        self.cc.keep_probes();
    }

    /// Names and latest values of the congestion control's probes.
    pub fn probes(&self) -> impl Iterator<Item = (ProbeName, i64)> + '_ {
        self.cc.probes()
    }

    /// What the congestion header of a segment says now; none unless routers give the congestion control feedback.
    pub fn announcement(&self) -> Option<Announcement> {
        self.cc.announcement()
    }

    /// Takes the explicit feedback of an acknowledgement, before [`Sender::on_ack`].
    pub fn feedback(&mut self, feedback: Feedback) {
        match &mut self.startup {
            Some(startup) => startup.approve(feedback.rate_bps),
            None => self.cc.feedback(feedback),
        }
    }

    /// Congestion window, segments.
    pub fn cwnd(&self) -> u32 {
        self.cc.sock.snd_cwnd
    }

    /// Slow-start threshold, segments; none while infinite.
    pub fn ssthresh(&self) -> Option<u32> {
        Some(self.cc.sock.snd_ssthresh).filter(|s| *s < INFINITE_SSTHRESH)
    }

    /// Segments in flight by Linux' estimate (pipe in RFC 6675).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        let sock = &self.cc.sock;
        (sock.packets_out + sock.retrans_out).saturating_sub(sock.sacked_out + sock.lost_out)
    }

    /// Segments delivered with a congestion mark, as far as the receiver's feedback tells.
    pub fn marked(&self) -> u32 {
        self.cc.sock.delivered_ce
    }

    /// Smoothed round-trip time; none before the first sample.
    pub fn srtt(&self) -> Option<Dur> {
        self.rtt.srtt()
    }

    /// Least round-trip time; none before the first sample.
    pub fn min_rtt(&self) -> Option<Dur> {
        Some(self.rtt.min_us()).filter(|us| *us < u32::MAX).map(|us| Dur::from_micros(u64::from(us)))
    }

    /// Pacing rate, bytes per second; none for a flow without pacing.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.is_paced().then(|| self.profile.as_deref().map_or(self.cc.sock.pacing_rate, |it| self.rate_by_profile(it)))
    }

    /// State of the congestion state machine, as Linux numbers it.
    pub fn ca_state(&self) -> u8 {
        self.cc.sock.ca_state
    }

    /// Totals since the connection was opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Passes the events since the last call to `each`.
    pub fn take_notices(&mut self, mut each: impl FnMut(Notice)) {
        self.notices.drain(..).for_each(&mut each);
    }

    /// Whether there are events for [`Sender::take_notices`].
    #[inline]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
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

    /// The microseconds since `sent`, ns. Linux' clock counts whole microseconds.
    #[inline]
    fn elapsed_us(&self, now: Time, sent: u64) -> u64 {
        if self.legacy { now.0.saturating_sub(sent) / 1000 } else { micros(now).saturating_sub(sent / 1000) }
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

#[inline]
fn micros(now: Time) -> u64 {
    now.0 / 1000
}
