//! Round-trip time estimation and the retransmission timeout.
//!
//! RFC 6298 in Linux' form: `rttvar` is the maximum of the mean deviation over a round, a falling RTT does not raise
//! the variance, and the variance term is at least the minimum RTO.

use weir_plan::Stack;
use weir_units::{Dur, Time};

use crate::ticks;

const MIN_RTO_US: u32 = 200_000;
const MAX_RTO: Dur = Dur::from_secs(120);
/// Before the first sample (RFC 6298, section 2.1).
const INITIAL_RTO: Dur = Dur::from_secs(1);
/// The same for `linux-2.6` (RFC 2988), and after a handshake without a sample (RFC 6298, section 5.7).
const CAUTIOUS_RTO: Dur = Dur::from_secs(3);
/// Timeouts of a connection request before exponential backoff (Linux: `tcp_syn_linear_timeouts`).
const LINEAR_SYN_TIMEOUTS: u32 = 4;
/// The largest sample whose eightfold fits its field.
const MAX_SAMPLE_US: u32 = u32::MAX >> 3;
/// The minimum RTT is taken over this window (Linux: `tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Dur = Dur::from_secs(300);

#[derive(Clone, Debug)]
pub(super) struct Rtt {
    /// Smoothed RTT, microseconds times 8; 0 before the first sample.
    pub srtt_us8: u32,
    /// Mean deviation, microseconds times 4.
    pub mdev_us4: u32,
    mdev_max_us4: u32,
    rttvar_us4: u32,
    round_end: u64,
    /// The timeout counts whole ticks.
    in_ticks: bool,
    /// The timeout before the first sample.
    initial: Dur,
    linear_syn_timeouts: u32,
    backoff: u32,
    min_us: u32,
    min_at: Time,
}

impl Rtt {
    pub fn new(stack: Stack) -> Rtt {
        let (initial, linear_syn_timeouts) = match stack {
            Stack::Linux => (INITIAL_RTO, LINEAR_SYN_TIMEOUTS),
            Stack::Linux26 | Stack::Linux24 => (CAUTIOUS_RTO, 0),
        };
        Rtt {
            in_ticks: stack == Stack::Linux,
            initial,
            linear_syn_timeouts,
            srtt_us8: 0,
            mdev_us4: 0,
            mdev_max_us4: 0,
            rttvar_us4: 0,
            round_end: 0,
            backoff: 0,
            min_us: u32::MAX,
            min_at: Time::ZERO,
        }
    }

    /// Adds a sample; `una` and `next` delimit the flight and so tell rounds apart.
    #[inline]
    pub fn sample(&mut self, now: Time, rtt_us: u32, una: u64, next: u64) {
        let rtt_us = rtt_us.clamp(1, MAX_SAMPLE_US);
        self.sample_min(now, rtt_us);
        self.backoff = 0;
        if self.srtt_us8 == 0 {
            self.srtt_us8 = rtt_us << 3;
            self.mdev_us4 = rtt_us << 1;
            self.rttvar_us4 = self.mdev_us4.max(MIN_RTO_US);
            self.mdev_max_us4 = self.rttvar_us4;
            self.round_end = next;
            return;
        }
        let error = i64::from(rtt_us) - i64::from(self.srtt_us8 >> 3);
        self.srtt_us8 = (i64::from(self.srtt_us8) + error).max(8) as u32;
        let mut deviation = error.abs() - i64::from(self.mdev_us4 >> 2);
        if error < 0 && deviation > 0 {
            // A falling RTT must not inflate the timeout (Eifel, section 6 of the paper).
            deviation >>= 3;
        }
        self.mdev_us4 = (i64::from(self.mdev_us4) + deviation) as u32;
        if self.mdev_us4 > self.mdev_max_us4 {
            self.mdev_max_us4 = self.mdev_us4;
            self.rttvar_us4 = self.rttvar_us4.max(self.mdev_max_us4);
        }
        if una > self.round_end {
            if self.mdev_max_us4 < self.rttvar_us4 {
                self.rttvar_us4 -= (self.rttvar_us4 - self.mdev_max_us4) >> 2;
            }
            self.round_end = next;
            self.mdev_max_us4 = MIN_RTO_US;
        }
    }

    /// Adds a sample to the minimum alone: the most recent segment of an ACK that covers several.
    #[inline]
    pub fn sample_min(&mut self, now: Time, rtt_us: u32) {
        if rtt_us <= self.min_us || now.since(self.min_at) > MIN_RTT_WINDOW {
            self.min_us = rtt_us.max(1);
            self.min_at = now;
        }
    }

    /// Smoothed RTT; none before the first sample.
    pub fn srtt(&self) -> Option<Dur> {
        (self.srtt_us8 > 0).then(|| Dur(u64::from(self.srtt_us8) * 125))
    }

    /// Least RTT of the last minutes, microseconds; `u32::MAX` before the first sample.
    #[inline]
    pub fn min_us(&self) -> u32 {
        self.min_us
    }

    /// The retransmission timeout, with backoff. The timer [counts it](Rtt::counted) in ticks.
    #[inline]
    pub fn rto(&self) -> Dur {
        let base = if self.srtt_us8 == 0 {
            self.initial
        } else {
            Dur::from_micros(u64::from(self.srtt_us8 >> 3) + u64::from(self.rttvar_us4))
        };
        if self.backoff == 0 {
            base.min(MAX_RTO)
        } else {
            Dur(self.counted(base).0 << self.backoff.min(16)).min(MAX_RTO)
        }
    }

    /// A timeout as the stack counts it: in whole ticks, rounded up.
    #[inline]
    pub fn counted(&self, timeout: Dur) -> Dur {
        if self.in_ticks { ticks::ceil(timeout) } else { timeout }
    }

    /// Timeout of connection request number `attempt`, from 1.
    pub fn syn_timeout(&self, attempt: u32) -> Dur {
        let doublings = (attempt - 1).saturating_sub(self.linear_syn_timeouts);
        Dur(self.initial.0 << doublings.min(16)).min(MAX_RTO)
    }

    /// Waits longer before the first sample: after a handshake without one, because the path may be slow, or because the
    /// request may be unwelcome.
    pub fn handshake_without_sample(&mut self) {
        self.initial = CAUTIOUS_RTO;
    }

    /// Doubles the timeout (RFC 6298, section 5.5) until the next sample.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_sets_srtt_and_the_floor_of_the_variance() {
        let mut rtt = Rtt::new(Stack::Linux);
        assert_eq!(rtt.rto(), Dur::from_secs(1));
        rtt.sample(Time(0), 100_000, 0, 10);
        assert_eq!(rtt.srtt(), Some(Dur::from_millis(100)));
        // mdev = rtt / 2, scaled by 4: 200 ms; so RTO = 100 + 200 ms.
        assert_eq!(rtt.rto(), Dur::from_millis(300));
    }

    #[test]
    fn a_steady_rtt_keeps_the_variance_term_at_the_minimum_rto() {
        let mut rtt = Rtt::new(Stack::Linux);
        for round in 0..200 {
            rtt.sample(Time(round * 50_000_000), 50_000, round * 10 + 1, round * 10 + 10);
        }
        assert_eq!(rtt.rto(), Dur::from_millis(250));
    }

    #[test]
    fn backing_off_doubles_and_a_sample_ends_it() {
        let mut rtt = Rtt::new(Stack::Linux);
        rtt.sample(Time(0), 100_000, 0, 1);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), Dur::from_millis(1200));
        rtt.sample(Time(1), 100_000, 1, 2);
        assert!(rtt.rto() <= Dur::from_millis(300));
        for _ in 0..20 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), MAX_RTO);
    }

    #[test]
    fn connection_requests_are_repeated_as_the_stacks_do() {
        let seconds = |stack, attempts| -> Vec<u64> {
            (1..=attempts).map(|n| Rtt::new(stack).syn_timeout(n).0 / 1_000_000_000).collect()
        };
        assert_eq!(seconds(Stack::Linux, 9), [1, 1, 1, 1, 1, 2, 4, 8, 16]);
        assert_eq!(seconds(Stack::Linux26, 5), [3, 6, 12, 24, 48]);
    }

    /// Eifel: a falling RTT widens the variance at an eighth of the usual gain.
    #[test]
    fn a_falling_rtt_hardly_widens_the_timeout() {
        let mut rtt = Rtt::new(Stack::Linux);
        rtt.sample(Time(0), 1_000_000, 0, 1);
        assert_eq!(rtt.rto(), Dur::from_secs(3));
        rtt.sample(Time(1), 100_000, 1, 2);
        // Error 900 ms, less a quarter of the deviation of 2 s: 400 ms; an eighth of it is 50 ms.
        assert_eq!(rtt.rto(), Dur::from_micros(887_500 + 2_050_000));
        assert_eq!(rtt.counted(rtt.rto()), Dur::from_millis(2_938));
    }

    #[test]
    fn srtt_moves_by_an_eighth_of_the_error() {
        let mut rtt = Rtt::new(Stack::Linux);
        rtt.sample(Time(0), 80_000, 0, 1);
        rtt.sample(Time(1), 160_000, 1, 2);
        assert_eq!(rtt.srtt(), Some(Dur::from_micros(90_000)));
    }
}
