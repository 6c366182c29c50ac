//! A switch without I/O: ports, memory, arbiter and PAUSE, in logical time, for any driver.
//!
//! A [`Switch`] holds packets between the links of a plan that reach its node and those that leave it. The driver owns
//! the links and the clock and offers them as [`Ports`]: it calls [`Switch::arrive`] with each packet, and
//! [`Switch::act`] at the instant of [`Switch::due`]. Packets are records of any small type that is a
//! [`Packet`](weir_elements::Packet).

mod arbiter;
mod matching;
mod memory;
mod meter;
#[cfg(test)]
mod packets;
mod queues;
mod switch;

pub use switch::{Passing, Ports, Switch};
