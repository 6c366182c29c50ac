//! Delay lines: fixed, with jitter, and with a share of late packets.
//!
//! - Fixed: every packet the same.
//! - Jitter: the delay of each packet deviates from the mean, uniformly within the half width or normally with the standard
//!   deviation, and is never negative. Unless packets may overtake, each is held until its predecessor has left: the
//!   order is kept, and the mean delay grows when packets are closer than the jitter.
//! - Reorder: a packet is later by a fixed amount with some probability, so that others overtake it.
//!
//! Train: only a fixed delay treats its packets alike. Where [`DelayLine::is_fixed`] says none, take the train apart first.

use weir_plan::Delay;
use weir_units::{Distribution, Dur, Sampler, Stream, Time};

/// Gives each packet the instant at which it reaches the far end.
#[derive(Clone, Debug)]
pub struct DelayLine {
    kind: Kind,
    stream: Stream,
    /// The last release, for lines that keep the order.
    last: Time,
}

#[derive(Clone, Debug)]
enum Kind {
    Fixed(Dur),
    Uniform { least: i64, width: u64, reorder: bool },
    Normal { mean: f64, deviation: Box<Sampler>, reorder: bool },
    Reorder { delay: Dur, extra: Dur, probability: f64 },
}

impl DelayLine {
    /// The line of the plan, which draws from `stream`.
    pub fn from_plan(delay: &Delay, stream: Stream) -> DelayLine {
        DelayLine { kind: Kind::from_plan(delay), stream, last: Time::ZERO }
    }

    /// Replaces the delay from the next packet on. A line that keeps the order keeps it across the change; a shorter
    /// fixed delay lets packets overtake those already in the line, as a change of route does.
    pub fn change(&mut self, delay: &Delay) {
        self.kind = Kind::from_plan(delay);
    }

    /// The delay, when it is the same for every packet.
    pub fn is_fixed(&self) -> Option<Dur> {
        match self.kind {
            Kind::Fixed(delay) => Some(delay),
            _ => None,
        }
    }

    /// Whether a packet may overtake another one.
    pub fn may_reorder(&self) -> bool {
        match self.kind {
            Kind::Fixed(_) => false,
            Kind::Uniform { reorder, .. } | Kind::Normal { reorder, .. } => reorder,
            Kind::Reorder { .. } => true,
        }
    }

    /// When the packet whose last bit left the transmitter at `departure` reaches the far end.
    #[inline]
    pub fn release_time(&mut self, departure: Time) -> Time {
        match self.kind {
            Kind::Fixed(delay) => departure + delay,
            _ => self.draw(departure),
        }
    }

    fn draw(&mut self, departure: Time) -> Time {
        let (delay, reorder) = match &self.kind {
            Kind::Fixed(delay) => (*delay, true),
            Kind::Uniform { least, width, reorder } => {
                // The high half of a product spreads 64 random bits over 0..=width without a division.
                let offset = (u128::from(self.stream.bits()) * (u128::from(*width) + 1)) >> 64;
                (Dur(least.saturating_add_unsigned(offset as u64).max(0) as u64), *reorder)
            }
            Kind::Normal { mean, deviation, reorder } => {
                // A conversion from floating point saturates: a negative delay becomes zero.
                (Dur((mean + self.stream.draw(deviation)).round() as u64), *reorder)
            }
            Kind::Reorder { delay, extra, probability } => {
                (if self.stream.chance(*probability) { *delay + *extra } else { *delay }, true)
            }
        };
        let release = departure + delay;
        if reorder {
            return release;
        }
        self.last = self.last.max(release);
        self.last
    }
}

impl Kind {
    fn from_plan(delay: &Delay) -> Kind {
        match *delay {
            Delay::Fixed { delay_ns } | Delay::Jitter { delay_ns, jitter_ns: 0, .. } => Kind::Fixed(Dur(delay_ns)),
            Delay::Jitter { delay_ns, jitter_ns, normal: false, reorder } => {
                Kind::Uniform { least: delay_ns as i64 - jitter_ns as i64, width: 2 * jitter_ns, reorder }
            }
            Delay::Jitter { delay_ns, jitter_ns, normal: true, reorder } => {
                let deviation = Distribution::Normal { mean: 0.0, sd: jitter_ns as f64 };
                let deviation = Box::new(deviation.sampler().expect("an integer is a finite standard deviation"));
                Kind::Normal { mean: delay_ns as f64, deviation, reorder }
            }
            Delay::Reorder { delay_ns, extra_ns, probability } => {
                Kind::Reorder { delay: Dur(delay_ns), extra: Dur(extra_ns), probability }
            }
        }
    }
}
