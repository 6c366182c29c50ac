//! RED and WRED: random early detection.
//!
//! S. Floyd and V. Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM Transactions on Networking
//! 1(4), 1993. At each arrival the average queue is updated, `avg += w (q - avg)`, or, when the link was idle, decays as
//! in Linux (`red/idle.rs`). Between the thresholds the probability `p_b` climbs from 0 to `max_p`, and signals are spread
//! evenly in the way that the paper proposes for implementations, and Linux takes: one number `R` is drawn uniformly a signal,
//! and the packet is chosen at which `count p_b >= R`, `count` being the packets since the last signal. With a constant `p_b` the
//! gaps are uniform, as with `p_a = p_b / (1 - count p_b)`; while `p_b` climbs, signals come sooner. Above the upper threshold
//! every packet is signalled; with *gentle* (S. Floyd, "Recommendation on using the gentle variant of RED", 2000) `p_b` climbs
//! on from `max_p` to 1 at twice the threshold.
//!
//! Thresholds and the queue are in bytes on the wire, the packet in transmission not counted. The size of a packet does
//! not change its probability (RFC 7141). Several curves make it weighted: one average for the queue, and for each class of
//! code points its own thresholds and count. Ranges with the same curve are one class; a code point without a curve is
//! dropped by the limit alone.
//!
//! With ECN, a capable packet that is chosen is marked instead. Where *every* packet is signalled, capable ones are
//! dropped too (RFC 3168, section 7).
//!
//! Train: each packet is offered on its own and updates the average.

mod idle;

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
    /// Between `max_bytes` and twice that, the probability climbs from `max_p` to 1 instead of jumping.
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

/// No curve serves this code point.
const NO_CURVE: u8 = u8::MAX;

/// The state of RED.
#[derive(Clone, Debug)]
pub struct Red {
    limit: DropTail,
    weight: f64,
    gentle: bool,
    ecn: bool,
    average: f64,
    /// When it was updated last on an idle link: idle time counts once, although what arrived in it was dropped.
    decayed: Time,
    curves: Box<[Curve]>,
    /// Index of the curve of each code point.
    class: [u8; 64],
    mtu_bytes: u32,
    /// None: the link sends nothing, and the average keeps.
    idle: Option<IdleDecay>,
    stream: Stream,
}

#[derive(Clone, Copy, Debug)]
struct Curve {
    min: f64,
    max: f64,
    max_p: f64,
    /// Packets since the last signal: -1 where the next one begins the count, and cannot be chosen.
    count: i64,
    /// Drawn when the count began: the packet at which `count p_b` reaches it is chosen.
    draw: f64,
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

    /// RED is never sure.
    #[inline]
    fn has_room(&self, _bytes: u32, _queue_bytes: u64, _queue_packets: u64) -> bool {
        false
    }

    /// The rate at which the average decays on an idle link.
    fn set_rate(&mut self, rate: Rate) {
        self.idle = IdleDecay::new(self.weight, self.mtu_bytes, rate);
    }
}

impl Curve {
    fn from_plan(curve: &RedCurve) -> Curve {
        Curve { min: curve.min_bytes as f64, max: curve.max_bytes as f64, max_p: curve.max_p, count: -1, draw: 0.0 }
    }

    /// `p_b` at an average of at least the lower threshold; none when every packet is signalled.
    #[inline]
    fn probability(&self, average: f64, gentle: bool) -> Option<f64> {
        if average < self.max {
            Some(self.max_p * (average - self.min) / (self.max - self.min))
        } else if gentle && average < 2.0 * self.max {
            Some(self.max_p + (1.0 - self.max_p) * (average - self.max) / self.max)
        } else {
            None
        }
    }

    /// Whether this packet is chosen. The first of a count cannot be.
    #[inline]
    fn chooses(&mut self, p_b: f64, stream: &mut Stream) -> bool {
        self.count += 1;
        let chosen = self.count > 0 && self.count as f64 * p_b >= self.draw;
        if chosen {
            self.count = 0;
        }
        if self.count == 0 {
            self.draw = stream.unit();
        }
        chosen
    }
}

/// The class of each code point, and the curve of each class. The first range that holds a code point serves it; an empty
/// range serves those that no other one holds.
fn classes(ranges: &[RedCurve]) -> ([u8; 64], Box<[Curve]>) {
    let mut curves: Vec<RedCurve> = Vec::new();
    let others = ranges.iter().find(|range| range.dscp_from > range.dscp_to);
    let class = std::array::from_fn(|dscp| {
        let holds = |range: &&RedCurve| (range.dscp_from..=range.dscp_to).contains(&(dscp as u8));
        let Some(range) = ranges.iter().find(holds).or(others) else { return NO_CURVE };
        let is_same = |curve: &RedCurve| {
            (curve.min_bytes, curve.max_bytes, curve.max_p) == (range.min_bytes, range.max_bytes, range.max_p)
        };
        let index = curves.iter().position(is_same).unwrap_or_else(|| {
            curves.push(*range);
            curves.len() - 1
        });
        index as u8
    });
    (class, curves.iter().map(Curve::from_plan).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
    /// One full packet at 12 Mb/s.
    const PACKET_NS: u64 = 1_000_000;
    const ARRIVAL: Arrival = Arrival { bytes: 1500, ecn_capable: false, dscp: 0 };
    const EARLY: Verdict = Verdict::Drop(DropReason::Early);
    const FORCED: Verdict = Verdict::Drop(DropReason::Forced);

    fn curve(min_bytes: u64, max_bytes: u64, max_p: f64) -> RedCurve {
        RedCurve { dscp_from: 0, dscp_to: 63, min_bytes, max_bytes, max_p }
    }

    fn red(curves: Vec<RedCurve>, weight: f64, gentle: bool, mark: Mark) -> Red {
        let limit = Limit { bytes: Some(1_000_000), packets: None };
        let queue = RedQueue { limit, curves, weight, gentle, mark };
        Red::from_plan(&queue, &PORT, Stream::new(9, "red"))
    }

    fn busy(bytes: u64) -> Backlog {
        Backlog { bytes, packets: bytes / 1500, idle_since: None }
    }

    fn idle_since(ns: u64) -> Backlog {
        Backlog { bytes: 0, packets: 0, idle_since: Some(Time(ns)) }
    }

    /// A RED whose average is pinned: what it does with packet after packet is then exactly known.
    fn pinned(average: f64, curves: Vec<RedCurve>, gentle: bool, mark: Mark) -> Red {
        let mut red = red(curves, 0.0, gentle, mark);
        red.average = average;
        red
    }

    #[test]
    fn the_average_is_the_exponential_filter() {
        let mut red = red(vec![curve(50_000, 100_000, 0.1)], 0.25, false, Mark::Drop);
        let mut average = |queue| {
            red.admit(Time(0), &ARRIVAL, &queue);
            red.average_bytes()
        };
        // avg + (q - avg) / 4, by hand.
        assert_eq!(average(idle_since(0)), 0.0);
        assert_eq!(average(busy(1_000)), 250.0);
        assert_eq!(average(busy(2_000)), 687.5);
        assert_eq!(average(busy(2_000)), 1015.625);
        assert_eq!(average(busy(0)), 761.71875);
    }

    #[test]
    fn the_average_decays_on_an_idle_link_by_its_rate() {
        let mut red = pinned(4096.0, vec![curve(50_000, 100_000, 0.1)], false, Mark::Drop);
        red.weight = 0.25;
        red.set_rate(PORT.rate);
        // 31 / -ln(3/4) packets of 15 625 units of 64 ns in 512 cells at most: cells of 2^12 us.
        red.admit(Time(5 * PACKET_NS + 1_024_000), &ARRIVAL, &idle_since(5 * PACKET_NS));
        assert_eq!(red.average_bytes(), 3072.0);
        // At half the rate the cells are as long twice.
        red.set_rate(Rate::from_mbps(6));
        red.admit(Time(20 * PACKET_NS), &ARRIVAL, &idle_since(20 * PACKET_NS - 2_048_000));
        assert_eq!(red.average_bytes(), 2304.0);
        // An hour: nothing is left.
        red.admit(Time(3_600_000 * PACKET_NS), &ARRIVAL, &idle_since(20 * PACKET_NS));
        assert!(red.average_bytes() < 1e-5);
    }

    #[test]
    fn idle_time_counts_once_whatever_is_dropped_in_it() {
        let mut red = pinned(4096.0, vec![curve(1_000, 2_000, 0.1)], false, Mark::Drop);
        red.weight = 0.25;
        red.set_rate(PORT.rate);
        let mut after = |us: u64| {
            assert_eq!(red.admit(Time(us * 1000), &ARRIVAL, &idle_since(0)), FORCED);
            red.average_bytes()
        };
        assert_eq!(after(1 << 10), 3072.0);
        assert_eq!(after(1 << 10), 3072.0);
        assert_eq!(after(1 << 11), 2304.0);
    }

    #[test]
    fn a_stopped_link_keeps_its_average() {
        let mut red = pinned(4096.0, vec![curve(50_000, 100_000, 0.1)], false, Mark::Drop);
        red.weight = 0.25;
        red.set_rate(Rate(0));
        red.admit(Time(3_600_000 * PACKET_NS), &ARRIVAL, &idle_since(0));
        assert_eq!(red.average_bytes(), 4096.0);
    }

    #[test]
    fn the_slope_is_linear_and_gentle_goes_on_to_one() {
        let c = Curve::from_plan(&curve(10_000, 30_000, 0.1));
        let at = |average, gentle| c.probability(average, gentle);
        for gentle in [false, true] {
            assert_eq!(at(10_000.0, gentle), Some(0.0));
            assert_eq!(at(15_000.0, gentle), Some(0.025));
            assert_eq!(at(20_000.0, gentle), Some(0.05));
        }
        assert_eq!(at(30_000.0, false), None);
        assert_eq!(at(30_000.0, true), Some(0.1));
        assert_eq!(at(45_000.0, true), Some(0.55));
        assert!((at(59_999.99, true).unwrap() - 1.0).abs() < 1e-6);
        assert_eq!(at(60_000.0, true), None);
    }

    #[test]
    fn below_the_lower_threshold_everything_passes_and_above_the_upper_nothing() {
        let curves = vec![curve(10_000, 30_000, 0.5)];
        let mut below = pinned(9_999.0, curves.clone(), false, Mark::Drop);
        let mut above = pinned(30_000.0, curves.clone(), false, Mark::Drop);
        let mut gentle = pinned(60_000.0, curves, true, Mark::Drop);
        for _ in 0..1000 {
            assert_eq!(below.admit(Time(0), &ARRIVAL, &busy(3000)), Verdict::Pass);
            assert_eq!(above.admit(Time(0), &ARRIVAL, &busy(3000)), FORCED);
            assert_eq!(gentle.admit(Time(0), &ARRIVAL, &busy(3000)), FORCED);
        }
    }

    /// With p_b = 1/10 the packets from signal to signal are uniform over 1 to 10. Independent draws would be geometric, and
    /// pass 10 in more than three of ten.
    #[test]
    fn signals_are_spread_evenly() {
        let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.2)], false, Mark::Drop);
        let mut seen = [0u32; 13];
        let mut gap = 0;
        // The first packets follow no signal: their count begins at 0.
        while red.admit(Time(0), &ARRIVAL, &busy(20_000)) != EARLY {}
        let n = 90_000;
        for _ in 0..n {
            gap += 1;
            while red.admit(Time(0), &ARRIVAL, &busy(20_000)) != EARLY {
                gap += 1;
            }
            seen[gap.min(12)] += 1;
            gap = 0;
        }
        assert_eq!((seen[0], seen[11], seen[12]), (0, 0, 0));
        let error = (f64::from(n) / 10.0 * 0.9).sqrt();
        for (gap, &times) in seen.iter().enumerate().take(11).skip(1) {
            assert!((f64::from(times) - f64::from(n) / 10.0).abs() < 5.0 * error, "gap {gap}: {times} times");
        }
    }

    /// While p_b climbs as a n, the first signal is at the n for which a n^2 >= R: later than n with probability 1 - a n^2.
    /// With a draw for every packet it would be its root.
    #[test]
    fn signals_come_sooner_while_the_probability_climbs() {
        let slope = 1e-4;
        let (mut curve, mut stream) = (Curve::from_plan(&curve(0, 1, 1.0)), Stream::new(3, "climb"));
        let later = (0..20_000).filter(|_| {
            curve.count = -1;
            (0..=70).all(|n| !curve.chooses(slope * f64::from(n), &mut stream))
        });
        let share = later.count() as f64 / 20_000.0;
        assert!((share - 0.51).abs() < 0.02, "{share}");
    }

    #[test]
    fn the_packet_that_begins_a_count_passes() {
        let mut red = pinned(29_999.9, vec![curve(10_000, 30_000, 1.0)], false, Mark::Drop);
        assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), Verdict::Pass);
        assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), EARLY);
        red.average = 30_000.0;
        assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), FORCED);
        red.average = 29_999.9;
        assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), Verdict::Pass);
    }

    #[test]
    fn falling_below_the_threshold_resets_the_count() {
        let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.002)], false, Mark::Drop);
        for _ in 0..100 {
            red.admit(Time(0), &ARRIVAL, &busy(20_000));
        }
        assert!(red.curves[0].count >= 0);
        red.average = 5_000.0;
        red.admit(Time(0), &ARRIVAL, &busy(20_000));
        assert_eq!(red.curves[0].count, -1);
    }

    #[test]
    fn capable_packets_are_marked_and_others_dropped() {
        let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.5)], false, Mark::Ecn);
        let capable = Arrival { ecn_capable: true, ..ARRIVAL };
        let verdicts: Vec<_> = (0..200).map(|_| red.admit(Time(0), &capable, &busy(20_000))).collect();
        assert!(verdicts.contains(&Verdict::Mark));
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Mark | Verdict::Pass)));
        let verdicts: Vec<_> = (0..200).map(|_| red.admit(Time(0), &ARRIVAL, &busy(20_000))).collect();
        assert!(verdicts.contains(&EARLY));
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Drop(DropReason::Early) | Verdict::Pass)));
    }

    #[test]
    fn past_the_upper_threshold_capable_packets_are_dropped_too() {
        let mut red = pinned(40_000.0, vec![curve(10_000, 30_000, 0.5)], false, Mark::Ecn);
        let capable = Arrival { ecn_capable: true, ..ARRIVAL };
        assert_eq!(red.admit(Time(0), &capable, &busy(40_000)), FORCED);
    }

    #[test]
    fn marking_makes_the_same_draws_as_dropping() {
        let signals = |mark, ecn_capable| {
            let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.1)], false, mark);
            let arrival = Arrival { ecn_capable, ..ARRIVAL };
            (0..5000).map(|_| red.admit(Time(0), &arrival, &busy(20_000)) != Verdict::Pass).collect::<Vec<_>>()
        };
        assert_eq!(signals(Mark::Ecn, true), signals(Mark::Drop, true));
    }

    #[test]
    fn the_hard_limit_drops_whatever_the_average() {
        let mut red = pinned(0.0, vec![curve(10_000, 30_000, 0.5)], false, Mark::Ecn);
        assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(998_500)), Verdict::Pass);
        assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(998_501)), Verdict::Drop(DropReason::Overflow));
    }

    #[test]
    fn a_drop_at_the_limit_leaves_the_spacing_alone() {
        let mut red = pinned(10_001.0, vec![curve(10_000, 30_000, 0.001)], false, Mark::Drop);
        for _ in 0..100 {
            red.admit(Time(0), &ARRIVAL, &busy(10_000));
        }
        let full = red.admit(Time(0), &ARRIVAL, &busy(1_000_000));
        assert_eq!((full, red.curves[0].count), (Verdict::Drop(DropReason::Overflow), 100));
    }

    #[test]
    fn ranges_with_the_same_curve_are_one_class() {
        let range = |from, to, max_p| RedCurve { dscp_from: from, dscp_to: to, ..curve(10_000, 30_000, max_p) };
        let curves = vec![range(0, 9, 0.2), range(10, 10, 0.9), range(11, 63, 0.2)];
        let mut red = pinned(20_000.0, curves, false, Mark::Drop);
        assert_eq!(red.curves.len(), 2);
        // Packets of both ranges in turn: the spacing of one class, 9 packets at most.
        let mut gap = 0;
        for i in 0..10_000 {
            let arrival = Arrival { dscp: if i % 2 == 0 { 3 } else { 40 }, ..ARRIVAL };
            gap = if red.admit(Time(0), &arrival, &busy(20_000)) == EARLY { 0 } else { gap + 1 };
            assert!(gap <= 10);
        }
    }

    #[test]
    fn each_class_has_its_curve_and_count_and_all_share_the_average() {
        let gold = RedCurve { dscp_from: 40, dscp_to: 46, ..curve(40_000, 50_000, 0.1) };
        let bronze = RedCurve { dscp_from: 0, dscp_to: 9, ..curve(10_000, 20_000, 0.1) };
        let others = RedCurve { dscp_from: 1, dscp_to: 0, ..curve(10_000, 30_000, 1.0) };
        let mut red = pinned(30_000.0, vec![gold, bronze], false, Mark::Drop);
        let with = |dscp| Arrival { dscp, ..ARRIVAL };
        assert_eq!(red.admit(Time(0), &with(46), &busy(30_000)), Verdict::Pass);
        assert_eq!(red.admit(Time(0), &with(0), &busy(30_000)), FORCED);
        assert_eq!(red.admit(Time(0), &with(20), &busy(30_000)), Verdict::Pass, "no curve serves it");
        let count = |red: &Red, dscp: usize| red.curves[usize::from(red.class[dscp])].count;
        assert_eq!((count(&red, 46), count(&red, 0)), (-1, -1));
        red.average = 15_000.0;
        red.admit(Time(0), &with(0), &busy(15_000));
        assert_eq!((count(&red, 46), count(&red, 0)), (-1, 0));
        let mut red = pinned(30_000.0, vec![gold, bronze, others], false, Mark::Drop);
        assert_eq!(red.admit(Time(0), &with(20), &busy(30_000)), FORCED, "the empty range serves the others");
        assert_eq!(red.admit(Time(0), &with(46), &busy(30_000)), Verdict::Pass);
    }
}
