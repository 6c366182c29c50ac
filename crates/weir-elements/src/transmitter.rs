//! The transmitter of a link: puts packets on the wire one after the other, exactly.
//!
//! A packet of `b` bytes takes `8e9 b / rate` nanoseconds, seldom a whole number. The part below a nanosecond is carried
//! to the next packet of a busy period as a numerator over the rate, so that the n-th departure is the exact rational
//! rounded up, whatever n.
//!
//! Train: [`Transmitter::transmit`] with the bytes of the whole train gives the departure of its last packet; the same
//! instant as one call for each.

use weir_units::{Rate, Time};

const BIT_NS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// How long a size takes: `ns + numerator / rate` nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Cached {
    bytes: u32,
    ns: u64,
    numerator: u64,
}

/// Never asked for: marks an empty place of the cache.
const NO_SIZE: Cached = Cached { bytes: u32::MAX, ns: 0, numerator: 0 };

/// An analytic transmitter: knows until when it is busy.
#[derive(Clone, Debug)]
pub struct Transmitter {
    rate: u64,
    /// Busy until `busy_ns + busy_numerator / rate` nanoseconds.
    busy_ns: u64,
    busy_numerator: u64,
    /// The two sizes of most traffic, full packets and acknowledgements, cost no division.
    cache: [Cached; 2],
    oldest: usize,
}

impl Transmitter {
    /// A transmitter that is idle at the start of the run.
    pub fn new(rate: Rate) -> Transmitter {
        Transmitter { rate: rate.0, busy_ns: 0, busy_numerator: 0, cache: [NO_SIZE; 2], oldest: 0 }
    }

    /// The rate; zero while it is stopped.
    pub fn rate(&self) -> Rate {
        Rate(self.rate)
    }

    /// Whether its rate is zero: nothing may be transmitted until the next [`set_rate`](Transmitter::set_rate).
    pub fn is_stopped(&self) -> bool {
        self.rate == 0
    }

    /// The departure of the last packet: the transmitter is idle from then on.
    #[inline]
    pub fn busy_until(&self) -> Time {
        Time(self.busy_ns + u64::from(self.busy_numerator != 0))
    }

    /// Whether a packet that arrives at `now` begins at once.
    #[inline]
    pub fn is_idle(&self, now: Time) -> bool {
        self.busy_until() <= now
    }

    /// Transmits `wire_bytes` from `now`, or from the end of the busy period; returns the departure of the last bit.
    ///
    /// A packet offered in the very nanosecond in which the last one departs continues its busy period: that is how a
    /// queue which is drained by events at whole nanoseconds loses no time.
    ///
    /// # Panics
    /// When the transmitter is stopped.
    #[inline]
    pub fn transmit(&mut self, now: Time, wire_bytes: u32) -> Time {
        if now > self.busy_until() {
            self.busy_ns = now.0;
            self.busy_numerator = 0;
        }
        let (ns, numerator) = self.duration(wire_bytes);
        let numerator = self.busy_numerator + numerator;
        let carry = u64::from(numerator >= self.rate);
        self.busy_ns += ns + carry;
        self.busy_numerator = numerator - carry * self.rate;
        self.busy_until()
    }

    /// Changes the rate, from the next packet on; the one in transmission keeps its departure. Zero stops it.
    pub fn set_rate(&mut self, rate: Rate) {
        if self.busy_numerator != 0 {
            // The fraction moves to the new denominator, rounded up; without a new rate, to a whole nanosecond.
            let scaled = (u128::from(self.busy_numerator) * u128::from(rate.0)).div_ceil(u128::from(self.rate)) as u64;
            let whole = u64::from(scaled >= rate.0);
            self.busy_ns += whole;
            self.busy_numerator = if whole == 1 { 0 } else { scaled };
        }
        self.rate = rate.0;
        self.cache = [NO_SIZE; 2];
    }

    #[inline]
    fn duration(&mut self, bytes: u32) -> (u64, u64) {
        if self.cache[0].bytes == bytes {
            return (self.cache[0].ns, self.cache[0].numerator);
        }
        if self.cache[1].bytes == bytes {
            return (self.cache[1].ns, self.cache[1].numerator);
        }
        self.divide(bytes)
    }

    #[cold]
    fn divide(&mut self, bytes: u32) -> (u64, u64) {
        assert!(self.rate != 0, "a stopped transmitter cannot transmit");
        // 2^31 bytes, a second of 17 Gb/s, still fit 64 bits.
        assert!(bytes <= 1 << 31, "{bytes} bytes are no packet");
        let bit_ns = u64::from(bytes) * BIT_NS_PER_BYTE;
        let entry = Cached { bytes, ns: bit_ns / self.rate, numerator: bit_ns % self.rate };
        self.cache[self.oldest] = entry;
        self.oldest ^= 1;
        (entry.ns, entry.numerator)
    }
}
