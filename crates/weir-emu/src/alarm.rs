//! The length of sleeps: kernel timers fire late, by an amount that depends on machine and load.
//!
//! The alarm is set early by the 90th percentile of past lateness, and the loop spins through the rest. The estimate
//! rises by nine parts after a later timer and falls by one part otherwise, so that it settles at that percentile
//! (H. Robbins and S. Monro, "A stochastic approximation method", 1951).
//!
//! Spinning takes the processor from the hosts, and the kernel stops a real-time thread that never sleeps for 50 ms at
//! a time. So spinning has a budget, a share of the time with a limit at once. Without budget, the loop sleeps, and is
//! as late as the timers.

use weir_units::{Dur, Time};

/// The loop may spin for one part in this many of the time.
const SHARE: u64 = 4;
/// Maximum spinning at once, after a long sleep.
const BURST: Dur = Dur::from_micros(500);
const UP: Dur = Dur::from_nanos(900);
const DOWN: Dur = Dur::from_nanos(100);

/// An alarm that learns the lateness of timers.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    lateness: Dur,
    most: Dur,
    budget: Dur,
    /// The budget is up to date until this instant.
    accounted: Time,
}

impl Alarm {
    /// Creates an alarm that is never early by more than `most`.
    pub fn new(most: Dur) -> Alarm {
        Alarm { lateness: Dur(most.0 / 2), most, budget: BURST, accounted: Time::ZERO }
    }

    /// The sleep at `now` before an event due in `wait`; the loop spins through the rest.
    pub fn sleep(&mut self, now: Time, wait: Dur) -> Dur {
        self.budget = (self.budget + Dur(now.since(self.accounted).0 / SHARE)).min(BURST);
        self.accounted = now;
        if self.budget < self.lateness.min(wait) { wait } else { wait - self.lateness }
    }

    /// Records that the loop spun for `time`.
    pub fn spun(&mut self, time: Dur) {
        self.budget = self.budget - time;
    }

    /// Records that the timer fired `late`.
    pub fn rang(&mut self, late: Dur) {
        self.lateness = if late > self.lateness { (self.lateness + UP).min(self.most) } else { self.lateness - DOWN };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_what_nine_in_ten_are_late() {
        let mut alarm = Alarm::new(Dur::from_micros(60));
        // Late by 1 to 50 us, evenly.
        (0..200_000u64).for_each(|n| alarm.rang(Dur::from_micros(1 + n * 7 % 50)));
        let early = Dur::from_millis(1) - alarm.sleep(Time(0), Dur::from_millis(1));
        assert!((43_000..=47_000).contains(&early.0), "{early:?}");
    }

    #[test]
    fn it_is_never_set_too_early() {
        let mut alarm = Alarm::new(Dur::from_micros(60));
        (0..1000).for_each(|_| alarm.rang(Dur::from_millis(5)));
        assert_eq!(alarm.sleep(Time(0), Dur::from_micros(100)), Dur::from_micros(40));
        assert_eq!(alarm.sleep(Time(0), Dur::from_micros(10)), Dur::ZERO);
    }

    #[test]
    fn a_quarter_of_the_time_may_be_spun_and_no_more() {
        let mut alarm = Alarm::new(Dur::from_micros(60));
        let (mut now, mut spun) = (Time(0), Dur::ZERO);
        let wait = Dur::from_micros(12);
        while now < Time(1_000_000_000) {
            if alarm.sleep(now, wait) == Dur::ZERO {
                alarm.spun(wait);
                spun += wait;
            }
            now += wait;
        }
        assert!((240_000_000..=260_000_000).contains(&spun.0), "{spun:?}");
    }
}
