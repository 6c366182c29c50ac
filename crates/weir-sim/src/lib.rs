//! The simulator: executes a plan in virtual time, packet by packet, deterministically.
//!
//! [`Simulation`] drives the sans-IO pieces (`weir-tcp`, `weir-elements`, `weir-traffic`, the congestion controls
//! hosted by `weir-cc`) from one calendar of pending events. The same plan and seed give the same tables, byte for
//! byte.
//!
//! Two techniques make it fast without changing a result. A link whose queue decides at arrival is *analytic*: the
//! departure of a packet is computed at its arrival. A link fed by one analytic link only is *fused* with it: a packet
//! enters both at once, ahead of the clock, because no other packet can come between. [`Options::reference`] switches
//! fusing off; a test checks that the results are identical.

mod acks;
mod application;
mod connection;
mod error;
mod flow;
mod headers;
mod hosts;
mod local_queue;
mod packet;
mod processing;
mod sack_work;
mod sacks;
mod simulation;
mod slab;
mod telemetry;
mod tfrc;
pub mod trace;
mod udt;
mod watch;

pub use error::SimError;
pub use simulation::{Batches, Options, Simulation, Statistics};
pub use weir_run::{
    Acks, Classes, Column, DelayBins, Delays, EVENT_KINDS, Events, Flows, Goodput, Links, Ports, Probes, Samples,
    Tables,
};

// `tests/common` imports this crate by its name.
#[cfg(test)]
extern crate self as weir_sim;
