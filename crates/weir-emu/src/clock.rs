//! The clock of the network: nanoseconds of the run, from the monotonic clock of the system.

use weir_units::Time;

use crate::sys;

/// Calls by which the clock is tried, and less than any computer needs for one.
const TRIALS: u64 = 100;
const LESS_THAN_A_CALL_NS: u64 = 10;

/// A clock that begins at an instant and stops at another.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base_ns: u64,
    end: Time,
}

impl Clock {
    /// A clock that is 0 at the monotonic instant `base_ns` and stops at `end`.
    pub fn new(base_ns: u64, end: Time) -> Clock {
        Clock { base_ns, end }
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.at(sys::monotonic_ns())
    }

    /// What it shows at a monotonic instant.
    pub fn at(&self, monotonic_ns: u64) -> Time {
        Time(monotonic_ns.saturating_sub(self.base_ns)).min(self.end)
    }

    /// Where it stops.
    pub fn end(&self) -> Time {
        self.end
    }
}

/// Whether the clock of this machine stands still while programs compute, as in the lab: there, nothing is late.
pub fn stands_still() -> bool {
    let begun = sys::monotonic_ns();
    for _ in 0..TRIALS {
        sys::do_nothing();
    }
    sys::monotonic_ns() - begun < TRIALS * LESS_THAN_A_CALL_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_and_stops() {
        let clock = Clock::new(1000, Time(50));
        assert_eq!([999, 1000, 1010, 1050, 2000].map(|ns| clock.at(ns).0), [0, 0, 10, 50, 50]);
    }

    #[test]
    fn time_passes_here() {
        assert!(!stands_still());
    }
}
