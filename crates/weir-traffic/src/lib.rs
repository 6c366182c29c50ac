//! Workloads: the payload of a plan's applications, and its times.
//!
//! Sans-IO: the driver (simulator, agent) asks for the next step and reports when a transfer ended. All draws were made
//! when the plan was compiled.

mod cbr;
mod transfers;
mod waits;

pub use cbr::CbrClock;
pub use transfers::{Job, Step, Transfers};
pub use waits::{Release, Waits};
