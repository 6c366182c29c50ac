//! Strict priority: the first class with a packet is served.
//!
//! Classes are in the order of their priority, the first one highest, as in Linux' `prio`. A class is served only while
//! all before it are empty or hold their packets back, so it may starve. A packet of the first class waits for one
//! packet at most besides those of its class. The link is never idle while a packet may leave.
//!
//! Train: taken apart on arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::children::{Children, bits, of_children};
use crate::classes::{self, DSCP, FLOWS, Members, PORT, QUEUE, SIZE, class_plan, scheduler_plan};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, key};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Strict priority between classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrioQueue {
    /// Hard limit over all classes.
    pub limit: Limit,
    /// The classes, highest priority first.
    pub classes: Vec<PrioClass>,
}

/// A class of strict priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrioClass {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(default)]
    pub members: Members,
    /// Its queue.
    pub queue: Queue,
}
class_plan!(PrioClass);

const CLASSES: Kind =
    Kind::NamedClasses { name: "PrioClass", title: "A class of strict priority.", keys: &[DSCP, FLOWS, PORT, QUEUE] };

const FORM: Form = Form {
    name: "prio",
    title: "Strict priority: a class is served while all before it are empty.",
    keys: &[key("classes", "classes", CLASSES, "The classes by name, highest priority first."), SIZE],
};

impl QueuePlan for PrioQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "prio",
        Place::Queue,
        "Strict priority between classes; each class has a queue of its own",
        "RFC 2475, section 2.3.3",
        &[FORM],
    );

    scheduler_plan!();

    fn validate(&self, at: &str) -> Result<(), Fault> {
        classes::validate(&self.classes, at)
    }
}

impl AtDeparture for PrioQueue {
    type Qdisc<P: Packet + Send> = Prio<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Prio<P> {
        Prio { children: Children::new(&self.classes, &self.limit, port, stream) }
    }
}

/// Strict priority between classes.
pub struct Prio<P: Packet + Send> {
    children: Children<P>,
}

impl<P: Packet + Send> Qdisc<P> for Prio<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.children.enqueue(now, packet, drops).1
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        bits(self.children.occupied()).find_map(|class| self.children.dequeue(class, now, drops))
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.set_rate(now, rate);
    }

    of_children!();
}
