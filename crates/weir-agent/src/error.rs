//! The error that ends a run.

use std::fmt;
use std::io;

/// The error that ends a run: what failed, where, and the remedy.
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
