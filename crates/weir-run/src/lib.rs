//! The tables of a run, column by column, as the simulator, an agent and the emulator fill them.

mod tables;

pub use tables::*;
