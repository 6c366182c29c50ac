//! Policer: a three-colour meter that drops what does not conform, before a queue of any kind.
//!
//! The single-rate meter (RFC 2697) has the committed bucket, of size `burst`, and the excess bucket, of size `excess`.
//! Tokens come at `rate` into the committed bucket, and into the excess bucket while that one is full. A packet is green
//! and takes committed tokens if there are enough, else yellow and takes excess tokens, else red.
//!
//! The two-rate meter (RFC 2698) has the peak bucket, which fills at `peak` up to `peak_burst`, and the committed bucket,
//! which fills at `rate` up to `burst`. A packet is red if the peak bucket has not enough tokens; yellow, taking peak
//! tokens, if only the committed bucket has not; else green, taking tokens of both.
//!
//! Both are colour-blind, and both count bytes on the wire in exact arithmetic. Red packets are dropped, and yellow ones
//! if the plan says so; green ones join the queue, which may still drop them. Nothing is delayed. New rates count from the
//! instant of the change; the buckets keep what they hold, and their sizes.
//!
//! Train: taken apart on arrival; each packet has its own colour.

use std::slice::Iter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::bucket::Bucket;
use crate::children::{Children, of_child};
use crate::classes::{INSIDE, Only, SIZE};
use crate::declare::{ElementInfo, Fault, Form, Key, Kind, Place, QueuePlan, TokenRates, check, key};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Policer (RFC 2697, RFC 2698).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoliceQueue {
    /// Hard limit of the queue.
    pub limit: Limit,
    /// Committed rate, on the wire.
    pub rate_bps: u64,
    /// Size of the committed bucket, on the wire.
    pub burst_bytes: u64,
    /// Size of the excess bucket of the single-rate meter, on the wire.
    #[serde(default)]
    pub excess_bytes: u64,
    /// Peak rate, on the wire; 0: the meter has a single rate.
    #[serde(default)]
    pub peak_bps: u64,
    /// Size of the peak bucket of the two-rate meter, on the wire.
    #[serde(default)]
    pub peak_burst_bytes: u64,
    /// Whether yellow packets are dropped as well.
    #[serde(default)]
    pub drop_yellow: bool,
    /// The queue behind the meter.
    pub queue: Box<Queue>,
}

const RATE: Key = key("rate", "rate_bps", Kind::Rate, "Committed rate, counted on the wire.");
const BURST: Key =
    key("burst", "burst_bytes", Kind::Threshold, "Size of the committed bucket, at least one packet.").or("10packets");
const YELLOW: Key = key(
    "yellow",
    "drop_yellow",
    Kind::Choice { values: &["pass", "drop"] },
    "Whether yellow packets pass. Red ones are dropped.",
)
.or("pass");

const SINGLE: Form = Form {
    name: "police",
    title: "Policer with the single-rate three-colour meter (RFC 2697).",
    keys: &[
        RATE,
        BURST,
        key(
            "excess",
            "excess_bytes",
            Kind::Threshold,
            "Size of the excess bucket; packets that take from it are yellow.",
        )
        .or("0"),
        YELLOW,
        INSIDE,
        SIZE,
    ],
};

const TWO: Form = Form {
    name: "police_two_rate",
    title: "Policer with the two-rate three-colour meter (RFC 2698).",
    keys: &[
        RATE,
        BURST,
        key("peak", "peak_bps", Kind::Rate, "Peak rate, counted on the wire, not below `rate`."),
        key("peak_burst", "peak_burst_bytes", Kind::Threshold, "Size of the peak bucket, at least one packet.")
            .or("10packets"),
        YELLOW,
        INSIDE,
        SIZE,
    ],
};

impl QueuePlan for PoliceQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "police",
        Place::Queue,
        "Policer with a three-colour meter before a queue of any kind",
        "RFC 2697, RFC 2698",
        &[SINGLE, TWO],
    );

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn depth(&self) -> usize {
        1 + self.queue.depth()
    }

    fn within(&mut self) -> Vec<&mut Queue> {
        vec![&mut self.queue]
    }

    fn set_token_rates(&mut self, rates: &mut Iter<'_, TokenRates>) -> bool {
        let Some(own) = rates.next() else { return false };
        let two = self.peak_bps > 0;
        self.rate_bps = own.rate_bps;
        self.peak_bps = own.peak_bps.unwrap_or(0);
        two == (self.peak_bps > 0) && self.queue.set_token_rates(rates)
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        let place = |field: &str| format!("{at}.{field}");
        check(self.rate_bps > 0, || place("rate_bps"), "a policer of rate 0 passes nothing")?;
        let two = self.peak_bps > 0;
        check(!two || self.peak_bps >= self.rate_bps, || place("peak_bps"), "must not be below `rate_bps`")?;
        let sizes = [("excess_bytes", self.excess_bytes), ("peak_burst_bytes", self.peak_burst_bytes)];
        for (field, size) in [("burst_bytes", self.burst_bytes)].into_iter().chain(sizes) {
            check(size < 1 << 40, || place(field), "expected less than 1 TiB")?;
        }
        check(self.burst_bytes > 0, || place("burst_bytes"), "must not be zero")?;
        check(!two || self.peak_burst_bytes > 0, || place("peak_burst_bytes"), "must not be zero")?;
        self.queue.validate(&format!("{at}.queue"))
    }
}

impl AtDeparture for PoliceQueue {
    type Qdisc<P: Packet + Send> = Police<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Police<P> {
        let rate = Rate::from_bps(self.rate_bps);
        let committed = Bucket::new(rate, self.burst_bytes);
        let meter = if self.peak_bps > 0 {
            Meter::Two { committed, peak: Bucket::new(Rate::from_bps(self.peak_bps), self.peak_burst_bytes) }
        } else {
            Meter::Single { committed, excess: Bucket::new(rate, self.excess_bytes) }
        };
        let children = Children::new(&[Only::new(&self.queue)], &self.limit, port, stream);
        Police { children, meter, drop_yellow: self.drop_yellow }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Green,
    Yellow,
    Red,
}

#[derive(Clone, Debug)]
enum Meter {
    Single { committed: Bucket, excess: Bucket },
    Two { committed: Bucket, peak: Bucket },
}

impl Meter {
    fn set_rates(&mut self, now: Time, rates: TokenRates) {
        let rate = Rate::from_bps(rates.rate_bps);
        match self {
            Meter::Single { committed, excess } => {
                excess.pour(committed.set_rate(now, rate));
            }
            Meter::Two { committed, peak } => {
                committed.set_rate(now, rate);
                peak.set_rate(now, Rate::from_bps(rates.peak_bps.unwrap_or(rates.rate_bps)));
            }
        }
    }

    fn colour(&mut self, now: Time, bytes: u32) -> Colour {
        match self {
            Meter::Single { committed, excess } => {
                excess.pour(committed.fill(now));
                match (committed, excess) {
                    (first, _) if first.has(bytes) => (first.take(bytes), Colour::Green).1,
                    (_, second) if second.has(bytes) => (second.take(bytes), Colour::Yellow).1,
                    _ => Colour::Red,
                }
            }
            Meter::Two { committed, peak } => {
                committed.fill(now);
                peak.fill(now);
                if !peak.has(bytes) {
                    return Colour::Red;
                }
                peak.take(bytes);
                if !committed.has(bytes) {
                    return Colour::Yellow;
                }
                committed.take(bytes);
                Colour::Green
            }
        }
    }
}

/// A policer before its queue.
pub struct Police<P: Packet + Send> {
    children: Children<P>,
    meter: Meter,
    drop_yellow: bool,
}

impl<P: Packet + Send> Qdisc<P> for Police<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let colour = self.meter.colour(now, self.children.wire_bytes(&packet));
        if colour == Colour::Red || (self.drop_yellow && colour == Colour::Yellow) {
            return self.children.refuse(packet, drops);
        }
        self.children.enqueue(now, packet, drops).1
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        self.children.dequeue(0, now, drops)
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.set_rate(now, rate);
    }

    fn set_token_rates(&mut self, now: Time, rates: &mut Iter<'_, TokenRates>) {
        if let Some(own) = rates.next() {
            self.meter.set_rates(now, *own);
        }
        self.children.set_token_rates(now, rates);
    }

    fn held_until(&self, now: Time) -> Option<Time> {
        self.children.held_until(now)
    }

    of_child!();
}
