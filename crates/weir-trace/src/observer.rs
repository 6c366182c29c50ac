//! Follows real packets by their headers, and makes the same records as the simulator does.
//!
//! Positions in a stream count from the initial sequence number of its connection, so the observer must see each flow
//! from its first packet on. A segment is a retransmission if its first byte was sent before.

use std::collections::BTreeMap;

use weir_plan::Plan;
use weir_units::Time;

use crate::real::{self, Headers, TcpHeaders};
use crate::{Direction, Ecn, Event, PacketKind, Recorder, TraceRecord};

/// Makes records of real packets.
#[derive(Debug)]
pub struct Observer {
    recorder: Recorder,
    flows: Vec<Option<Followed>>,
}

/// A packet in flight, as it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    record: TraceRecord,
    /// Whether it already counts against the limit.
    counted: bool,
}

/// A traced flow. Pairs are (forward, reverse).
#[derive(Debug, Default)]
struct Followed {
    packets: [u64; 2],
    datagrams: [u64; 2],
    connections: u32,
    /// By source and destination port in the forward direction.
    open: BTreeMap<(u16, u16), Connection>,
}

#[derive(Debug, Default)]
struct Connection {
    number: u32,
    halves: [Half; 2],
}

/// One direction of a connection; positions are in bytes of its stream.
#[derive(Debug, Default)]
struct Half {
    initial: Option<u32>,
    /// The end of the data sent.
    next: u64,
    /// The end of the stream, once it is known: the position after it stands for the FIN.
    end: Option<u64>,
}

impl Observer {
    /// The observer that a plan asks for, if any.
    pub fn from_plan(plan: &Plan) -> Option<Observer> {
        let recorder = Recorder::new(plan.measure.trace.as_ref()?);
        let flows = (0..plan.flows.len() as u32).map(|flow| recorder.wants(flow).then(Followed::default)).collect();
        Some(Observer { recorder, flows })
    }

    /// Whether packets of a flow sent at `now` must be reported.
    pub fn wants(&self, flow: u32, now: Time) -> bool {
        !self.recorder.is_over(now) && self.flows.get(flow as usize).is_some_and(Option::is_some)
    }

    /// A host hands a packet of `ip_bytes` to its first link; `headers` begin with its IP header. Returns none if it is
    /// not recorded: the flow is not traced, or the packet is not TCP or UDP over IPv4.
    pub fn sent(
        &mut self,
        now: Time,
        flow: u32,
        direction: Direction,
        headers: &[u8],
        ip_bytes: u32,
    ) -> Option<Box<Sent>> {
        if !self.wants(flow, now) {
            return None;
        }
        let followed = self.flows.get_mut(flow as usize)?.as_mut()?;
        let read = real::read(headers)?;
        let mut record = TraceRecord {
            time_ns: now.0,
            event: Event::Sent,
            flow,
            direction,
            connection: 0,
            kind: PacketKind::Datagram,
            number: 0,
            id: read.id,
            ip_bytes,
            payload_bytes: ip_bytes.saturating_sub(read.len),
            seq: 0,
            ack: 0,
            sack: Vec::new(),
            tsval: 0,
            tsecr: 0,
            ecn: read.ecn,
            ece: false,
            cwr: false,
            ae: false,
            retransmission: false,
            headers: Some(headers[..read.len as usize].into()),
        };
        followed.describe(&mut record, &read);
        let counted = self.recorder.sent(&record);
        Some(Box::new(Sent { record, counted }))
    }

    /// A packet reaches its destination host; `marked`: congestion-experienced.
    pub fn received(&mut self, now: Time, sent: Sent, marked: bool) {
        self.end(now, sent, marked, Event::Received);
    }

    /// A packet is dropped by `link`, or by no link of the plan.
    pub fn dropped(&mut self, at: Time, link: Option<u32>, sent: Sent, marked: bool) {
        self.end(at, sent, marked, Event::Dropped { link });
    }

    fn end(&mut self, at: Time, sent: Sent, marked: bool, event: Event) {
        let Sent { record, counted } = sent;
        let ecn = if marked { Ecn::Experienced } else { record.ecn };
        self.recorder.ended(TraceRecord { time_ns: at.0, event, ecn, ..record }, counted);
    }

    /// Takes the records since the last call, in the order in which they became known.
    pub fn take(&mut self) -> Vec<TraceRecord> {
        self.recorder.take()
    }
}

impl Followed {
    fn describe(&mut self, record: &mut TraceRecord, read: &Headers) {
        let way = usize::from(record.direction == Direction::Reverse);
        self.packets[way] += 1;
        record.number = self.packets[way];
        let Some(tcp) = &read.tcp else {
            self.datagrams[way] += 1;
            record.seq = self.datagrams[way];
            return;
        };
        let ports = if way == 0 { read.ports } else { (read.ports.1, read.ports.0) };
        let connection = self.open.entry(ports).or_default();
        let is_request = tcp.syn && !tcp.ack;
        if connection.number == 0 || is_request && connection.halves[way].initial != Some(tcp.sequence) {
            self.connections += 1;
            *connection = Connection { number: self.connections, ..Connection::default() };
        }
        record.connection = connection.number;
        (record.tsval, record.tsecr) = tcp.timestamps;
        connection.describe(record, tcp, way);
    }
}

impl Connection {
    fn describe(&mut self, record: &mut TraceRecord, tcp: &TcpHeaders, way: usize) {
        record.retransmission = self.halves[way].sent(record, tcp);
        let other = &self.halves[1 - way];
        if tcp.ack {
            record.ack = other.place(tcp.acknowledgment);
            record.sack = tcp.sack.iter().map(|&(start, end)| (other.place(start), other.place(end))).collect();
        }
        record.kind = match (tcp.syn, tcp.ack) {
            (true, false) => PacketKind::Syn,
            (true, true) => PacketKind::SynAck,
            _ if record.payload_bytes > 0 => PacketKind::Data,
            _ => PacketKind::Ack,
        };
        // In the handshake the two flags negotiate (RFC 3168, section 6.1.1).
        (record.ece, record.cwr, record.ae) = (tcp.ece && !tcp.syn, tcp.cwr && !tcp.syn, tcp.ae && !tcp.syn);
    }
}

impl Half {
    /// Handles a sent segment: fills in its position in the stream; returns whether it was sent before.
    fn sent(&mut self, record: &mut TraceRecord, tcp: &TcpHeaders) -> bool {
        if tcp.syn {
            return self.initial.replace(tcp.sequence) == Some(tcp.sequence);
        }
        self.initial.get_or_insert(tcp.sequence.wrapping_sub(1));
        let place = self.unwrapped(tcp.sequence);
        let end = place + u64::from(record.payload_bytes);
        if tcp.fin {
            self.end = Some(end);
        }
        if record.payload_bytes == 0 {
            return false;
        }
        record.seq = place;
        let before = self.next;
        self.next = before.max(end);
        place < before
    }

    /// Position of a sequence number from the other end; a FIN has none.
    fn place(&self, number: u32) -> u64 {
        let place = self.unwrapped(number);
        self.end.map_or(place, |end| place.min(end))
    }

    /// Position of a sequence number: the one nearest to the last sent, because numbers repeat every 4 GiB.
    fn unwrapped(&self, number: u32) -> u64 {
        let first = self.initial.unwrap_or(0).wrapping_add(1);
        let ahead = number.wrapping_sub(first).wrapping_sub(self.next as u32) as i32;
        self.next.saturating_add_signed(i64::from(ahead))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};

    use super::*;
    use crate::{Files, Ordered};

    const S: u64 = 1_000_000_000;
    const ISN: [u32; 2] = [u32::MAX - 1000, 77];

    pub fn plan(max_packets: u64) -> Plan {
        let text = format!(
            r#"{{"version": 1, "title": "t", "seed": 1, "end_ns": {S},
            "nodes": [{{"name": "a", "kind": "host"}}, {{"name": "b", "kind": "host"}}],
            "links": [], "changes": [], "phases": [],
            "flows": [{{"name": "f", "group": "f", "index": 0, "stream": 0, "role": "test", "from": 0, "to": 1,
                "path": [0], "reverse_path": [1], "start_ns": 0, "stop_ns": null, "dscp": 0,
                "transport": {{"protocol": "udp", "payload_bytes": 100}},
                "source": {{"kind": "cbr", "rate_bps": 1000, "periods_ns": []}}}}],
            "measure": {{"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0,
                "trace": {{"flows": [], "from_ns": 0, "to_ns": {S}, "max_packets": {max_packets}}}}}}}"#
        );
        serde_json::from_str(&text).expect("a plan")
    }

    /// Headers of a segment whose numbers count from the initial ones.
    fn segment(way: usize, seq: u32, ack: u32, adapt: impl FnOnce(&mut TcpHeader)) -> Vec<u8> {
        let ports = if way == 0 { (40_000, 5001) } else { (5001, 40_000) };
        let mut tcp = TcpHeader::new(ports.0, ports.1, ISN[way].wrapping_add(seq), 1000);
        tcp.ack = true;
        tcp.acknowledgment_number = ISN[1 - way].wrapping_add(ack);
        adapt(&mut tcp);
        let ends = if way == 0 { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
        let mut ip = Ipv4Header::new(tcp.header_len() as u16, 64, IpNumber::TCP, ends.0, ends.1).expect("short");
        ip.identification = 9;
        let mut bytes = Vec::new();
        ip.write(&mut bytes).expect("memory");
        tcp.write(&mut bytes).expect("memory");
        bytes
    }

    fn sent(observer: &mut Observer, now: u64, way: usize, headers: &[u8], payload: u32) -> TraceRecord {
        let direction = if way == 0 { Direction::Forward } else { Direction::Reverse };
        let ip_bytes = headers.len() as u32 + payload;
        observer.sent(Time(now), 0, direction, headers, ip_bytes).expect("it is traced").record
    }

    #[test]
    fn a_connection_is_followed_over_the_wrap_of_its_numbers_to_its_end() {
        let mut observer = Observer::from_plan(&plan(100)).expect("a trace");
        let syn = segment(0, 0, 0, |tcp| (tcp.syn, tcp.ack, tcp.ece, tcp.cwr) = (true, false, true, true));
        let request = sent(&mut observer, 1, 0, &syn, 0);
        assert_eq!((request.kind, request.connection, request.number, request.id), (PacketKind::Syn, 1, 1, 9));
        assert!(!request.retransmission && !request.ece && !request.cwr);
        assert!(sent(&mut observer, 2, 0, &syn, 0).retransmission);
        let answer = sent(&mut observer, 3, 1, &segment(1, 0, 1, |tcp| tcp.syn = true), 0);
        assert_eq!((answer.kind, answer.ack, answer.connection, answer.number), (PacketKind::SynAck, 0, 1, 1));

        let data = |at: u32| segment(0, 1 + at, 1, |_| {});
        let seqs = [0, 1000, 2000, 1000].map(|at| {
            let record = sent(&mut observer, 4, 0, &data(at), 1000);
            (record.kind, record.seq, record.retransmission)
        });
        assert_eq!(seqs.map(|row| row.1), [0, 1000, 2000, 1000]);
        assert_eq!(seqs.map(|row| row.2), [false, false, false, true]);
        assert!(seqs.iter().all(|row| row.0 == PacketKind::Data));

        let blocks = segment(1, 1, 1001, |tcp| {
            let from = |at: u32| ISN[0].wrapping_add(1 + at);
            tcp.set_options(&[
                TcpOptionElement::Timestamp(5, 6),
                TcpOptionElement::SelectiveAcknowledgement((from(2000), from(3000)), [None; 3]),
            ])
            .expect("short options");
        });
        let ack = sent(&mut observer, 5, 1, &blocks, 0);
        assert_eq!((ack.kind, ack.ack, ack.sack.as_slice()), (PacketKind::Ack, 1000, &[(2000, 3000)][..]));
        assert_eq!((ack.tsval, ack.tsecr, ack.seq, ack.payload_bytes), (5, 6, 0, 0));

        sent(&mut observer, 6, 0, &segment(0, 3001, 1, |tcp| tcp.fin = true), 0);
        assert_eq!(sent(&mut observer, 7, 1, &segment(1, 1, 3002, |_| {}), 0).ack, 3000, "a FIN is no byte");

        let other = segment(0, 5000, 0, |tcp| (tcp.syn, tcp.ack) = (true, false));
        assert_eq!(sent(&mut observer, 8, 0, &other, 0).connection, 2, "the ports come again");
    }

    #[test]
    fn datagrams_are_counted_and_marks_change_header_and_checksum() {
        let plan = plan(3);
        let mut observer = Observer::from_plan(&plan).expect("a trace");
        let mut ip = Ipv4Header::new(108, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).expect("short");
        ip.ecn = etherparse::IpEcn::Ect0;
        ip.header_checksum = ip.calc_header_checksum();
        let mut headers = Vec::new();
        ip.write(&mut headers).expect("memory");
        UdpHeader { source_port: 4000, destination_port: 5001, length: 108, checksum: 0 }
            .write(&mut headers)
            .expect("memory");
        let mut send = |at| observer.sent(Time(at), 0, Direction::Forward, &headers, 128);
        let (first, second, third) = (send(10).expect("1"), send(20).expect("2"), send(30).expect("3"));
        assert!(send(40).is_none(), "three packets are the limit");
        assert_eq!((third.record.seq, third.record.payload_bytes, third.record.connection), (3, 100, 0));
        observer.dropped(Time(35), Some(4), *second, false);
        observer.received(Time(33), *first, true);
        observer.received(Time(S), *third, false);
        let mut ordered = Ordered::default();
        ordered.add(observer.take());
        let records = ordered.take(Time::MAX);
        let times: Vec<u64> = records.iter().map(|record| record.time_ns).collect();
        assert_eq!(times, [10, 20, 30, 33, 35], "what ends with the window is not in it");

        let mut files = Files::new([Vec::new(), Vec::new(), Vec::new()]).expect("memory");
        files.write(&records, &plan).expect("memory");
        let [senders, receivers, packets] = files.outputs().map(|out| out.clone());
        assert_eq!(senders.len(), 24 + 3 * (16 + 28));
        assert_eq!(receivers.len(), 24 + 16 + 28);
        let arrived = Ipv4Header::from_slice(&receivers[40..]).expect("a header").0;
        assert_eq!(arrived.ecn, etherparse::IpEcn::CongestionExperienced);
        assert_eq!(arrived.header_checksum, arrived.calc_header_checksum());
        let text = String::from_utf8(packets).expect("text");
        assert_eq!(text.lines().nth(4), Some("33,received,,0,sender,0,datagram,1,0,128,100,1,0,,0,0,C"));
        assert_eq!(text.lines().nth(5), Some("35,dropped,4,0,sender,0,datagram,2,0,128,100,2,0,,0,0,T"));
    }

    #[test]
    fn a_record_that_is_late_by_a_hair_keeps_the_order() {
        let mut observer = Observer::from_plan(&plan(9)).expect("a trace");
        let headers = segment(0, 1, 1, |_| {});
        let mut ordered = Ordered::default();
        for (at, until) in [(50, 60), (58, 70)] {
            sent(&mut observer, at, 0, &headers, 10);
            ordered.add(observer.take());
            let taken = ordered.take(Time(until));
            assert_eq!(taken[0].time_ns, at.max(if until == 70 { 60 } else { 0 }));
        }
    }
}
