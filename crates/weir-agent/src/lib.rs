//! The agent: what runs on a node.
//!
//! It reads a [`weir_run::Job`], opens the sockets of the ends that it serves, waits for the start, and then sends, sinks
//! and measures until the plan ends; its tables go to standard output while it runs. One thread, one event loop: where a
//! wake-up is expensive (the lab), wake-ups are what the whole run costs.
//!
//! - [`session`]: the event loop and the protocol.
//! - [`tcp_sender`], [`tcp_receiver`], [`cbr_sender`], [`cbr_receiver`]: the ends of flows.
//! - [`telemetry`]: the rows of the tables.
//! - [`sys`]: the operating system.

pub mod cbr_receiver;
pub mod cbr_sender;
pub mod cli;
pub mod command;
pub mod context;
pub mod datagram;
pub mod error;
pub mod foreign;
pub mod iperf3;
pub mod open;
pub mod output;
pub mod path;
pub mod sampler;
pub mod schedule;
pub mod services;
pub mod session;
pub mod stats;
pub mod supervise;
pub mod sys;
pub mod tcp_receiver;
pub mod tcp_sender;
pub mod telemetry;
pub mod window;
