//! A congestion control that is asked from time to time: once a round trip, or after an interval.
//!
//! Its decisions come from a [`Decider`] outside of this crate, such as an object in Python. Between two decisions the
//! window and the pacing rate stay. This file sums up what a decider is told, a [`Report`]. A decider that fails ends
//! the simulation with a [`Fault`](crate::Fault).
//!
//! To the transport it is one more congestion control with `cong_control`, so the simulator knows nothing of it. A flow
//! names its decider by the number of its registration, in the option `decider`.

use crate::{
    Algorithm,
    guard::Foreign,
    ops::{ABI, Ops, OptionRow},
    sock::{PRIVATE_WORDS, RateSample, Sock},
    watch::{self, Operation},
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The name by which [`find`](crate::find) knows it; no list has it, because it needs a decider.
pub const ASKED: &str = "asked";
/// The name of its option: the number of a flow's decider.
pub const DECIDER: &str = "decider";

/// Packets of the window, at most: a window is a 32-bit number of packets, and sums of two must not overflow.
pub const MAX_WINDOW: u32 = 1 << 30;

/// Smallest window that a rate without a window gets, packets.
const LEAST_OF_RATE: u64 = 4;
/// Linux' pacing rate without a congestion control's: this share of a window per round-trip time, per cent.
const PACING_PERCENT: u64 = 120;
const PACING_NEEDED: u32 = 1;
const LOSS: u8 = 4;

/// What happened to a connection since the decision before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The connection was just established: nothing has happened yet.
    pub first: bool,
    /// The connection's clock, microseconds.
    pub now_us: u64,
    /// Time since the decision before, microseconds.
    pub interval_us: u64,
    /// Packets transmitted, retransmissions included.
    pub sent_packets: u32,
    /// Packets acknowledged, cumulatively or selectively.
    pub acked_packets: u32,
    /// Packets marked lost.
    pub lost_packets: u32,
    /// Packets acknowledged with a congestion mark.
    pub marked_packets: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Payload of a full packet, bytes.
    pub packet_bytes: u32,
    /// The latest round-trip time, microseconds; none without a sample in the interval.
    pub rtt_us: Option<u64>,
    /// Mean of the round-trip times of the interval, microseconds.
    pub rtt_mean_us: Option<u64>,
    /// Smoothed round-trip time, microseconds.
    pub srtt_us: Option<u64>,
    /// Least round-trip time of the last minutes (Linux' windowed minimum), microseconds.
    pub rtt_min_us: Option<u64>,
    /// Packets in flight now.
    pub in_flight_packets: u32,
    /// The window now, packets.
    pub window_packets: u32,
    /// The pacing rate that was decided, bytes per second; none before.
    pub pacing_bytes_per_s: Option<u64>,
    /// For part of the interval the application had less to send than the window allowed.
    pub app_limited: bool,
    /// The flow's own seed, for choices that flows should not make alike.
    pub seed: u32,
}

impl Report {
    /// Payload transmitted, bit/s; zero for the first report.
    pub fn send_bps(&self) -> u64 {
        self.bps(self.sent_packets)
    }

    /// Payload acknowledged, bit/s; zero for the first report.
    pub fn delivery_bps(&self) -> u64 {
        self.bps(self.acked_packets)
    }

    fn bps(&self, packets: u32) -> u64 {
        let bits = u128::from(packets) * u128::from(self.packet_bytes) * 8;
        (bits * 1_000_000).checked_div(u128::from(self.interval_us)).unwrap_or(0) as u64
    }
}

/// What a decider decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The window from now on, packets. None keeps it; with a new pacing rate, twice that rate times the smoothed
    /// round-trip time.
    pub window_packets: Option<u32>,
    /// The pacing rate from now on, bytes per second; none keeps it.
    pub pacing_bytes_per_s: Option<u64>,
    /// When to ask next: at the first acknowledgement after so many microseconds; none for the end of the next round
    /// trip.
    pub after_us: Option<u64>,
}

/// Decides for one flow. It must not panic.
pub trait Decider: Send + Sync {
    /// The decision after `report`.
    ///
    /// # Errors
    /// What went wrong, as the end of a sentence that begins with the name of the control.
    fn decide(&self, report: &Report) -> Result<Decision, String>;
}

struct Registered {
    decider: Arc<dyn Decider>,
    slot: u32,
}

#[derive(Default)]
struct Registry {
    next: u32,
    all: BTreeMap<u32, Registered>,
    /// The record of calls has one place for a control, whatever the number of its flows.
    slots: BTreeMap<String, u32>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { next: 0, all: BTreeMap::new(), slots: BTreeMap::new() });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The registration of a decider, which ends with it.
#[derive(Debug)]
pub struct Registration(u32);

impl Registration {
    /// Registers the decider of a flow, of the control that users know as `name`.
    pub fn new(name: &str, decider: Arc<dyn Decider>) -> Registration {
        let mut registry = registry();
        let slot = *registry.slots.entry(name.to_owned()).or_insert_with(|| watch::register(name));
        registry.next = registry.next.wrapping_add(1);
        let number = registry.next;
        registry.all.insert(number, Registered { decider, slot });
        Registration(number)
    }

    /// The value of the option [`DECIDER`] for the flow.
    pub fn number(&self) -> u32 {
        self.0
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The lock is released first: the end of a decider may run code of its owner.
        let removed = registry().all.remove(&self.0);
        drop(removed);
    }
}

thread_local! {
    /// Why the last decision failed: a call in C cannot unwind, so the guard asks after it.
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Removes and returns the reason why the last call of this thread failed.
pub(crate) fn failure() -> Option<String> {
    FAILURE.take()
}

/// The state of a connection between two calls, in the private words of its socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// Beginning of the interval.
    begin_us: u64,
    /// When to ask next; the end of a round trip if zero.
    due_us: u64,
    /// Sum of the round-trip times of the interval.
    rtt_sum_us: u64,
    /// The pacing rate decided, bytes per second; zero before.
    pacing: u64,
    window: u32,
    /// The round trip ends when this sequence number is acknowledged.
    round_end: u32,
    /// Counters at the beginning of the interval.
    delivered: u32,
    marked: u32,
    lost: u32,
    in_flight: u32,
    rtts: u32,
    rtt_us: u32,
    timeouts: u32,
    app_limited: bool,
    /// After a timeout: the window grows back to the one decided.
    regains: bool,
}

impl State {
    fn of(sock: &Sock) -> State {
        let word = |at: usize| sock.private[at];
        let half = |at: usize| (word(4 + at / 2) >> (32 * (at % 2))) as u32;
        State {
            begin_us: word(0),
            due_us: word(1),
            rtt_sum_us: word(2),
            pacing: word(3),
            window: half(0),
            round_end: half(1),
            delivered: half(2),
            marked: half(3),
            lost: half(4),
            in_flight: half(5),
            rtts: half(6),
            rtt_us: half(7),
            timeouts: half(8),
            app_limited: half(9) & 1 != 0,
            regains: half(9) & 2 != 0,
        }
    }

    fn keep(&self, sock: &mut Sock) {
        let flags = u32::from(self.app_limited) | u32::from(self.regains) << 1;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [
            self.begin_us,
            self.due_us,
            self.rtt_sum_us,
            self.pacing,
            pair(self.window, self.round_end),
            pair(self.delivered, self.marked),
            pair(self.lost, self.in_flight),
            pair(self.rtts, self.rtt_us),
            pair(self.timeouts, flags),
        ];
        sock.private[..words.len()].copy_from_slice(&words);
    }

    fn report(&self, sock: &Sock, first: bool) -> Report {
        let acked = sock.delivered.wrapping_sub(self.delivered);
        let lost = sock.lost.wrapping_sub(self.lost);
        // What was sent has been delivered, is lost, or is still in flight.
        let left = i64::from(acked) + i64::from(lost) + i64::from(in_flight(sock)) - i64::from(self.in_flight);
        let sampled = self.rtts > 0;
        Report {
            first,
            now_us: sock.tcp_mstamp_us,
            interval_us: sock.tcp_mstamp_us.saturating_sub(self.begin_us),
            sent_packets: left.clamp(0, i64::from(u32::MAX)) as u32,
            acked_packets: acked,
            lost_packets: lost,
            marked_packets: sock.delivered_ce.wrapping_sub(self.marked),
            timeouts: self.timeouts,
            packet_bytes: sock.mss_cache,
            rtt_us: sampled.then_some(u64::from(self.rtt_us)),
            rtt_mean_us: self.rtt_sum_us.checked_div(u64::from(self.rtts)),
            srtt_us: (sock.srtt_us > 0).then_some(u64::from(sock.srtt_us >> 3)),
            rtt_min_us: (sock.rtt_min_us < u32::MAX).then_some(u64::from(sock.rtt_min_us)),
            in_flight_packets: in_flight(sock),
            window_packets: sock.snd_cwnd,
            pacing_bytes_per_s: (self.pacing > 0).then_some(self.pacing),
            app_limited: self.app_limited,
            seed: sock.random,
        }
    }

    /// A new interval begins.
    fn begin(&mut self, sock: &Sock) {
        *self = State {
            begin_us: sock.tcp_mstamp_us,
            round_end: sock.snd_nxt,
            delivered: sock.delivered,
            marked: sock.delivered_ce,
            lost: sock.lost,
            in_flight: in_flight(sock),
            window: self.window,
            pacing: self.pacing,
            due_us: self.due_us,
            regains: self.regains,
            ..State::default()
        };
    }

    fn add(&mut self, sample: &RateSample) {
        if let Ok(rtt_us) = u32::try_from(sample.rtt_us) {
            self.rtt_us = rtt_us;
            self.rtt_sum_us += u64::from(rtt_us);
            self.rtts += 1;
        }
        self.app_limited |= sample.is_app_limited != 0;
    }

    fn is_due(&self, sock: &Sock) -> bool {
        if self.timeouts > 0 {
            return true;
        }
        if self.due_us > 0 {
            return sock.tcp_mstamp_us >= self.due_us;
        }
        // As `after(snd_una, round_end)` in C, or everything was acknowledged.
        (sock.snd_una.wrapping_sub(self.round_end) as i32) > 0 || sock.packets_out == 0
    }

    fn take(&mut self, decision: &Decision, sock: &Sock) {
        let of_rate = decision.pacing_bytes_per_s.map(|rate| window_for(rate, sock)).filter(|_| sock.srtt_us > 0);
        if let Some(window) = decision.window_packets.or(of_rate) {
            self.window = window.clamp(1, MAX_WINDOW);
            self.regains = false;
        }
        self.pacing = decision.pacing_bytes_per_s.map_or(self.pacing, |rate| rate.max(1));
        self.due_us = decision.after_us.map_or(0, |after| sock.tcp_mstamp_us.saturating_add(after.max(1)));
    }

    /// Sets the window and the pacing rate; `acked` packets were acknowledged.
    fn hold(&mut self, sock: &mut Sock, acked: u32) {
        let grown = sock.snd_cwnd.saturating_add(acked);
        self.regains &= grown < self.window;
        let window = if self.regains { grown } else { self.window };
        sock.snd_cwnd = window.min(sock.snd_cwnd_clamp).max(1);
        sock.snd_ssthresh = self.window.max(2);
        if self.pacing > 0 {
            sock.pacing_status = PACING_NEEDED;
            sock.pacing_rate = self.pacing.min(sock.max_pacing_rate);
        } else if sock.srtt_us > 0 {
            let packets = u64::from(sock.snd_cwnd.max(sock.packets_out));
            // As Linux does for a control without a rate: srtt is in microseconds times 8.
            let rate = u128::from(packets * u64::from(sock.mss_cache)) * u128::from(80_000 * PACING_PERCENT);
            let rate = u64::try_from(rate / u128::from(sock.srtt_us)).unwrap_or(u64::MAX);
            sock.pacing_rate = rate.min(sock.max_pacing_rate);
        }
    }
}

/// Packets that a rate needs in flight, with as many again so that the rate limits and not the window.
fn window_for(rate: u64, sock: &Sock) -> u32 {
    let bytes = 2 * u128::from(rate) * u128::from(sock.srtt_us >> 3) / 1_000_000;
    let packets = bytes.div_ceil(u128::from(sock.mss_cache.max(1)));
    packets.clamp(u128::from(LEAST_OF_RATE), u128::from(MAX_WINDOW)) as u32
}

fn in_flight(sock: &Sock) -> u32 {
    (sock.packets_out + sock.retrans_out).saturating_sub(sock.sacked_out + sock.lost_out)
}

/// Asks the flow's decider, and begins the next interval.
fn ask(state: &mut State, sock: &Sock, first: bool) {
    let number = sock.options[0];
    let found = registry().all.get(&number).map(|one| (Arc::clone(&one.decider), one.slot));
    let decided = match found {
        Some((decider, slot)) => {
            watch::begin(slot, Operation::Report, 0);
            decider.decide(&state.report(sock, first))
        }
        None => Err(format!("has no decider with number {number}")),
    };
    match decided {
        Ok(decision) => state.take(&decision, sock),
        Err(why) => FAILURE.set(Some(why)),
    }
    state.begin(sock);
}

/// Runs `work` on the state and the socket of a call.
///
/// # Safety
/// `sock` is valid and not aliased.
unsafe fn with<T>(sock: *mut Sock, work: impl FnOnce(&mut State, &mut Sock) -> T) -> T {
    // SAFETY: as the caller promises.
    let sock = unsafe { &mut *sock };
    let mut state = State::of(sock);
    let result = work(&mut state, sock);
    state.keep(sock);
    result
}

unsafe extern "C" fn init(sock: *mut Sock) {
    // SAFETY: the transport's socket, for the time of this call.
    unsafe {
        with(sock, |state, sock| {
            state.window = sock.snd_cwnd.max(1);
            state.begin(sock);
            ask(state, sock, true);
            state.hold(sock, 0);
        });
    }
}

unsafe extern "C" fn window(sock: *mut Sock) -> u32 {
    // SAFETY: as in `init`.
    unsafe { with(sock, |state, _| state.window.max(2)) }
}

unsafe extern "C" fn undo(sock: *mut Sock) -> u32 {
    // SAFETY: as in `init`.
    unsafe {
        with(sock, |state, _| {
            state.regains = false;
            state.window.max(1)
        })
    }
}

unsafe extern "C" fn set_state(sock: *mut Sock, new: u8) {
    // SAFETY: as in `init`.
    unsafe {
        with(sock, |state, _| {
            if new == LOSS {
                state.timeouts += 1;
                state.regains = true;
            }
        });
    }
}

unsafe extern "C" fn cong_control(sock: *mut Sock, _ack: u32, _flag: i32, sample: *const RateSample) {
    // SAFETY: as in `init`; the sample outlives the call.
    unsafe {
        let sample = &*sample;
        with(sock, |state, sock| {
            state.add(sample);
            if state.is_due(sock) {
                ask(state, sock, false);
            }
            state.hold(sock, sample.acked_sacked);
        });
    }
}

struct Options([OptionRow; 1]);
// SAFETY: pointers to constants of this file.
unsafe impl Sync for Options {}

static OPTIONS: Options = Options([OptionRow {
    name: c"decider".as_ptr(),
    doc: c"number of the flow's decider".as_ptr(),
    value: 0,
    min: 0,
    max: u32::MAX,
    reserved: 0,
}]);

static OPS: Ops = Ops {
    abi: ABI,
    sock_size: size_of::<Sock>() as u32,
    priv_size: (PRIVATE_WORDS * 8) as u32,
    flags: 0,
    name: c"asked".as_ptr(),
    title: c"Decisions from outside".as_ptr(),
    source: c"".as_ptr(),
    year: 0,
    option_count: 1,
    options: OPTIONS.0.as_ptr(),
    init: Some(init),
    release: None,
    ssthresh: Some(window),
    cong_avoid: None,
    set_state: Some(set_state),
    cwnd_event: None,
    in_ack_event: None,
    undo_cwnd: Some(undo),
    pkts_acked: None,
    cong_control: Some(cong_control),
    cong_control_rs: None,
    min_tso_segs: None,
    sndbuf_expand: None,
    min_cwnd: None,
};

static FOREIGN: Foreign = Foreign { path: ASKED, slot: watch::LAST, state_bytes: PRIVATE_WORDS * 8 };

/// The congestion control.
pub(crate) fn algorithm() -> Algorithm {
    Algorithm { ops: &OPS, foreign: Some(&FOREIGN) }
}
