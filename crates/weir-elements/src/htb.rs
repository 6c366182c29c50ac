//! Hierarchical token buckets: classes with a guaranteed rate that borrow from their parents up to a ceiling.
//!
//! M. Devera's HTB, as Linux has it (`sch_htb`). The classes are a tree. A class in whose queue another hierarchy is
//! has that one's classes as its children; the others are leaves with a queue of any kind. Every class has two token
//! buckets: one of its rate, and one of its ceiling. A leaf with packets may send
//!
//! - by itself, while the bucket of its rate is not in debt;
//! - with what it borrows from the next class above whose rate is not in debt;
//!
//! and only while no ceiling on the way, from itself to the lender, is in debt. Lenders further down the tree come
//! first, so that a class gets its own rate before anybody borrows; then the priority of the leaf counts; then leaves
//! take turns by their quanta. A packet is charged to all ceilings up to the root, and to the rates from the lender up:
//! what a class borrows does not use up its own rate. Buckets may fall into debt by one packet, which delays the next.
//!
//! Without a rate of its own, the root lends whatever the link transmits. If no leaf may send, the scheduler holds its
//! packets back; [`Qdisc::held_until`] names the instant at which the first one may. The limit is that of the outermost
//! hierarchy. New rates and ceilings count from the instant of the change; buckets keep what they hold, and their sizes.
//!
//! Train: taken apart on arrival; each packet takes its own tokens.

use std::slice::Iter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::bucket::Bucket;
use crate::children::{Children, bits, next_bit};
use crate::classes::{
    self, ClassPlan, Classifier, DSCP, FLOWS, Members, PORT, QUEUE, SIZE, class_plan, scheduler_plan,
};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, TokenRates, check, key};
use crate::drr::QUANTUM;
use crate::qdisc::{AtDeparture, Drops};
use crate::{Counters, Dequeued, Enqueued, Limit, Packet, Port, Qdisc, Queue};

/// Hierarchical token buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HtbQueue {
    /// Hard limit over all classes, in the outermost hierarchy.
    pub limit: Limit,
    /// Rate of all classes together, on the wire; none: that of the link. In a class, that class has it.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The classes.
    pub classes: Vec<HtbClass>,
}

/// A class of hierarchical token buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HtbClass {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(default)]
    pub members: Members,
    /// Its guaranteed rate, on the wire.
    pub rate_bps: u64,
    /// Its rate with what it borrows, on the wire; none: its guaranteed rate.
    #[serde(default)]
    pub ceil_bps: Option<u64>,
    /// Size of both buckets, on the wire.
    pub burst_bytes: u64,
    /// Who borrows first; 0 is highest. That of leaves counts.
    pub priority: u32,
    /// Bytes on the wire that it may send a turn, among leaves of the same priority and lender's level.
    pub quantum_bytes: u64,
    /// Its queue; another hierarchy is the tree of its classes.
    pub queue: Queue,
}
class_plan!(HtbClass);

const PRIORITIES: usize = 8;

const CLASSES: Kind = Kind::NamedClasses {
    name: "HtbClass",
    title: "A class of hierarchical token buckets.",
    keys: &[
        DSCP,
        FLOWS,
        PORT,
        key(
            "rate",
            "rate_bps",
            Kind::Rate,
            "Guaranteed rate, counted on the wire; all of them together at most the rate above.",
        ),
        key(
            "ceil",
            "ceil_bps",
            Kind::Rate,
            "Most that the class may send with what it borrows. Default: its rate, so it borrows nothing.",
        )
        .optional(),
        key(
            "burst",
            "burst_bytes",
            Kind::Threshold,
            "Size of the token buckets of rate and ceiling, at least one packet.",
        )
        .or("2packets"),
        key("priority", "priority", Kind::Integer { min: 0, max: 7 }, "Classes with a smaller number borrow first.")
            .or("0"),
        QUANTUM,
        QUEUE,
    ],
};

const FORM: Form = Form {
    name: "htb",
    title: "Hierarchical token buckets: guaranteed rates, ceilings, and borrowing. A class whose queue is `htb` has its classes.",
    keys: &[
        key("classes", "classes", CLASSES, "The classes by name."),
        key(
            "rate",
            "rate_bps",
            Kind::Rate,
            "Rate of all classes together. Default: that of the link. Not in a class, which has its own.",
        )
        .optional(),
        SIZE,
    ],
};

impl QueuePlan for HtbQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "htb",
        Place::Queue,
        "Hierarchical token buckets: classes with rates and ceilings that borrow; each has a queue of its own",
        "Devera, HTB (2002), as in Linux",
        &[FORM],
    );

    scheduler_plan!();

    fn set_token_rates(&mut self, rates: &mut Iter<'_, TokenRates>) -> bool {
        if let Some(rate_bps) = &mut self.rate_bps {
            let Some(root) = rates.next() else { return false };
            *rate_bps = root.rate_bps;
            if root.peak_bps.is_some() {
                return false;
            }
        }
        self.classes.iter_mut().all(|class| {
            let Some(own) = rates.next() else { return false };
            (class.rate_bps, class.ceil_bps) = (own.rate_bps, own.peak_bps);
            class.queue.set_token_rates(rates)
        })
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.rate_bps != Some(0), || format!("{at}.rate_bps"), "at rate 0 nothing is ever sent")?;
        for (i, class) in self.classes.iter().enumerate() {
            let field = |name: &str| format!("{at}.classes[{i}].{name}");
            check(class.rate_bps > 0, || field("rate_bps"), "must not be zero")?;
            let ceil = class.ceil_bps.unwrap_or(class.rate_bps);
            check(ceil >= class.rate_bps, || field("ceil_bps"), "must not be below the rate")?;
            let size = "expected at least 1 byte, and less than 1 TiB";
            check((1..1 << 40).contains(&class.burst_bytes), || field("burst_bytes"), size)?;
            check((1..1 << 40).contains(&class.quantum_bytes), || field("quantum_bytes"), size)?;
            check((class.priority as usize) < PRIORITIES, || field("priority"), "expected 0 to 7")?;
        }
        classes::validate(&self.classes, at)?;
        let leaves = leaves_of(self, "").len();
        let problem = format!("{leaves} leaves; expected {} at most", classes::MAX_CLASSES);
        check(leaves <= classes::MAX_CLASSES, || format!("{at}.classes"), problem)
    }
}

/// A leaf of the tree: its name with those of the classes above, and its queue.
struct LeafPlan<'a> {
    name: String,
    class: &'a HtbClass,
}

impl ClassPlan for LeafPlan<'_> {
    fn name(&self) -> &str {
        &self.name
    }
    fn members(&self) -> &Members {
        &self.class.members
    }
    fn queue(&self) -> &Queue {
        &self.class.queue
    }
}

/// The leaves in the order of the plan.
fn leaves_of<'a>(queue: &'a HtbQueue, above: &str) -> Vec<LeafPlan<'a>> {
    let within = |class: &'a HtbClass| {
        let name = format!("{above}{}", class.name);
        match &class.queue {
            Queue::Htb(inner) => leaves_of(inner, &format!("{name}.")),
            _ => vec![LeafPlan { name, class }],
        }
    };
    queue.classes.iter().flat_map(within).collect()
}

impl AtDeparture for HtbQueue {
    type Qdisc<P: Packet + Send> = Htb<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Htb<P> {
        let leaves = leaves_of(self, "");
        let root = self.rate_bps.map(|rate| Node::new(rate, rate, 0, port, LEVELS - 1));
        let above: &[usize] = if root.is_some() { &[0] } else { &[] };
        let mut nodes: Vec<Node> = root.into_iter().collect();
        let mut paths = Vec::new();
        let sorting = Sorting::below(self, above, LEVELS - 2, port, &mut nodes, &mut paths);
        Htb {
            children: Children::new(&leaves, &self.limit, port, stream),
            sorting,
            nodes: nodes.into(),
            paths: paths.into(),
            unlimited: self.rate_bps.is_none(),
            priorities: leaves.iter().map(|leaf| leaf.class.priority as usize).collect(),
            quanta: leaves.iter().map(|leaf| leaf.class.quantum_bytes).collect(),
            deficits: vec![[0; LEVELS + 1]; leaves.len()].into(),
            turns: vec![[0; PRIORITIES]; LEVELS + 1].into(),
            held: None,
            asked: 0,
        }
    }
}

/// Levels of lenders: leaves have 0, the root that is a class the last.
const LEVELS: usize = 8;
/// The level of the link as a lender.
const LINK: usize = LEVELS;

/// A class: its buckets, its parent, and its level as a lender.
struct Node {
    rate: Bucket,
    ceil: Bucket,
    level: usize,
}

impl Node {
    fn new(rate: u64, ceil: u64, burst: u64, port: Port, level: usize) -> Node {
        let burst = burst.max(port.full_packet().into());
        Node { rate: Bucket::new(Rate::from_bps(rate), burst), ceil: Bucket::new(Rate::from_bps(ceil), burst), level }
    }
}

/// Finds the leaf of a packet, class by class from the root down.
struct Sorting {
    classifier: Classifier,
    targets: Box<[Target]>,
}

enum Target {
    Leaf(usize),
    Inner(Sorting),
}

impl Sorting {
    /// Makes the classes of `queue` below those of the path `above`, and the path of each leaf.
    fn below(
        queue: &HtbQueue,
        above: &[usize],
        level: usize,
        port: Port,
        nodes: &mut Vec<Node>,
        paths: &mut Vec<Box<[usize]>>,
    ) -> Sorting {
        let mut targets = Vec::new();
        for class in &queue.classes {
            let ceil = class.ceil_bps.unwrap_or(class.rate_bps);
            let path: Vec<usize> = std::iter::once(nodes.len()).chain(above.iter().copied()).collect();
            let inner = if let Queue::Htb(inner) = &class.queue { Some(inner) } else { None };
            let own = if inner.is_some() { level } else { 0 };
            nodes.push(Node::new(class.rate_bps, ceil, class.burst_bytes, port, own));
            targets.push(match inner {
                Some(inner) => Target::Inner(Sorting::below(inner, &path, level - 1, port, nodes, paths)),
                None => {
                    paths.push(path.into());
                    Target::Leaf(paths.len() - 1)
                }
            });
        }
        Sorting { classifier: Classifier::new(&queue.classes), targets: targets.into() }
    }

    fn leaf_of(&self, packet: &impl Packet) -> usize {
        match &self.targets[self.classifier.class_of(packet)] {
            Target::Leaf(leaf) => *leaf,
            Target::Inner(inner) => inner.leaf_of(packet),
        }
    }
}

/// Who lends to a leaf: the place in its path, and the level.
#[derive(Clone, Copy)]
struct Lender {
    place: usize,
    level: usize,
}

/// Hierarchical token buckets.
pub struct Htb<P: Packet + Send> {
    children: Children<P>,
    sorting: Sorting,
    nodes: Box<[Node]>,
    /// For each leaf the numbers of its classes, from itself to the root.
    paths: Box<[Box<[usize]>]>,
    /// Whether the link lends, too.
    unlimited: bool,
    priorities: Box<[usize]>,
    quanta: Box<[u64]>,
    /// Bytes that each leaf may still send in its turn, at each level of its lender.
    deficits: Box<[[i64; LEVELS + 1]]>,
    /// The leaf that has the turn, for each level and priority.
    turns: Box<[[usize; PRIORITIES]]>,
    /// The first instant at which a leaf without tokens may send, and the leaves with tokens, which were asked in vain.
    held: Option<Time>,
    asked: u64,
}

impl<P: Packet + Send> Htb<P> {
    /// The lender of a leaf now; none if it may not send.
    fn lender(&self, leaf: usize) -> Option<Lender> {
        let path = &self.paths[leaf];
        for (place, &node) in path.iter().enumerate() {
            let node = &self.nodes[node];
            if !node.ceil.has(0) {
                return None;
            }
            if node.rate.has(0) {
                return Some(Lender { place, level: node.level });
            }
        }
        self.unlimited.then_some(Lender { place: path.len(), level: LINK })
    }

    /// The first instant at which a leaf may send, if no tokens are taken until then.
    fn ready_at(&self, leaf: usize) -> Option<Time> {
        let mut first: Option<Time> = None;
        let mut ceilings = Time::ZERO;
        for &node in &self.paths[leaf] {
            let node = &self.nodes[node];
            ceilings = ceilings.max(node.ceil.ready_at(0)?);
            let lends = node.rate.ready_at(0).map(|rate| rate.max(ceilings));
            first = first.into_iter().chain(lends).min();
        }
        first.into_iter().chain(self.unlimited.then_some(ceilings)).min()
    }

    /// The leaf to serve among `open`, and its lender: by level, then priority, then turn.
    fn choose(&self, open: u64) -> Option<(usize, Lender)> {
        let may_send = bits(open).filter_map(|leaf| self.lender(leaf).map(|lender| (leaf, lender)));
        let mut best = (usize::MAX, usize::MAX);
        let mut set = 0u64;
        for (leaf, lender) in may_send {
            let rank = (lender.level, self.priorities[leaf]);
            if rank < best {
                (best, set) = (rank, 0);
            }
            set |= u64::from(rank == best) << leaf;
        }
        let leaf = next_bit(set, *self.turns.get(best.0)?.get(best.1)?)?;
        Some((leaf, self.lender(leaf)?))
    }

    fn charge(&mut self, leaf: usize, lender: Lender, wire_bytes: u32) {
        for (place, &node) in self.paths[leaf].iter().enumerate() {
            let node = &mut self.nodes[node];
            node.ceil.take(wire_bytes);
            if place >= lender.place {
                node.rate.take(wire_bytes);
            }
        }
        let deficit = &mut self.deficits[leaf][lender.level];
        *deficit -= i64::from(wire_bytes);
        let turn = &mut self.turns[lender.level][self.priorities[leaf]];
        *turn = leaf;
        if *deficit <= 0 {
            *deficit += self.quanta[leaf] as i64;
            *turn = (leaf + 1) % self.paths.len();
        }
    }
}

impl<P: Packet + Send> Qdisc<P> for Htb<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let leaf = self.sorting.leaf_of(&packet);
        self.children.enqueue_in(leaf, now, packet, drops)
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.children.settle(now);
        self.held = None;
        let mut open = self.children.occupied();
        if open == 0 {
            return None;
        }
        for node in &mut self.nodes {
            node.rate.fill(now);
            node.ceil.fill(now);
        }
        while let Some((leaf, lender)) = self.choose(open) {
            if let Some(next) = self.children.dequeue(leaf, now, drops) {
                self.charge(leaf, lender, self.children.wire_bytes(&next.packet));
                return Some(next);
            }
            // Its queue holds its packets back, or has dropped them.
            open &= !(1 << leaf);
        }
        self.held = bits(open & self.children.occupied()).filter_map(|leaf| self.ready_at(leaf)).min();
        self.asked = !open;
        None
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.set_rate(now, rate);
    }

    fn set_token_rates(&mut self, now: Time, rates: &mut Iter<'_, TokenRates>) {
        // Nodes are in the order of the plan, and so are leaves.
        let mut leaf = 0;
        for (i, node) in self.nodes.iter_mut().enumerate() {
            let Some(own) = rates.next() else { return };
            node.rate.set_rate(now, Rate::from_bps(own.rate_bps));
            node.ceil.set_rate(now, Rate::from_bps(own.peak_bps.unwrap_or(own.rate_bps)));
            if self.paths.get(leaf).is_some_and(|path| path[0] == i) {
                self.children.set_token_rates_of(leaf, now, rates);
                leaf += 1;
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.children.bytes()
    }

    fn packets(&self) -> u64 {
        self.children.packets()
    }

    fn counters(&self) -> &Counters {
        self.children.counters()
    }

    fn held_until(&self, now: Time) -> Option<Time> {
        // A queue whose leaf lacks tokens was not asked: the instant that it names may be over.
        self.held.into_iter().chain(self.children.held_until_of(self.asked, now)).min()
    }

    fn classes(&self) -> u32 {
        self.children.classes()
    }

    fn class_of(&self, packet: &P) -> u32 {
        self.children.class_within(self.sorting.leaf_of(packet), packet)
    }
}
