//! Properties of the elements through their public interface.

mod common;
mod conservation;
mod equivalence;
mod hierarchy;
mod parameters;
mod registry;
mod schedulers;
mod shapers;
#[path = "../../src/testing.rs"]
mod testing;

use weir_elements::Packet;
