//! How long to sleep: a timer of the kernel rings late, by an amount that is of the machine and its load.
//!
//! The alarm is set early by what nine timers in ten were late so far, and the loop spins through the rest. The estimate
//! moves up by nine parts where a timer was later and down by one part where it was not, so that it settles at that
//! quantile (H. Robbins and S. Monro, "A stochastic approximation method", 1951).
//!
//! Spinning takes the processor from the hosts, and a thread of real-time priority that never sleeps is stopped by the
//! kernel for 50 ms at a time. So there is a budget: a share of the time may be spun, and no more than some of it at once; beyond it, the loop sleeps
//! and is as late as timers are.

use weir_units::{Dur, Time};

/// Of the time, one part in this many may be spun.
const SHARE: u64 = 4;
/// Most that may be spun at once, after sleeping for long.
const BURST: Dur = Dur::from_micros(500);
const UP: Dur = Dur::from_nanos(900);
const DOWN: Dur = Dur::from_nanos(100);

/// An alarm that learns.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    lateness: Dur,
    most: Dur,
    budget: Dur,
    /// Until when the budget is accounted for.
    accounted: Time,
}

impl Alarm {
    /// An alarm that is never set early by more than `most`.
    pub fn new(most: Dur) -> Alarm {
        Alarm { lateness: Dur(most.0 / 2), most, budget: BURST, accounted: Time::ZERO }
    }

    /// How long to sleep at `now` before something that is due in `wait`; the rest is to be spun through.
    pub fn sleep(&mut self, now: Time, wait: Dur) -> Dur {
        self.budget = (self.budget + Dur(now.since(self.accounted).0 / SHARE)).min(BURST);
        self.accounted = now;
        if self.budget < self.lateness.min(wait) { wait } else { wait - self.lateness }
    }

    /// The loop span for so long.
    pub fn spun(&mut self, time: Dur) {
        self.budget = self.budget - time;
    }

    /// It rang `late`.
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
