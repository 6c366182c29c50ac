//! The lab kernel's reports on single packets: rows of `lab/guest/wire`, which knows nothing of connections.
//!
//! A row is 112 bytes, little-endian: time (8 bytes), flow (4), kind (4: see [`Kind`]), direction (2), payload of a
//! packet of a train (2; 0 for a single packet), payload of all packets together (4), link (8), headers (80, from the
//! IP header on). This module separates the packets of a train. A packet that arrives or is dropped is the first sent
//! one with its identification and its position in the stream.

use std::collections::{BTreeMap, VecDeque};

use weir_plan::Plan;
use weir_units::Time;

use crate::{Direction, Ecn, Observer, Ordered, Sent, TraceRecord, real};

/// Bytes of a row.
pub const ROW_BYTES: usize = 112;
const HEADERS: usize = 32;
/// More payload than a train can have: the guest may write anything.
const MAX_PAYLOAD: u32 = 1 << 17;

/// The event in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sent,
    Received,
    Dropped,
}

/// Flow, direction, identification, ports, sequence number of TCP.
type Key = (u32, bool, u16, (u16, u16), u32);

/// Makes records from rows.
#[derive(Debug)]
pub struct Rows {
    observer: Observer,
    under_way: BTreeMap<Key, VecDeque<Box<Sent>>>,
    ordered: Ordered,
    reached: Time,
}

impl Rows {
    /// For the trace that a plan asks for, if any.
    pub fn from_plan(plan: &Plan) -> Option<Rows> {
        let (under_way, ordered) = (BTreeMap::new(), Ordered::default());
        Some(Rows { observer: Observer::from_plan(plan)?, under_way, ordered, reached: Time::ZERO })
    }

    /// Takes whole rows, in the order of time and after the earlier ones; ignores rows of other kinds. Returns the
    /// records before the last instant, because others may follow at that instant.
    pub fn take(&mut self, content: &[u8]) -> Vec<TraceRecord> {
        for row in content.chunks_exact(ROW_BYTES) {
            self.row(row);
        }
        self.ordered.add(self.observer.take());
        self.ordered.take(Time(self.reached.0.saturating_sub(1)))
    }

    /// Returns the remaining records.
    pub fn finish(&mut self) -> Vec<TraceRecord> {
        self.ordered.take(Time::MAX)
    }

    fn row(&mut self, row: &[u8]) {
        let word = |at: usize| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
        let kind = match word(12) {
            5 => Kind::Sent,
            6 => Kind::Received,
            7 => Kind::Dropped,
            _ => return,
        };
        let time = Time(u64::from(word(0)) | u64::from(word(4)) << 32);
        self.reached = self.reached.max(time);
        let (flow, size, payload, link) = (word(8), word(16) >> 16, word(20), word(24));
        let is_reverse = word(16) & 1 != 0;
        let Some(read) = real::read(&row[HEADERS..]).filter(|_| payload < MAX_PAYLOAD) else { return };
        let mut train = [0; ROW_BYTES - HEADERS];
        train.copy_from_slice(&row[HEADERS..]);
        let packets = if size == 0 { 1 } else { payload.div_ceil(size) };
        for index in 0..packets {
            let (mut headers, mut own) = (train, payload);
            let headers = &mut headers[..read.len as usize];
            if packets > 1 {
                own = real::cut(headers, index, size, payload);
            }
            self.packet(time, kind, (flow, is_reverse), headers, own, link);
        }
    }

    fn packet(
        &mut self,
        time: Time,
        kind: Kind,
        (flow, is_reverse): (u32, bool),
        headers: &[u8],
        payload: u32,
        link: u32,
    ) {
        let Some(read) = real::read(headers) else { return };
        let sequence = read.tcp.as_ref().map_or(0, |tcp| tcp.sequence);
        let key = (flow, is_reverse, read.id, read.ports, sequence);
        if kind == Kind::Sent {
            let direction = if is_reverse { Direction::Reverse } else { Direction::Forward };
            if let Some(sent) = self.observer.sent(time, flow, direction, headers, headers.len() as u32 + payload) {
                self.under_way.entry(key).or_default().push_back(sent);
            }
            return;
        }
        let Some(sent) = self.under_way.get_mut(&key).and_then(VecDeque::pop_front) else { return };
        if self.under_way.get(&key).is_some_and(VecDeque::is_empty) {
            self.under_way.remove(&key);
        }
        let marked = read.ecn == Ecn::Experienced;
        if kind == Kind::Received {
            self.observer.received(time, *sent, marked);
        } else {
            self.observer.dropped(time, Some(link), *sent, marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpNumber, Ipv4Header, TcpHeader};

    use super::*;
    use crate::Event;
    use crate::observer::tests::plan;

    /// A row of the first flow: a train of `payload` bytes that begins at `seq`, each packet with 1000.
    fn row(time: u64, kind: u32, id: u16, seq: u32, payload: u32, link: u64, ce: bool) -> Vec<u8> {
        let mut tcp = TcpHeader::new(40_000, 5001, seq, 9);
        (tcp.ack, tcp.psh, tcp.cwr) = (true, true, true);
        let length = (tcp.header_len() as u32 + payload) as u16;
        let mut ip = Ipv4Header::new(length, 64, IpNumber::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).expect("short");
        ip.identification = id;
        ip.ecn = if ce { etherparse::IpEcn::CongestionExperienced } else { etherparse::IpEcn::Ect0 };
        let mut row = time.to_le_bytes().to_vec();
        for word in [0, kind, if payload > 1000 { 1000 << 16 } else { 0 }, payload] {
            row.extend(word.to_le_bytes());
        }
        row.extend(link.to_le_bytes());
        ip.write(&mut row).expect("memory");
        tcp.write(&mut row).expect("memory");
        row.resize(ROW_BYTES, 0);
        row
    }

    #[test]
    fn rows_that_no_kernel_writes_are_ignored_or_harmless() {
        let mut rows = Rows::from_plan(&plan(1000)).expect("a trace");
        let mut content = [row(1, 5, 7, 0, 100_000, 0, false), row(2, 5, 7, 0, 0, 0, false)];
        for (place, byte) in (0..ROW_BYTES).flat_map(|place| [0, 0x11, 0x45, 0xff].map(|byte| (place, byte))) {
            let before = std::mem::replace(&mut content[place % 2][place], byte);
            rows.take(&content.concat());
            content[place % 2][place] = before;
        }
        rows.take(&[0xff; 3 * ROW_BYTES]);
        assert!(rows.finish().iter().all(|record| record.flow == 0 && record.ip_bytes >= 28));
    }

    #[test]
    fn the_packets_of_a_train_end_each_for_itself() {
        let mut rows = Rows::from_plan(&plan(100)).expect("a trace");
        let content = [
            row(10, 5, 7, 500, 2500, 0, false),
            row(20, 7, 8, 1500, 1000, 3, false),
            row(30, 6, 7, 500, 1000, 0, false),
            row(40, 6, 9, 2500, 500, 0, true),
            row(40, 0, 0, 0, 0, 0, false),
        ]
        .concat();
        let before = rows.take(&content);
        assert_eq!(before.len(), 5, "what is of the last instant waits for others");
        let records = [before, rows.finish()].concat();
        let of = |record: &TraceRecord| (record.time_ns, record.event, record.number, record.seq, record.ip_bytes);
        let link = Some(3);
        assert_eq!(
            records.iter().map(of).collect::<Vec<_>>(),
            [
                (10, Event::Sent, 1, 0, 1040),
                (10, Event::Sent, 2, 1000, 1040),
                (10, Event::Sent, 3, 2000, 540),
                (20, Event::Dropped { link }, 2, 1000, 1040),
                (30, Event::Received, 1, 0, 1040),
                (40, Event::Received, 3, 2000, 540),
            ]
        );
        assert_eq!(records[5].ecn, Ecn::Experienced);
        assert_eq!(
            records.iter().map(|record| record.cwr).collect::<Vec<_>>(),
            [true, false, false, false, true, false]
        );
        for record in &records {
            let header = Ipv4Header::from_slice(record.headers.as_ref().expect("real")).expect("a header").0;
            assert_eq!(u32::from(header.total_len), record.ip_bytes);
            assert_eq!(header.identification, record.id);
        }
    }
}
