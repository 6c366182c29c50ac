//! The congestion headers of packets in flight, and what receivers return of them.
//!
//! A packet of a flow with explicit feedback stores the place of its header instead of that of SACK blocks, which the
//! header keeps meanwhile. Data packets carry what the sender says of itself and the feedback of routers; an
//! acknowledgement carries what the receiver returns. Of XCP, that is the sum of the feedback since the one before, as
//! draft-falk-xcp-spec-03, section 5.2, asks of receivers that delay acknowledgements; the feedback of lost
//! acknowledgements is lost. Of RCP, it is the last rate, and the packets of the handshake carry it too. Of Quick-Start, only
//! the packets of the handshake carry anything; a request that is sent again asks for nothing (RFC 4782, section 4.7.2).

use weir_cc::Feedback;
use weir_elements::{Header, Packet as _, Scheme, UNLIMITED, quick_start_rate};
use weir_links::Link;
use weir_plan::Plan;
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
    /// Feedback that its receiver has not returned yet, bit/s on the wire; of RCP the last rate.
    owed_bps: i64,
    /// Of Quick-Start: the rate that each connection asks for, that of the next request, and the routers that must approve
    /// it; none if that is impossible.
    request_bps: i64,
    next_request_bps: i64,
    routers: Option<usize>,
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
    pub fn of(plan: &Plan, flows: &[Flow]) -> Option<Headers> {
        let ends: Vec<_> = flows.iter().zip(&plan.flows).map(|(flow, planned)| Ends::of(plan, flow, planned)).collect();
        ends.iter().any(Option::is_some).then(|| Headers { flows: ends, carried: Slab::default() })
    }

    /// A flow is about to send a segment.
    pub fn announce(&mut self, index: usize, connection: u8, sender: &Sender) {
        let (Some(ends), Some(said)) = (&mut self.flows[index], sender.announcement()) else { return };
        ends.connect(connection);
        ends.next.rtt = Dur(said.rtt_ns);
        ends.next.spacing = Dur(said.spacing_ns);
        ends.next.feedback_bps = if said.wants_more { UNLIMITED } else { 0 };
    }

    /// A host sends a packet; returns it with its header.
    pub fn sent(&mut self, packet: Packet) -> Packet {
        let Some(ends) = self.flows[packet.flow()].as_mut().filter(|ends| ends.marks(&packet)) else { return packet };
        if packet.kind() == Kind::Syn {
            ends.connect(packet.connection());
            (ends.next.rtt, ends.next.feedback_bps) = (Dur::ZERO, ends.request());
        }
        let feedback_bps = match (packet.kind(), ends.next.scheme) {
            (Kind::Ack | Kind::SynAck, Scheme::Xcp) => std::mem::take(&mut ends.owed_bps),
            (Kind::Ack | Kind::SynAck, Scheme::Rcp | Scheme::QuickStart) => ends.owed_bps,
            _ => ends.next.feedback_bps,
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
        if packet.connection() != ends.connection {
            return (packet, None);
        }
        if let Kind::Ack | Kind::SynAck = packet.kind() {
            return (packet, Some(ends.feedback(header.feedback_bps)));
        }
        // Without a router on the path it is as the sender wrote it.
        if header.feedback_bps != UNLIMITED {
            ends.owe(&header);
        }
        (packet, None)
    }

    /// A packet has come to an evented link.
    pub fn arrived(&mut self, link: &mut Link<Packet>, at: Time, packet: &Packet) {
        if goes_forward(packet) && self.has(packet) {
            link.header_arrived(at, &self.carried.get_mut(packet.sack()).header);
        }
    }

    /// A packet begins its transmission on an evented link.
    pub fn departs(&mut self, link: &mut Link<Packet>, at: Time, packet: &Packet) {
        if goes_forward(packet) && self.has(packet) {
            link.header_departs(at, packet.ip_bytes(), &mut self.carried.get_mut(packet.sack()).header);
        }
    }

    fn has(&self, packet: &Packet) -> bool {
        self.flows[packet.flow()].as_ref().is_some_and(|ends| ends.marks(packet))
    }
}

/// The number of routers of a path that answer requests of Quick-Start. None if it has none, or if a link as slow as one of
/// them has no such router; faster links could spare what the others approve.
fn routers(plan: &Plan, path: &[u32]) -> Option<usize> {
    let (answer, silent): (Vec<&weir_plan::Link>, Vec<_>) = path
        .iter()
        .map(|link| &plan.links[*link as usize])
        .partition(|link| link.queue.info().name == Scheme::QuickStart.name());
    let slowest = answer.iter().map(|link| link.rate_bps).min()?;
    silent.iter().all(|link| link.rate_bps > slowest).then_some(answer.len())
}

fn goes_forward(packet: &Packet) -> bool {
    matches!(packet.kind(), Kind::Data | Kind::Syn)
}

impl Ends {
    fn of(plan: &Plan, flow: &Flow, planned: &weir_plan::Flow) -> Option<Ends> {
        let (tcp, algorithm) = &**flow.tcp.as_ref()?;
        let request_bps = quick_start_rate(i64::try_from(tcp.quick_start_bps).unwrap_or(i64::MAX));
        let scheme = match algorithm.queue() {
            Some(queue) => Scheme::named(queue)?,
            None if request_bps > 0 => Scheme::QuickStart,
            None => return None,
        };
        let next = Header { scheme, rtt: Dur::ZERO, spacing: Dur::ZERO, feedback_bps: UNLIMITED, routers: 0 };
        let packet_bytes = tcp.mss_bytes + weir_tcp::header_bytes(tcp.timestamps);
        Some(Ends {
            connection: 0,
            next,
            owed_bps: 0,
            request_bps,
            next_request_bps: request_bps,
            routers: routers(plan, &planned.path),
            payload_bytes: tcp.mss_bytes,
            packet_bytes,
        })
    }

    /// What a connection request asks for: the first one of a connection.
    fn request(&mut self) -> i64 {
        match self.next.scheme {
            Scheme::Xcp | Scheme::Rcp => UNLIMITED,
            Scheme::QuickStart => std::mem::take(&mut self.next_request_bps),
        }
    }

    /// Whether packets of this kind have a header.
    fn marks(&self, packet: &Packet) -> bool {
        match packet.kind() {
            Kind::Data | Kind::Ack => self.next.scheme != Scheme::QuickStart,
            Kind::Syn | Kind::SynAck => self.next.scheme != Scheme::Xcp,
            Kind::Confirmation | Kind::Datagram | Kind::Feedback => false,
        }
    }

    /// The flow's connection is that with this number.
    fn connect(&mut self, connection: u8) {
        if self.connection != connection {
            (self.connection, self.owed_bps, self.next_request_bps) = (connection, 0, self.request_bps);
        }
    }

    /// A packet has come with this header.
    fn owe(&mut self, header: &Header) {
        self.owed_bps = match self.next.scheme {
            Scheme::Xcp => self.owed_bps.saturating_add(header.feedback_bps),
            Scheme::Rcp => header.feedback_bps,
            Scheme::QuickStart if Some(usize::from(header.routers)) == self.routers => header.feedback_bps,
            Scheme::QuickStart => 0,
        };
    }

    /// What the sender gets of the feedback of an acknowledgement.
    fn feedback(&self, bps: i64) -> Feedback {
        let bps = self.of_payload(bps);
        match self.next.scheme {
            Scheme::Xcp => Feedback { change_bps: bps, rate_bps: 0 },
            Scheme::Rcp | Scheme::QuickStart => Feedback { change_bps: 0, rate_bps: bps.max(0) as u64 },
        }
    }

    fn of_payload(&self, bps: i64) -> i64 {
        (i128::from(bps) * i128::from(self.payload_bytes) / i128::from(self.packet_bytes)) as i64
    }
}
