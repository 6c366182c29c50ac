//! The start of a run.

use serde::{Deserialize, Serialize};

/// A clock of the machine that runs a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: of this machine alone. To name it, first ask the machine for a reading.
    Monotonic,
    /// `CLOCK_REALTIME`, nanoseconds since the Unix epoch: common to synchronised machines.
    Realtime,
}

/// Instant 0 of the plan, as a time after a clock's reading. A machine cannot read another machine's clock, and its own
/// means nothing to others: to start processes on several machines, name a reading of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The clock.
    pub clock: Clock,
    /// A reading of it, past or future.
    pub reading_ns: u64,
    /// Time from that reading to instant 0.
    pub after_ns: u64,
}

impl Start {
    /// Instant 0 on `CLOCK_MONOTONIC`; the functions read this machine's clocks.
    pub fn epoch_ns(self, monotonic_ns: impl FnOnce() -> u64, realtime_ns: impl FnOnce() -> u64) -> u64 {
        let at_ns = self.reading_ns.saturating_add(self.after_ns);
        match self.clock {
            Clock::Monotonic => at_ns,
            Clock::Realtime => {
                let (monotonic_ns, realtime_ns) = (monotonic_ns(), realtime_ns());
                monotonic_ns.saturating_add_signed(at_ns.wrapping_sub(realtime_ns) as i64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch_ns(clock: Clock, reading_ns: u64, after_ns: u64) -> u64 {
        Start { clock, reading_ns, after_ns }.epoch_ns(|| 1_000, || 1_700_000_000_000_000_000)
    }

    #[test]
    fn a_start_by_the_own_clock_is_exact_whenever_it_is_read() {
        assert_eq!(epoch_ns(Clock::Monotonic, 400, 50), 450);
        assert_eq!(epoch_ns(Clock::Monotonic, 5_000, 0), 5_000);
        assert_eq!(epoch_ns(Clock::Monotonic, u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn a_start_by_the_calendar_is_as_far_ahead_on_the_own_clock() {
        assert_eq!(epoch_ns(Clock::Realtime, 1_700_000_000_000_000_000, 70), 1_070);
        assert_eq!(epoch_ns(Clock::Realtime, 1_699_999_999_999_999_900, 70), 970, "it is past");
        assert_eq!(epoch_ns(Clock::Realtime, 5, 70), 0, "before this machine was switched on");
    }
}
