//! Newtypes over `u64`: instants, durations, rates and sizes.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

const NS_PER_S: u64 = 1_000_000_000;

/// An instant, in nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dur(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any instant of a run: "never".
    pub const MAX: Time = Time(u64::MAX);

    /// The duration since `earlier`, zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Dur {
        Dur(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NS_PER_S as f64
    }
}

impl Dur {
    /// The zero duration.
    pub const ZERO: Dur = Dur(0);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Dur {
        Dur(n)
    }
    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Dur {
        Dur(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Dur {
        Dur(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Dur {
        Dur(n * NS_PER_S)
    }
    /// Nanoseconds.
    pub fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NS_PER_S as f64
    }
}

impl Rate {
    /// `n` bits per second.
    pub const fn from_bps(n: u64) -> Rate {
        Rate(n)
    }
    /// `n` megabits (10^6) per second.
    pub const fn from_mbps(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }
    /// `n` gigabits (10^9) per second.
    pub const fn from_gbps(n: u64) -> Rate {
        Rate(n * NS_PER_S)
    }

    /// Time that `bytes` take at this rate, rounded up to a nanosecond.
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn time_for(self, bytes: Bytes) -> Dur {
        let bits_ns = u128::from(bytes.0) * 8 * u128::from(NS_PER_S);
        Dur(bits_ns.div_ceil(u128::from(self.0)) as u64)
    }

    /// Whole bytes that this rate carries in `d`.
    pub fn bytes_in(self, d: Dur) -> Bytes {
        Bytes((u128::from(self.0) * u128::from(d.0) / (8 * u128::from(NS_PER_S))) as u64)
    }
}

impl Add<Dur> for Time {
    type Output = Time;
    fn add(self, d: Dur) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Dur> for Time {
    fn add_assign(&mut self, d: Dur) {
        *self = *self + d;
    }
}
impl Add for Dur {
    type Output = Dur;
    fn add(self, d: Dur) -> Dur {
        Dur(self.0.saturating_add(d.0))
    }
}
impl AddAssign for Dur {
    fn add_assign(&mut self, d: Dur) {
        *self = *self + d;
    }
}
impl Sub for Dur {
    type Output = Dur;
    fn sub(self, d: Dur) -> Dur {
        Dur(self.0.saturating_sub(d.0))
    }
}
impl Mul<u64> for Dur {
    type Output = Dur;
    fn mul(self, n: u64) -> Dur {
        Dur(self.0.saturating_mul(n))
    }
}
impl Add for Bytes {
    type Output = Bytes;
    fn add(self, b: Bytes) -> Bytes {
        Bytes(self.0 + b.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, b: Bytes) {
        self.0 += b.0;
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, b: Bytes) {
        self.0 -= b.0;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}
impl fmt::Display for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_twelve_microseconds_at_a_gigabit() {
        assert_eq!(Rate::from_gbps(1).time_for(Bytes(1500)), Dur::from_micros(12));
    }

    #[test]
    fn serialisation_rounds_up_so_that_a_link_never_beats_its_rate() {
        assert_eq!(Rate::from_bps(3).time_for(Bytes(1)), Dur(2_666_666_667));
    }

    #[test]
    fn bytes_in_is_the_inverse_of_time_for() {
        let rate = Rate::from_gbps(10);
        assert_eq!(rate.bytes_in(rate.time_for(Bytes(9000))), Bytes(9000));
    }
}
