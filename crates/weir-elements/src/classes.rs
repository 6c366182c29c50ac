//! Classes of packets: what the plan of a scheduler says of each, and the classifier.
//!
//! A class has code points, flows, and possibly the packets that no other class names. Flows come before code points. Every packet has a class, so a plan whose classes leave a code point out is refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declare::{Fault, Key, Kind, check, key};
use crate::{Packet, Queue, flow_hash};

/// Most classes of a scheduler.
pub(crate) const MAX_CLASSES: usize = 64;
/// Most schedulers within one another.
const MAX_DEPTH: usize = 4;
const CODE_POINTS: usize = 64;
/// Weights are parts of a million.
pub(crate) const WHOLE_PPM: u32 = 1_000_000;

/// The packets of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Members {
    /// Differentiated-services code points.
    #[serde(default)]
    pub dscp: Vec<u8>,
    /// Indices of flows; they come before code points.
    #[serde(default)]
    pub flows: Vec<u32>,
    /// Whether it has the packets that belong to no other class.
    #[serde(default)]
    pub rest: bool,
}

/// What every class of a scheduler has.
pub(crate) trait ClassPlan {
    /// Its name.
    fn name(&self) -> &str;
    /// Its packets.
    fn members(&self) -> &Members;
    /// Its queue.
    fn queue(&self) -> &Queue;
}

/// Implements [`ClassPlan`] by the fields of these names.
macro_rules! class_plan {
    ($class:ty) => {
        impl crate::classes::ClassPlan for $class {
            fn name(&self) -> &str {
                &self.name
            }
            fn members(&self) -> &crate::classes::Members {
                &self.members
            }
            fn queue(&self) -> &crate::Queue {
                &self.queue
            }
        }
    };
}
pub(crate) use class_plan;

/// Implements the parts of [`QueuePlan`](crate::QueuePlan) that all schedulers have alike, by the fields `limit` and
/// `classes`, and by the field of a class that is its share.
macro_rules! scheduler_plan {
    ($share:ident) => {
        crate::classes::scheduler_plan!();

        fn set_shares(&mut self, shares: &[u64]) -> bool {
            for (class, &share) in self.classes.iter_mut().zip(shares) {
                // One that is too large for the field is too large for the plan, too.
                class.$share = share.try_into().unwrap_or(u32::MAX.into());
            }
            self.classes.len() == shares.len()
        }
    };
    () => {
        fn limit(&self) -> &crate::Limit {
            &self.limit
        }
        fn limit_mut(&mut self) -> &mut crate::Limit {
            &mut self.limit
        }
        fn depth(&self) -> usize {
            crate::classes::depth(&self.classes)
        }
        fn within(&mut self) -> Vec<&mut crate::Queue> {
            self.classes.iter_mut().map(|class| &mut class.queue).collect()
        }
    };
}
pub(crate) use scheduler_plan;

/// Checks that weights are no more than the whole link.
pub(crate) fn check_weights(weights: impl Iterator<Item = u32>, at: &str) -> Result<(), Fault> {
    let sum: u64 = weights.map(u64::from).sum();
    let problem = format!("the weights add up to {sum} millionths, more than the whole link");
    check(sum <= u64::from(WHOLE_PPM), || format!("{at}.classes"), problem)
}

/// The keys that choose the packets of a class.
pub(crate) const DSCP: Key = key("dscp", "members.dscp", Kind::CodePoints, "Code points of the class.").optional();
pub(crate) const FLOWS: Key = key(
    "flows",
    "members.flows",
    Kind::Flows,
    "Flows of the class, as `elephants` or `elephants[0..3]`, whatever their code points; in both directions.",
)
.optional();
pub(crate) const PORT: Key = key(
    "port",
    "members.flows",
    Kind::Links,
    "Links: the class has the flows that reach the queue over one of them. That is the input port of a switch.",
)
.optional();
pub(crate) const QUEUE: Key = key(
    "queue",
    "queue",
    Kind::Queue,
    "The queue of the class, of any kind, also another scheduler. Default: drop-tail of one BDP. Times and BDPs are at \
     the rate of the link.",
)
.optional();

/// The key `queue` of a queue around another one.
pub(crate) const INSIDE: Key =
    key("queue", "queue", Kind::Queue, "The queue inside, of any kind. Default: drop-tail of one BDP.").optional();

/// The key `size` of a scheduler.
pub(crate) const SIZE: Key = key(
    "size",
    "limit",
    Kind::Limit,
    "Hard limit over all classes, as of a memory that they share. Default: the sum of their limits.",
)
.optional();

/// Checks the classes of a scheduler at `at`.
///
/// # Errors
/// The first mistake: too few or too many classes, a name given twice, packets that belong to two classes or to none,
/// a child that is wrong, or schedulers nested too deep.
pub(crate) fn validate<C: ClassPlan>(classes: &[C], at: &str) -> Result<(), Fault> {
    let place = || format!("{at}.classes");
    let count = classes.len();
    check((1..=MAX_CLASSES).contains(&count), place, format!("{count} classes; expected 1 to {MAX_CLASSES}"))?;
    let mut named = [false; CODE_POINTS];
    let mut flows = Vec::new();
    for (i, class) in classes.iter().enumerate() {
        let at = format!("{at}.classes[{i}]");
        let twice = classes[..i].iter().any(|other| other.name() == class.name());
        check(!twice && !class.name().is_empty(), || format!("{at}.name"), "expected a name of its own")?;
        for &point in &class.members().dscp {
            let seen = named.get_mut(usize::from(point));
            let problem = format!("code point {point} is in two classes, or above 63");
            check(seen.is_some_and(|seen| !std::mem::replace(seen, true)), || format!("{at}.members.dscp"), problem)?;
        }
        flows.extend_from_slice(&class.members().flows);
        class.queue().validate(&format!("{at}.queue"))?;
    }
    let rest = classes.iter().filter(|class| class.members().rest).count();
    check(rest <= 1, place, "two classes have the rest; only one can")?;
    let complete = rest == 1 || named.iter().all(|&named| named);
    check(complete, place, "some code points have no class; one class must have the rest")?;
    flows.sort_unstable();
    check(flows.windows(2).all(|pair| pair[0] != pair[1]), place, "a flow is in two classes")?;
    let depth = 1 + classes.iter().map(|class| class.queue().depth()).max().unwrap_or(0);
    check(depth <= MAX_DEPTH, || at.into(), format!("schedulers nested more than {MAX_DEPTH} deep"))
}

/// Schedulers within one another, from these classes on.
pub(crate) fn depth<C: ClassPlan>(classes: &[C]) -> usize {
    1 + classes.iter().map(|class| class.queue().depth()).max().unwrap_or(0)
}

/// The only class of a queue that has no classes itself: all packets.
pub(crate) struct Only<'a> {
    queue: &'a Queue,
    members: Members,
}

impl<'a> Only<'a> {
    pub fn new(queue: &'a Queue) -> Only<'a> {
        Only { queue, members: Members { rest: true, ..Members::default() } }
    }
}

impl ClassPlan for Only<'_> {
    fn name(&self) -> &str {
        "queue"
    }
    fn members(&self) -> &Members {
        &self.members
    }
    fn queue(&self) -> &Queue {
        self.queue
    }
}

/// Finds the class of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Classifier {
    by_point: [u8; CODE_POINTS],
    /// Hash and class of the flows that have one by themselves, ascending.
    by_flow: Box<[(u32, u8)]>,
}

impl Classifier {
    /// The classifier of classes that [`validate`] accepts.
    pub fn new<C: ClassPlan>(classes: &[C]) -> Classifier {
        let rest = classes.iter().position(|class| class.members().rest).unwrap_or(0);
        let mut by_point = [rest as u8; CODE_POINTS];
        let mut by_flow = Vec::new();
        for (i, class) in (0u8..).zip(classes) {
            for &point in &class.members().dscp {
                by_point[usize::from(point)] = i;
            }
            by_flow.extend(class.members().flows.iter().map(|&flow| (flow_hash(flow), i)));
        }
        by_flow.sort_unstable();
        Classifier { by_point, by_flow: by_flow.into() }
    }

    /// The class of `packet`.
    #[inline]
    pub fn class_of(&self, packet: &impl Packet) -> usize {
        if !self.by_flow.is_empty() {
            let hash = packet.flow_hash();
            if let Ok(found) = self.by_flow.binary_search_by_key(&hash, |&(hash, _)| hash) {
                return usize::from(self.by_flow[found].1);
            }
        }
        usize::from(self.by_point[usize::from(packet.dscp() & 63)])
    }
}
