//! What passes between weir and the processes that execute a plan on a real kernel.
//!
//! - [`Job`] and [`Command`]: what a process that serves nodes of a plan reads from its standard input, a JSON object a line.
//! - [`Message`] and [`Outbox`]: what it writes to its standard output: JSON lines, after the line of a table its columns, after
//!   that of a file its content.
//!
//! No clock, no socket: the caller gives the streams, and reads the clock that a start names.

mod job;
mod message;
mod start;

pub use job::{Command, End, Host, Job, JobError};
pub use message::{ColumnType, Message, Outbox, Program, append_table};
pub use start::{Clock, Start};
