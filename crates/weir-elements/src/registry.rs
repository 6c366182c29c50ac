//! The list of elements, for the command line and the documentation.

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
    /// What it is, in a line.
    pub title: &'static str,
    /// Paper or RFC.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

/// Every element.
pub const REGISTRY: &[ElementInfo] = &[];
