//! A trace of single packets: the packets that the hosts of a run saw, and their fates.
//!
//! `measure.trace` of the plan asks for it. Each packet of a traced flow gives a record when its host hands it to the
//! first link ([`Event::Sent`]), and one when it reaches the other host ([`Event::Received`]) or is dropped on the path
//! ([`Event::Dropped`]). A driver collects records. The simulator writes them itself, with the meaning of its packets;
//! the drivers of real packets let an [`Observer`] read the headers, in the lab by way of [`Rows`]. [`Files`] turns
//! records into the files of a cell, which are the same for all drivers: `senders.pcap`, `receivers.pcap` and
//! `packets.csv`.
//!
//! The crate reads no clock and opens no file: the driver passes instants and outputs.

mod files;
mod headers;
mod log;
mod observer;
mod pcap;
mod real;
mod recorder;
mod rows;

pub use files::{FILES, Files};
pub use log::{LogWriter, write_log};
pub use observer::{Observer, Sent};
pub use pcap::{Capture, PcapFile, PcapWriter, write_pcap};
pub use recorder::{Ordered, Recorder};
pub use rows::{ROW_BYTES, Rows};

use weir_plan::Plan;

/// A packet at a host, or its drop on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// Time since the start of the run.
    pub time_ns: u64,
    /// The event.
    pub event: Event,
    /// Index of the flow.
    pub flow: u32,
    /// Its direction.
    pub direction: Direction,
    /// Number of the connection within the flow, from 1; 0 for UDP.
    pub connection: u32,
    /// Its kind.
    pub kind: PacketKind,
    /// Number among the packets that the flow sends in this direction, from 1.
    pub number: u64,
    /// The identification of IPv4; for a simulated packet, its number modulo 2^16.
    pub id: u16,
    /// Bytes of the IP packet.
    pub ip_bytes: u32,
    /// Its payload.
    pub payload_bytes: u32,
    /// First byte of the payload within the stream, from 0; the number of a datagram, from 1.
    pub seq: u64,
    /// Bytes of the stream acknowledged.
    pub ack: u64,
    /// Selectively acknowledged `[start, end)` in bytes of the stream; a duplicate comes first (RFC 2883).
    pub sack: Vec<(u64, u64)>,
    /// Value of the timestamps option: milliseconds of the sending host's clock; 0 without the option.
    pub tsval: u32,
    /// Its echo reply.
    pub tsecr: u32,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Echo of a congestion mark, on a packet outside the handshake; with AccECN the lowest bit of the counter of marks,
    /// whose other bits are `cwr` and `ae` (RFC 9768).
    pub ece: bool,
    /// Congestion window reduced, on a packet outside the handshake.
    pub cwr: bool,
    /// Highest bit of the counter of marks, on a packet outside the handshake.
    pub ae: bool,
    /// Whether it was sent before.
    pub retransmission: bool,
    /// The headers of a real packet, from the IP header on; none for a simulated packet.
    pub headers: Option<Box<[u8]>>,
}

/// The event of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Its host handed it to the first link.
    Sent,
    /// It reached its destination host.
    Received,
    /// It was dropped on the way.
    Dropped {
        /// Index of the link that dropped it: by losses, its queue or its MTU. None if no link of the plan did.
        link: Option<u32>,
    },
}

/// The direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the flow's sender to its receiver: `path` of the plan.
    Forward,
    /// Back: `reverse_path`.
    Reverse,
}

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketKind {
    /// Connection request.
    Syn,
    /// Its answer.
    SynAck,
    /// A TCP segment with payload.
    Data,
    /// A TCP segment without payload.
    Ack,
    /// A UDP datagram.
    Datagram,
}

/// ECN field of an IP header (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecn {
    /// Not ECN-capable.
    NotCapable,
    /// ECT(0).
    Capable,
    /// ECT(1), of L4S.
    L4s,
    /// Congestion experienced.
    Experienced,
}

impl TraceRecord {
    /// Whether it goes from the flow's sender to its receiver.
    pub fn is_forward(&self) -> bool {
        self.direction == Direction::Forward
    }

    /// The host that sends it.
    pub fn source(&self, plan: &Plan) -> u32 {
        let flow = &plan.flows[self.flow as usize];
        if self.is_forward() { flow.from } else { flow.to }
    }

    /// Its destination host.
    pub fn destination(&self, plan: &Plan) -> u32 {
        let flow = &plan.flows[self.flow as usize];
        if self.is_forward() { flow.to } else { flow.from }
    }

    /// The host that sees it; none when it is dropped on the path.
    pub fn host(&self, plan: &Plan) -> Option<u32> {
        match self.event {
            Event::Sent => Some(self.source(plan)),
            Event::Received => Some(self.destination(plan)),
            Event::Dropped { .. } => None,
        }
    }
}
