//! The one timer of a connection, in its three roles: retransmission timeout (RFC 6298), tail-loss probe (RFC 8985,
//! section 7) and RACK's reordering timer.

use weir_cc::CaState;
use weir_units::{Dur, Time};

use super::ack::{Event, NO_EVENT};
use super::{Forced, Notice, Phase, Sender};
use crate::ticks;

const MIN_RTO: Dur = Dur::from_millis(200);
/// Linux' margin on the probe and reordering timeouts against coarse clocks.
pub(super) const MIN_TIMEOUT: Dur = Dur::from_millis(2);
const INITIAL_TIMEOUT: Dur = Dur::from_secs(1);
/// Limit on connection requests (Linux: `tcp_syn_retries` plus `tcp_syn_linear_timeouts`).
const MAX_SYNS: u32 = 11;
const MAX_SYNS_LEGACY: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Role {
    #[default]
    None,
    Rto,
    Probe,
    Reordering,
}

/// The timer of a connection.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    role: Role,
    deadline: Time,
    /// The deadline is that of the probe last asked for without the wait for a tick: it may be early.
    early: bool,
    /// When the last probe was scheduled, and for how long.
    asked: (Time, Dur),
    /// The next new segment at the time of a pending probe, and whether the probe was a retransmission.
    probe: Option<(u64, bool)>,
}

impl Default for Timer {
    fn default() -> Self {
        Timer { role: Role::None, deadline: Time::MAX, early: false, asked: (Time::MAX, Dur::ZERO), probe: None }
    }
}

impl Timer {
    fn arm(&mut self, role: Role, deadline: Time) {
        self.role = role;
        self.deadline = deadline;
        self.early = false;
    }

    /// As [`arm`](Timer::arm) for a probe that expires as [`ticks::expiry`] says. Nearly all probes are put off before they are
    /// due, so that their ticks are counted only if one comes close ([`Sender::settle_timer`]).
    #[inline]
    fn arm_early_probe(&mut self, now: Time, timeout: Dur) {
        self.role = Role::Probe;
        self.deadline = now + timeout;
        self.early = true;
    }

    /// The exact deadline.
    fn expiry(&self) -> Time {
        let (asked, timeout) = self.asked;
        if self.early { ticks::expiry(asked, timeout) } else { self.deadline }
    }

    #[inline]
    pub fn arm_rto(&mut self, deadline: Time) {
        self.arm(Role::Rto, deadline);
    }

    pub fn arm_reordering(&mut self, deadline: Time) {
        self.arm(Role::Reordering, deadline);
    }

    #[inline]
    pub fn clear(&mut self) {
        self.arm(Role::None, Time::MAX);
    }

    #[inline]
    pub fn probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Whether a probe that retransmitted data is pending.
    pub fn probing_with_old_data(&self) -> bool {
        matches!(self.probe, Some((_, true)))
    }

    /// Whether the pending probe caused a duplicate that ends at `end`.
    pub fn probed_up_to(&self, end: u64) -> bool {
        matches!(self.probe, Some((next_at, _)) if next_at == end)
    }

    pub fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// Whether the timer was set to just that: each segment of a burst asks for it.
    #[inline]
    fn is_probe_of(&self, now: Time, timeout: Dur) -> bool {
        self.role == Role::Probe && self.asked == (now, timeout)
    }

    /// Whether a probe may replace the timer's present role.
    #[inline]
    pub fn may_probe(&self) -> bool {
        self.role != Role::Reordering
    }
}

impl Sender {
    /// The instant to call [`Sender::on_timer`], or an earlier one at which [`Sender::settle_timer`] tells a later one;
    /// [`Time::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.or_pacing(self.timer.deadline)
    }

    /// The timer's instant, or that at which pacing releases the next segment.
    #[inline]
    fn or_pacing(&self, timer: Time) -> Time {
        if self.held_by_pacing { timer.min(self.next_send) } else { timer }
    }

    /// Computes the exact deadline if an early one is past.
    #[inline]
    pub fn settle_timer(&mut self, now: Time) {
        if self.timer.early && self.timer.deadline <= now {
            self.timer.arm(Role::Probe, self.timer.expiry());
        }
    }

    /// As [`deadline`](Sender::deadline), but never early.
    pub fn exact_deadline(&self) -> Time {
        self.or_pacing(self.timer.expiry())
    }

    /// Handles an expired timer; the driver calls [`Sender::poll_transmit`] afterwards.
    pub fn on_timer(&mut self, now: Time) {
        self.settle_timer(now);
        if now < self.timer.deadline {
            return;
        }
        self.set_clock(now);
        let role = std::mem::take(&mut self.timer.role);
        self.timer.deadline = Time::MAX;
        match role {
            Role::None => {}
            Role::Rto if self.phase == Phase::SynSent => self.retry_connect(),
            Role::Rto => self.on_rto(now),
            Role::Probe => self.send_probe(now),
            Role::Reordering => self.on_reordering_timeout(now),
        }
    }

    fn retry_connect(&mut self) {
        if self.syns < if self.legacy { MAX_SYNS_LEGACY } else { MAX_SYNS } {
            self.counters.timeouts += 1;
            self.pending_syn = true;
        } else {
            self.phase = Phase::Closed;
        }
    }

    fn on_rto(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            return;
        }
        self.counters.timeouts += 1;
        self.enter_loss(now);
        self.recovery.timeouts_in_row += 1;
        self.rtt.back_off();
        self.forced = Some(Forced::Retransmission(self.board.una));
        self.timer.arm_rto(self.expiry(now, self.rtt.rto()));
    }

    fn on_reordering_timeout(&mut self, now: Time) {
        let in_flight = self.in_flight();
        let lost = self.rack_timeout(now);
        if self.in_flight() != in_flight && self.cc.sock.ca_state != CaState::Recovery as u8 {
            self.recovery.resume();
            self.enter_recovery(false);
            if !self.cc.has_cong_control() {
                let event = Event { delivered: 1, newly_lost: lost, ..NO_EVENT };
                self.proportional_reduction(&event);
            }
        }
        if self.timer.role == Role::None {
            self.rearm_rto(now);
        }
    }

    /// The instant at which the timer expires if it is set now.
    #[inline]
    pub(super) fn expiry(&self, now: Time, timeout: Dur) -> Time {
        if self.legacy { now + timeout } else { ticks::expiry(now, timeout) }
    }

    /// The same, counted from when pacing lets the next segment go (`tcp_reset_xmit_timer`).
    #[inline]
    pub(super) fn paced_expiry(&self, now: Time, timeout: Dur) -> Time {
        let wait = if self.legacy || !self.is_paced() { Dur::ZERO } else { ticks::floor(self.next_send.since(now)) };
        self.expiry(now, timeout + wait)
    }

    /// Sets the timer after progress: for a probe if one may be scheduled, else the retransmission timeout.
    #[inline]
    pub(super) fn rearm(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer.clear();
        } else if !self.try_arm_probe(now, true) {
            if matches!(self.timer.role, Role::Probe | Role::Reordering) {
                self.rearm_rto(now);
            } else {
                self.timer.arm_rto(self.paced_expiry(now, self.rtt.rto()));
            }
        }
    }

    /// Sets the retransmission timeout in place of another role, counted from the head's transmission.
    fn rearm_rto(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer.clear();
            return;
        }
        let due = Time(self.board.get(self.board.una).sent_ns) + self.rtt.counted(self.rtt.rto());
        self.timer.arm_rto(self.paced_expiry(now, due.since(now).max(Dur::from_micros(1))));
    }

    #[inline]
    pub(super) fn arm_probe(&mut self, now: Time) {
        self.try_arm_probe(now, false);
    }

    /// Schedules a tail-loss probe two round trips from now; false if the RTO is used instead.
    #[inline(always)]
    pub(super) fn try_arm_probe(&mut self, now: Time, advancing: bool) -> bool {
        let sock = &self.cc.sock;
        let calm = sock.ca_state == CaState::Open as u8 || sock.ca_state == CaState::Cwr as u8;
        if self.legacy || !self.sack || !calm || sock.packets_out == 0 {
            return false;
        }
        let mut timeout = if sock.srtt_us > 0 {
            let slack = if sock.packets_out == 1 { MIN_RTO } else { MIN_TIMEOUT };
            Dur::from_micros(u64::from(sock.srtt_us >> 2)) + slack
        } else {
            INITIAL_TIMEOUT
        };
        let rto = self.rtt.rto();
        if !advancing {
            let sent = Time(self.board.get(self.board.una).sent_ns);
            let left = (sent + rto).since(now);
            if left < timeout {
                let left = (sent + self.rtt.counted(rto)).since(now);
                timeout = if left > Dur::ZERO { timeout.min(left) } else { timeout };
            }
            if self.timer.is_probe_of(now, timeout) {
                return true;
            }
        } else {
            timeout = timeout.min(rto);
        }
        if self.is_paced() {
            self.timer.arm(Role::Probe, self.paced_expiry(now, timeout));
        } else {
            self.timer.arm_early_probe(now, timeout);
        }
        self.timer.asked = (now, timeout);
        true
    }

    /// Sends new data if the peer's window and the buffer allow it, else retransmits the last segment.
    fn send_probe(&mut self, now: Time) {
        if self.board.outstanding() > 0 && self.timer.probe.is_none() {
            self.notice(Notice::Tlp);
            let fresh = self.new_data_len() > 0;
            self.forced = Some(if fresh { Forced::NewData } else { Forced::Probe(self.board.next - 1) });
            self.timer.probe = Some((self.board.next + u64::from(fresh), !fresh));
            self.timer.arm_rto(self.expiry(now, self.rtt.rto()));
        } else {
            self.rearm_rto(now);
        }
    }

    /// Detects the outcome of a probe from an acknowledgement (RFC 8985, section 7.4).
    pub(super) fn resolve_probe(&mut self, now: Time, event: &Event) {
        let Some((next_at, retransmission)) = self.timer.probe else { return };
        if self.board.una < next_at {
            return;
        }
        if !retransmission || event.dsack_of_probe {
            // The probe sent new data, or it was a duplicate: nothing was lost.
            self.timer.probe = None;
        } else if self.board.una > next_at {
            self.timer.probe = None;
            self.probe_repaired_a_loss(now);
        } else if !event.newly_sacked && !event.una_advanced {
            // A pure duplicate: both the original and the probe arrived.
            self.timer.probe = None;
        }
    }

    /// The probe repaired the loss of the last segment: the window is reduced as for any loss.
    fn probe_repaired_a_loss(&mut self, now: Time) {
        self.begin_reduction();
        self.set_state(CaState::Cwr);
        self.end_reduction(now);
        self.keep_open();
    }
}
