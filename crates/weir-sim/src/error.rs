//! Why a plan cannot be simulated.

use std::fmt;

/// Why a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The congestion control of a flow is unknown, or does not take its options.
    CongestionControl {
        /// Name of the flow.
        flow: String,
        /// What is wrong.
        problem: String,
    },
    /// The plan asks for something beyond the limits of this simulator.
    Unsupported(String),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::CongestionControl { flow, problem } => write!(f, "flow {flow}: {problem}"),
            SimError::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for SimError {}
