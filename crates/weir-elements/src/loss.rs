//! Losses before a queue: Bernoulli, Gilbert-Elliott, and a list of packet numbers.
//!
//! - Bernoulli: each packet is lost with probability `p`, independently.
//! - Gilbert-Elliott (E. N. Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal 39, 1960; E. O.
//!   Elliott, "Estimates of error rates for codes on burst-noise channels", ibid. 42, 1963): a Markov chain of a good and
//!   a bad state, with one step before each packet, from good to bad with probability `p` and back with `r`. Each state
//!   has a loss probability. The chain is in the bad state for a share `p / (p + r)` of the time, `1 / r` packets in a
//!   row on average. It begins in the good state.
//! - List: the packets with these numbers, counted from 1 over packets with payload.
//!
//! Train: call [`LossModel::drops`] for each packet, or [`LossModel::drops_train`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Stream;

use crate::declare::{ElementInfo, Fault, Form, Kind, Place, check, check_probability, key};

/// Losses before a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Loss {
    /// Each packet with probability `p`.
    Bernoulli {
        /// Probability.
        p: f64,
    },
    /// Two-state Markov chain (Gilbert 1960, Elliott 1963), stepped once a packet.
    GilbertElliott {
        /// Probability of good to bad.
        p: f64,
        /// Probability of bad to good.
        r: f64,
        /// Loss probability in the good state.
        good: f64,
        /// Loss probability in the bad state.
        bad: f64,
    },
    /// These packets of this link, counted from 1 over data packets only (segments with payload, and datagrams).
    List {
        /// Packet numbers, ascending.
        packets: Vec<u64>,
    },
}

impl Loss {
    /// Checks the parameters; `at` is the place of the losses in the plan.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn validate(&self, at: &str) -> Result<(), Fault> {
        match self {
            Loss::Bernoulli { p } => check_probability(*p, &format!("{at}.p")),
            Loss::GilbertElliott { p, r, good, bad } => [("p", p), ("r", r), ("good", good), ("bad", bad)]
                .into_iter()
                .try_for_each(|(name, value)| check_probability(*value, &format!("{at}.{name}"))),
            Loss::List { packets } => {
                check(packets.iter().all(|&n| n > 0), || format!("{at}.packets"), "packets are counted from 1")
            }
        }
    }
}

const P: Kind = Kind::Probability;

pub(crate) const BERNOULLI: ElementInfo = ElementInfo::new(
    "bernoulli",
    Place::Loss,
    "Independent losses",
    "",
    &[Form {
        name: "bernoulli",
        title: "Each packet is lost with the same probability.",
        keys: &[key("p", "p", P, "Probability.")],
    }],
)
.random();

pub(crate) const GILBERT_ELLIOTT: ElementInfo = ElementInfo::new(
    "gilbert_elliott",
    Place::Loss,
    "Losses in bursts: a Markov chain of a good and a bad state",
    "Gilbert 1960, Elliott 1963",
    &[Form {
        name: "gilbert_elliott",
        title: "A two-state Markov chain with one step for each packet (Gilbert 1960, Elliott 1963).",
        keys: &[
            key("p", "p", P, "Probability of going from the good state to the bad one."),
            key("r", "r", P, "Probability of going from the bad state to the good one."),
            key("good", "good", P, "Loss probability in the good state.").or("0"),
            key("bad", "bad", P, "Loss probability in the bad state.").or("100%"),
        ],
    }],
)
.random();

pub(crate) const LIST: ElementInfo = ElementInfo::new(
    "list",
    Place::Loss,
    "Loses the packets with these numbers",
    "",
    &[Form {
        name: "list",
        title: "These packets of the link are lost, counted from 1 over data packets only.",
        keys: &[key(
            "packets",
            "packets",
            Kind::PacketNumbers,
            "Packet numbers, ascending, from 1, over data packets only.",
        )],
    }],
);

/// Probabilities are 63-bit integers, so that 0 and 1 are exact.
const CERTAIN: u64 = 1 << 63;

/// A probability, decided by one random number and an integer comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chance(u64);

impl Chance {
    fn new(p: f64) -> Chance {
        Chance((p.clamp(0.0, 1.0) * CERTAIN as f64) as u64)
    }

    #[inline]
    fn happens(self, stream: &mut Stream) -> bool {
        (stream.bits() >> 1) < self.0
    }
}

/// Decides which packets are lost.
#[derive(Clone, Debug)]
pub struct LossModel {
    kind: Model,
    stream: Stream,
}

#[derive(Clone, Debug)]
enum Model {
    Bernoulli(Chance),
    GilbertElliott {
        is_bad: bool,
        /// Probability of leaving the state, good first.
        leave: [Chance; 2],
        /// Probability of a loss in the state, good first.
        lose: [Chance; 2],
    },
    List {
        packets: Box<[u64]>,
        next: usize,
        seen: u64,
    },
}

impl LossModel {
    /// The model of the plan; it draws from `stream`. A list need not be in order.
    pub fn from_plan(loss: &Loss, stream: Stream) -> LossModel {
        let kind = match loss {
            Loss::Bernoulli { p } => Model::Bernoulli(Chance::new(*p)),
            Loss::GilbertElliott { p, r, good, bad } => Model::GilbertElliott {
                is_bad: false,
                leave: [Chance::new(*p), Chance::new(*r)],
                lose: [Chance::new(*good), Chance::new(*bad)],
            },
            Loss::List { packets } => {
                // No packet has number 0, which would block the rest of the list.
                let mut packets: Vec<u64> = packets.iter().copied().filter(|&n| n > 0).collect();
                packets.sort_unstable();
                packets.dedup();
                Model::List { packets: packets.into_boxed_slice(), next: 0, seen: 0 }
            }
        };
        LossModel { kind, stream }
    }

    /// Whether the next packet is lost; `is_data`: it carries payload.
    #[inline]
    pub fn drops(&mut self, is_data: bool) -> bool {
        match &mut self.kind {
            Model::Bernoulli(p) => p.happens(&mut self.stream),
            Model::GilbertElliott { is_bad, leave, lose } => {
                *is_bad ^= leave[usize::from(*is_bad)].happens(&mut self.stream);
                lose[usize::from(*is_bad)].happens(&mut self.stream)
            }
            Model::List { packets, next, seen } => {
                *seen += u64::from(is_data);
                let lost = is_data && packets.get(*next) == Some(seen);
                *next += usize::from(lost);
                lost
            }
        }
    }

    /// Which of the next `segments` packets of a train are lost: bit `i` for the i-th one.
    ///
    /// # Panics
    /// A train of more than 64 packets.
    #[inline]
    pub fn drops_train(&mut self, is_data: bool, segments: u32) -> u64 {
        assert!(segments <= u64::BITS, "a train has at most 64 packets");
        (0..segments).fold(0, |lost, i| lost | (u64::from(self.drops(is_data)) << i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(loss: &Loss) -> LossModel {
        LossModel::from_plan(loss, Stream::new(42, "loss"))
    }

    fn losses(loss: &Loss, n: usize) -> Vec<bool> {
        let mut model = model(loss);
        (0..n).map(|_| model.drops(true)).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&l| l).count() as f64 / lost.len() as f64
    }

    /// Lengths of the runs of losses.
    fn bursts(lost: &[bool]) -> Vec<usize> {
        lost.split(|&l| !l).map(<[bool]>::len).filter(|&n| n > 0).collect()
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let n = 1_000_000;
        for p in [1e-4, 0.01, 0.3, 0.9] {
            let got = share(&losses(&Loss::Bernoulli { p }, n));
            // Five standard errors: a fair model fails once in two million seeds.
            assert!((got - p).abs() < 5.0 * (p * (1.0 - p) / n as f64).sqrt(), "{got} of {p}");
        }
    }

    #[test]
    fn bernoulli_losses_are_independent() {
        let p = 0.1;
        let lengths = bursts(&losses(&Loss::Bernoulli { p }, 1_000_000));
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        let error = (p / (1.0 - p).powi(2) / lengths.len() as f64).sqrt();
        assert!((mean - 1.0 / (1.0 - p)).abs() < 5.0 * error, "runs of {mean}");
    }

    #[test]
    fn probabilities_0_and_1_are_certain() {
        assert_eq!(share(&losses(&Loss::Bernoulli { p: 0.0 }, 100_000)), 0.0);
        assert_eq!(share(&losses(&Loss::Bernoulli { p: 1.0 }, 100_000)), 1.0);
    }

    #[test]
    fn gilbert_elliott_has_its_stationary_share_and_burst_length() {
        let n = 4_000_000;
        for (p, r) in [(0.001, 0.1), (0.01, 0.5), (0.2, 0.25)] {
            let lost = losses(&Loss::GilbertElliott { p, r, good: 0.0, bad: 1.0 }, n);
            let expected = p / (p + r);
            // Variance of the mean of a two-state chain with correlation c from packet to packet.
            let c: f64 = 1.0 - p - r;
            let error = (expected * (1.0 - expected) / n as f64 * (1.0 + c) / (1.0 - c)).sqrt();
            assert!((share(&lost) - expected).abs() < 5.0 * error, "share {} of {expected}", share(&lost));
            let lengths = bursts(&lost);
            let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
            let error = ((1.0 - r).sqrt() / r) / (lengths.len() as f64).sqrt();
            assert!((mean - 1.0 / r).abs() < 5.0 * error, "bursts of {mean}, expected {}", 1.0 / r);
        }
    }

    #[test]
    fn both_states_of_gilbert_elliott_lose_their_share() {
        let (p, r, good, bad) = (0.05, 0.2, 0.01, 0.5);
        let n = 2_000_000;
        let got = share(&losses(&Loss::GilbertElliott { p, r, good, bad }, n));
        let in_bad = p / (p + r);
        let expected = (1.0 - in_bad) * good + in_bad * bad;
        // The chain is correlated over 1 / (p + r) = 4 packets: at most nine times the variance of independent ones.
        assert!((got - expected).abs() < 15.0 * (expected * (1.0 - expected) / n as f64).sqrt(), "{got} of {expected}");
    }

    #[test]
    fn gilbert_elliott_begins_in_the_good_state() {
        assert!(!model(&Loss::GilbertElliott { p: 0.0, r: 0.0, good: 0.0, bad: 1.0 }).drops(true));
        assert!(model(&Loss::GilbertElliott { p: 1.0, r: 0.0, good: 0.0, bad: 1.0 }).drops(true));
    }

    #[test]
    fn a_list_loses_exactly_its_packets() {
        let lost = losses(&Loss::List { packets: vec![1, 2, 7, 1000] }, 2000);
        let numbers: Vec<usize> = (1..=2000).filter(|n| lost[n - 1]).collect();
        assert_eq!(numbers, [1, 2, 7, 1000]);
    }

    #[test]
    fn a_list_may_be_unordered_and_repeat_itself() {
        let lost = losses(&Loss::List { packets: vec![5, 3, 3, 0] }, 10);
        let numbers: Vec<usize> = (1..=10).filter(|n| lost[n - 1]).collect();
        assert_eq!(numbers, [3, 5]);
    }

    #[test]
    fn a_list_counts_packets_with_payload_only() {
        let mut model = model(&Loss::List { packets: vec![2] });
        assert_eq!(
            [true, false, false, true, true].map(|is_data| model.drops(is_data)),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn a_train_is_judged_packet_by_packet() {
        let loss = Loss::GilbertElliott { p: 0.1, r: 0.3, good: 0.02, bad: 0.7 };
        let (mut single, mut train) = (model(&loss), model(&loss));
        for n in 0..=64 {
            let lost = train.drops_train(true, n);
            for i in 0..n {
                assert_eq!(lost >> i & 1 == 1, single.drops(true));
            }
            assert_eq!(lost.checked_shr(n).unwrap_or(0), 0);
        }
    }
}
