//! The congestion headers of packets in flight, and what receivers return of them.
//!
//! A packet of a flow with explicit feedback stores the place of its header instead of that of SACK blocks, which the
//! header keeps meanwhile. Data packets carry what the sender says of itself and the feedback of routers; an
//! acknowledgement carries the sum of the feedback since the one before, as draft-falk-xcp-spec-03, section 5.2, asks of
//! receivers that delay acknowledgements. The feedback of lost acknowledgements is lost.

use weir_cc::Feedback;
use weir_elements::{Header, Packet as _, Scheme, UNLIMITED};
use weir_links::Link;
use weir_tcp::Sender;
use weir_units::{Dur, Time};

use crate::flow::Flow;
use crate::packet::{Kind, Packet};
use crate::slab::Slab;

/// The header of a packet in flight.
#[derive(Clone, Copy)]
struct Carried {
    header: Header,
    /// What the packet stores elsewhere: the place of SACK blocks, or an observer's number.
    place: u32,
}

/// A flow with explicit feedback.
struct Ends {
    /// The number of its connection.
    connection: u8,
    /// The header of its next data packet.
    next: Header,
    /// Feedback that its receiver has not returned yet, bit/s on the wire.
    owed_bps: i64,
    /// Payload and size of an IP packet.
    payload_bytes: u32,
    packet_bytes: u32,
}

/// The congestion headers of a plan.
pub(crate) struct Headers {
    /// By flow; none for flows without explicit feedback.
    flows: Vec<Option<Ends>>,
    carried: Slab<Carried>,
}

impl Headers {
    /// Of these flows; none if no flow has explicit feedback.
    pub fn of(flows: &[Flow]) -> Option<Headers> {
        let ends: Vec<_> = flows.iter().map(Ends::of).collect();
        ends.iter().any(Option::is_some).then(|| Headers { flows: ends, carried: Slab::default() })
    }

    /// A flow is about to send a segment.
    pub fn announce(&mut self, index: usize, connection: u8, sender: &Sender) {
        let (Some(ends), Some(said)) = (&mut self.flows[index], sender.announcement()) else { return };
        if ends.connection != connection {
            (ends.connection, ends.owed_bps) = (connection, 0);
        }
        ends.next.rtt = Dur(said.rtt_ns);
        ends.next.spacing = Dur(said.spacing_ns);
        ends.next.feedback_bps = if said.wants_more { UNLIMITED } else { 0 };
    }

    /// A host sends a packet; returns it with its header.
    pub fn sent(&mut self, packet: Packet) -> Packet {
        let Some(ends) = &mut self.flows[packet.flow()] else { return packet };
        let feedback_bps = match packet.kind() {
            Kind::Data => ends.next.feedback_bps,
            Kind::Ack => std::mem::take(&mut ends.owed_bps),
            Kind::Syn | Kind::SynAck | Kind::Datagram => return packet,
        };
        let header = Header { feedback_bps, ..ends.next };
        packet.with_sack(self.carried.put(Carried { header, place: packet.sack() }))
    }

    /// A packet leaves the network; returns it without its header.
    pub fn removed(&mut self, packet: Packet) -> (Packet, Option<Header>) {
        if !self.has(&packet) {
            return (packet, None);
        }
        let carried = self.carried.take(packet.sack());
        (packet.with_sack(carried.place), Some(carried.header))
    }

    /// A packet reaches its destination; returns it without its header, and the feedback that its sender gets.
    pub fn received(&mut self, packet: Packet) -> (Packet, Option<Feedback>) {
        let (packet, header) = self.removed(packet);
        let (Some(header), Some(ends)) = (header, &mut self.flows[packet.flow()]) else { return (packet, None) };
        let of_present = packet.connection() == ends.connection;
        match packet.kind() {
            Kind::Data if of_present && header.feedback_bps != UNLIMITED => {
                ends.owed_bps = ends.owed_bps.saturating_add(header.feedback_bps);
                (packet, None)
            }
            Kind::Ack if of_present => (packet, Some(Feedback { change_bps: ends.of_payload(header.feedback_bps) })),
            _ => (packet, None),
        }
    }

    /// A packet has come to an evented link.
    pub fn arrived(&mut self, link: &mut Link<Packet>, at: Time, packet: &Packet) {
        if packet.kind() == Kind::Data && self.has(packet) {
            link.header_arrived(at, &self.carried.get_mut(packet.sack()).header);
        }
    }

    /// A packet begins its transmission on an evented link.
    pub fn departs(&mut self, link: &mut Link<Packet>, at: Time, packet: &Packet) {
        if packet.kind() == Kind::Data && self.has(packet) {
            link.header_departs(at, packet.ip_bytes(), &mut self.carried.get_mut(packet.sack()).header);
        }
    }

    fn has(&self, packet: &Packet) -> bool {
        matches!(packet.kind(), Kind::Data | Kind::Ack) && self.flows[packet.flow()].is_some()
    }
}

impl Ends {
    fn of(flow: &Flow) -> Option<Ends> {
        let (tcp, algorithm) = &**flow.tcp.as_ref()?;
        let scheme = Scheme::named(algorithm.queue()?)?;
        let next = Header { scheme, rtt: Dur::ZERO, spacing: Dur::ZERO, feedback_bps: UNLIMITED };
        let packet_bytes = tcp.mss_bytes + weir_tcp::header_bytes(tcp.timestamps);
        Some(Ends { connection: 0, next, owed_bps: 0, payload_bytes: tcp.mss_bytes, packet_bytes })
    }

    fn of_payload(&self, bps: i64) -> i64 {
        (i128::from(bps) * i128::from(self.payload_bytes) / i128::from(self.packet_bytes)) as i64
    }
}
