//! Packets in the form of the wire (sections 4 and 5).
//!
//! Any datagram may be read: what is no packet of UDT gives none. The available buffer is counted in packets, as UDT's
//! library does it. Nothing is sent in messages, so their numbers are 0.

use std::ops::Range;

use weir_units::Dur;

use crate::{Control, HEADER_BYTES, MOST_RANGES, Report};

/// The version of the protocol.
const VERSION: u32 = 4;
/// The type of a socket that carries a stream.
const STREAM: u32 = 1;
/// Connection types: a request, and the answer to its second step.
const REGULAR: u32 = 1;
const ANSWER: u32 = u32::MAX;

const HANDSHAKE: u16 = 0;
const ACK: u16 = 2;
const NAK: u16 = 3;
const ACK2: u16 = 6;

const IS_CONTROL: u32 = 1 << 31;
/// In a list of losses: the range continues with the next word.
const IS_RANGE: u32 = 1 << 31;
const MASK: u32 = u32::MAX >> 1;
const HEADER: usize = HEADER_BYTES as usize;
/// Words after the header of a handshake, of a full acknowledgement.
const HANDSHAKE_WORDS: usize = 12;
const ACK_WORDS: usize = 6;

/// Bytes of the longest control packet.
pub const MOST_CONTROL_BYTES: usize = HEADER + 8 * MOST_RANGES;
/// Bytes of a handshake.
pub const HANDSHAKE_BYTES: usize = HEADER + 4 * HANDSHAKE_WORDS;

/// The numbers of packets on the wire: 31 bits, from any first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    first: u32,
}

impl Numbering {
    /// Numbers from `first`, whose highest bit does not count.
    pub fn new(first: u32) -> Numbering {
        Numbering { first: first & MASK }
    }

    /// The number of packet `number` on the wire.
    fn written(self, number: u64) -> u32 {
        self.first.wrapping_add(number as u32) & MASK
    }

    /// The packet with this number on the wire that is nearest to `near`; none if it came before the first one.
    fn read(self, written: u32, near: u64) -> Option<u64> {
        let ahead = written.wrapping_sub(self.written(near)) & MASK;
        let ahead = i64::from(ahead) - if ahead > MASK / 2 { 1 << 31 } else { 0 };
        near.checked_add_signed(ahead)
    }
}

/// What the headers of all packets have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Microseconds since the connection began.
    pub stamp_us: u32,
    /// The socket to which the packet goes; 0 in a request for a connection.
    pub destination: u32,
}

/// A step of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The first number on the wire.
    pub first: u32,
    /// Bytes of a full IP packet.
    pub packet_bytes: u32,
    /// Packets that may be in flight.
    pub window: u32,
    /// The sender's socket.
    pub socket: u32,
    /// 0 before the other end has given one.
    pub cookie: u32,
    /// Whether it answers the second step.
    pub is_answer: bool,
}

/// A packet that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Packet {
    /// Data; the payload follows its header.
    Data(u64),
    /// A control packet, but for handshakes.
    Control(Control),
    /// A step of the handshake.
    Handshake(Handshake),
}

/// Writes the header of data packet `number` to the beginning of `datagram`, which has room for it.
pub fn write_data(head: Head, numbering: Numbering, number: u64, datagram: &mut [u8]) {
    let words = [numbering.written(number), 0, head.stamp_us, head.destination];
    for (place, word) in datagram.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// A control packet; a handshake is written by [`write_handshake`].
pub fn write_control(head: Head, numbering: Numbering, control: &Control) -> Vec<u8> {
    let written = |number: u64| numbering.written(number);
    match control {
        Control::Handshake(_) => Vec::new(),
        Control::Ack { next, report: None } => packet(ACK, 0, head, &[written(*next)]),
        Control::Ack { next, report: Some(report) } => {
            let rtt = (micros(report.rtt.0), micros(report.rtt.1));
            let room = u32::try_from(report.room).unwrap_or(u32::MAX);
            // Conversions of floating point saturate.
            let (arrivals, capacity) = (report.arrival_rate.round() as u32, report.capacity.round() as u32);
            packet(ACK, report.number, head, &[written(*next), rtt.0, rtt.1, room, arrivals, capacity])
        }
        Control::Ack2(number) => packet(ACK2, *number, head, &[0]),
        Control::Nak(ranges) => {
            let words = ranges.iter().flat_map(|it| {
                let (start, last) = (written(it.start), written(it.end.saturating_sub(1)));
                let alone = it.end - it.start <= 1;
                let start = if alone { start } else { start | IS_RANGE };
                std::iter::once(start).chain((!alone).then_some(last))
            });
            packet(NAK, 0, head, &words.collect::<Vec<_>>())
        }
    }
}

/// A step of the handshake.
pub fn write_handshake(head: Head, it: &Handshake) -> Vec<u8> {
    let kind = if it.is_answer { ANSWER } else { REGULAR };
    let known = [VERSION, STREAM, it.first & MASK, it.packet_bytes, it.window, kind, it.socket, it.cookie];
    let mut words = [0; HANDSHAKE_WORDS];
    // The address of the peer, which nobody needs, is 0.
    words[..known.len()].copy_from_slice(&known);
    packet(HANDSHAKE, 0, head, &words)
}

fn packet(kind: u16, about: u32, head: Head, contents: &[u32]) -> Vec<u8> {
    let header = [IS_CONTROL | u32::from(kind) << 16, about, head.stamp_us, head.destination];
    header.iter().chain(contents).flat_map(|word| word.to_be_bytes()).collect()
}

fn micros(time: Dur) -> u32 {
    u32::try_from(time.0 / 1000).unwrap_or(u32::MAX)
}

/// Reads a datagram, or the beginning of one of data; `near`: a number that numbers on the wire are close to.
pub fn read(datagram: &[u8], numbering: Numbering, near: u64) -> Option<(Head, Packet)> {
    let (header, contents) = datagram.split_first_chunk::<HEADER>()?;
    let word = |index: usize| header[4 * index..4 * index + 4].iter().fold(0, |word, it| word << 8 | u32::from(*it));
    let (kind, about) = (word(0), word(1));
    let head = Head { stamp_us: word(2), destination: word(3) };
    if kind & IS_CONTROL == 0 {
        return numbering.read(kind, near).map(|number| (head, Packet::Data(number)));
    }
    if contents.len() % 4 != 0 {
        return None;
    }
    let words: Vec<u32> = words(contents).collect();
    let packet = match (kind >> 16) as u16 & (u16::MAX >> 1) {
        HANDSHAKE => Packet::Handshake(read_handshake(&words)?),
        ACK => Packet::Control(read_ack(about, &words, numbering, near)?),
        NAK => Packet::Control(Control::Nak(read_losses(&words, numbering, near)?)),
        ACK2 => Packet::Control(Control::Ack2(about)),
        _ => return None,
    };
    Some((head, packet))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

fn read_handshake(words: &[u32]) -> Option<Handshake> {
    let words: &[u32; HANDSHAKE_WORDS] = words.try_into().ok()?;
    let [version, sort, first, packet_bytes, window, kind, socket, cookie, ..] = *words;
    let known = version == VERSION && sort == STREAM && first <= MASK && (kind == REGULAR || kind == ANSWER);
    known.then_some(Handshake { first, packet_bytes, window, socket, cookie, is_answer: kind == ANSWER })
}

fn read_ack(number: u32, words: &[u32], numbering: Numbering, near: u64) -> Option<Control> {
    let next = numbering.read(words.first().filter(|it| **it <= MASK).copied()?, near)?;
    if words.len() == 1 {
        return Some(Control::Ack { next, report: None });
    }
    let words: &[u32; ACK_WORDS] = words.try_into().ok()?;
    let [_, rtt, variation, room, arrivals, capacity] = *words;
    let time = |us: u32| Dur(u64::from(us) * 1000);
    Some(Control::Ack {
        next,
        report: Some(Report {
            number,
            rtt: (time(rtt), time(variation)),
            room: u64::from(room),
            arrival_rate: f64::from(arrivals),
            capacity: f64::from(capacity),
        }),
    })
}

fn read_losses(words: &[u32], numbering: Numbering, near: u64) -> Option<Vec<Range<u64>>> {
    let (mut ranges, mut words) = (Vec::new(), words.iter());
    while let Some(&word) = words.next() {
        let start = numbering.read(word & MASK, near)?;
        let last = match word & IS_RANGE {
            0 => start,
            _ => numbering.read(words.next().filter(|it| **it <= MASK).copied()?, near)?,
        };
        if last < start {
            return None;
        }
        ranges.push(start..last + 1);
    }
    (!ranges.is_empty()).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { stamp_us: 5, destination: 0x1234_5678 };

    #[test]
    fn numbers_go_on_beyond_31_bits() {
        let numbering = Numbering::new(MASK - 2);
        assert_eq!((numbering.written(2), numbering.written(3)), (MASK, 0));
        for number in [0_u64, 3, 1 << 20, 1 << 31, 7 << 40] {
            for near in [number, number + 1000, number.saturating_sub(1000)] {
                assert_eq!(numbering.read(numbering.written(number), near), Some(number), "{number} near {near}");
            }
        }
        assert_eq!(numbering.read(MASK - 3, 2), None, "before the first one");
    }

    #[test]
    fn packets_are_read_as_they_were_written_and_have_the_length_that_the_simulator_takes() {
        let report = Report {
            number: 9,
            rtt: (Dur(100_001_000), Dur(50_000)),
            room: 8192,
            arrival_rate: 10_000.0,
            capacity: 80_000.0,
        };
        for first in [0, 77, MASK] {
            let numbering = Numbering::new(first);
            for control in [
                Control::Ack { next: 70_000, report: None },
                Control::Ack { next: 70_000, report: Some(report) },
                Control::Ack2(9),
                Control::Nak(vec![69_000..69_001, 69_005..69_900, 70_100..70_102]),
            ] {
                let written = write_control(HEAD, numbering, &control);
                assert_eq!(written.len(), control.bytes() as usize, "{control:?}");
                assert_eq!(read(&written, numbering, 70_050), Some((HEAD, Packet::Control(control))));
            }
            let mut data = [7; 20];
            write_data(HEAD, numbering, 70_000, &mut data);
            assert_eq!(read(&data, numbering, 69_990), Some((HEAD, Packet::Data(70_000))));
            assert_eq!(data[16..], [7; 4]);
        }
        let most = Control::Nak((0..MOST_RANGES as u64).map(|it| 10 * it..10 * it + 2).collect());
        assert_eq!(write_control(HEAD, Numbering::new(0), &most).len(), MOST_CONTROL_BYTES);
    }

    #[test]
    fn a_handshake_is_that_of_the_draft() {
        let it = Handshake { first: 7, packet_bytes: 1500, window: 8192, socket: 3, cookie: 4, is_answer: false };
        for is_answer in [false, true] {
            let it = Handshake { is_answer, ..it };
            let written = write_handshake(HEAD, &it);
            assert_eq!(written.len(), HANDSHAKE_BYTES);
            assert_eq!(written[..8], [0x80, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(written[16..28], [0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 7]);
            assert_eq!(read(&written, Numbering::new(0), 0), Some((HEAD, Packet::Handshake(it))));
        }
    }

    #[test]
    fn what_is_no_packet_gives_none() {
        let numbering = Numbering::new(0);
        let refused = |bytes: &[u8]| assert_eq!(read(bytes, numbering, 100), None, "{bytes:?}");
        refused(&[]);
        refused(&[0; 15]);
        for kind in [1, 4, 5, 7, 0x7fff] {
            refused(&packet(kind, 0, HEAD, &[0]));
        }
        refused(&packet(ACK, 1, HEAD, &[]));
        refused(&packet(ACK, 1, HEAD, &[1, 2]));
        refused(&packet(ACK, 1, HEAD, &[IS_RANGE | 1]));
        refused(&packet(NAK, 1, HEAD, &[]));
        refused(&packet(NAK, 1, HEAD, &[IS_RANGE | 7]));
        refused(&packet(NAK, 1, HEAD, &[IS_RANGE | 7, 6]));
        refused(&packet(HANDSHAKE, 1, HEAD, &[VERSION; 11]));
        refused(&packet(HANDSHAKE, 1, HEAD, &[0; 12]));
        let mut cut = packet(ACK, 1, HEAD, &[1]);
        cut.push(0);
        refused(&cut);
    }
}
