//! The simulator against arithmetic, published formulas, its own slow mode and stored results.
//!
//! Each test says which formula it holds the simulator to and where it is from. `WEIR_BLESS=1 cargo test -p weir-sim
//! golden` rewrites the stored results under `tests/golden`. `WEIR_CASES=10` draws ten times as many random plans in the
//! comparison of regions' kinds.

#[path = "../common/mod.rs"]
mod common;
mod golden;
mod processing;
mod queues;
mod random;
mod response;

mod applications;
mod conservation;
mod controls;
mod delays;
mod determinism;
mod explicit;
mod hosts;
mod inside;
mod kinds;
mod lookahead;
mod pages;
mod profile;
mod sack_cost;
mod startup;
mod switch;
mod tfrc;
mod timing;
mod trace;
mod udt;
