//! TCP-friendly rate control (TFRC, RFC 5348): the two ends of a flow of datagrams, without clock and socket.
//!
//! The [`Receiver`] measures the rate at which data arrive and the loss event rate, and reports both about once in a
//! round-trip time. The [`Sender`] follows the throughput equation of TCP Reno with them; before the first loss it at
//! most doubles its rate each round-trip time. A driver passes `now`, carries [`Data`] and [`Feedback`], and calls each end at its
//! deadline.
//!
//! The source always has data, so what the RFC says of data-limited and idle senders (section 8.2.1) does not occur. Its
//! options are not here: history discounting (5.5), damped oscillations (4.5) and marks of ECN.
//!
//! Rates are payload, in bytes per second. The equation needs roots, so the ends compute in floating point; they use only
//! operations that IEEE 754 rounds exactly, so results are the same on every machine.

mod equation;
mod history;
mod receiver;
mod sender;

use weir_units::{Dur, Time};

pub use equation::{loss_for, throughput};
pub use history::{INTERVALS, LossHistory};
pub use receiver::Receiver;
pub use sender::Sender;

/// What a data packet says (section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its number, from 0.
    pub number: u64,
    /// The sender's clock at its transmission.
    pub sent: Time,
    /// The sender's estimate of the round-trip time; none before the first feedback.
    pub rtt: Option<Dur>,
}

/// What a receiver reports (section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// [`Data::sent`] of the last data packet.
    pub echo: Time,
    /// Time since that packet arrived.
    pub delay: Dur,
    /// Rate at which data arrived during the last round-trip time, bytes per second; none if the sender has not said how
    /// long that is.
    pub received: Option<f64>,
    /// The loss event rate.
    pub loss: f64,
}
