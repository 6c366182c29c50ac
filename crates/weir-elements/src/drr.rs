//! Deficit round robin.
//!
//! M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995. Classes with packets
//! are in a list. The class whose turn it is adds its quantum to its deficit and sends while the next packet is not
//! larger than the deficit; then it goes to the end of the list and keeps the rest for its next turn. A class that
//! becomes empty leaves the list and loses its deficit.
//!
//! Over any time in which two classes always have packets, the bytes that they send, divided by their quanta, differ by
//! less than a round: for equal quanta Q by at most Q + 2 Max, with Max the largest packet (the paper's lemma 2). A
//! quantum of at least the largest packet makes every turn send.
//!
//! The scheduler must know the size of a class's next packet. It takes that packet out of the class's queue when it
//! looks, so an active queue decides on it then; Linux' `drr` does the same.
//!
//! Train: taken apart on arrival.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::children::{Children, of_children};
use crate::classes::{self, DSCP, FLOWS, Members, PORT, QUEUE, SIZE, class_plan, scheduler_plan};
use crate::declare::{ElementInfo, Fault, Form, Key, Kind, Place, QueuePlan, check, key};
use crate::qdisc::{AtDeparture, Drops};
use crate::{Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Deficit round robin between classes (Shreedhar and Varghese 1995).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrrQueue {
    /// Hard limit over all classes.
    pub limit: Limit,
    /// The classes.
    pub classes: Vec<DrrClass>,
}

/// A class of deficit round robin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrrClass {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(default)]
    pub members: Members,
    /// Bytes on the wire that it may send a round.
    pub quantum_bytes: u64,
    /// Its queue.
    pub queue: Queue,
}
class_plan!(DrrClass);

/// The key of a class's quantum.
pub(crate) const QUANTUM: Key = key(
    "quantum",
    "quantum_bytes",
    Kind::Threshold,
    "Size that the class may send a round, at least one packet. Classes share the link in proportion.",
)
.or("1packets");

/// Checks the quanta of classes.
pub(crate) fn check_quantum(quanta: impl Iterator<Item = u64>, at: &str) -> Result<(), Fault> {
    for (i, quantum) in quanta.enumerate() {
        let problem = "expected at least 1 byte, and less than 1 TiB";
        check((1..1 << 40).contains(&quantum), || format!("{at}.classes[{i}].quantum_bytes"), problem)?;
    }
    Ok(())
}

const CLASSES: Kind = Kind::NamedClasses {
    name: "DrrClass",
    title: "A class of deficit round robin.",
    keys: &[DSCP, FLOWS, PORT, QUANTUM, QUEUE],
};

const FORM: Form = Form {
    name: "drr",
    title: "Deficit round robin (Shreedhar and Varghese, 1995).",
    keys: &[key("classes", "classes", CLASSES, "The classes by name."), SIZE],
};

impl QueuePlan for DrrQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "drr",
        Place::Queue,
        "Deficit round robin between classes; each class has a queue of its own",
        "Shreedhar and Varghese 1995",
        &[FORM],
    );

    scheduler_plan!(quantum_bytes);

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check_quantum(self.classes.iter().map(|class| class.quantum_bytes), at)?;
        classes::validate(&self.classes, at)
    }
}

impl AtDeparture for DrrQueue {
    type Qdisc<P: Packet + Send> = Drr<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Drr<P> {
        Drr {
            children: Children::new(&self.classes, &self.limit, port, stream),
            turns: Turns::new(self.classes.iter().map(|class| class.quantum_bytes)),
        }
    }
}

/// Deficit round robin between classes.
pub struct Drr<P: Packet + Send> {
    children: Children<P>,
    turns: Turns,
}

impl<P: Packet + Send> Qdisc<P> for Drr<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let (class, outcome) = self.children.enqueue(now, packet, drops);
        if outcome != Enqueued::Dropped {
            self.turns.join(class);
        }
        outcome
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        self.turns.dequeue(&mut self.children, now, drops)
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.set_rate(now, rate);
    }

    fn set_shares(&mut self, _now: Time, shares: &[u64]) {
        self.turns.quanta.copy_from_slice(shares);
    }

    of_children!();
}

/// The turns of the classes of a scheduler, or of some of them.
pub(crate) struct Turns {
    /// Bytes on the wire that each class may send a turn.
    pub quanta: Box<[u64]>,
    deficits: Box<[u64]>,
    /// Classes with packets, in the order of their turns.
    active: VecDeque<u8>,
    /// The same, one bit each.
    listed: u64,
    /// Whether the first class has added its quantum in this turn.
    has_quantum: bool,
}

impl Turns {
    /// For classes with these quanta, bytes on the wire.
    pub fn new(quanta: impl Iterator<Item = u64>) -> Turns {
        let quanta: Box<[u64]> = quanta.collect();
        Turns {
            deficits: vec![0; quanta.len()].into(),
            active: VecDeque::with_capacity(quanta.len()),
            quanta,
            listed: 0,
            has_quantum: false,
        }
    }

    /// Takes note of a packet of `class` that waits.
    #[inline]
    pub fn join(&mut self, class: usize) {
        if self.listed >> class & 1 == 0 {
            self.listed |= 1 << class;
            self.active.push_back(class as u8);
        }
    }

    /// The next packet of the classes that take turns.
    pub fn dequeue<P: Packet + Send>(
        &mut self,
        children: &mut Children<P>,
        now: Time,
        drops: &mut Drops<'_, P>,
    ) -> Option<Dequeued<P>> {
        let mut held = 0u64;
        loop {
            if held == self.listed {
                return None;
            }
            let class = usize::from(*self.active.front()?);
            let Some(bytes) = children.peek(class, now, drops) else {
                if children.occupied() >> class & 1 == 0 {
                    self.leave(class);
                } else {
                    // Its queue holds its packets back: it has no turn, and gets no quantum.
                    held |= 1 << class;
                    self.next_turn();
                }
                continue;
            };
            if !self.has_quantum {
                self.deficits[class] += self.quanta[class];
                self.has_quantum = true;
            }
            if u64::from(bytes) > self.deficits[class] {
                self.next_turn();
                continue;
            }
            self.deficits[class] -= u64::from(bytes);
            let next = children.dequeue(class, now, drops);
            if children.occupied() >> class & 1 == 0 {
                self.leave(class);
            }
            return next;
        }
    }

    fn next_turn(&mut self) {
        self.active.rotate_left(1);
        self.has_quantum = false;
    }

    fn leave(&mut self, class: usize) {
        self.active.pop_front();
        self.listed &= !(1 << class);
        self.deficits[class] = 0;
        self.has_quantum = false;
    }
}
