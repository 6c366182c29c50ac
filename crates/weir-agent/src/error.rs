//! Why a run cannot go on.

use std::fmt;
use std::io;

/// Why a run cannot go on: what, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentError(pub String);

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AgentError {}

impl From<io::Error> for AgentError {
    fn from(error: io::Error) -> AgentError {
        AgentError(error.to_string())
    }
}
