//! The emulator's core: real packets through the links of a plan, in logical time.
//!
//! Without I/O: [`Network`] takes frames at an instant and returns deliveries; the binary `weir-emu` has the devices,
//! the clock and the standard streams. Links, queues, losses and delays are those of the simulator (`weir-links`,
//! `weir-elements`), with the same random substreams of the plan's seed.

#![forbid(unsafe_code)]

pub mod directory;
pub mod frame;
pub mod gather;
mod ledger;
pub mod network;
pub mod piece;
pub mod pool;
mod room;
pub mod stamps;
pub mod stations;
mod tracer;
pub mod train;

pub use directory::Directory;
pub use network::{Network, Options, Records, Statistics};
