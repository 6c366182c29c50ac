//! Beginnings of a connection without slow start: Jump Start and Quick-Start.
//!
//! Both send a first window that is greater than the initial one, paced over the first round-trip time. The first
//! acknowledgement ends it: pacing stops, and the congestion window is what was sent.
//!
//! - Jump Start (D. Liu, M. Allman, S. Jin, L. Wang, "Congestion control without a startup phase", PFLDnet 2007): the
//!   window is all data that the application has written, as far as buffers permit. Of `D` segments, `R` of which were
//!   sent again, the window at the end of the recovery is `(D - R) / 2`.
//! - Quick-Start (RFC 4782): the window is the rate that the routers approved times the round-trip time (section 4.4). Slow
//!   start goes on as limited slow start (RFC 3742), where the congestion control has that. After a loss or a mark, slow
//!   start begins with the initial window, and its threshold is half of what arrived (section 4.6). The nonce (section 3.4)
//!   and the report of the approved rate (section 3.3.1) are left out: receivers and senders are honest here.
//!
//! A connection whose handshake gave no round-trip time, or whose first window would not be above the initial one, begins
//! with slow start. A timeout is that of any connection.

use weir_plan::Tcp;
use weir_units::Time;

use super::{Phase, Sender, Transmit};
use crate::packet::Ack;

/// Least window and threshold after losses, segments.
const LEAST_WINDOW: u64 = 2;
/// Limited slow start begins above this window after Quick-Start, segments (RFC 3742, section 2).
const MAX_SSTHRESH: u32 = 100;
/// Longest first window, segments: the congestion window has 32 bits, and sums of two must not overflow.
const LONGEST_WINDOW: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Jump,
    Quick,
}

/// A beginning without slow start.
#[derive(Clone, Debug)]
pub(super) struct Startup {
    kind: Kind,
    /// The rate that routers approved, payload in bytes per second.
    approved: u64,
    /// Whether the flow is paced afterwards.
    paced: bool,
    /// Whether the first window has begun.
    open: bool,
    /// The first segment after the first window; 0 until it has ended.
    end: u64,
}

impl Startup {
    /// What the settings ask for; none for slow start.
    pub fn of(tcp: &Tcp) -> Option<Box<Startup>> {
        let kind = match (tcp.jump_start, tcp.quick_start_bps) {
            (true, _) => Kind::Jump,
            (false, 0) => return None,
            (false, _) => Kind::Quick,
        };
        Some(Box::new(Startup { kind, approved: 0, paced: tcp.pacing, open: false, end: 0 }))
    }

    /// Takes the answer of the routers, payload in bit/s; 0 for a refusal.
    pub fn approve(&mut self, rate_bps: u64) {
        self.approved = rate_bps / 8;
    }
}

impl Sender {
    /// The connection is established; a first window may follow.
    pub(super) fn begin_startup(&mut self) {
        let approved = |startup: &Startup| startup.kind == Kind::Jump || startup.approved > 0;
        if self.syns > 1 || self.cc.has_cong_control() || !self.startup.as_deref().is_some_and(approved) {
            self.startup = None;
        } else {
            self.phase = Phase::Starting;
        }
    }

    /// Transmits the connection request, or what belongs to the first window.
    #[cold]
    pub(super) fn poll_beginning(&mut self, now: Time) -> Option<Transmit> {
        if self.phase != Phase::Starting {
            return self.poll_handshake(now);
        }
        let waits = self.startup.as_deref().is_some_and(|startup| !startup.open);
        if waits && self.new_data_len() > 0 {
            self.open_first_window(now);
        }
        self.poll_data(now)
    }

    fn open_first_window(&mut self, now: Time) {
        let permitted = self.permitted();
        let (Some(startup), Some(rtt)) = (self.startup.as_deref_mut(), self.rtt.srtt()) else { return };
        let mss = u64::from(self.mss);
        let in_rtt = |rate: u64| (u128::from(rate) * u128::from(rtt.0) / 1_000_000_000) as u64;
        let (segments, rate) = match startup.kind {
            Kind::Jump => {
                let bytes = (self.written_bytes - self.next_bytes).min(permitted);
                (bytes.div_ceil(mss), (u128::from(bytes) * 1_000_000_000 / u128::from(rtt.0.max(1))) as u64)
            }
            Kind::Quick => (in_rtt(startup.approved).min(permitted) / mss, startup.approved),
        };
        if segments <= u64::from(self.initial_window) {
            self.startup = None;
            self.phase = Phase::Established;
            return;
        }
        startup.open = true;
        self.paced = true;
        self.next_send = now;
        let sock = &mut self.cc.sock;
        sock.snd_cwnd = (segments.min(LONGEST_WINDOW) as u32).min(sock.snd_cwnd_clamp);
        sock.pacing_rate = rate.clamp(1, sock.max_pacing_rate);
    }

    /// Ends the first window if the acknowledgement is of one of its segments. Whether the connection is established.
    #[cold]
    pub(super) fn ends_first_window(&mut self, ack: &Ack) -> bool {
        if self.phase == Phase::Starting && (ack.ack > self.board.una || !ack.sack.is_empty()) {
            self.close_first_window();
        }
        self.is_established()
    }

    /// Ends the first window, if it is under way: the window is what was sent.
    pub(super) fn close_first_window(&mut self) {
        if self.phase != Phase::Starting {
            return;
        }
        self.phase = Phase::Established;
        let Some(startup) = self.startup.as_deref_mut() else { return };
        if startup.kind == Kind::Quick {
            self.cc.prefer("max_ssthresh", MAX_SSTHRESH);
        }
        startup.end = self.board.next;
        self.paced = startup.paced;
        self.held_by_pacing = false;
        self.burst_left = 0;
        self.cc.sock.snd_cwnd = (self.board.next as u32).max(self.initial_window);
    }

    /// The window begins to be reduced: after Quick-Start, to the initial one. Later losses are those of any connection.
    pub(super) fn reduce_first_window(&mut self) {
        let Some(startup) = self.startup.as_deref() else { return };
        match startup.kind {
            _ if self.board.una >= startup.end => self.startup = None,
            Kind::Jump => {}
            Kind::Quick => self.cc.sock.snd_ssthresh = self.initial_window,
        }
    }

    /// The reduction of the first window is complete.
    pub(super) fn settle_first_window(&mut self) {
        let Some(startup) = self.startup.take() else { return };
        let arrived = startup.end.saturating_sub(self.counters.retransmitted_packets);
        let half = (arrived / 2).max(LEAST_WINDOW) as u32;
        let sock = &mut self.cc.sock;
        sock.snd_ssthresh = half;
        sock.snd_cwnd = match startup.kind {
            Kind::Jump => half,
            Kind::Quick => self.initial_window,
        };
    }

    /// The retransmission timer has expired, and the threshold is set. After Quick-Start it is at most half of what is not
    /// lost.
    pub(super) fn time_out_first_window(&mut self) {
        let Some(startup) = self.startup.take().filter(|startup| startup.kind == Kind::Quick) else { return };
        let sock = &mut self.cc.sock;
        let half = startup.end.saturating_sub(u64::from(sock.lost_out)) / 2;
        sock.snd_ssthresh = sock.snd_ssthresh.min(half.max(LEAST_WINDOW) as u32);
    }
}
