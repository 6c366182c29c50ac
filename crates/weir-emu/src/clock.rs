//! The clock of the network: nanoseconds of the run, from the monotonic clock of the system.

use weir_sys::clock::monotonic_ns;
use weir_units::Time;

/// A clock that begins at an instant and stops at another.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base_ns: u64,
    end: Time,
}

impl Clock {
    /// Creates a clock that shows 0 at the monotonic instant `base_ns` and stops at `end`.
    pub fn new(base_ns: u64, end: Time) -> Clock {
        Clock { base_ns, end }
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.at(monotonic_ns())
    }

    /// Converts a monotonic instant.
    pub fn at(&self, monotonic_ns: u64) -> Time {
        Time(monotonic_ns.saturating_sub(self.base_ns)).min(self.end)
    }

    /// The instant at which it stops.
    pub fn end(&self) -> Time {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_and_stops() {
        let clock = Clock::new(1000, Time(50));
        assert_eq!([999, 1000, 1010, 1050, 2000].map(|ns| clock.at(ns).0), [0, 0, 10, 50, 50]);
    }
}
