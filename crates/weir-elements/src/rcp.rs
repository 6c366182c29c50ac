//! RCP: the router of the Rate Control Protocol (N. Dukkipati, M. Kobayashi, R. Zhang-Shen, N. McKeown, "Processor sharing
//! flows in the Internet", IWQoS 2005, section 3).
//!
//! The router has one rate `R` for all flows, and lowers the rate in each packet's header to it. Every `T`, at most a
//! round-trip time, `R` changes by the spare bandwidth and the queue:
//! `R = R (1 + T / d (alpha (eta C - y) - beta q / d) / (eta C))`, with the capacity `C`, the share `eta` of it that RCP
//! uses, the arrivals `y`, the queue `q` and the mean round-trip time `d`. `C / R` is an estimate of the number of flows,
//! so the router needs no state for each.
//!
//! Choices of this file, where the paper leaves them open:
//!
//! - `R` is at most `eta C`, with which it begins unless `initial` says less, and at least a full packet in a mean
//!   round-trip time;
//! - `d` is a moving average over packets with weight 0.02, 1 ms to 10 s.
//!
//! The queue is first in, first out. Packets without a header of RCP count as arrivals.
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

/// The router of the Rate Control Protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RcpQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Weight of the spare bandwidth; 0.4.
    pub alpha: f64,
    /// Weight of the queue; 0.4.
    pub beta: f64,
    /// Share of the capacity that flows use; 0.95.
    pub eta: f64,
    /// Longest time between two updates of the rate; 10 ms.
    pub update_ns: u64,
    /// The rate at the beginning, as a share of the capacity; 0.05.
    pub initial: f64,
}

const GAIN: Kind = Kind::Number { min: 0.0, max: 10.0, positive: true };
const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0, positive: true };
const FORM: Form = Form {
    name: "rcp",
    title: "Router of the Rate Control Protocol, for flows with `cc: rcp`; in the simulator only.",
    keys: &[
        size("Hard limit; 1000 packets.").or("1000packets"),
        key("alpha", "alpha", GAIN, "Weight of the spare bandwidth; 0.4.").or("0.4"),
        key("beta", "beta", GAIN, "Weight of the queue; 0.4.").or("0.4"),
        key("eta", "eta", SHARE, "Share of the capacity that flows use; 0.95.").or("0.95"),
        key(
            "update",
            "update_ns",
            Kind::Time { positive: true },
            "Longest time between two updates of the rate; 10 ms.",
        )
        .or("10ms"),
        key("initial", "initial", SHARE, "The rate at the beginning, as a share of the capacity; 0.05.").or("0.05"),
    ],
};

impl QueuePlan for RcpQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "rcp",
        Place::Queue,
        "First in, first out; tells each RCP packet the rate that all flows may have",
        "Dukkipati et al. 2005",
        &[FORM],
    );

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.update_ns > 0, || format!("{at}.update_ns"), "must not be zero")?;
        for (name, gain) in [("alpha", self.alpha), ("beta", self.beta)] {
            let place = || format!("{at}.{name}");
            check(gain.is_finite() && gain > 0.0, place, "must be finite and above zero")?;
        }
        for (name, share) in [("eta", self.eta), ("initial", self.initial)] {
            check(share > 0.0 && share <= 1.0, || format!("{at}.{name}"), "must be a share, above 0 and at most 1")?;
        }
        Ok(())
    }
}

impl AtDeparture for RcpQueue {
    type Qdisc<P: Packet + Send> = Rcp<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, _stream: Stream) -> Rcp<P> {
        Router::new(&self.limit, port, Control::new(self, &port))
    }
}

const LEAST_RTT: Dur = Dur::from_millis(1);
const LONGEST_RTT: Dur = Dur::from_secs(10);
/// Weight of a packet in the mean round-trip time.
const RTT_WEIGHT: f64 = 0.02;

/// The rate of all flows. Rates are bytes per second on the wire.
#[derive(Clone, Debug)]
pub struct Control {
    alpha: f64,
    beta: f64,
    eta: f64,
    longest: Dur,
    capacity: f64,
    full_packet: f64,
    rate: f64,
    /// Mean round-trip time; none before the first packet that tells one.
    mean_rtt: Option<Dur>,
    /// Bytes that arrived since the last update, and when it was.
    input: u64,
    updated: Time,
}

impl Control {
    fn new(queue: &RcpQueue, port: &Port) -> Control {
        let capacity = port.rate.0 as f64 / 8.0;
        Control {
            alpha: queue.alpha,
            beta: queue.beta,
            eta: queue.eta,
            longest: Dur(queue.update_ns),
            capacity,
            full_packet: f64::from(port.full_packet()),
            rate: capacity * queue.initial.min(queue.eta),
            mean_rtt: None,
            input: 0,
            updated: Time::ZERO,
        }
    }

    fn update(&mut self, interval: Dur, mean_rtt: Dur, waiting: u64) {
        let (t, d) = (interval.as_secs_f64(), mean_rtt.as_secs_f64());
        let arrivals = std::mem::take(&mut self.input) as f64 / t;
        let used = self.eta * self.capacity;
        if used <= 0.0 {
            return;
        }
        let change = self.alpha * (used - arrivals) - self.beta * waiting as f64 / d;
        let least = (self.full_packet / d).min(used);
        self.rate = (self.rate * (1.0 + t / d * change / used)).clamp(least, used);
    }
}

impl router::Control for Control {
    const SCHEME: Scheme = Scheme::Rcp;

    fn catch_up(&mut self, now: Time, waiting: u64) {
        let Some(mean_rtt) = self.mean_rtt else {
            (self.updated, self.input) = (now, 0);
            return;
        };
        let interval = self.longest.min(mean_rtt);
        while self.updated + interval <= now {
            let before = self.rate;
            self.update(interval, mean_rtt, waiting);
            self.updated += interval;
            if self.rate == before && self.input == 0 && self.updated + interval <= now {
                // Nothing changes until the next packet: skip the rest of a long idle time.
                self.updated += interval * ((now.0 - self.updated.0) / interval.0);
            }
        }
    }

    fn input(&mut self, bytes: u32) {
        self.input += u64::from(bytes);
    }

    fn set_capacity(&mut self, rate: Rate) {
        self.capacity = rate.0 as f64 / 8.0;
    }

    fn arrived(&mut self, _now: Time, header: &Header) {
        if header.rtt == Dur::ZERO {
            return;
        }
        let rtt = header.rtt.max(LEAST_RTT).min(LONGEST_RTT);
        let mean = self.mean_rtt.unwrap_or(rtt);
        let moved = RTT_WEIGHT * rtt.0 as f64 + (1.0 - RTT_WEIGHT) * mean.0 as f64;
        self.mean_rtt = Some(Dur(moved as u64));
    }

    fn departs(&mut self, _wire_bytes: u32, header: &mut Header) {
        header.feedback_bps = header.feedback_bps.min((self.rate * 8.0) as i64);
    }
}

/// A first-in, first-out queue that tells flows their rate, with a hard limit.
pub type Rcp<P> = Router<P, Control>;

#[cfg(test)]
mod tests;
