//! RED and WRED: random early detection.
//!
//! S. Floyd and V. Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM Transactions on Networking
//! 1(4), 1993. At each arrival the average queue is updated, `avg += w (q - avg)`, or, when the link was idle, decays as
//! if `m` packets had met an empty queue, `avg *= (1 - w)^m`, with `m` the full-sized packets that the link could have sent in
//! the idle time. Between the thresholds the probability `p_b` climbs from 0 to `max_p`, and signals are spread evenly by
//! `p_a = p_b / (1 - count p_b)`, `count` being the packets since the last signal. Above the upper threshold every packet
//! is signalled; with *gentle* (S. Floyd, "Recommendation on using the gentle variant of RED", 2000) `p_b` climbs on
//! from `max_p` to 1 at twice the threshold.
//!
//! Thresholds and the queue are in bytes on the wire, the packet in transmission not counted. The size of a packet does
//! not change its probability (RFC 7141). Several curves make it weighted: one average for the queue, and for each class of
//! code points its own thresholds and count; a code point without a curve is dropped by the limit alone.
//!
//! With ECN, a capable packet that is chosen is marked instead. Where *every* packet is signalled, capable ones are
//! dropped too (RFC 3168, section 7: a queue past its upper threshold protects itself from those that ignore marks).
//!
//! Train: each packet is offered on its own, updates the average and makes its own draw.

use weir_plan::{Mark, Queue, RedCurve};
use weir_units::{Rate, Stream, Time};

use crate::{Arrival, Backlog, DropReason, DropTail, Port, Verdict};

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
    curves: Box<[Curve]>,
    /// Index of the curve of each code point.
    class: [u8; 64],
    idle_packet_bytes: u32,
    idle_packet_ns: u64,
    stream: Stream,
}

#[derive(Clone, Copy, Debug)]
struct Curve {
    min: f64,
    max: f64,
    max_p: f64,
    /// Packets since the last signal, less one: -1 while the average is below the threshold.
    count: i64,
}

impl Red {
    /// The RED or WRED of the plan; none for another discipline.
    pub fn from_plan(queue: &Queue, port: &Port, stream: Stream) -> Option<Red> {
        let Queue::Red { limit, curves, weight, gentle, mark } = queue else { return None };
        let mut red = Red {
            limit: DropTail::from_plan(limit),
            weight: *weight,
            gentle: *gentle,
            ecn: *mark == Mark::Ecn,
            average: 0.0,
            curves: curves.iter().map(Curve::from_plan).collect(),
            class: classes(curves),
            idle_packet_bytes: port.full_packet(),
            idle_packet_ns: 0,
            stream,
        };
        red.set_rate(port.rate);
        Some(red)
    }

    /// The average queue in bytes.
    pub fn average_bytes(&self) -> f64 {
        self.average
    }

    /// The rate at which the average decays on an idle link.
    pub fn set_rate(&mut self, rate: Rate) {
        // A stopped link sends nothing in its idle time: the average keeps.
        self.idle_packet_ns = if rate.0 == 0 {
            u64::MAX
        } else {
            rate.time_for(weir_units::Bytes(self.idle_packet_bytes.into())).0.max(1)
        };
    }

    /// Decides on a packet that arrives at `now`.
    #[inline]
    pub fn admit(&mut self, now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
        self.update_average(now, queue);
        let signal = self.signal(arrival);
        if signal == Verdict::Pass || signal == Verdict::Mark {
            return if self.limit.fits(arrival.bytes, queue.bytes, queue.packets) {
                signal
            } else {
                self.overflow(arrival)
            };
        }
        signal
    }

    #[inline]
    fn update_average(&mut self, now: Time, queue: &Backlog) {
        match queue.idle_since {
            None => self.average += self.weight * (queue.bytes as f64 - self.average),
            Some(since) => self.average *= power(1.0 - self.weight, now.since(since).0 / self.idle_packet_ns),
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
                curve.count = 0;
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

    /// A packet dropped for the limit is a signal as well: the spacing begins anew.
    #[cold]
    fn overflow(&mut self, arrival: &Arrival) -> Verdict {
        let class = self.class[usize::from(arrival.dscp & 63)];
        if let Some(curve) = self.curves.get_mut(usize::from(class)) {
            curve.count = curve.count.min(0);
        }
        Verdict::Drop(DropReason::Overflow)
    }
}

impl Curve {
    fn from_plan(curve: &RedCurve) -> Curve {
        Curve { min: curve.min_bytes as f64, max: curve.max_bytes as f64, max_p: curve.max_p, count: -1 }
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

    /// Whether this packet is chosen: a draw with `p_a`, the probability that spreads signals evenly.
    #[inline]
    fn chooses(&mut self, p_b: f64, stream: &mut Stream) -> bool {
        self.count += 1;
        let spread = 1.0 - self.count as f64 * p_b;
        // `u < p_b / spread`, without the division; a spread of zero or less makes it certain.
        let chosen = stream.unit() * spread < p_b;
        if chosen {
            self.count = 0;
        }
        chosen
    }
}

/// The first curve whose range holds a code point serves it; a curve with an empty range serves all that have none.
fn classes(curves: &[RedCurve]) -> [u8; 64] {
    let position = |found: Option<usize>| found.map(|i| i as u8);
    let others = position(curves.iter().position(|c| c.dscp_from > c.dscp_to));
    std::array::from_fn(|dscp| {
        let dscp = dscp as u8;
        position(curves.iter().position(|c| (c.dscp_from..=c.dscp_to).contains(&dscp))).or(others).unwrap_or(NO_CURVE)
    })
}

/// `base^n` by squaring: the same on every machine, unlike the libraries' `pow`.
fn power(base: f64, n: u64) -> f64 {
    let (mut result, mut square, mut n) = (1.0, base, n);
    while n > 0 && result > 0.0 {
        if n & 1 == 1 {
            result *= square;
        }
        square *= square;
        n >>= 1;
    }
    result
}
