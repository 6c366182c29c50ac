//! Congestion controls: the interface that mirrors Linux' `tcp_congestion_ops`, the registry of `cc/`, and the host
//! that runs one C source for each simulated flow.
//!
//! A flow's transport owns an [`Instance`], keeps its [`Sock`] up to date and calls the operations Linux would call.
//! This crate reads no clock and no environment while a flow runs. A control that a user built is a program: it is loaded
//! only by a process that is there for it, its calls are guarded, and another process can see what it is doing.

mod algorithm;
mod compile;
mod confined;
mod dependencies;
mod error;
mod explain;
mod guard;
mod inspect;
mod instance;
mod library;
mod ops;
mod plain;
mod registry;
mod sock;
mod sources;
mod trial;
mod watch;

pub use algorithm::{Algorithm, CcOption, Description};
pub use compile::{BpfBuild, BpfCheck, Native, build, check_bpf, compile, compile_bpf, recipe, write_headers};
pub use confined::Confinement;
pub use error::CcError;
pub use guard::{Fault, caught};
pub use instance::{CaEvent, CaState, Instance};
pub use library::permit_loading;
pub use registry::{find, list};
pub use sock::{AckSample, INFINITE_SSTHRESH, MAX_OPTIONS, PRIVATE_WORDS, RateSample, Sock};
pub use sources::Sources;
pub use trial::trial;
pub use watch::{WATCH_BYTES, Watched, share};
