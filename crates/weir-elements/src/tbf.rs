//! Token-bucket shaper: holds packets back so that they conform to a rate and a burst.
//!
//! The bucket holds at most `burst` and fills at `rate`. A packet leaves when the bucket has its bytes on the wire, and
//! takes them. Over any time t, at most `burst + rate t` leaves. The arithmetic is exact, in whole bits with a remainder:
//! a shaper that always has packets sends at its rate, whatever their sizes. While none may leave,
//! [`Qdisc::held_until`] names the instant at which the next one may. A bucket smaller than the largest packet would hold
//! it for ever, so it has at least the size of one.
//!
//! The shaper must know the size of the next packet, so it takes it out of its queue ahead of time; an active queue
//! decides on it then, as in Linux' `tbf`.
//!
//! A new rate counts from the instant of the change; the bucket keeps what it holds, and its size.
//!
//! Train: taken apart on arrival; each packet takes its own tokens.

use std::slice::Iter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::bucket::Bucket;
use crate::children::{Children, of_child};
use crate::classes::{INSIDE, Only, SIZE};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, TokenRates, check, key};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Token-bucket shaper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TbfQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Rate at which the bucket fills, on the wire.
    pub rate_bps: u64,
    /// Size of the bucket, on the wire.
    pub burst_bytes: u64,
    /// The queue that is shaped.
    pub queue: Box<Queue>,
}

const FORM: Form = Form {
    name: "tbf",
    title: "Token-bucket shaper: holds packets back so that they conform to a rate and a burst.",
    keys: &[
        key("rate", "rate_bps", Kind::Rate, "Rate, counted on the wire."),
        key("burst", "burst_bytes", Kind::Threshold, "Size of the bucket, at least one packet.").or("10packets"),
        INSIDE,
        SIZE,
    ],
};

impl QueuePlan for TbfQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "tbf",
        Place::Queue,
        "Token-bucket shaper before a queue of any kind",
        "RFC 2697, section 3, with one bucket",
        &[FORM],
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
        self.rate_bps = own.rate_bps;
        own.peak_bps.is_none() && self.queue.set_token_rates(rates)
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.rate_bps > 0, || format!("{at}.rate_bps"), "a shaper of rate 0 never sends")?;
        let sane = (1..1 << 40).contains(&self.burst_bytes);
        check(sane, || format!("{at}.burst_bytes"), "expected at least 1 byte, and less than 1 TiB")?;
        self.queue.validate(&format!("{at}.queue"))
    }
}

impl AtDeparture for TbfQueue {
    type Qdisc<P: Packet + Send> = Tbf<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Tbf<P> {
        let burst = self.burst_bytes.max(u64::from(port.full_packet()));
        Tbf {
            children: Children::new(&[Only::new(&self.queue)], &self.limit, port, stream),
            bucket: Bucket::new(Rate::from_bps(self.rate_bps), burst),
            held: None,
        }
    }
}

/// A shaper before its queue.
pub struct Tbf<P: Packet + Send> {
    children: Children<P>,
    bucket: Bucket,
    /// The instant at which the next packet may leave, if it may not yet.
    held: Option<Time>,
}

impl<P: Packet + Send> Qdisc<P> for Tbf<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.children.enqueue(now, packet, drops).1
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        self.held = None;
        let bytes = self.children.peek(0, now, drops)?;
        self.bucket.fill(now);
        if !self.bucket.has(bytes) {
            self.held = self.bucket.ready_at(bytes);
            return None;
        }
        self.bucket.take(bytes);
        self.children.dequeue(0, now, drops)
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.set_rate(now, rate);
    }

    fn set_token_rates(&mut self, now: Time, rates: &mut Iter<'_, TokenRates>) {
        if let Some(own) = rates.next() {
            self.bucket.set_rate(now, Rate::from_bps(own.rate_bps));
        }
        self.children.set_token_rates(now, rates);
    }

    fn held_until(&self, now: Time) -> Option<Time> {
        self.held.or_else(|| self.children.held_until(now))
    }

    of_child!();
}
