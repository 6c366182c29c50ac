//! Weighted fair queueing: WF2Q+.
//!
//! J. Bennett and H. Zhang, "Hierarchical packet fair queueing algorithms", IEEE/ACM Transactions on Networking 5(5),
//! 1997. Each class that has packets has a start and a finish on the axis of virtual time. Among the classes whose start
//! is not in the future, the one with the least finish is served (smallest eligible finish first). With L the bits of
//! the class's next packet and phi its part of all weights:
//!
//! - the start is the finish of the class's packet before; or the present virtual time, if that is later and the class
//!   had no packet;
//! - the finish is the start plus L / phi;
//! - virtual time grows by the bits that the link sends, and is at least the least start.
//!
//! A class is a guaranteed-rate server: a packet leaves at most the time of one largest packet later than from a link of
//! its own at phi times the rate. In generalised processor sharing, the fluid ideal, a class has at least that rate. A
//! class is also never ahead of that ideal by more than a packet, unlike with self-clocked or start-time queueing.
//!
//! Virtual time has 1/65536 of a bit as its unit; finishes are rounded up. A link that runs idle starts anew.
//!
//! After a change of the weights, a packet whose times are known keeps them.
//!
//! The scheduler must know the size of a class's next packet, so it takes it out of the class's queue ahead of time; an
//! active queue decides on it then.
//!
//! Train: taken apart on arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::children::{Children, bits, of_children};
use crate::classes::{self, DSCP, FLOWS, Members, PORT, QUEUE, SIZE, class_plan, scheduler_plan};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Weighted fair queueing, WF2Q+ (Bennett and Zhang 1997).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WfqQueue {
    /// Hard limit over all classes.
    pub limit: Limit,
    /// The classes.
    pub classes: Vec<WfqClass>,
}

/// A class of weighted fair queueing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WfqClass {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(default)]
    pub members: Members,
    /// Its guaranteed share of the link, parts of a million; not zero.
    pub weight_ppm: u32,
    /// Its queue.
    pub queue: Queue,
}
class_plan!(WfqClass);

const CLASSES: Kind = Kind::NamedClasses {
    name: "WfqClass",
    title: "A class of weighted fair queueing.",
    keys: &[
        DSCP,
        FLOWS,
        PORT,
        key(
            "weight",
            "weight_ppm",
            Kind::Share,
            "Share of the link that is guaranteed to the class, above 0; all of them together at most 100 %. What is \
             left is shared in proportion.",
        ),
        QUEUE,
    ],
};

const FORM: Form = Form {
    name: "wfq",
    title: "Weighted fair queueing, WF2Q+ (Bennett and Zhang, 1997).",
    keys: &[key("classes", "classes", CLASSES, "The classes by name."), SIZE],
};

impl QueuePlan for WfqQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "wfq",
        Place::Queue,
        "Weighted fair queueing (WF2Q+); each class has a queue of its own",
        "Bennett and Zhang 1997",
        &[FORM],
    );

    scheduler_plan!(weight_ppm);

    fn validate(&self, at: &str) -> Result<(), Fault> {
        for (i, class) in self.classes.iter().enumerate() {
            check(class.weight_ppm > 0, || format!("{at}.classes[{i}].weight_ppm"), "must not be zero")?;
        }
        classes::check_weights(self.classes.iter().map(|class| class.weight_ppm), at)?;
        classes::validate(&self.classes, at)
    }
}

impl AtDeparture for WfqQueue {
    type Qdisc<P: Packet + Send> = Wfq<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Wfq<P> {
        let weights: Box<[u64]> = self.classes.iter().map(|class| u64::from(class.weight_ppm)).collect();
        Wfq {
            children: Children::new(&self.classes, &self.limit, port, stream),
            total: weights.iter().sum(),
            tags: vec![Tag::default(); weights.len()].into(),
            weights,
            backlogged: 0,
            virtual_time: 0,
            service: Service { rate: port.rate, since: Time::ZERO, bits: 0 },
        }
    }
}

/// Units of virtual time in a bit.
const UNITS: u64 = 1 << 16;

/// Start and finish of a class's next packet; without one, the finish of its last.
#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    start: u128,
    finish: u128,
}

/// The packet in transmission.
#[derive(Clone, Copy, Debug)]
struct Service {
    rate: Rate,
    since: Time,
    bits: u64,
}

impl Service {
    /// Bits of it sent by `now`.
    fn sent(&self, now: Time) -> u64 {
        let sent = u128::from(now.since(self.since).0) * u128::from(self.rate.0) / 1_000_000_000;
        sent.min(u128::from(self.bits)) as u64
    }
}

/// Weighted fair queueing between classes.
pub struct Wfq<P: Packet + Send> {
    children: Children<P>,
    weights: Box<[u64]>,
    total: u64,
    tags: Box<[Tag]>,
    /// Classes whose next packet is known, one bit each.
    backlogged: u64,
    /// At the start of the present transmission.
    virtual_time: u128,
    service: Service,
}

impl<P: Packet + Send> Wfq<P> {
    /// Looks at the next packet of `class` and gives it its times, from `earliest` on.
    fn tag(&mut self, class: usize, earliest: u128, now: Time, drops: &mut Drops<'_, P>) {
        let Some(bytes) = self.children.peek(class, now, drops) else { return };
        let tag = &mut self.tags[class];
        tag.start = tag.finish.max(earliest);
        let length = u128::from(bytes) * 8 * u128::from(UNITS) * u128::from(self.total);
        tag.finish = tag.start + length.div_ceil(u128::from(self.weights[class]));
        self.backlogged |= 1 << class;
    }

    /// Gives times to packets that became known otherwise than by an arrival: their queue held them back.
    fn tag_held(&mut self, now: Time, drops: &mut Drops<'_, P>) {
        for class in bits(self.children.occupied() & !self.backlogged) {
            self.tag(class, self.virtual_time, now, drops);
        }
    }
}

impl<P: Packet + Send> Qdisc<P> for Wfq<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let (class, outcome) = self.children.enqueue(now, packet, drops);
        if outcome != Enqueued::Dropped && self.backlogged >> class & 1 == 0 {
            let present = self.virtual_time + u128::from(self.service.sent(now)) * u128::from(UNITS);
            self.tag(class, present, now, drops);
        }
        outcome
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        self.virtual_time += u128::from(self.service.bits) * u128::from(UNITS);
        self.service.bits = 0;
        self.tag_held(now, drops);
        let Some(least) = bits(self.backlogged).map(|class| self.tags[class].start).min() else {
            if self.children.packets() == 0 {
                self.virtual_time = 0;
                self.tags.fill(Tag::default());
            }
            return None;
        };
        self.virtual_time = self.virtual_time.max(least);
        let eligible = bits(self.backlogged).filter(|&class| self.tags[class].start <= self.virtual_time);
        let class = eligible.min_by_key(|&class| self.tags[class].finish)?;
        let next = self.children.dequeue(class, now, drops)?;
        self.service =
            Service { since: now, bits: u64::from(self.children.wire_bytes(&next.packet)) * 8, ..self.service };
        self.backlogged &= !(1 << class);
        self.tag(class, 0, now, drops);
        Some(next)
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.service.rate = rate;
        self.children.set_rate(now, rate);
    }

    fn set_shares(&mut self, _now: Time, shares: &[u64]) {
        self.weights.copy_from_slice(shares);
        self.total = shares.iter().sum();
    }

    of_children!();
}
