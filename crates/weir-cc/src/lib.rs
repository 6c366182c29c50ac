//! Congestion controls: the interface that mirrors Linux' `tcp_congestion_ops`, the registry of `cc/`, and the host
//! that runs one C source for each simulated flow.
//!
//! A flow's transport owns an [`Instance`], keeps its [`Sock`] up to date and calls the operations Linux would call.
//! This crate reads no clock and no environment while a flow runs.

mod algorithm;
mod compile;
mod error;
mod instance;
mod library;
mod ops;
mod plain;
mod registry;
mod sock;

pub use algorithm::{Algorithm, CcOption, Description};
pub use compile::{BpfBuild, BpfCheck, build, check_bpf, compile_bpf, write_headers};
pub use error::CcError;
pub use instance::{CaEvent, CaState, Instance};
pub use registry::{find, list};
pub use sock::{AckSample, INFINITE_SSTHRESH, MAX_OPTIONS, PRIVATE_WORDS, RateSample, Sock};
