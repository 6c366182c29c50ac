//! Enhanced transmission selection: classes of strict priority before classes that share what they leave.
//!
//! IEEE 802.1Q-2018, section 37.3, as in Linux' `ets`: the strict classes are served first, in their order; the others
//! take turns by deficit round robin ([`crate::drr`]) while no strict class has a packet that may leave.
//!
//! Train: taken apart on arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::children::{Children, bits, of_children};
use crate::classes::{self, DSCP, FLOWS, Members, PORT, QUEUE, SIZE, class_plan, scheduler_plan};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::drr::{QUANTUM, Turns, check_quantum};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Enhanced transmission selection (IEEE 802.1Q-2018, section 37.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtsQueue {
    /// Hard limit over all classes.
    pub limit: Limit,
    /// The classes; the strict ones are served in this order.
    pub classes: Vec<EtsClass>,
}

/// A class of enhanced transmission selection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtsClass {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(default)]
    pub members: Members,
    /// Whether it is served before all classes that are not.
    #[serde(default)]
    pub strict: bool,
    /// Bytes on the wire that it may send a round, if it is not strict.
    pub quantum_bytes: u64,
    /// Its queue.
    pub queue: Queue,
}
class_plan!(EtsClass);

const CLASSES: Kind = Kind::NamedClasses {
    name: "EtsClass",
    title: "A class of enhanced transmission selection.",
    keys: &[
        DSCP,
        FLOWS,
        PORT,
        key("strict", "strict", Kind::Flag, "Served before all classes that are not, in the order of the classes.")
            .or("false"),
        QUANTUM,
        QUEUE,
    ],
};

const FORM: Form = Form {
    name: "ets",
    title: "Enhanced transmission selection: strict priority, then deficit round robin (IEEE 802.1Q).",
    keys: &[
        key("classes", "classes", CLASSES, "The classes by name, strict ones in the order of their priority."),
        SIZE,
    ],
};

impl QueuePlan for EtsQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "ets",
        Place::Queue,
        "Enhanced transmission selection: strict classes, then classes that take turns; each has a queue of its own",
        "IEEE 802.1Q-2018, section 37.3",
        &[FORM],
    );

    scheduler_plan!(quantum_bytes);

    fn validate(&self, at: &str) -> Result<(), Fault> {
        let quanta = self.classes.iter().map(|class| class.quantum_bytes);
        check_quantum(quanta, at)?;
        let first = self.classes.iter().position(|class| !class.strict).unwrap_or(self.classes.len());
        let late = self.classes[first..].iter().position(|class| class.strict);
        let place = || format!("{at}.classes[{}].strict", first + late.unwrap_or(0));
        check(late.is_none(), place, "a strict class behind one that is not")?;
        classes::validate(&self.classes, at)
    }
}

impl AtDeparture for EtsQueue {
    type Qdisc<P: Packet + Send> = Ets<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Ets<P> {
        let classes = &self.classes;
        Ets {
            children: Children::new(classes, &self.limit, port, stream),
            strict: (0..).zip(classes).map(|(i, class): (u32, _)| u64::from(class.strict) << i).sum(),
            turns: Turns::new(classes.iter().map(|class| class.quantum_bytes)),
        }
    }
}

/// Classes of strict priority before classes that take turns.
pub struct Ets<P: Packet + Send> {
    children: Children<P>,
    /// The strict classes, one bit each.
    strict: u64,
    turns: Turns,
}

impl<P: Packet + Send> Qdisc<P> for Ets<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let (class, outcome) = self.children.enqueue(now, packet, drops);
        if outcome != Enqueued::Dropped && self.strict >> class & 1 == 0 {
            self.turns.join(class);
        }
        outcome
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        let first = bits(self.children.occupied() & self.strict);
        let strict = first.into_iter().find_map(|class| self.children.dequeue(class, now, drops));
        strict.or_else(|| self.turns.dequeue(&mut self.children, now, drops))
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.set_rate(now, rate);
    }

    fn set_shares(&mut self, _now: Time, shares: &[u64]) {
        self.turns.quanta.copy_from_slice(shares);
    }

    of_children!();
}
