//! Random marks: first in, first out; marks each packet with a constant probability, independently of all others.
//!
//! No router does this. It is the input for which the steady state of a control that reacts to marks has a closed form, as
//! random losses are for those that react to losses: the mean window is the marks of a round trip over the probability
//! (RFC 9332, section 1.2: DCTCP has two marks a round trip, whatever its rate).
//!
//! A packet that cannot carry ECN passes, and draws no number.
//!
//! Train: each packet is offered on its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::admission::{Admits, AtArrival};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check_probability, key};
use crate::limit::size;
use crate::{Arrival, Backlog, DropReason, DropTail, Limit, Port, Verdict};

/// First in, first out; marks each packet with a constant probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarksQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Probability of a mark.
    pub p: f64,
}

const FORM: Form = Form {
    name: "marks",
    title: "Random marks: marks each packet that can carry ECN with a constant probability, whatever waits.",
    keys: &[
        size("Hard limit; 1000 packets.").or("1000packets"),
        key("p", "p", Kind::Probability, "Probability that a packet that can carry ECN is marked."),
    ],
};

impl QueuePlan for MarksQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "marks",
        Place::Queue,
        "First in, first out; marks each packet with a constant probability, independently",
        "",
        &[FORM],
    )
    .random();

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check_probability(self.p, &format!("{at}.p"))
    }
}

impl AtArrival for MarksQueue {
    type Admits = Box<Marks>;

    fn admission(&self, _port: &Port, stream: Stream) -> Box<Marks> {
        Box::new(Marks { limit: DropTail::from_plan(&self.limit), p: self.p, stream })
    }
}

/// A limit, and a probability of marks.
#[derive(Clone, Debug)]
pub struct Marks {
    limit: DropTail,
    p: f64,
    stream: Stream,
}

impl Admits for Marks {
    #[inline]
    fn admit(&mut self, _now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
        if !self.limit.fits(arrival.bytes, queue.bytes, queue.packets) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if arrival.ecn_capable && self.stream.chance(self.p) { Verdict::Mark } else { Verdict::Pass }
    }

    /// Never: it draws.
    #[inline]
    fn has_room(&self, _bytes: u32, _queue_bytes: u64, _queue_packets: u64) -> bool {
        false
    }

    fn room(&self) -> DropTail {
        DropTail::NOTHING
    }

    /// The probability does not depend on the rate.
    fn set_rate(&mut self, _rate: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };

    fn marks(p: f64) -> Box<Marks> {
        seeded(p, 42)
    }

    fn seeded(p: f64, seed: u64) -> Box<Marks> {
        let limit = Limit { bytes: None, packets: Some(5) };
        MarksQueue { limit, p }.admission(&PORT, Stream::new(seed, "queue"))
    }

    fn verdict(marks: &mut Marks, packets: u64, ecn_capable: bool) -> Verdict {
        let queue = Backlog { bytes: 1500 * packets, packets, idle_since: None };
        marks.admit(Time::ZERO, &Arrival { bytes: 1500, ecn_capable, dscp: 0 }, &queue)
    }

    fn marked(p: f64, n: usize) -> Vec<bool> {
        which(marks(p), n)
    }

    fn which(mut marks: Box<Marks>, n: usize) -> Vec<bool> {
        (0..n).map(|i| verdict(&mut marks, i as u64 % 5, true) == Verdict::Mark).collect()
    }

    #[test]
    fn the_share_of_marks_is_the_probability() {
        let n = 1_000_000;
        for p in [1e-4, 0.01, 0.3, 0.9] {
            let got = marked(p, n).iter().filter(|&&m| m).count() as f64 / n as f64;
            // Five standard errors: a fair draw fails once in two million seeds.
            assert!((got - p).abs() < 5.0 * (p * (1.0 - p) / n as f64).sqrt(), "{got} of {p}");
        }
    }

    #[test]
    fn marks_are_independent() {
        let p = 0.1;
        let found = marked(p, 1_000_000);
        let pairs = found.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        let n = found.len() as f64;
        assert!((pairs / n - p * p).abs() < 5.0 * (p * p * (1.0 + 2.0 * p) / n).sqrt(), "{pairs} pairs of {n}");
    }

    #[test]
    fn a_seed_marks_the_same_packets_again_and_another_seed_others() {
        let found = [1, 1, 2].map(|seed| which(seeded(0.3, seed), 10_000));
        assert_eq!(found[0], found[1]);
        assert_ne!(found[0], found[2]);
    }

    /// Its marks stay those that it would have had alone.
    #[test]
    fn a_packet_without_ecn_draws_no_number() {
        let mut mixed = marks(0.3);
        let found: Vec<bool> = (0..10_000)
            .map(|_| {
                assert_eq!(verdict(&mut mixed, 0, false), Verdict::Pass);
                verdict(&mut mixed, 0, true) == Verdict::Mark
            })
            .collect();
        assert_eq!(found, marked(0.3, 10_000));
    }

    #[test]
    fn probabilities_0_and_1_are_certain() {
        assert!(marked(0.0, 10_000).iter().all(|m| !m));
        assert!(marked(1.0, 10_000).iter().all(|&m| m));
    }

    #[test]
    fn packets_without_ecn_pass_and_a_full_queue_drops() {
        let mut marks = marks(1.0);
        assert_eq!(verdict(&mut marks, 0, false), Verdict::Pass);
        assert_eq!(verdict(&mut marks, 4, true), Verdict::Mark);
        assert_eq!(verdict(&mut marks, 5, true), Verdict::Drop(DropReason::Overflow));
    }
}
