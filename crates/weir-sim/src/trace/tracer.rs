//! Collects the records of a trace while the simulation runs.

use std::collections::VecDeque;

use weir_elements::Packet as _;
use weir_plan::{Plan, Transport};
use weir_tcp::{header_bytes, timestamp};
use weir_trace::{Direction, Ecn, Event, Ordered, PacketKind, Recorder, TraceRecord};
use weir_units::Time;

use super::stream::ByteStream;

use crate::packet::{CE, CWR_OR_ECE, ECT, Kind, NO_SACK, NO_SACKS_FROM, ONWARD, Packet, RESENT, UDP_HEADERS, unwrap};
use crate::sacks::Sacks;

/// A packet in flight, as it was sent.
struct Sent {
    /// Place of its SACK blocks or its serial number: unique among the packets in flight.
    identity: u32,
    record: TraceRecord,
    /// Whether it already counts against the limit.
    counted: bool,
}

/// A traced flow.
struct Traced {
    headers: u32,
    timestamps: bool,
    connection: u32,
    connection_number: Option<u8>,
    stream: ByteStream,
    /// The last timestamp that the sender received, and that of its connection request.
    peer_tsval: u32,
    syn_tsval: u32,
    /// Packets sent and packets in flight: forward, then reverse.
    sent: [u64; 2],
    under_way: [VecDeque<Sent>; 2],
}

/// Collects the records of a trace.
pub(crate) struct Tracer {
    flows: Vec<Option<Traced>>,
    serial: u32,
    recorder: Recorder,
    ordered: Ordered,
}

impl Tracer {
    /// The tracer that the plan asks for; none if it asks for none.
    pub fn from_plan(plan: &Plan) -> Option<Tracer> {
        let recorder = Recorder::new(plan.measure.trace.as_ref()?);
        let flows = (0..).zip(&plan.flows).map(|(i, flow)| recorder.wants(i).then(|| Traced::new(flow)));
        Some(Tracer { flows: flows.collect(), serial: 0, recorder, ordered: Ordered::default() })
    }

    /// A host sends a packet into its first link; returns the packet with an identity unique among those in flight.
    #[cold]
    pub fn sent(&mut self, now: Time, packet: Packet, sacks: &Sacks) -> Packet {
        if self.recorder.is_over(now) {
            return packet;
        }
        let Some(flow) = &mut self.flows[packet.flow()] else { return packet };
        let record = flow.record(now, &packet, sacks);
        let counted = self.recorder.sent(&record);
        let mut packet = packet;
        if packet.sack() >= NO_SACKS_FROM {
            self.serial = (self.serial + 1) % (NO_SACK - NO_SACKS_FROM);
            packet = packet.with_sack(NO_SACKS_FROM + self.serial);
        }
        let way = usize::from(!record.is_forward());
        flow.under_way[way].push_back(Sent { identity: packet.sack(), record, counted });
        packet
    }

    /// A packet reaches its destination.
    #[cold]
    pub fn received(&mut self, now: Time, packet: &Packet) {
        let Some(flow) = &mut self.flows[packet.flow()] else { return };
        // The first one sent, unless packets overtake each other.
        let under_way = &mut flow.under_way[way(packet)];
        let Some(place) = under_way.iter().position(|sent| sent.identity == packet.sack()) else { return };
        let Some(sent) = under_way.remove(place) else { return };
        if !sent.record.is_forward() && matches!(sent.record.kind, PacketKind::SynAck | PacketKind::Ack) {
            flow.peer_tsval = sent.record.tsval;
        }
        self.finish(now, sent, packet, Event::Received);
    }

    /// A link drops a packet.
    #[cold]
    pub fn dropped(&mut self, at: Time, link: u32, packet: &Packet) {
        let Some(flow) = &mut self.flows[packet.flow()] else { return };
        let under_way = &mut flow.under_way[way(packet)];
        let Some(place) = under_way.iter().rposition(|sent| sent.identity == packet.sack()) else { return };
        let Some(sent) = under_way.remove(place) else { return };
        self.finish(at, sent, packet, Event::Dropped { link: Some(link) });
    }

    fn finish(&mut self, at: Time, sent: Sent, packet: &Packet, event: Event) {
        let record = TraceRecord { time_ns: at.0, event, ecn: ecn(packet), ..sent.record };
        self.recorder.ended(record, sent.counted);
    }

    /// Removes and returns the records up to `now`, in the order of time: losses on fused links are known ahead of the
    /// clock.
    pub fn drain(&mut self, now: Time) -> Vec<TraceRecord> {
        self.ordered.add(self.recorder.take());
        self.ordered.take(now)
    }
}

impl Traced {
    fn new(flow: &weir_plan::Flow) -> Traced {
        let (headers, timestamps) = match &flow.transport {
            Transport::Tcp(tcp) => (header_bytes(tcp.timestamps), tcp.timestamps),
            Transport::Udp(_)
            | Transport::Quic(_)
            | Transport::Tfrc(_)
            | Transport::Mptcp(_)
            | Transport::Sctp(_)
            | Transport::Dccp(_)
            | Transport::Udt(_) => (UDP_HEADERS, false),
        };
        Traced {
            headers,
            timestamps,
            connection: 0,
            connection_number: None,
            stream: ByteStream::default(),
            peer_tsval: 0,
            syn_tsval: 0,
            sent: [0; 2],
            under_way: Default::default(),
        }
    }

    fn record(&mut self, now: Time, packet: &Packet, sacks: &Sacks) -> TraceRecord {
        if packet.kind() == Kind::Syn && self.connection_number != Some(packet.connection()) {
            self.connection_number = Some(packet.connection());
            self.connection += 1;
            self.stream = ByteStream::default();
        }
        let number = &mut self.sent[way(packet)];
        *number += 1;
        let mut record = TraceRecord {
            time_ns: now.0,
            event: Event::Sent,
            flow: packet.flow() as u32,
            direction: if way(packet) == 0 { Direction::Forward } else { Direction::Reverse },
            connection: self.connection,
            kind: PacketKind::Datagram,
            number: *number,
            id: *number as u16,
            ip_bytes: packet.ip_bytes(),
            payload_bytes: 0,
            seq: 0,
            ack: 0,
            sack: Vec::new(),
            tsval: 0,
            tsecr: 0,
            ecn: ecn(packet),
            ece: false,
            cwr: false,
            ae: false,
            retransmission: packet.kind() == Kind::Data && packet.has(RESENT),
            headers: None,
        };
        self.describe(&mut record, now, packet, sacks);
        if !self.timestamps {
            (record.tsval, record.tsecr) = (0, 0);
        }
        record
    }

    /// Fills in the fields that depend on the kind.
    fn describe(&mut self, record: &mut TraceRecord, now: Time, packet: &Packet, sacks: &Sacks) {
        let clock = timestamp(now);
        match packet.kind() {
            Kind::Syn => {
                self.syn_tsval = clock;
                (record.kind, record.tsval) = (PacketKind::Syn, clock);
            }
            Kind::SynAck => {
                (record.kind, record.tsval, record.tsecr) = (PacketKind::SynAck, clock, self.syn_tsval);
            }
            Kind::Confirmation => {
                (record.kind, record.tsval, record.tsecr) = (PacketKind::Ack, clock, self.peer_tsval);
            }
            Kind::Data => {
                let number = unwrap(packet.number(), self.stream.next_segment());
                record.kind = PacketKind::Data;
                record.payload_bytes = packet.ip_bytes() - self.headers;
                self.stream.sent(number, record.payload_bytes);
                record.seq = self.stream.byte(number);
                (record.tsval, record.tsecr) = (packet.stamp(), self.peer_tsval);
                record.cwr = packet.has(CWR_OR_ECE);
            }
            Kind::Ack => {
                let number = unwrap(packet.number(), self.stream.next_segment());
                record.kind = PacketKind::Ack;
                record.ack = self.stream.byte(number);
                let blocks = sacks.get(packet.sack());
                let bytes = |&(start, end): &(u64, u64)| (self.stream.byte(start), self.stream.byte(end));
                record.sack = blocks.as_slice().iter().map(bytes).collect();
                (record.tsval, record.tsecr) = (clock, packet.stamp());
                let echo = packet.echo();
                (record.ece, record.cwr, record.ae) = (echo & 1 != 0, echo & 2 != 0, echo & 4 != 0);
            }
            Kind::Datagram | Kind::Feedback => {
                record.payload_bytes = packet.ip_bytes() - self.headers;
                record.seq = u64::from(packet.number());
            }
        }
    }
}

fn way(packet: &Packet) -> usize {
    usize::from(match packet.kind() {
        Kind::Ack | Kind::SynAck => true,
        Kind::Feedback => !packet.has(ONWARD),
        Kind::Data | Kind::Datagram | Kind::Syn | Kind::Confirmation => false,
    })
}

fn ecn(packet: &Packet) -> Ecn {
    match (packet.has(CE), packet.has(ECT)) {
        (true, _) => Ecn::Experienced,
        (false, true) if packet.is_l4s() => Ecn::L4s,
        (false, true) => Ecn::Capable,
        (false, false) => Ecn::NotCapable,
    }
}
