//! A per-packet trace: what the hosts of a run saw, and what became of it.
//!
//! `measure.trace` of the plan asks for it. Each packet of a traced flow gives a record when its host hands it to the first
//! link ([`Event::Sent`]), and one when it reaches the other host ([`Event::Received`]) or is dropped on the way
//! ([`Event::Dropped`]). [`Simulation::drain_trace`](crate::Simulation::drain_trace) takes the records out; two writers
//! turn them into files: [`PcapWriter`], a capture that Wireshark opens, and [`LogWriter`], one line for each record.
//!
//! The simulator numbers segments and packs a packet into three words; here it gets back what a real one carries: its
//! place in the byte stream, both timestamps, SACK blocks in bytes. That is kept while the packet is under way, which
//! costs about 200 bytes each, but only while something is traced.

mod log;
mod pcap;
mod stream;
mod tracer;

pub use log::{LogWriter, write_log};
pub use pcap::{Capture, PcapWriter, write_pcap};
pub(crate) use tracer::Tracer;

use weir_plan::Plan;

/// A packet at a host, or its end on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// When, since the start of the run.
    pub time_ns: u64,
    /// What happened to it.
    pub event: Event,
    /// Index of the flow.
    pub flow: u32,
    /// Number of the connection within the flow, from 1; 0 for UDP.
    pub connection: u32,
    /// What it is.
    pub kind: PacketKind,
    /// Number among the packets that the flow sends in this direction, modulo 2^16: the identification of IPv4.
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
    /// Value of the timestamps option, microseconds of the run; 0 without the option.
    pub tsval: u32,
    /// Its echo reply.
    pub tsecr: u32,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Echo of a congestion mark, on an acknowledgement.
    pub ece: bool,
    /// Congestion window reduced, on data.
    pub cwr: bool,
    /// Sent before.
    pub retransmission: bool,
}

/// What happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Its host handed it to the first link.
    Sent,
    /// It reached the host it was for.
    Received,
    /// A link dropped it: by losses, its queue or its MTU.
    Dropped {
        /// Index of the link.
        link: u32,
    },
}

/// What a packet is.
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
    /// ECN-capable, ECT(0).
    Capable,
    /// Congestion experienced.
    Experienced,
}

impl TraceRecord {
    /// Whether it goes the way of the data.
    pub fn is_forward(&self) -> bool {
        !matches!(self.kind, PacketKind::SynAck | PacketKind::Ack)
    }

    /// The host that sends it.
    pub fn source(&self, plan: &Plan) -> u32 {
        let flow = &plan.flows[self.flow as usize];
        if self.is_forward() { flow.from } else { flow.to }
    }

    /// The host it is for.
    pub fn destination(&self, plan: &Plan) -> u32 {
        let flow = &plan.flows[self.flow as usize];
        if self.is_forward() { flow.to } else { flow.from }
    }

    /// The host that sees it; none when it is dropped on a link.
    pub fn host(&self, plan: &Plan) -> Option<u32> {
        match self.event {
            Event::Sent => Some(self.source(plan)),
            Event::Received => Some(self.destination(plan)),
            Event::Dropped { .. } => None,
        }
    }
}
