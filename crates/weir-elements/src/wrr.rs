//! Weighted round robin with credits and two priorities, as in Juniper's M10 (DataTAG).
//!
//! A. Di Donato et al., "On the joint use of new TCP proposals and IP-QoS on high bandwidth-RTT product paths", 2004,
//! appendix A1. The weight of a class guarantees it that share of the link. While the class has not used its share, its
//! credit is positive, and then it is negative. For each packet, the classes are served in this order:
//!
//! 1. high priority, positive credit;
//! 2. low priority, positive credit;
//! 3. high priority, negative credit;
//! 4. low priority, negative credit.
//!
//! The appendix leaves the amounts open: "The credits are decreased immediately when a packet is sent. They are
//! increased frequently." Here they increase all the time, by the weight times the bits that the link could have sent;
//! arithmetic is exact, with whole bits times millionths. A packet costs its bits on the wire when its transmission
//! begins. A credit stays within plus and minus `burst`: an idle class saves no more than that, and one that used what
//! others left owes no more. A credit of zero counts as negative: the share was served. Classes at the same step of the
//! order take turns, packet by packet.
//!
//! New weights count from the instant of the change; credits stay as they are.
//!
//! Among classes that always have packets, each gets its weight within `burst` and a packet, over any time. Bandwidth
//! that no positive credit uses goes by priority, and within a priority by turns, whatever the weights: two classes that
//! both get more than their weights send as many packets. The appendix does not say how such classes share: it serves
//! them "only if one positive credit queue has not used its whole dedicated bandwidth". The link is never idle while a
//! packet may leave.
//!
//! Train: taken apart on arrival; each packet is charged on its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::bucket::BitClock;
use crate::children::{Children, next_bit, of_children};
use crate::classes::{self, DSCP, FLOWS, Members, PORT, QUEUE, SIZE, WHOLE_PPM, class_plan, scheduler_plan};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Weighted round robin with credits and two priorities (DataTAG, appendix A1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrrQueue {
    /// Hard limit over all classes.
    pub limit: Limit,
    /// Most credit of a class, and most that it owes, on the wire.
    pub burst_bytes: u64,
    /// The classes.
    pub classes: Vec<WrrClass>,
}

/// A class of weighted round robin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrrClass {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(default)]
    pub members: Members,
    /// Its guaranteed share of the link, parts of a million.
    pub weight_ppm: u32,
    /// Whether its priority is high.
    #[serde(default)]
    pub high: bool,
    /// Its queue.
    pub queue: Queue,
}
class_plan!(WrrClass);

const CLASSES: Kind = Kind::NamedClasses {
    name: "WrrClass",
    title: "A class of weighted round robin.",
    keys: &[
        DSCP,
        FLOWS,
        PORT,
        key(
            "weight",
            "weight_ppm",
            Kind::Share,
            "Share of the link that is guaranteed to the class; all of them together at most 100 %. What is left is not \
             shared by weight: classes without credit take turns, packet by packet. `0%` guarantees nothing: such a \
             class never has credit, and sends only while no class with credit has packets.",
        ),
        key(
            "priority",
            "high",
            Kind::Choice { values: &["low", "high"] },
            "Classes of high priority go first while they have credit, and have the first choice of what others leave.",
        )
        .or("low"),
        QUEUE,
    ],
};

const FORM: Form = Form {
    name: "wrr",
    title: "Weighted round robin with credits and two priorities (DataTAG, appendix A1).",
    keys: &[
        key("classes", "classes", CLASSES, "The classes by name."),
        key(
            "burst",
            "burst_bytes",
            Kind::Threshold,
            "Most credit that an idle class saves, and most that a class owes after it used what others left; at least \
             one packet.",
        )
        .or("2packets"),
        SIZE,
    ],
};

impl QueuePlan for WrrQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "wrr",
        Place::Queue,
        "Weighted round robin with credits and two priorities; each class has a queue of its own",
        "DataTAG 2004, appendix A1",
        &[FORM],
    );

    scheduler_plan!(weight_ppm);

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.burst_bytes > 0, || format!("{at}.burst_bytes"), "must not be zero")?;
        check(self.burst_bytes < 1 << 40, || format!("{at}.burst_bytes"), "must be below 1 TiB")?;
        classes::check_weights(self.classes.iter().map(|class| class.weight_ppm), at)?;
        classes::validate(&self.classes, at)
    }
}

impl AtDeparture for WrrQueue {
    type Qdisc<P: Packet + Send> = Wrr<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Wrr<P> {
        Wrr::from_plan(self, port, stream)
    }
}

/// Steps of the order of service.
const STEPS: usize = 4;

/// Weighted round robin with credits and two priorities.
pub struct Wrr<P: Packet + Send> {
    children: Children<P>,
    clock: BitClock,
    /// Millionths of each class.
    weights: Box<[i64]>,
    /// Bits times a million.
    credits: Box<[i64]>,
    burst: i64,
    /// Classes of high priority, one bit each.
    high: u64,
    /// Classes whose credit is above zero.
    positive: u64,
    /// For each step of the order, the class that has the next turn.
    turns: [usize; STEPS],
}

impl<P: Packet + Send> Wrr<P> {
    /// Empty queues before an idle link.
    pub fn from_plan(queue: &WrrQueue, port: Port, stream: Stream) -> Wrr<P> {
        let high = (0..).zip(&queue.classes).filter(|(_, class)| class.high).map(|(i, _): (u32, _)| 1u64 << i).sum();
        // A packet's overshoot is always paid: with less than a packet, it would be forgiven.
        let burst_bytes = queue.burst_bytes.max(u64::from(port.full_packet()));
        Wrr {
            children: Children::new(&queue.classes, &queue.limit, port, stream),
            clock: BitClock::new(port.rate),
            weights: queue.classes.iter().map(|class| i64::from(class.weight_ppm)).collect(),
            credits: vec![0; queue.classes.len()].into(),
            burst: (burst_bytes * 8) as i64 * i64::from(WHOLE_PPM),
            high,
            positive: 0,
            turns: [0; STEPS],
        }
    }

    /// Adds what every class has earned until `now`.
    fn earn(&mut self, now: Time) {
        let bits = self.clock.advance(now);
        self.positive = 0;
        for (class, (credit, &weight)) in self.credits.iter_mut().zip(&self.weights).enumerate() {
            *credit = credit.saturating_add(weight.saturating_mul(bits)).min(self.burst);
            self.positive |= u64::from(*credit > 0) << class;
        }
    }

    /// The class to serve among `open`, and its step in the order of service.
    #[inline]
    fn choose(&self, open: u64) -> Option<(usize, usize)> {
        let (positive, high) = (open & self.positive, self.high);
        let steps = [positive & high, positive & !high, open & high, open];
        (0..STEPS).find_map(|step| next_bit(steps[step], self.turns[step]).map(|class| (class, step)))
    }

    #[inline]
    fn charge(&mut self, class: usize, wire_bytes: u32) {
        let bits = i64::from(wire_bytes) * 8 * i64::from(WHOLE_PPM);
        self.credits[class] = (self.credits[class] - bits).max(-self.burst);
    }
}

impl<P: Packet + Send> Qdisc<P> for Wrr<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.children.enqueue(now, packet, drops).1
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        let mut open = self.children.occupied();
        if open == 0 {
            return None;
        }
        self.earn(now);
        loop {
            let (class, step) = self.choose(open)?;
            if let Some(next) = self.children.dequeue(class, now, drops) {
                self.charge(class, self.children.wire_bytes(&next.packet));
                self.turns[step] = (class + 1) % self.weights.len();
                return Some(next);
            }
            // Its queue holds its packets back, or has dropped them.
            open &= !(1 << class);
        }
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.earn(now);
        self.clock.rate = rate;
        self.children.set_rate(now, rate);
    }

    fn set_shares(&mut self, now: Time, shares: &[u64]) {
        self.earn(now);
        self.weights = shares.iter().map(|&share| share as i64).collect();
    }

    of_children!();
}
