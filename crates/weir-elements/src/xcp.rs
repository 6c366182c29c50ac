//! XCP: the router of the Explicit Control Protocol (D. Katabi, M. Handley, C. Rohrs, "Congestion control for high
//! bandwidth-delay product networks", SIGCOMM 2002, section 3.5), in the form of draft-falk-xcp-spec-03, section 4.
//!
//! Once an average round-trip time, the efficiency controller computes by how much the aggregate of all flows should
//! change: `F = alpha (C - y) - beta Q / d`, with the capacity `C`, the arrivals `y`, the queue `Q` that persisted, and
//! the mean round-trip time `d`. The fairness controller divides this among packets: an increase alike among all flows, a
//! decrease in proportion to their throughputs. To converge also while `F` is zero, it takes a share `gamma` of the traffic
//! from all flows and gives it back by these two rules ("shuffling"). Feedback that was given once is not given again: the
//! sum over a control interval never exceeds `F` and the shuffled traffic.
//!
//! The queue is first in, first out. Packets without a header of XCP count as arrivals and get no feedback: XCP leaves
//! to TCP what it takes, as far as the queue is shared (section 6 of the paper separates them by two queues).
//!
//! Choices of this file, where the paper leaves them open:
//!
//! - a control interval begins with the first packet that has a header, and lasts as long as its round-trip time; after
//!   an interval without such packets the next one begins anew;
//! - intervals last 1 ms to 10 s;
//! - `Q` is the least queue of an interval `max(2 ms, (d - q / C) / 2)`, as in the draft.
//!
//! Train: taken apart on arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Dur, Rate, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::explicit::{Header, Scheme};
use crate::limit::size;
use crate::qdisc::AtDeparture;
use crate::router::{self, Router};
use crate::{Limit, Packet, Port};

/// The router of the Explicit Control Protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XcpQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Share of the spare bandwidth that is given in a round-trip time; 0.4.
    pub alpha: f64,
    /// Share of the persistent queue that is drained in a round-trip time; 0.226.
    pub beta: f64,
    /// Share of the traffic that is shuffled among flows in a round-trip time; 0.1.
    pub gamma: f64,
}

const GAIN: Kind = Kind::Number { min: 0.0, max: 10.0, positive: true };
const FORM: Form = Form {
    name: "xcp",
    title: "Router of the Explicit Control Protocol, for flows with `cc: xcp`; in the simulator only.",
    keys: &[
        size("Hard limit; 1000 packets.").or("1000packets"),
        key("alpha", "alpha", GAIN, "Share of the spare bandwidth that is given in a round-trip time; 0.4.").or("0.4"),
        key("beta", "beta", GAIN, "Share of the persistent queue that is drained in a round-trip time; 0.226.")
            .or("0.226"),
        key(
            "gamma",
            "gamma",
            Kind::Probability,
            "Share of the traffic that is shuffled among flows in a round-trip time; 0.1.",
        )
        .or("0.1"),
    ],
};

impl QueuePlan for XcpQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "xcp",
        Place::Queue,
        "First in, first out; tells each XCP packet by how much its flow may change its throughput",
        "Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03",
        &[FORM],
    );

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        for (name, gain) in [("alpha", self.alpha), ("beta", self.beta)] {
            let place = || format!("{at}.{name}");
            check(gain.is_finite() && gain > 0.0, place, "must be finite and above zero")?;
        }
        check((0.0..=1.0).contains(&self.gamma), || format!("{at}.gamma"), "must be a share, 0 to 1")
    }
}

impl AtDeparture for XcpQueue {
    type Qdisc<P: Packet + Send> = Xcp<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, _stream: Stream) -> Xcp<P> {
        Router::new(&self.limit, port, Control::new(self, port.rate))
    }
}

const LEAST_INTERVAL: Dur = Dur::from_millis(1);
const LONGEST_INTERVAL: Dur = Dur::from_secs(10);
/// A queue that is empty once in this time does not persist (ALLOWED_QUEUE of the draft).
const ALLOWED_QUEUE: Dur = Dur::from_millis(2);

/// Both controllers. Rates are bytes per second on the wire.
#[derive(Clone, Debug)]
pub struct Control {
    capacity: f64,
    alpha: f64,
    beta: f64,
    gamma: f64,
    /// Beginning and end of the control interval; none before the first packet with a header.
    interval: Option<(Time, Time)>,
    /// Bytes that arrived in the interval.
    input: u64,
    /// Sum of the times between two packets of a flow over the packets with a header, seconds, and the same times the
    /// round-trip time, square seconds.
    sum_spacing: f64,
    sum_rtt_by_spacing: f64,
    /// Mean round-trip time, by flows.
    mean_rtt: Dur,
    /// The queue that persisted, and the least one since, bytes.
    queue: u64,
    least_queue: u64,
    queue_measured: Time,
    /// Feedback for a packet: an increase for each second between packets of its flow, a decrease for each byte.
    for_spacing: f64,
    for_byte: f64,
    /// Feedback that may still be given in the interval.
    increase_left: f64,
    decrease_left: f64,
}

impl Control {
    fn new(queue: &XcpQueue, rate: Rate) -> Control {
        Control {
            capacity: bytes_per_s(rate),
            alpha: queue.alpha,
            beta: queue.beta,
            gamma: queue.gamma,
            interval: None,
            input: 0,
            sum_spacing: 0.0,
            sum_rtt_by_spacing: 0.0,
            mean_rtt: LEAST_INTERVAL,
            queue: 0,
            least_queue: 0,
            queue_measured: Time::ZERO,
            for_spacing: 0.0,
            for_byte: 0.0,
            increase_left: 0.0,
            decrease_left: 0.0,
        }
    }

    /// Takes the least queue of the last interval (section 4.5 of the draft).
    fn measure_queue(&mut self, now: Time, waiting: u64) {
        self.queue = self.least_queue.min(waiting);
        self.least_queue = waiting;
        let of_queue = if self.capacity > 0.0 { waiting as f64 / self.capacity } else { 0.0 };
        let rest = seconds(((self.mean_rtt.as_secs_f64() - of_queue) / 2.0).max(0.0));
        self.queue_measured = now + rest.max(ALLOWED_QUEUE);
    }

    /// Ends a control interval of `length` at `at` (section 4.3 of the draft).
    fn decide(&mut self, length: Dur, at: Time) {
        let (sum_spacing, input) = (self.sum_spacing, self.input as f64);
        if sum_spacing <= 0.0 {
            (self.interval, self.input) = (None, 0);
            (self.increase_left, self.decrease_left) = (0.0, 0.0);
            return;
        }
        let mean = seconds(self.sum_rtt_by_spacing / sum_spacing);
        self.mean_rtt = mean.max(LEAST_INTERVAL).min(LONGEST_INTERVAL);
        let arrivals = input / length.as_secs_f64();
        let drained = self.beta * self.queue as f64 / self.mean_rtt.as_secs_f64();
        let change = self.alpha * (self.capacity - arrivals) - drained;
        let shuffled = (self.gamma * arrivals - change.abs()).max(0.0);
        self.increase_left = shuffled + change.max(0.0);
        self.decrease_left = shuffled + (-change).max(0.0);
        self.for_spacing = self.increase_left / sum_spacing;
        self.for_byte = if input > 0.0 { self.decrease_left / input } else { 0.0 };
        (self.input, self.sum_spacing, self.sum_rtt_by_spacing) = (0, 0.0, 0.0);
        self.interval = Some((at, at + self.mean_rtt));
    }

    /// The feedback for a packet of `bytes` (section 4.4 of the draft), bit/s; `asked`: what routers before permit.
    fn feedback(&mut self, bytes: u32, header: &Header) -> i64 {
        let increase = (self.for_spacing * header.spacing.as_secs_f64()).min(self.increase_left);
        let mut decrease = (self.for_byte * f64::from(bytes)).min(self.decrease_left);
        let permitted = (increase - decrease) * 8.0;
        let asked = header.feedback_bps;
        let granted = if (asked as f64) > permitted {
            permitted.floor() as i64
        } else {
            // The flow gets less than it might: that counts as taken from it.
            decrease = (decrease + (permitted - asked as f64) / 8.0).min(self.decrease_left);
            asked
        };
        self.increase_left -= increase;
        self.decrease_left -= decrease;
        granted
    }
}

impl router::Control for Control {
    const SCHEME: Scheme = Scheme::Xcp;

    fn catch_up(&mut self, now: Time, waiting: u64) {
        if now >= self.queue_measured {
            self.measure_queue(now, waiting);
        }
        while let Some((begin, end)) = self.interval
            && end <= now
        {
            self.decide(end.since(begin), end);
        }
    }

    fn input(&mut self, bytes: u32) {
        self.input += u64::from(bytes);
    }

    fn left(&mut self, waiting: u64) {
        self.least_queue = self.least_queue.min(waiting);
    }

    fn set_capacity(&mut self, rate: Rate) {
        self.capacity = bytes_per_s(rate);
    }

    fn arrived(&mut self, now: Time, header: &Header) {
        if header.rtt == Dur::ZERO || header.spacing == Dur::ZERO {
            return;
        }
        if self.interval.is_none() {
            self.mean_rtt = header.rtt.max(LEAST_INTERVAL).min(LONGEST_INTERVAL);
            self.interval = Some((now, now + self.mean_rtt));
        }
        let spacing = header.spacing.as_secs_f64();
        self.sum_spacing += spacing;
        self.sum_rtt_by_spacing += header.rtt.as_secs_f64() * spacing;
    }

    fn departs(&mut self, wire_bytes: u32, header: &mut Header) {
        header.feedback_bps = self.feedback(wire_bytes, header);
    }
}

fn seconds(seconds: f64) -> Dur {
    Dur((seconds * 1e9) as u64)
}

fn bytes_per_s(rate: Rate) -> f64 {
    rate.0 as f64 / 8.0
}

/// A first-in, first-out queue that gives explicit feedback, with a hard limit.
pub type Xcp<P> = Router<P, Control>;

#[cfg(test)]
mod tests;
