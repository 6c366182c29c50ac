//! Time, rate, bytes, histograms of durations, seeded random streams, and prefetching.
//!
//! Every quantity inside weir is an integer: nanoseconds, bytes, bits per second. This crate gives them types so that
//! they cannot be mixed up, and the one source of randomness: named substreams of a seed. It reads no clock and no
//! entropy.

mod fetch;
mod histogram;
mod quantity;
mod random;

pub use fetch::{fetch, fetch_first, fetch_line};
pub use histogram::{Bin, Histogram, STEPS};
pub use quantity::{Bytes, Dur, Rate, Time};
pub use random::{Distribution, DistributionError, Sampler, Stream};
