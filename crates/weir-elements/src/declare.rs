//! Declarations of elements: description, keys in a scenario, checks.
//!
//! A declaration is the source of the keys of the scenario language with their defaults, of the language's schema, and
//! of `docs/elements.md`. The type of an element's plan is the source of the plan's fields and their schema.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Limit;

/// The place of an element on a link, in the order in which a packet passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The size check at the entrance.
    Mtu,
    /// Losses before the queue.
    Loss,
    /// The queue.
    Queue,
    /// The transmitter.
    Transmitter,
    /// The delay line.
    Delay,
}

/// The type of a key of the scenario language, and its form in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Kind {
    /// A size of a queue: bytes, packets, time at the link's rate, or bandwidth-delay products. The plan has a
    /// [`Limit`].
    Limit,
    /// Minimum of packets of the [`Limit`] in the same form.
    AtLeast,
    /// A size of a queue, as bytes in the plan.
    Threshold,
    /// A time; nanoseconds in the plan.
    Time {
        /// Whether 0 is refused.
        positive: bool,
    },
    /// Bytes of a packet; 0 is refused.
    PacketBytes,
    /// A number without a unit.
    Number {
        /// The minimum.
        min: f64,
        /// The maximum.
        max: f64,
        /// Whether `min` itself is refused.
        positive: bool,
    },
    /// A whole number.
    Integer {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// From 0 to 1.
    Probability,
    /// True or false.
    Flag,
    /// True or false; the plan has a [`Mark`](crate::Mark).
    Ecn,
    /// Code points of the IP header, one or several.
    CodePoints,
    /// A list of mappings.
    Classes {
        /// Name of a mapping.
        name: &'static str,
        /// Description of a mapping.
        title: &'static str,
        /// Its keys.
        keys: &'static [Key],
    },
    /// A mapping from names to mappings, one for each class of packets.
    NamedClasses {
        /// Name of a mapping.
        name: &'static str,
        /// Description of a mapping.
        title: &'static str,
        /// Its keys.
        keys: &'static [Key],
    },
    /// A queue of any kind.
    Queue,
    /// Flows, by the names of workload entries.
    Flows,
    /// Names of links.
    Links,
    /// A share of a whole; parts of a million in the plan.
    Share,
    /// One of two words; the plan says whether it is the second.
    Choice {
        /// The words.
        values: &'static [&'static str],
    },
    /// `normal` or `uniform`.
    Distribution,
    /// Numbers of packets.
    PacketNumbers,
    /// A rate.
    Rate,
    /// Bytes.
    Bytes,
}

/// A key of the scenario language.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// The field of the plan, a path such as `codel.target_ns`.
    pub field: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The default, as a scenario would write it. None: the key is mandatory.
    pub default: Option<&'static str>,
    /// Whether it may be omitted without a default.
    pub optional: bool,
    /// Its function.
    pub meaning: &'static str,
}

impl Key {
    /// The same key with a default.
    pub(crate) const fn or(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    /// The same key, optional without a default.
    pub(crate) const fn optional(self) -> Key {
        Key { optional: true, ..self }
    }
}

/// A mandatory key.
pub(crate) const fn key(name: &'static str, field: &'static str, kind: Kind, meaning: &'static str) -> Key {
    Key { name, field, kind, default: None, optional: false, meaning }
}

/// The key for the treatment of packets that can carry ECN.
pub(crate) const fn ecn(field: &'static str) -> Key {
    key("ecn", field, Kind::Ecn, "Mark packets that can carry ECN instead of dropping them.").or("false")
}

/// A way to write an element in a scenario. RED has two: `red` and `wred`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Form {
    /// Its name in a scenario.
    pub name: &'static str,
    /// Its description, a sentence.
    pub title: &'static str,
    /// The keys of its mapping.
    pub keys: &'static [Key],
}

/// The declaration of an element.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ElementInfo {
    /// Name in the plan.
    pub name: &'static str,
    /// Its place on a link.
    pub place: Place,
    /// Its function, in a line.
    pub title: &'static str,
    /// Paper or RFC; empty if there is none.
    pub source: &'static str,
    /// Whether it draws random numbers during a run.
    pub random: bool,
    /// Whether a queue is first in, first out, and drops only packets that exceed its limit.
    pub plain: bool,
    /// Names of the classes into which a queue sorts packets by itself; empty if it has none, or if the plan names them.
    pub classes: &'static [&'static str],
    /// Its forms in a scenario.
    pub forms: &'static [Form],
}

impl ElementInfo {
    /// A deterministic element.
    pub(crate) const fn new(
        name: &'static str,
        place: Place,
        title: &'static str,
        source: &'static str,
        forms: &'static [Form],
    ) -> ElementInfo {
        ElementInfo { name, place, title, source, random: false, plain: false, classes: &[], forms }
    }

    /// The same element with random numbers.
    pub(crate) const fn random(self) -> ElementInfo {
        ElementInfo { random: true, ..self }
    }

    /// The keys of all its forms.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.forms.iter().flat_map(|form| form.keys)
    }
}

/// The plan of a queue: its parameters, as a type that serde reads and schemars describes.
pub trait QueuePlan {
    /// Its declaration.
    const INFO: ElementInfo;

    /// The hard limit.
    fn limit(&self) -> &Limit;

    /// The hard limit, mutable.
    fn limit_mut(&mut self) -> &mut Limit;

    /// Schedulers within one another; 0 for a queue without classes.
    fn depth(&self) -> usize {
        0
    }

    /// Gives each class a new share, its weight in millionths or its quantum in bytes. False if the classes have no
    /// shares, or there are not as many.
    fn set_shares(&mut self, shares: &[u64]) -> bool {
        let _ = shares;
        false
    }

    /// The queues of its classes, or the one that it is around.
    fn within(&mut self) -> Vec<&mut crate::Queue> {
        Vec::new()
    }

    /// Gives its token buckets and those within new rates; each takes the next ones. False if there are too few, or a
    /// bucket has no peak rate.
    fn set_token_rates(&mut self, rates: &mut std::slice::Iter<'_, TokenRates>) -> bool {
        self.within().into_iter().all(|queue| queue.set_token_rates(rates))
    }

    /// Checks the parameters besides the limit; `at` is the place of the queue in the plan.
    ///
    /// # Errors
    /// The first invalid parameter.
    fn validate(&self, at: &str) -> Result<(), Fault>;
}

/// The rates of token buckets: of a shaper, of a policer, of a class of hierarchical token buckets, or of their root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRates {
    /// Rate at which the bucket fills, on the wire.
    pub rate_bps: u64,
    /// Ceiling of a class, or peak rate of a policer, on the wire; none: a class has its rate, others have no peak rate.
    #[serde(default)]
    pub peak_bps: Option<u64>,
}

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its place in the plan, a path such as `links[3].queue.limit`.
    pub place: String,
    /// The mistake and the expectation.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}
impl std::error::Error for Fault {}

/// Returns an error unless `ok`.
pub(crate) fn check(ok: bool, place: impl FnOnce() -> String, problem: impl Into<String>) -> Result<(), Fault> {
    if ok { Ok(()) } else { Err(Fault { place: place(), problem: problem.into() }) }
}

/// Returns an error unless `p` is a probability.
pub(crate) fn check_probability(p: f64, at: &str) -> Result<(), Fault> {
    check((0.0..=1.0).contains(&p), || at.into(), format!("{p} is not a probability; expected 0 to 1"))
}
