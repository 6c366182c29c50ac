//! Workloads: what the applications of a plan send, and when.
//!
//! Sans-IO: the driver (simulator, agent) asks what comes next and tells when a transfer ended. All draws were made when
//! the plan was compiled.

mod cbr;
mod transfers;
mod waits;

pub use cbr::CbrClock;
pub use transfers::{Job, Step, Transfers};
pub use waits::{Release, Waits};
