//! Token buckets, and the exact count of bits on which they and credits are based.

use weir_units::{Rate, Time};

const NS_PER_S: u64 = 1_000_000_000;

/// The bits that pass at a rate, exactly.
#[derive(Clone, Debug)]
pub(crate) struct BitClock {
    pub rate: Rate,
    last: Time,
    /// Remainder, in bits times 1e-9.
    rest: u64,
}

impl BitClock {
    pub fn new(rate: Rate) -> BitClock {
        BitClock { rate, last: Time::ZERO, rest: 0 }
    }

    /// Whole bits since the last call.
    #[inline]
    pub fn advance(&mut self, now: Time) -> i64 {
        let elapsed = now.since(self.last).0;
        self.last = now;
        let sum = elapsed.checked_mul(self.rate.0).and_then(|product| product.checked_add(self.rest));
        let Some(sum) = sum else { return self.advance_far(elapsed) };
        self.rest = sum % NS_PER_S;
        (sum / NS_PER_S) as i64
    }

    #[cold]
    fn advance_far(&mut self, elapsed: u64) -> i64 {
        let sum = u128::from(elapsed) * u128::from(self.rate.0) + u128::from(self.rest);
        self.rest = (sum % u128::from(NS_PER_S)) as u64;
        i64::try_from(sum / u128::from(NS_PER_S)).unwrap_or(i64::MAX)
    }

    /// The first instant at which `bits` more will have passed since the last call; none at rate zero.
    fn after(&self, bits: u64) -> Option<Time> {
        let needed = u128::from(bits) * u128::from(NS_PER_S) - u128::from(self.rest);
        let ns = (self.rate.0 > 0).then(|| needed.div_ceil(u128::from(self.rate.0)))?;
        Some(Time(self.last.0.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))))
    }
}

/// A token bucket, full at the begin.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    clock: BitClock,
    burst: i64,
    /// Bits in it.
    tokens: i64,
}

impl Bucket {
    /// A bucket of `burst_bytes` that fills at `rate`.
    pub fn new(rate: Rate, burst_bytes: u64) -> Bucket {
        let burst = (burst_bytes * 8) as i64;
        Bucket { clock: BitClock::new(rate), burst, tokens: burst }
    }

    /// Adds what has come since the last call; returns the bits that the bucket could not hold.
    pub fn fill(&mut self, now: Time) -> i64 {
        let sum = self.tokens.saturating_add(self.clock.advance(now));
        self.tokens = sum.min(self.burst);
        if sum >= self.burst {
            // A full bucket holds no part of a bit besides.
            self.clock.rest = 0;
        }
        sum - self.tokens
    }

    /// Fills at `rate` from `now` on; returns the bits until then that it could not hold.
    pub fn set_rate(&mut self, now: Time, rate: Rate) -> i64 {
        let over = self.fill(now);
        self.clock.rate = rate;
        over
    }

    /// Adds bits that another bucket could not hold.
    pub fn pour(&mut self, bits: i64) {
        self.tokens = self.tokens.saturating_add(bits).min(self.burst);
    }

    /// Whether it has the tokens for `bytes`.
    pub fn has(&self, bytes: u32) -> bool {
        self.tokens >= i64::from(bytes) * 8
    }

    /// Takes the tokens for `bytes`; without them, it is in debt.
    pub fn take(&mut self, bytes: u32) {
        self.tokens -= i64::from(bytes) * 8;
    }

    /// The first instant at which it will have the tokens for `bytes`, after a call of [`fill`](Bucket::fill).
    pub fn ready_at(&self, bytes: u32) -> Option<Time> {
        let missing = i64::from(bytes) * 8 - self.tokens;
        if missing <= 0 { Some(self.clock.last) } else { self.clock.after(missing as u64) }
    }
}
