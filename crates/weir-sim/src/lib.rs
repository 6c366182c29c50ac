//! weir-sim.
