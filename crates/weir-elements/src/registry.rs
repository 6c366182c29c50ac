//! The list of elements, for the command line and the documentation.
//!
//! An element is one file, which describes itself in its `INFO`, and one line here.

use crate::{codel, delay, droptail, fq_codel, loss, mtu, pie, red, transmitter};

/// Where on a link an element stands, in the order in which a packet passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A parameter of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the plan.
    pub name: &'static str,
    /// Unit or type.
    pub unit: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// An element and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementInfo {
    /// Name in the plan.
    pub name: &'static str,
    /// Where on a link it stands.
    pub place: Place,
    /// What it is, in a line.
    pub title: &'static str,
    /// Paper or RFC; empty where there is none.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

/// Every element.
pub const REGISTRY: &[ElementInfo] = &[
    mtu::INFO,
    loss::BERNOULLI,
    loss::GILBERT_ELLIOTT,
    loss::LIST,
    droptail::INFO,
    red::INFO,
    codel::INFO,
    fq_codel::INFO,
    pie::INFO,
    transmitter::INFO,
    delay::FIXED,
    delay::JITTER,
    delay::REORDER,
];

/// A parameter, in a line.
pub(crate) const fn parameter(name: &'static str, unit: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, unit, meaning }
}
