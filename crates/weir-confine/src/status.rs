//! This kernel's mechanisms for confinement.

use weir_sys::isolation;

use crate::{Error, namespaces};

/// The mechanism that guards files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Landlock.
    Landlock,
    /// Mounts in namespaces.
    Namespaces,
    /// No mechanism.
    None,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Landlock => "landlock",
            Kind::Namespaces => "namespaces",
            Kind::None => "none",
        }
    }
}

/// This kernel's mechanisms for confinement.
#[derive(Clone, Debug)]
pub struct Status {
    /// The mechanism that guards files.
    pub kind: Kind,
    /// Version of Landlock's interface; 0 without.
    pub landlock_abi: i32,
    /// Rights of a confined process on this kernel that a newer one would deny.
    pub gaps: Vec<&'static str>,
    /// Why it cannot confine, if it cannot.
    pub why: Option<String>,
}

/// The first version that covers truncation: without it, files outside could be emptied.
const MIN: i32 = 3;
/// The first version that covers signals.
const SIGNALS: i32 = 6;

/// This kernel's mechanisms for confinement.
pub fn status() -> Status {
    let landlock_abi = isolation::landlock_abi();
    let told = |kind, gaps, why| Status { kind, landlock_abi, gaps, why };
    if landlock_abi >= MIN {
        let gap = (landlock_abi < SIGNALS).then_some("signals to other processes of the same user");
        return told(Kind::Landlock, Vec::from_iter(gap), None);
    }
    match namespaces::available() {
        Ok(()) => told(Kind::Namespaces, vec!["writing to files that it was handed for reading"], None),
        Err(error) => told(Kind::None, Vec::new(), Some(format!("{} ({error})", Error::Unavailable))),
    }
}
