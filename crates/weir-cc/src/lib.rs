//! Congestion controls: the interface that mirrors Linux' `tcp_congestion_ops`, the registry of `cc/`, and the host
//! that runs one C source for each simulated flow.
//!
//! A flow's transport owns an [`Instance`], keeps its [`Sock`] up to date and calls the operations Linux would call.
//! This crate reads no clock, no environment and no file. A user's control is a program: `weir-cc-build` compiles and
//! loads it; this crate guards its calls and lets another process watch them.

mod algorithm;
mod asked;
mod error;
mod explicit;
mod guard;
mod instance;
mod loading;
mod ops;
mod plain;
mod probes;
mod rcp;
mod registry;
mod sock;
mod suite;
mod trial;
mod watch;
mod xcp;

pub use algorithm::{Algorithm, CcOption, Description};
pub use asked::{ASKED, DECIDER, Decider, Decision, MAX_WINDOW, Registration, Report};
pub use error::{CcError, nearest};
pub use explicit::{Announcement, Feedback};
pub use guard::{Fault, caught};
pub use instance::{CaEvent, CaState, Instance};
pub use loading::{Loader, Loading, load_with};
pub use ops::ABI;
pub use probes::{MAX_PROBES, ProbeName, text as probe_text};
pub use registry::{everywhere, find, list};
pub use sock::{AckSample, INFINITE_SSTHRESH, MAX_OPTIONS, PRIVATE_WORDS, RateSample, Sock};
pub use suite::{Demands, Requirement, suite};
pub use trial::trial;
pub use watch::{WATCH_BYTES, Watched, share};
