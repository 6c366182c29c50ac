//! How an element declares itself: what it is, the keys that a scenario writes for it, and its checks.
//!
//! From a declaration come the keys of the scenario language with their defaults, the language's schema, and
//! `docs/elements.md`. The fields of the plan and their schema come from the type that is the element's plan.

use std::fmt;

use serde::Serialize;

use crate::Limit;

/// Where on a link an element stands, in the order in which a packet passes them.
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

/// What a key of the scenario language holds, and how it is written into the plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Kind {
    /// A size of a queue: bytes, packets, time at the link's rate, or bandwidth-delay products. The plan has a [`Limit`].
    Limit,
    /// Packets that the [`Limit`] of the same form has at least.
    AtLeast,
    /// A size of a queue, as bytes in the plan.
    Threshold,
    /// A time; nanoseconds in the plan.
    Time {
        /// 0 is refused.
        positive: bool,
    },
    /// Bytes of a packet; 0 is refused.
    PacketBytes,
    /// A number without a unit.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// `min` itself is refused.
        positive: bool,
    },
    /// A whole number.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
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
        /// What a mapping is.
        title: &'static str,
        /// Its keys.
        keys: &'static [Key],
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
    /// The field of the plan that it is written into, a path such as `codel.target_ns`.
    pub field: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The value of a key that is left out, as a scenario would write it. None: it has to be given.
    pub default: Option<&'static str>,
    /// Whether it may be left out without having a value then.
    pub optional: bool,
    /// What it does.
    pub meaning: &'static str,
}

impl Key {
    /// The same key with a value where a scenario leaves it out.
    pub(crate) const fn or(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    /// The same key, which may be left out.
    pub(crate) const fn optional(self) -> Key {
        Key { optional: true, ..self }
    }
}

/// A key that has to be given.
pub(crate) const fn key(name: &'static str, field: &'static str, kind: Kind, meaning: &'static str) -> Key {
    Key { name, field, kind, default: None, optional: false, meaning }
}

/// What becomes of packets that can carry ECN.
pub(crate) const fn ecn(field: &'static str) -> Key {
    key("ecn", field, Kind::Ecn, "Mark packets that can carry ECN instead of dropping them.").or("false")
}

/// A way to write an element in a scenario. RED has two: `red` and `wred`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Form {
    /// Its word.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub title: &'static str,
    /// The keys of its mapping.
    pub keys: &'static [Key],
}

/// What an element says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ElementInfo {
    /// Name in the plan.
    pub name: &'static str,
    /// Where on a link it stands.
    pub place: Place,
    /// What it does, in a line.
    pub title: &'static str,
    /// Paper or RFC; empty where there is none.
    pub source: &'static str,
    /// Whether it draws random numbers while a plan runs.
    pub random: bool,
    /// A queue: first in, first out, and drops only packets that exceed its limit.
    pub plain: bool,
    /// How a scenario writes it.
    pub forms: &'static [Form],
}

impl ElementInfo {
    /// An element that decides by what it is told alone.
    pub(crate) const fn new(
        name: &'static str,
        place: Place,
        title: &'static str,
        source: &'static str,
        forms: &'static [Form],
    ) -> ElementInfo {
        ElementInfo { name, place, title, source, random: false, plain: false, forms }
    }

    /// The same element, which draws random numbers.
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
    /// What it says of itself.
    const INFO: ElementInfo;

    /// Its hard limit.
    fn limit(&self) -> &Limit;

    /// The same, to change it.
    fn limit_mut(&mut self) -> &mut Limit;

    /// Checks what is besides the limit; `at` is the place of the queue in the plan.
    ///
    /// # Errors
    /// The first parameter that no queue can be built from.
    fn validate(&self, at: &str) -> Result<(), Fault>;
}

/// A parameter that no element can be built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the plan, as a path such as `links[3].queue.limit`.
    pub place: String,
    /// What is wrong and what was expected.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}
impl std::error::Error for Fault {}

/// An error unless `ok`.
pub(crate) fn check(ok: bool, place: impl FnOnce() -> String, problem: impl Into<String>) -> Result<(), Fault> {
    if ok { Ok(()) } else { Err(Fault { place: place(), problem: problem.into() }) }
}

/// An error unless `p` is a probability.
pub(crate) fn check_probability(p: f64, at: &str) -> Result<(), Fault> {
    check((0.0..=1.0).contains(&p), || at.into(), format!("{p} is not a probability; expected 0 to 1"))
}
