//! UDT, the UDP-based data transfer protocol: the two ends of a connection, without clock and socket.
//!
//! The [`Sender`] spaces its packets by an interval, and retransmits what the [`Receiver`] reports as lost. The receiver
//! acknowledges once in a [`SYN`], and reports a loss at once. The interval follows UDT's own control ([`native`]), or a rate
//! profile. A driver passes `now`, carries [`Outgoing`] data and [`Control`] packets, and calls each end at its deadline.
//! The simulator carries them as they are, a driver with sockets in the form of the [`wire`].
//!
//! Sources: Y. Gu, UDT: UDP-based Data Transfer Protocol, draft-gg-udt-03, 2010; Y. Gu and R. Grossman, UDT: UDP-based data
//! transfer for high-speed wide area networks, Computer Networks 51(7), 2007. Without: messages, congestion controls of
//! TCP, rendezvous, closing and keep-alive packets.
//!
//! The control needs means and powers of ten, so it computes in floating point; it uses only operations that IEEE 754
//! rounds exactly, so results are the same on every machine.

mod filter;
pub mod native;
mod pace;
mod ranges;
mod receiver;
mod sender;
pub mod wire;

use std::ops::Range;

use weir_units::Dur;

pub use pace::Step;
pub use receiver::Receiver;
pub use sender::{Outgoing, Sender, Settings};

/// The interval of acknowledgements and of rate control (section 6.2).
pub const SYN: Dur = Dur(10_000_000);
/// Bytes of the header of a data or control packet (section 4).
pub const HEADER_BYTES: u32 = 16;
/// Ranges that a report of losses holds, within a packet of 1500 bytes.
const MOST_RANGES: usize = 180;

/// A control packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// A step of the handshake, 1 or 2: the first asks for a cookie, the second shows it. The answer has the same number.
    Handshake(u8),
    /// All packets below `next` have arrived.
    Ack {
        /// The first packet that has not arrived.
        next: u64,
        /// What a full acknowledgement says more; a light one says nothing (section 6.2).
        report: Option<Report>,
    },
    /// A full acknowledgement with this number has arrived.
    Ack2(u32),
    /// These packets are lost.
    Nak(Vec<Range<u64>>),
}

/// What a full acknowledgement reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The acknowledgement's own number.
    pub number: u32,
    /// The receiver's estimate of the round-trip time, and its variation.
    pub rtt: (Dur, Dur),
    /// Packets for which the receiver has room.
    pub room: u64,
    /// Packets that arrived in a second; 0 if unknown.
    pub arrival_rate: f64,
    /// Packets that the path passes in a second, by the spacing of pairs; 0 if unknown.
    pub capacity: f64,
}

impl Control {
    /// Bytes of its header and contents, without those of UDP (sections 4 and 5).
    pub fn bytes(&self) -> u32 {
        let contents = match self {
            Control::Handshake(_) => 48,
            Control::Ack { report: Some(_), .. } => 24,
            Control::Ack { report: None, .. } | Control::Ack2(_) => 4,
            // A range takes two words, a single packet one.
            Control::Nak(ranges) => 4 * ranges.iter().map(|it| if it.end - it.start > 1 { 2 } else { 1 }).sum::<u32>(),
        };
        HEADER_BYTES + contents
    }
}
