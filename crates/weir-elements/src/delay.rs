//! Delay lines: fixed, with jitter, and with a share of delayed packets.
//!
//! - Fixed: the same delay for every packet.
//! - Jitter: the delay of each packet deviates from the mean, uniformly within the half width or normally with the
//!   standard deviation, and is never negative. Unless packets may overtake, each waits until its predecessor has left:
//!   the order is kept, and the mean delay grows when packets are closer than the jitter.
//! - Reorder: with some probability a packet is delayed by a further fixed time, so that others overtake it.
//!
//! Train: only a fixed delay treats its packets alike. If [`DelayLine::is_fixed`] is none, take the train apart first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Distribution, Dur, Sampler, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Key, Kind, Place, check, check_probability, key};

/// A delay line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Delay {
    /// The same delay for every packet.
    Fixed {
        /// Delay.
        delay_ns: u64,
    },
    /// `delay_ns` plus a normal or uniform deviation drawn for each packet; never negative.
    Jitter {
        /// Mean delay.
        delay_ns: u64,
        /// Standard deviation (normal) or half width (uniform).
        jitter_ns: u64,
        /// Normal instead of uniform.
        normal: bool,
        /// Whether a packet may overtake another one; if not, each waits until its predecessor has left.
        reorder: bool,
    },
    /// `delay_ns`; with probability `probability` a packet takes `extra_ns` longer, so that others overtake it.
    Reorder {
        /// Delay of the other packets.
        delay_ns: u64,
        /// Additional delay of a chosen packet.
        extra_ns: u64,
        /// Probability that a packet is chosen.
        probability: f64,
    },
}

impl Delay {
    /// The maximum delay of the line: with the half width or one standard deviation of jitter, or with the additional
    /// delay of chosen packets.
    pub fn max_ns(&self) -> u64 {
        match *self {
            Delay::Fixed { delay_ns } => delay_ns,
            Delay::Jitter { delay_ns, jitter_ns, .. } => delay_ns + jitter_ns,
            Delay::Reorder { delay_ns, extra_ns, .. } => delay_ns + extra_ns,
        }
    }

    /// Checks the parameters; `at` is the place of the delay line in the plan.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn validate(&self, at: &str) -> Result<(), Fault> {
        // Four years: sums with an instant of the run do not overflow 64 bits.
        let most = i64::MAX as u64 / 64;
        let (delay_ns, more_ns) = match *self {
            Delay::Fixed { delay_ns } => (delay_ns, 0),
            Delay::Jitter { delay_ns, jitter_ns, .. } => (delay_ns, jitter_ns),
            Delay::Reorder { delay_ns, extra_ns, probability } => {
                check_probability(probability, &format!("{at}.probability"))?;
                (delay_ns, extra_ns)
            }
        };
        check(delay_ns.max(more_ns) <= most, || at.into(), format!("a delay has at most {most} ns"))
    }
}

const DELAY: Key = key("delay", "delay_ns", Kind::Time { positive: false }, "One-way propagation delay.").or("0");

pub(crate) const FIXED: ElementInfo = ElementInfo::new(
    "fixed",
    Place::Delay,
    "The same delay for every packet",
    "",
    &[Form { name: "delay", title: "The same delay for every packet.", keys: &[DELAY] }],
);

pub(crate) const JITTER: ElementInfo = ElementInfo::new(
    "jitter",
    Place::Delay,
    "A delay that deviates at random, in order or not",
    "",
    &[Form {
        name: "jitter",
        title: "A random deviation of each packet's delay.",
        keys: &[
            DELAY,
            key(
                "deviation",
                "jitter_ns",
                Kind::Time { positive: false },
                "Standard deviation (normal) or half width (uniform).",
            ),
            key("distribution", "normal", Kind::Distribution, "Its distribution.").or("normal"),
            key(
                "overtaking",
                "reorder",
                Kind::Flag,
                "Whether a packet may overtake another. Default: each waits until its predecessor has left.",
            )
            .or("false"),
        ],
    }],
)
.random();

pub(crate) const REORDER: ElementInfo = ElementInfo::new(
    "reorder",
    Place::Delay,
    "Makes some packets late, so that others overtake them",
    "",
    &[Form {
        name: "reorder",
        title: "Randomly chosen packets take longer, so that others overtake them.",
        keys: &[
            DELAY,
            key("probability", "probability", Kind::Probability, "Probability that a packet is chosen."),
            key("extra", "extra_ns", Kind::Time { positive: false }, "Additional delay of a chosen packet."),
        ],
    }],
)
.random();

/// Computes the arrival of each packet at the far end.
#[derive(Clone, Debug)]
pub struct DelayLine {
    kind: Line,
    stream: Stream,
    /// The last arrival, for lines that keep the order.
    last: Time,
}

#[derive(Clone, Debug)]
enum Line {
    Fixed(Dur),
    Uniform { least: i64, width: u64, reorder: bool },
    Normal { mean: f64, deviation: Box<Sampler>, reorder: bool },
    Reorder { delay: Dur, extra: Dur, probability: f64 },
}

impl DelayLine {
    /// The line of the plan; it draws from `stream`.
    pub fn from_plan(delay: &Delay, stream: Stream) -> DelayLine {
        DelayLine { kind: Line::from_plan(delay), stream, last: Time::ZERO }
    }

    /// Replaces the delay from the next packet on. A line that keeps the order keeps it across the change; a shorter
    /// fixed delay lets packets overtake those already in the line, as a change of route does.
    pub fn change(&mut self, delay: &Delay) {
        self.kind = Line::from_plan(delay);
    }

    /// The delay, if it is the same for every packet.
    pub fn is_fixed(&self) -> Option<Dur> {
        match self.kind {
            Line::Fixed(delay) => Some(delay),
            _ => None,
        }
    }

    /// Whether a packet may overtake another one.
    pub fn may_reorder(&self) -> bool {
        match self.kind {
            Line::Fixed(_) => false,
            Line::Uniform { reorder, .. } | Line::Normal { reorder, .. } => reorder,
            Line::Reorder { .. } => true,
        }
    }

    /// The arrival at the far end of a packet whose last bit left the transmitter at `departure`.
    #[inline]
    pub fn release_time(&mut self, departure: Time) -> Time {
        match self.kind {
            Line::Fixed(delay) => departure + delay,
            _ => self.draw(departure),
        }
    }

    fn draw(&mut self, departure: Time) -> Time {
        let (delay, reorder) = match &self.kind {
            Line::Fixed(delay) => (*delay, true),
            Line::Uniform { least, width, reorder } => {
                // The high half of a product spreads 64 random bits over 0..=width without a division.
                let offset = (u128::from(self.stream.bits()) * (u128::from(*width) + 1)) >> 64;
                (Dur(least.saturating_add_unsigned(offset as u64).max(0) as u64), *reorder)
            }
            Line::Normal { mean, deviation, reorder } => {
                // A conversion from floating point saturates: a negative delay becomes zero.
                (Dur((mean + self.stream.draw(deviation)).round() as u64), *reorder)
            }
            Line::Reorder { delay, extra, probability } => {
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

impl Line {
    fn from_plan(delay: &Delay) -> Line {
        match *delay {
            Delay::Fixed { delay_ns } | Delay::Jitter { delay_ns, jitter_ns: 0, .. } => Line::Fixed(Dur(delay_ns)),
            Delay::Jitter { delay_ns, jitter_ns, normal: false, reorder } => {
                Line::Uniform { least: delay_ns as i64 - jitter_ns as i64, width: 2 * jitter_ns, reorder }
            }
            Delay::Jitter { delay_ns, jitter_ns, normal: true, reorder } => {
                let deviation = Distribution::Normal { mean: 0.0, sd: jitter_ns as f64 };
                let deviation = Box::new(deviation.sampler().expect("an integer is a finite standard deviation"));
                Line::Normal { mean: delay_ns as f64, deviation, reorder }
            }
            Delay::Reorder { delay_ns, extra_ns, probability } => {
                Line::Reorder { delay: Dur(delay_ns), extra: Dur(extra_ns), probability }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn line(delay: &Delay) -> DelayLine {
        DelayLine::from_plan(delay, Stream::new(5, "delay"))
    }

    fn jitter(delay_ms: u64, jitter_ms: u64, normal: bool, reorder: bool) -> Delay {
        Delay::Jitter { delay_ns: delay_ms * MS, jitter_ns: jitter_ms * MS, normal, reorder }
    }

    /// Delays, in ns, of packets far apart.
    fn delays(delay: &Delay, n: u64) -> Vec<f64> {
        let mut line = line(delay);
        (0..n).map(|k| Time(k * 1_000 * MS)).map(|t| line.release_time(t).since(t).0 as f64).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn deviation(values: &[f64]) -> f64 {
        let m = mean(values);
        mean(&values.iter().map(|v| (v - m).powi(2)).collect::<Vec<_>>()).sqrt()
    }

    #[test]
    fn a_fixed_delay_is_added() {
        let mut line = line(&Delay::Fixed { delay_ns: 50 * MS });
        assert_eq!(line.is_fixed(), Some(Dur::from_millis(50)));
        assert_eq!(line.release_time(Time(3)), Time(50 * MS + 3));
        assert!(!line.may_reorder());
    }

    #[test]
    fn jitter_of_zero_is_a_fixed_delay() {
        assert_eq!(line(&jitter(10, 0, true, true)).is_fixed(), Some(Dur::from_millis(10)));
    }

    #[test]
    fn uniform_jitter_fills_its_range_and_no_more() {
        let n = 200_000;
        let delays = delays(&jitter(20, 4, false, true), n);
        let (least, most) = delays.iter().fold((f64::MAX, 0.0f64), |(a, b), &d| (a.min(d), b.max(d)));
        assert!((16.0 * MS as f64..16.001 * MS as f64).contains(&least), "least {least}");
        assert!((23.999 * MS as f64..=24.0 * MS as f64).contains(&most), "most {most}");
        let sd = 4.0 * MS as f64 / 3f64.sqrt();
        assert!((mean(&delays) - 20.0 * MS as f64).abs() < 5.0 * sd / (n as f64).sqrt());
        assert!((deviation(&delays) / sd - 1.0).abs() < 0.01);
    }

    #[test]
    fn both_ends_of_a_uniform_jitter_are_reached() {
        let delays = delays(&Delay::Jitter { delay_ns: 10, jitter_ns: 1, normal: false, reorder: true }, 1000);
        assert!(
            [9.0, 10.0, 11.0].iter().all(|d| delays.contains(d)) && delays.iter().all(|d| (9.0..=11.0).contains(d))
        );
    }

    #[test]
    fn normal_jitter_has_its_mean_and_deviation() {
        let n = 200_000;
        let delays = delays(&jitter(20, 2, true, true), n);
        let sd = 2.0 * MS as f64;
        assert!((mean(&delays) - 20.0 * MS as f64).abs() < 5.0 * sd / (n as f64).sqrt());
        assert!((deviation(&delays) / sd - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_delay_is_never_negative() {
        for normal in [false, true] {
            let delays = delays(&jitter(1, 10, normal, true), 10_000);
            assert!(delays.contains(&0.0), "with a jitter of ten times the delay some are cut at zero");
        }
    }

    #[test]
    fn jitter_with_reordering_reorders() {
        let mut line = line(&jitter(10, 5, false, true));
        assert!(line.may_reorder());
        let releases: Vec<Time> = (0..1000).map(|k| line.release_time(Time(k * 1000))).collect();
        assert!(!releases.is_sorted());
    }

    #[test]
    fn the_chosen_share_is_late() {
        let (n, p) = (100_000, 0.05);
        let delays = delays(&Delay::Reorder { delay_ns: 10 * MS, extra_ns: 3 * MS, probability: p }, n);
        let late = delays.iter().filter(|&&d| d == 13.0 * MS as f64).count();
        let on_time = delays.iter().filter(|&&d| d == 10.0 * MS as f64).count();
        assert_eq!(late + on_time, n as usize);
        assert!((late as f64 / n as f64 - p).abs() < 5.0 * (p * (1.0 - p) / n as f64).sqrt());
    }

    #[test]
    fn a_line_that_keeps_the_order_keeps_it_across_a_change() {
        let mut line = line(&jitter(100, 5, false, false));
        let before = line.release_time(Time(0));
        line.change(&jitter(10, 5, false, false));
        assert!(line.release_time(Time(1)) >= before);
        line.change(&Delay::Fixed { delay_ns: MS });
        assert_eq!(line.release_time(Time(2)), Time(MS + 2), "a fixed delay is what it says");
    }

    proptest! {
        #[test]
        fn without_reordering_the_order_is_kept(
            gaps in prop::collection::vec(0u64..5_000_000, 1..500),
            normal: bool,
            delay_ns in 0u64..50_000_000,
            jitter_ns in 0u64..50_000_000,
        ) {
            let mut line = line(&Delay::Jitter { delay_ns, jitter_ns, normal, reorder: false });
            prop_assert!(!line.may_reorder());
            let (mut now, mut last) = (0, Time::ZERO);
            for gap in gaps {
                now += gap;
                let release = line.release_time(Time(now));
                prop_assert!(release >= last, "{release} after {last}");
                prop_assert!(release >= Time(now));
                last = release;
            }
        }
    }
}
