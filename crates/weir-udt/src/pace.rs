//! The spacing of packets (section 6.1): an interval between packets, pairs, and the timer of the host.

use weir_units::{Dur, Time};

/// Every so many packets, two leave together, so that the receiver sees the capacity of the path.
const PAIR_EVERY: u64 = 16;

/// A step of a rate profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From this instant on, the rate holds.
    pub at: Time,
    /// Rate of the IP packets, bits per second.
    pub rate_bps: u64,
}

/// The intervals of a rate profile, such that the mean rate is that of the profile in spite of the pairs.
pub(crate) fn profile_period_ns(steps: &[Step], at_ns: f64, packet_bytes: u32) -> f64 {
    let step = steps.iter().rev().find(|step| step.at.0 as f64 <= at_ns).or(steps.first());
    let rate = step.map_or(1, |step| step.rate_bps.max(1));
    let gaps = PAIR_EVERY as f64 / (PAIR_EVERY - 1) as f64;
    f64::from(packet_bytes) * 8e9 / rate as f64 * gaps
}

/// When packets may leave.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// The next packet may leave at this instant, nanoseconds.
    ready_ns: f64,
    /// There was nothing to send, or no room in the window.
    idle: bool,
    /// The host's timer wakes the sender at multiples of this time only, after `phase_ns`.
    timer: Dur,
    phase_ns: u64,
}

impl Pacer {
    pub fn new(timer: Dur, seed: u64) -> Pacer {
        Pacer { ready_ns: 0.0, idle: true, timer, phase_ns: if timer.0 > 0 { seed % timer.0 } else { 0 } }
    }

    /// Nothing can be sent: the time until something can does not count as lateness.
    pub fn stall(&mut self) {
        self.idle = true;
    }

    /// Something can be sent from `now` on.
    pub fn resume(&mut self, now: Time) {
        if std::mem::take(&mut self.idle) {
            self.ready_ns = self.ready_ns.max(now.0 as f64);
        }
    }

    pub fn ready_ns(&self) -> f64 {
        self.ready_ns
    }

    /// When the host sends the next packet: at the first tick of its timer from then on.
    pub fn due(&self) -> Time {
        let ready = self.ready_ns.ceil() as u64;
        if self.timer.0 == 0 {
            return Time(ready);
        }
        let ticks = ready.saturating_sub(self.phase_ns).div_ceil(self.timer.0);
        Time(self.phase_ns + ticks * self.timer.0)
    }

    /// Packet `number` leaves; the next one follows after `period_ns`, or at once if both are a pair.
    pub fn sent(&mut self, number: u64, resent: bool, period_ns: f64) {
        if resent || number % PAIR_EVERY != 0 {
            self.ready_ns += period_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_packets_take_their_time_in_fifteen_intervals() {
        let steps =
            [Step { at: Time(0), rate_bps: 12_000_000 }, Step { at: Time(1_000_000_000), rate_bps: 24_000_000 }];
        let mut pacer = Pacer::new(Dur::ZERO, 5);
        for number in 0..1600 {
            let period = profile_period_ns(&steps, pacer.ready_ns(), 1500);
            pacer.sent(number, false, period);
        }
        // 1000 packets at 12 Mb/s take a second, 600 more at twice the rate 0.3 s.
        assert!((pacer.ready_ns() - 1.3e9).abs() < 1e6, "{}", pacer.ready_ns());
    }

    #[test]
    fn a_coarse_timer_wakes_at_its_ticks() {
        let mut pacer = Pacer::new(Dur(4_000_000), 9_000_000);
        pacer.resume(Time(2_000_000));
        assert_eq!(pacer.due(), Time(5_000_000));
        pacer.sent(1, false, 3_000_000.0);
        assert_eq!(pacer.due(), Time(5_000_000), "it was due at the tick");
        pacer.sent(2, false, 1.0);
        assert_eq!(pacer.due(), Time(9_000_000));
    }

    #[test]
    fn a_stall_is_not_made_up_for() {
        let mut pacer = Pacer::new(Dur::ZERO, 0);
        pacer.resume(Time(100));
        pacer.sent(1, false, 50.0);
        pacer.stall();
        pacer.resume(Time(120));
        assert_eq!(pacer.due(), Time(150), "the interval holds");
        pacer.stall();
        pacer.resume(Time(1000));
        assert_eq!(pacer.due(), Time(1000));
    }
}
