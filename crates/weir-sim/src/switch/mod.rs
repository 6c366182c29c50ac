//! The parts of a switch: memory, arbiters, statistics of its ports. They know neither links nor the clock.
//!
//! `simulation/switch.rs` puts them together as a node with state.

pub(crate) mod arbiter;
pub(crate) mod matching;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod queues;
