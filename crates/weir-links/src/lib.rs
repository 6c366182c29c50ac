//! Directed links driven by events, for any driver: the simulator in virtual time, the emulator in logical time.
//!
//! A [`Link`] has the elements of `weir-elements` in their order, the [`Pipe`] of the packets in flight, and its
//! [`LinkStats`]. [`DelayStats`] measures the flows' end-to-end delays. [`Routes`] lists the links of each path; a
//! [`Calendar`] finds the next event. The crate has no clock and no packets of its own: a driver passes `now` and
//! records of any small type that is a [`Packet`](weir_elements::Packet).
//!
//! A driver owns the loop: it takes the first event of the calendar, forwards the results of [`Link::enter`] and
//! [`Link::start`], and sets the slots of the transmitters and pipes.

mod batch;
mod calendar;
mod deferral;
mod delays;
mod evented;
mod link;
mod pipe;
mod stats;
#[cfg(test)]
mod testing;
mod topology;

pub use batch::{Merge, Source};
pub use calendar::{Calendar, UNUSED};
pub use delays::DelayStats;
pub use link::{Link, Passage, Start, build_links};
pub use pipe::Pipe;
pub use stats::{ClassStats, LinkStats, append_classes_sorted, append_sorted};
pub use topology::{Routes, Stop, mark_fused};

/// A small record of a packet, copied from ring to ring.
pub trait Record: weir_elements::Packet + Copy + Default + Send {}

impl<P: weir_elements::Packet + Copy + Default + Send> Record for P {}
