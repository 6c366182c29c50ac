//! The protocol between weir and the processes that execute a plan on a real kernel.
//!
//! - [`Job`] and [`Command`]: the standard input of a process that serves nodes of a plan, one JSON object per line.
//! - [`QueuesJob`]: the same for a process that reads the counters of queueing disciplines.
//! - [`Message`] and [`Outbox`]: its standard output: JSON lines; the line of a table is followed by its columns, that
//!   of a file by its content.
//!
//! The crate uses no clock and no socket: the caller provides the streams, and reads the clock that a start names.

mod job;
mod message;
mod queues;
mod start;
mod token;

pub use job::{Command, End, Host, Job, JobError};
pub use message::{ColumnType, Message, Outbox, Program, append_table};
pub use queues::{ClassQueue, LinkQueue, QueuesJob};
pub use start::{Clock, Start};
pub use token::Token;
