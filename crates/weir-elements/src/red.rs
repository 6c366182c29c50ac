//! RED and WRED: random early detection.
//!
//! S. Floyd and V. Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM Transactions on
//! Networking 1(4), 1993. Each arrival updates the average queue, `avg += w (q - avg)`; on an idle link the average
//! decays as in Linux (`red/idle.rs`). Between the thresholds, the probability `p_b` rises from 0 to `max_p`. Signals
//! are spread evenly as the paper proposes for implementations and as Linux does: each signal draws one uniform number
//! `R`, and the packet at which `count p_b >= R` is chosen, where `count` is the number of packets since the last
//! signal. With a constant `p_b` the gaps are uniform, as with `p_a = p_b / (1 - count p_b)`; with a rising `p_b`
//! signals come sooner. Above the upper threshold every packet is signalled. With *gentle* (S. Floyd, "Recommendation
//! on using the gentle variant of RED", 2000) `p_b` rises further from `max_p` to 1 at twice the threshold.
//!
//! Thresholds and the queue are in bytes on the wire, the packet in transmission not counted. The probability does not
//! depend on the size of a packet (RFC 7141). With several curves it is weighted: all classes of code points share one
//! average, and each has its own thresholds and count. Ranges with the same curve are one class; for a code point
//! without a curve, only the limit applies.
//!
//! With ECN, a chosen packet that can carry it is marked instead of dropped. Where *every* packet is signalled, it is
//! dropped as well (RFC 3168, section 7).
//!
//! Train: each packet is offered on its own and updates the average.

mod curve;
mod idle;

use curve::{Curve, classes};
use idle::IdleDecay;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::admission::{Admits, AtArrival};
use crate::declare::{ElementInfo, Fault, Form, Key, Kind, Place, QueuePlan, check, check_probability, ecn, key};
use crate::limit::size;
use crate::{Arrival, Backlog, DropReason, DropTail, Limit, Mark, Port, Verdict};

/// One drop curve of RED: none below `min_bytes`, up to `max_p` at `max_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedCurve {
    /// Differentiated-services code points this curve serves; empty: all others.
    pub dscp_from: u8,
    /// Last code point of the range, inclusive.
    pub dscp_to: u8,
    /// Lower threshold of the average queue.
    pub min_bytes: u64,
    /// Upper threshold of the average queue.
    pub max_bytes: u64,
    /// Probability at the upper threshold.
    pub max_p: f64,
}

/// Random early detection (Floyd and Jacobson 1993); several curves make it weighted (WRED).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedQueue {
    /// Hard limit.
    pub limit: Limit,
    /// One curve, or one per class of code points.
    pub curves: Vec<RedCurve>,
    /// Weight of the averaging filter, `w_q`.
    pub weight: f64,
    /// Between `max_bytes` and twice that, the probability rises from `max_p` to 1 instead of jumping.
    pub gentle: bool,
    /// Mark instead of dropping.
    pub mark: Mark,
}

const MAX: Key = key("max", "curves", Kind::Threshold, "Upper threshold of the average queue.");
const MAX_P: Key = key("max_p", "curves", Kind::Probability, "Drop probability at the upper threshold.").or("0.1");
const WEIGHT: Key = key(
    "weight",
    "weight",
    Kind::Number { min: 0.0, max: 1.0, positive: true },
    "Weight of the averaging filter, w_q.",
)
.or("0.002");
const GENTLE: Key =
    key("gentle", "gentle", Kind::Flag, "Climb from `max_p` to 1 between `max` and twice `max`, instead of jumping.")
        .or("true");

const RED: Form = Form {
    name: "red",
    title: "Random early detection (Floyd and Jacobson, 1993).",
    keys: &[
        size("Hard limit."),
        key("min", "curves", Kind::Threshold, "Lower threshold of the average queue: below it nothing is dropped."),
        MAX,
        MAX_P,
        WEIGHT,
        GENTLE,
        ecn("mark"),
    ],
};

const CLASS: Kind = Kind::Classes {
    name: "WredClass",
    title: "One class of a weighted RED queue: which code points, and their drop curve.",
    keys: &[
        key(
            "dscp",
            "curves",
            Kind::CodePoints,
            "Code points of this class; without it, the class of all code points not named.",
        )
        .optional(),
        key("min", "curves", Kind::Threshold, "Lower threshold of the average queue."),
        MAX,
        MAX_P,
    ],
};

const WRED: Form = Form {
    name: "wred",
    title: "Weighted RED: one average queue, and a drop curve for each class of packets.",
    keys: &[size("Hard limit."), key("classes", "curves", CLASS, "The classes."), WEIGHT, GENTLE, ecn("mark")],
};

impl QueuePlan for RedQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "red",
        Place::Queue,
        "Random early detection; weighted (WRED) with several curves",
        "Floyd and Jacobson 1993; gentle: Floyd 2000",
        &[RED, WRED],
    )
    .random();

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        let place = || format!("{at}.weight");
        let weight = self.weight;
        check(weight > 0.0 && weight <= 1.0, place, format!("{weight} is out of range; expected 0 to 1"))?;
        check(!self.curves.is_empty(), || format!("{at}.curves"), "RED needs a curve")?;
        (0..).zip(&self.curves).try_for_each(|(i, curve): (usize, _)| curve.validate(&format!("{at}.curves[{i}]")))
    }
}

impl RedCurve {
    fn validate(&self, at: &str) -> Result<(), Fault> {
        let ordered = self.min_bytes < self.max_bytes;
        check(ordered, || format!("{at}.max_bytes"), "must be above `min_bytes`")?;
        check(self.dscp_to < 64, || format!("{at}.dscp_to"), "code points end at 63")?;
        check_probability(self.max_p, &format!("{at}.max_p"))
    }
}

impl AtArrival for RedQueue {
    type Admits = Box<Red>;

    fn admission(&self, port: &Port, stream: Stream) -> Box<Red> {
        Box::new(Red::from_plan(self, port, stream))
    }
}

/// The state of RED.
#[derive(Clone, Debug)]
pub struct Red {
    limit: DropTail,
    weight: f64,
    gentle: bool,
    ecn: bool,
    average: f64,
    /// Time of the last update on an idle link, so that idle time counts once even if all arrivals in it were dropped.
    decayed: Time,
    curves: Box<[Curve]>,
    /// Index of the curve of each code point.
    class: [u8; 64],
    mtu_bytes: u32,
    /// None for a stopped link, whose average is constant.
    idle: Option<IdleDecay>,
    stream: Stream,
}

impl Red {
    /// The RED or WRED of the plan.
    pub fn from_plan(queue: &RedQueue, port: &Port, stream: Stream) -> Red {
        let (class, curves) = classes(&queue.curves);
        let mut red = Red {
            limit: DropTail::from_plan(&queue.limit),
            weight: queue.weight,
            gentle: queue.gentle,
            ecn: queue.mark == Mark::Ecn,
            average: 0.0,
            decayed: Time::ZERO,
            curves,
            class,
            mtu_bytes: port.mtu_bytes,
            idle: None,
            stream,
        };
        red.set_rate(port.rate);
        red
    }

    /// The average queue in bytes.
    pub fn average_bytes(&self) -> f64 {
        self.average
    }

    #[inline]
    fn update_average(&mut self, now: Time, queue: &Backlog) {
        match queue.idle_since {
            None => self.average += self.weight * (queue.bytes as f64 - self.average),
            Some(since) => {
                if let Some(idle) = &self.idle {
                    self.average = idle.apply(self.average, now.since(since.max(self.decayed)));
                }
                self.decayed = now;
            }
        }
    }

    #[inline]
    fn signal(&mut self, arrival: &Arrival) -> Verdict {
        let class = self.class[usize::from(arrival.dscp & 63)];
        let Some(curve) = self.curves.get_mut(usize::from(class)) else { return Verdict::Pass };
        if self.average < curve.min {
            curve.count = -1;
            return Verdict::Pass;
        }
        match curve.probability(self.average, self.gentle) {
            None => {
                curve.count = -1;
                Verdict::Drop(DropReason::Forced)
            }
            Some(p) if curve.chooses(p, &mut self.stream) => {
                if self.ecn && arrival.ecn_capable {
                    Verdict::Mark
                } else {
                    Verdict::Drop(DropReason::Early)
                }
            }
            Some(_) => Verdict::Pass,
        }
    }
}

impl Admits for Red {
    #[inline]
    fn admit(&mut self, now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
        self.update_average(now, queue);
        match self.signal(arrival) {
            dropped @ Verdict::Drop(_) => dropped,
            verdict if self.limit.fits(arrival.bytes, queue.bytes, queue.packets) => verdict,
            _ => Verdict::Drop(DropReason::Overflow),
        }
    }

    /// Never: RED draws.
    #[inline]
    fn has_room(&self, _bytes: u32, _queue_bytes: u64, _queue_packets: u64) -> bool {
        false
    }

    fn room(&self) -> DropTail {
        DropTail::NOTHING
    }

    /// Changes the decay of the average on an idle link.
    fn set_rate(&mut self, rate: Rate) {
        self.idle = IdleDecay::new(self.weight, self.mtu_bytes, rate);
    }
}

#[cfg(test)]
mod tests;
