//! The congestion state machine: Open, Disorder, CWR, Recovery, Loss, as Linux runs it.
//!
//! The `linux` stack reduces its window by proportional rate reduction (RFC 6937), `linux-2.6` by rate halving. Undo
//! uses D-SACK (RFC 3708), timestamps (Eifel, RFC 3522) and, after a timeout, F-RTO (RFC 5682).

use weir_cc::{CaEvent, CaState, INFINITE_SSTHRESH};
use weir_units::Time;

use super::ack::Event;
use super::scoreboard::EVER_RETRANS;
use super::{Notice, REORDERING, Sender};
use crate::packet::timestamp;

/// Segments by which the window of `linux-2.6` may exceed the flight when it leaves an unusual state.
const MAX_BURST: u32 = 3;

/// State of the current window reduction.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// The next new segment at the start of the reduction.
    pub high_seq: u64,
    /// First unacknowledged segment at the start of the reduction, while undo is possible.
    pub undo_marker: Option<u64>,
    /// Retransmissions of this reduction not reported as duplicates so far.
    undo_retransmissions: i32,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// Time of the first retransmission, for the Eifel test.
    retransmitted_at: Option<u32>,
    pub frto: bool,
    /// F-RTO: new data are sent first, retransmissions only without new data.
    frto_new_data: bool,
    /// A segment marked lost was just delivered late: no retransmission before the next ACK.
    hold: bool,
    pub timeouts_in_row: u32,
}

impl Recovery {
    #[inline]
    pub fn note_sent(&mut self, ca_state: u8, segments: u32) {
        if ca_state != 0 {
            self.prr_out += segments;
        }
    }

    /// A segment is certainly lost: it is retransmitted whatever the last ACK reported.
    pub fn resume(&mut self) {
        self.frto_new_data = false;
        self.hold = false;
    }

    /// Discounts so many retransmissions of this reduction: they were spurious.
    pub fn discount_retransmissions(&mut self, spurious: u64) {
        if self.undo_marker.is_some() && self.undo_retransmissions > 0 {
            self.undo_retransmissions -= spurious.min(self.undo_retransmissions as u64) as i32;
        }
    }

    pub fn note_retransmission(&mut self, now: Time) {
        self.prr_out += 1;
        self.retransmitted_at.get_or_insert(timestamp(now));
        if self.undo_marker.is_some() {
            self.undo_retransmissions = self.undo_retransmissions.max(0) + 1;
        }
    }
}

/// Whether the window is being reduced in this state.
#[inline]
pub(super) fn reduces_window(ca_state: u8) -> bool {
    ca_state == CaState::Cwr as u8 || ca_state == CaState::Recovery as u8
}

impl Sender {
    pub(super) fn state(&self) -> u8 {
        self.cc.sock.ca_state
    }

    fn in_state(&self, state: CaState) -> bool {
        self.cc.sock.ca_state == state as u8
    }

    pub(super) fn set_state(&mut self, state: CaState) {
        let leaving = self.in_state(CaState::Recovery) && state != CaState::Recovery;
        self.cc.set_state(state);
        self.cc.sock.ca_state = state as u8;
        if leaving {
            self.notice(Notice::RecoveryEnd);
        }
    }

    /// Whether lost segments may be retransmitted now.
    #[inline]
    pub(super) fn may_retransmit(&mut self) -> bool {
        if self.state() < CaState::Recovery as u8 || self.recovery.hold {
            return false;
        }
        if self.recovery.frto_new_data {
            if self.board.next > self.recovery.high_seq || self.new_data_len() > 0 {
                return false;
            }
            self.recovery.frto_new_data = false;
            self.recovery.frto = false;
        }
        true
    }

    /// Runs the state machine, for an unusual ACK (duplicate, SACK, congestion mark) and for any ACK outside of Open.
    pub(super) fn alert(&mut self, now: Time, event: &mut Event) {
        self.recovery.resume();
        if event.ece {
            self.recovery.prior_ssthresh = 0;
        }
        if self.leave_state(now, event) {
            return;
        }
        if self.in_state(CaState::Recovery) {
            self.in_recovery(now, event);
        } else if self.in_state(CaState::Loss) {
            self.in_loss(now, event);
        } else {
            self.in_calm(now, event);
        }
    }

    /// Open, Disorder or CWR; or Loss after a spurious timeout.
    fn in_calm(&mut self, now: Time, event: &mut Event) {
        if !self.sack && event.una_advanced {
            self.cc.sock.sacked_out = 0;
        }
        self.count_dupack(event);
        if self.state() <= CaState::Disorder as u8 {
            self.undo_by_dsack(now);
        }
        self.detect_losses(now, event);
        self.recover_or_open(event);
    }

    /// Ends the state once all data sent before it are acknowledged; true if the ACK is fully processed.
    fn leave_state(&mut self, now: Time, event: &Event) -> bool {
        if self.in_state(CaState::Open) {
            self.recovery.retransmitted_at = None;
            return false;
        }
        if self.board.una < self.recovery.high_seq {
            return false;
        }
        if self.in_state(CaState::Cwr) {
            if self.board.una != self.recovery.high_seq {
                self.end_reduction(now);
                self.set_state(CaState::Open);
            }
        } else if self.in_state(CaState::Disorder) && self.lingers {
            self.undo_by_dsack(now);
            if !self.sack || self.board.una != self.recovery.high_seq {
                self.recovery.undo_marker = None;
                self.set_state(CaState::Open);
            }
        } else if self.in_state(CaState::Recovery) {
            if !self.sack {
                self.cc.sock.sacked_out = 0;
            }
            if self.try_undo_recovery(now, event) {
                return true;
            }
            self.end_reduction(now);
        }
        false
    }

    fn in_recovery(&mut self, now: Time, event: &mut Event) {
        if event.una_advanced {
            if self.try_undo_partial(now, event) {
                return;
            }
        } else {
            self.count_dupack(event);
        }
        if self.undo_by_dsack(now) {
            self.keep_open();
        }
        self.detect_losses(now, event);
        if !self.in_state(CaState::Recovery) && self.cc.sock.lost_out > 0 {
            // The reduction is undone, but another segment is certainly lost.
            self.enter_recovery(event.ece);
        }
    }

    fn in_loss(&mut self, now: Time, event: &mut Event) {
        self.advance_loss(now, event);
        if self.in_state(CaState::Loss) {
            self.moderate_cwnd();
        }
        self.detect_losses(now, event);
        if self.in_state(CaState::Open) || event.lost_retransmission {
            self.in_calm(now, event);
        }
    }

    fn recover_or_open(&mut self, event: &Event) {
        if self.cc.sock.lost_out > 0 {
            self.enter_recovery(event.ece);
        } else {
            self.try_to_open(event);
        }
    }

    /// F-RTO, and the end of the loss state (RFC 5682).
    fn advance_loss(&mut self, now: Time, event: &mut Event) {
        let recovered = self.board.una >= self.recovery.high_seq;
        if event.una_advanced && self.try_undo_loss(now, event, false) {
            return;
        }
        if self.recovery.frto {
            if event.original_arrived && self.try_undo_loss(now, event, true) {
                return;
            }
            if self.board.next > self.recovery.high_seq {
                if event.newly_sacked || event.dupack {
                    self.recovery.frto = false;
                }
            } else if event.una_advanced && !recovered {
                self.recovery.high_seq = self.board.next;
                if self.new_data_len() > 0 {
                    self.recovery.frto_new_data = true;
                    return;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(now, event);
            return;
        }
        if !self.sack {
            if self.board.next > self.recovery.high_seq && event.dupack {
                self.count_dupack(event);
            } else if event.una_advanced {
                self.cc.sock.sacked_out = 0;
            }
        }
    }

    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.notice(Notice::Recovery(self.cc.sock.snd_cwnd));
        self.recovery.prior_ssthresh = 0;
        self.start_undo();
        if !reduces_window(self.state()) {
            if !ece {
                self.recovery.prior_ssthresh = self.current_ssthresh();
            }
            self.begin_reduction();
        }
        if self.legacy {
            self.recovery.high_seq = self.board.next;
        }
        self.set_state(CaState::Recovery);
    }

    /// Reduces the window without a loss: a congestion mark, or a full queue of the host.
    pub(super) fn enter_cwr(&mut self) {
        self.recovery.prior_ssthresh = 0;
        if self.state() < CaState::Cwr as u8 {
            self.recovery.undo_marker = None;
            self.begin_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    /// The host's own queue is full: reduces the window once a round.
    pub fn on_local_congestion(&mut self, now: Time) {
        if self.state() < CaState::Cwr as u8 {
            self.set_clock(now);
            self.notice(Notice::LocalCongestion);
            self.enter_cwr();
            let in_flight = self.in_flight();
            self.cc.sock.snd_cwnd = self.cc.sock.snd_cwnd.min(in_flight + 1);
        }
    }

    pub(super) fn begin_reduction(&mut self) {
        self.recovery.high_seq = self.board.next;
        self.timer.forget_probe();
        let sock = &mut self.cc.sock;
        sock.snd_cwnd_cnt = 0;
        self.recovery.prior_cwnd = sock.snd_cwnd;
        sock.prior_cwnd = sock.snd_cwnd;
        self.recovery.prr_delivered = 0;
        self.recovery.prr_out = 0;
        let ssthresh = self.cc.ssthresh();
        self.cc.sock.snd_ssthresh = ssthresh;
        self.reduce_first_window();
        self.cwr_pending |= self.ecn && !self.counts_marks;
    }

    fn start_undo(&mut self) {
        self.recovery.undo_marker = Some(self.board.una);
        let resent = self.cc.sock.retrans_out as i32 + i32::from(self.timer.probing_with_old_data());
        self.recovery.undo_retransmissions = if resent > 0 { resent } else { -1 };
    }

    /// Sets the window to the threshold at the end of a reduction.
    pub(super) fn end_reduction(&mut self, now: Time) {
        if self.cc.has_cong_control() {
            return;
        }
        let complete = self.in_state(CaState::Cwr) || self.recovery.undo_marker.is_some();
        let sock = &mut self.cc.sock;
        if sock.snd_ssthresh < INFINITE_SSTHRESH && complete {
            sock.snd_cwnd = if self.legacy { sock.snd_cwnd.min(sock.snd_ssthresh) } else { sock.snd_ssthresh };
            self.settle_first_window();
            self.stamp_cwnd(now);
        }
        self.cc.cwnd_event(CaEvent::CompleteCwr);
    }

    fn try_to_open(&mut self, event: &Event) {
        if !self.any_retransmission() {
            self.recovery.retransmitted_at = None;
        }
        if event.ece && self.state() < CaState::Cwr as u8 {
            self.notice(Notice::Cwr(self.cc.sock.snd_cwnd));
            self.enter_cwr();
        }
        if self.in_state(CaState::Cwr) {
            return;
        }
        self.keep_open();
        self.moderate_cwnd();
    }

    /// Whether a retransmission is in flight, or the first outstanding segment was retransmitted.
    fn any_retransmission(&self) -> bool {
        let head = self.board.una;
        self.cc.sock.retrans_out > 0 || head < self.board.next && self.board.get(head).flags & EVER_RETRANS != 0
    }

    /// Limits bursts where congestion is moderated: after an unusual state the window exceeds the flight by little.
    fn moderate_cwnd(&mut self) {
        if !self.moderated {
            return;
        }
        let limit = self.in_flight() + MAX_BURST;
        self.cc.sock.snd_cwnd = self.cc.sock.snd_cwnd.min(limit);
    }

    pub(super) fn keep_open(&mut self) {
        let sock = &self.cc.sock;
        let lingers = self.lingers && self.recovery.undo_marker.is_some();
        let unusual = sock.sacked_out + sock.lost_out > 0 || self.any_retransmission() || lingers;
        let state = if unusual { CaState::Disorder } else { CaState::Open };
        if !self.in_state(state) {
            self.set_state(state);
            self.recovery.high_seq = self.board.next;
        }
    }

    /// Whether all retransmissions of this reduction were spurious.
    fn may_undo(&self, event: &Event) -> bool {
        self.recovery.undo_marker.is_some()
            && (self.recovery.undo_retransmissions == 0 || self.original_was_delayed(event))
    }

    /// Eifel detection (RFC 3522): the ACK echoes a time before the first retransmission.
    fn original_was_delayed(&self, event: &Event) -> bool {
        let Some(at) = self.recovery.retransmitted_at else { return false };
        self.timestamps && event.tsecr != 0 && (event.tsecr.wrapping_sub(at) as i32) < 0
    }

    /// Without SACK, the state lasts until data above the hole are acknowledged (RFC 6582, section 5).
    fn must_hold_state(&self) -> bool {
        !self.sack && self.board.una == self.recovery.high_seq
    }

    fn try_undo_recovery(&mut self, now: Time, event: &Event) -> bool {
        if self.may_undo(event) {
            self.undo(now, false);
        } else {
            self.rack.age_window();
        }
        if self.must_hold_state() {
            if !self.any_retransmission() {
                self.recovery.retransmitted_at = None;
            }
            return true;
        }
        self.set_state(CaState::Open);
        false
    }

    fn try_undo_partial(&mut self, now: Time, event: &Event) -> bool {
        if self.recovery.undo_marker.is_none() || !self.original_was_delayed(event) {
            return false;
        }
        self.note_reordering(event.prior_una);
        if self.cc.sock.retrans_out > 0 {
            self.recovery.hold = true;
            return true;
        }
        if !self.any_retransmission() {
            self.recovery.retransmitted_at = None;
        }
        self.undo(now, true);
        self.keep_open();
        false
    }

    fn undo_by_dsack(&mut self, now: Time) -> bool {
        if self.recovery.undo_marker.is_none() || self.recovery.undo_retransmissions != 0 {
            return false;
        }
        self.rack.renew_window();
        self.undo(now, false);
        true
    }

    fn try_undo_loss(&mut self, now: Time, event: &Event, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo(event) {
            return false;
        }
        self.undo(now, true);
        self.recovery.timeouts_in_row = 0;
        self.recovery.frto = false;
        if (by_frto || self.sack) && !self.must_hold_state() {
            self.set_state(CaState::Open);
        }
        true
    }

    fn undo(&mut self, now: Time, forgive: bool) {
        if forgive {
            self.board.forgive();
            self.cc.sock.lost_out = 0;
        }
        if self.recovery.prior_ssthresh > 0 {
            let cwnd = self.cc.undo_cwnd();
            self.cc.sock.snd_cwnd = cwnd;
            if self.recovery.prior_ssthresh > self.cc.sock.snd_ssthresh {
                self.cc.sock.snd_ssthresh = self.recovery.prior_ssthresh;
                self.cwr_pending = false;
            }
            self.notice(Notice::Undo);
        }
        self.moderate_cwnd();
        self.stamp_cwnd(now);
        self.recovery.undo_marker = None;
        self.rack.force();
    }

    /// Handles the retransmission timeout.
    pub(super) fn enter_loss(&mut self, now: Time) {
        let new_recovery = self.state() < CaState::Recovery as u8;
        self.close_first_window();
        self.notice(Notice::Rto(self.cc.sock.snd_cwnd));
        if !self.sack {
            self.cc.sock.sacked_out = 0;
        }
        self.mark_lost_after_timeout(now);
        let first = self.state() <= CaState::Disorder as u8
            || self.recovery.high_seq <= self.board.una
            || self.in_state(CaState::Loss) && self.recovery.timeouts_in_row == 0;
        if first {
            self.recovery.prior_ssthresh = self.current_ssthresh();
            self.recovery.prior_cwnd = self.cc.sock.snd_cwnd;
            self.cc.sock.prior_cwnd = self.cc.sock.snd_cwnd;
            let ssthresh = self.cc.ssthresh();
            self.cc.sock.snd_ssthresh = ssthresh;
            self.time_out_first_window();
            self.cc.cwnd_event(CaEvent::Loss);
            self.start_undo();
        }
        self.cc.sock.snd_cwnd = self.in_flight() + 1;
        self.cc.sock.snd_cwnd_cnt = 0;
        self.stamp_cwnd(now);
        // Too few duplicate ACKs came: the path reorders less than estimated.
        let overestimated = self.state() <= CaState::Disorder as u8 && self.cc.sock.sacked_out >= REORDERING;
        if overestimated || self.legacy {
            self.reordering = self.reordering.min(REORDERING);
        }
        self.set_state(CaState::Loss);
        self.recovery.high_seq = self.board.next;
        self.timer.forget_probe();
        self.cwr_pending |= self.ecn && !self.counts_marks;
        self.recovery.frto = !self.legacy && (new_recovery || self.recovery.timeouts_in_row > 0);
        self.recovery.resume();
    }

    /// Grows the window, or reduces it while a reduction is under way.
    #[inline]
    pub(super) fn control_window(&mut self, now: Time, event: &Event) {
        if event.una_advanced {
            self.recovery.timeouts_in_row = 0;
        }
        if self.delivery.is_some() && self.end_sample(now, event) {
            return;
        }
        if reduces_window(self.cc.sock.ca_state) {
            if self.legacy { self.halve_rate() } else { self.proportional_reduction(event) }
        } else if !self.legacy && (event.una_advanced || self.reordering > REORDERING && event.newly_sacked) {
            self.cc.cong_avoid(self.cc.sock.snd_una, event.delivered);
            self.cwnd_stamp = now;
        }
    }

    /// Growth on `linux-2.6`, before loss detection; not for a mark in congestion avoidance, nor during a reduction.
    #[inline]
    pub(super) fn react_legacy(&mut self, now: Time, event: &Event) {
        let sock = &self.cc.sock;
        let marked = event.ece && sock.snd_cwnd >= sock.snd_ssthresh;
        if event.una_advanced && !marked && !reduces_window(sock.ca_state) && !self.cc.has_cong_control() {
            self.grow_legacy(now, event.prior_in_flight);
        }
    }

    /// Grows the window on `linux-2.6`. It counts ACKs, not segments (no appropriate byte counting), and judges the use of
    /// the window by the flight before the ACK, not by the last burst.
    #[inline]
    pub(super) fn grow_legacy(&mut self, now: Time, flight: u32) {
        let cwnd = self.cc.sock.snd_cwnd;
        let limited = flight >= cwnd || 3 * (cwnd - flight) < cwnd;
        if limited {
            self.cc.sock.is_cwnd_limited = 1;
            self.cc.cong_avoid(self.cc.sock.snd_una, 1);
        }
        self.cwnd_stamp = now;
    }

    /// Proportional rate reduction with the slow-start bound while the ACKs show progress (RFC 6937, section 3).
    pub(super) fn proportional_reduction(&mut self, event: &Event) {
        let recovery = &mut self.recovery;
        if event.delivered == 0 || recovery.prior_cwnd == 0 {
            return;
        }
        recovery.prr_delivered += event.delivered;
        let ssthresh = self.cc.sock.snd_ssthresh;
        let sock = &self.cc.sock;
        let in_flight = (sock.packets_out + sock.retrans_out).saturating_sub(sock.sacked_out + sock.lost_out);
        let mut send = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(recovery.prr_delivered);
            share.div_ceil(u64::from(recovery.prior_cwnd)) as i64 - i64::from(recovery.prr_out)
        } else {
            let credit = i64::from(recovery.prr_delivered) - i64::from(recovery.prr_out);
            let mut send = credit.max(i64::from(event.delivered));
            if event.una_advanced && event.newly_lost == 0 {
                send += 1;
            }
            send.min(i64::from(ssthresh - in_flight))
        };
        // The first retransmission is always sent.
        send = send.max(i64::from(recovery.prr_out == 0));
        self.cc.sock.snd_cwnd = (i64::from(in_flight) + send).max(1) as u32;
    }

    /// Rate halving: one segment less for every second ACK, down to the congestion control's minimum.
    fn halve_rate(&mut self) {
        let in_flight = self.in_flight();
        let floor = self.cc.min_cwnd();
        let sock = &mut self.cc.sock;
        let count = sock.snd_cwnd_cnt + 1;
        sock.snd_cwnd_cnt = count & 1;
        if sock.snd_cwnd > floor {
            sock.snd_cwnd -= count >> 1;
        }
        sock.snd_cwnd = sock.snd_cwnd.min(in_flight + 1).max(1);
    }
}
