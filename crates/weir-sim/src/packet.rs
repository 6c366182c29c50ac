//! A packet in flight: 24 bytes, or 32 with its due time in a link's pipe.

use weir_elements::Packet as ElementPacket;

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Data = 0,
    Ack = 1,
    Syn = 2,
    SynAck = 3,
    Datagram = 4,
    /// What the ends of a flow of datagrams tell each other.
    Feedback = 5,
    /// The acknowledgement of a SYN-ACK: the third packet of the handshake, on the path of data.
    Confirmation = 6,
}

const KIND_MASK: u8 = 7;
/// ECN-capable transport: ECT(0), or ECT(1) with [`ECT_1`].
pub(crate) const ECT: u8 = 8;
/// Congestion experienced.
pub(crate) const CE: u8 = 16;
/// On data: congestion window reduced. On an ACK: ECN echo, or the lowest bit of the counter of marks.
pub(crate) const CWR_OR_ECE: u8 = 32;
/// A retransmission.
pub(crate) const RESENT: u8 = 64;
/// On data: the end of a write of the application.
pub(crate) const PUSH: u8 = 128;

/// On feedback: it goes from the sender of data to their receiver.
pub(crate) const ONWARD: u8 = 128;

/// Beside the code point: the ECT code point is ECT(1).
pub(crate) const ECT_1: u8 = 128;

/// Places from here on mean no SACK blocks; a trace stores a serial number there.
pub(crate) const NO_SACKS_FROM: u32 = 1 << 31;
/// No SACK blocks, and no serial number.
pub(crate) const NO_SACK: u32 = u32::MAX;

/// A packet in flight.
///
/// Three words, read and written whole: packets are copied from ring to ring millions of times a second, and a wide
/// read after narrower writes stalls the processor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    /// Low half: place on its route (see `Routes`). High half: low 32 bits of the number of the segment, of the
    /// acknowledged segment, or of the datagram.
    address: u64,
    /// Low half: timestamp, of the sender on data, echoed on an ACK. High half: place of the SACK blocks.
    options: u64,
    /// From the low end: bytes of the IP packet (16 bits); kind and flags, number of the connection within its flow
    /// modulo 256 (packets of earlier connections are ignored), code point and ECT(1) (8 bits each); flow, the same on
    /// both paths (24 bits).
    header: u64,
}

const FLAGS_SHIFT: u32 = 16;
/// On an ACK, the three highest flags are what it echoes.
const ECHO_SHIFT: u32 = CWR_OR_ECE.trailing_zeros();
const CONNECTION_SHIFT: u32 = 24;
const DSCP_SHIFT: u32 = 32;
const FLOW_SHIFT: u32 = 40;
/// Bytes of IPv4 and UDP headers.
pub(crate) const UDP_HEADERS: u32 = 20 + 8;

/// Limit on the number of flows.
pub(crate) const MAX_FLOWS: usize = 1 << (64 - FLOW_SHIFT);

impl Packet {
    #[inline]
    pub fn new(kind: Kind, flow: usize, place: u32, ip_bytes: u32, connection: u8, dscp: u8) -> Packet {
        let header = u64::from(ip_bytes as u16)
            | (kind as u64) << FLAGS_SHIFT
            | u64::from(connection) << CONNECTION_SHIFT
            | u64::from(dscp) << DSCP_SHIFT
            | (flow as u64) << FLOW_SHIFT;
        Packet { address: u64::from(place), options: u64::from(NO_SACK) << 32, header }
    }

    /// Sets the number of the segment, acknowledgement or datagram.
    #[inline]
    pub fn numbered(mut self, number: u64) -> Packet {
        self.address |= number << 32;
        self
    }

    /// Sets the timestamp.
    #[inline]
    pub fn stamped(mut self, stamp: u32) -> Packet {
        self.options |= u64::from(stamp);
        self
    }

    /// Sets the place of the SACK blocks.
    #[inline]
    pub fn with_sack(mut self, place: u32) -> Packet {
        self.options = (self.options & u64::from(u32::MAX)) | u64::from(place) << 32;
        self
    }

    #[inline]
    pub fn flagged(mut self, flag: u8, on: bool) -> Packet {
        self.header |= (if on { u64::from(flag) } else { 0 }) << FLAGS_SHIFT;
        self
    }

    /// A packet of the same connection in the other direction, of another kind, without flags, number and place.
    #[inline]
    pub fn answered(self, kind: Kind, ip_bytes: u32) -> Packet {
        let keep = !0 << CONNECTION_SHIFT & !(u64::from(ECT_1) << DSCP_SHIFT);
        let header = self.header & keep | u64::from(ip_bytes as u16) | (kind as u64) << FLAGS_SHIFT;
        Packet { address: 0, options: u64::from(NO_SACK) << 32, header }
    }

    /// Whether all but number, timestamp, SACK blocks and place is the same.
    #[inline]
    pub fn is_like(&self, other: &Packet) -> bool {
        self.header == other.header
    }

    /// Sets what an acknowledgement echoes, three bits.
    #[inline]
    pub fn echoing(mut self, echo: u8) -> Packet {
        self.header |= u64::from(echo) << (FLAGS_SHIFT + ECHO_SHIFT);
        self
    }

    /// What an acknowledgement echoes.
    #[inline]
    pub fn echo(&self) -> u8 {
        self.flags() >> ECHO_SHIFT
    }

    /// Makes the ECT code point ECT(1).
    #[inline]
    pub fn with_ect_1(mut self, on: bool) -> Packet {
        self.header |= (if on { u64::from(ECT_1) } else { 0 }) << DSCP_SHIFT;
        self
    }

    /// The same packet, one place further on its route.
    #[inline]
    pub fn hopped(mut self) -> Packet {
        self.address += 1;
        self
    }

    /// The same packet, `hops` places further on its route.
    #[inline]
    pub fn hopped_by(mut self, hops: u32) -> Packet {
        self.address += u64::from(hops);
        self
    }

    /// The packet that is `packets` later in a train.
    #[inline]
    pub fn advanced(mut self, packets: u32) -> Packet {
        self.address = self.address.wrapping_add(u64::from(packets) << 32);
        self
    }

    #[inline]
    pub fn place(&self) -> u32 {
        self.address as u32
    }

    #[inline]
    pub fn flow(&self) -> usize {
        (self.header >> FLOW_SHIFT) as usize
    }

    #[inline]
    pub fn number(&self) -> u32 {
        (self.address >> 32) as u32
    }

    #[inline]
    pub fn stamp(&self) -> u32 {
        self.options as u32
    }

    #[inline]
    pub fn sack(&self) -> u32 {
        (self.options >> 32) as u32
    }

    #[inline]
    pub fn bytes(&self) -> u32 {
        u32::from(self.header as u16)
    }

    #[inline]
    fn flags(&self) -> u8 {
        (self.header >> FLAGS_SHIFT) as u8
    }

    #[inline]
    pub fn connection(&self) -> u8 {
        (self.header >> CONNECTION_SHIFT) as u8
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        match self.flags() & KIND_MASK {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => Kind::Syn,
            3 => Kind::SynAck,
            4 => Kind::Datagram,
            5 => Kind::Feedback,
            _ => Kind::Confirmation,
        }
    }

    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags() & flag != 0
    }
}

impl ElementPacket for Packet {
    #[inline]
    fn ip_bytes(&self) -> u32 {
        self.bytes()
    }
    #[inline]
    fn is_data(&self) -> bool {
        matches!(self.kind(), Kind::Data | Kind::Datagram)
    }
    #[inline]
    fn ecn_capable(&self) -> bool {
        self.has(ECT)
    }
    #[inline]
    fn is_l4s(&self) -> bool {
        self.header & (u64::from(ECT_1) << DSCP_SHIFT | u64::from(CE) << FLAGS_SHIFT) != 0
    }
    #[inline]
    fn mark_ce(&mut self) {
        self.header |= u64::from(CE) << FLAGS_SHIFT;
    }
    #[inline]
    fn flow_hash(&self) -> u32 {
        weir_elements::flow_hash(self.flow() as u32)
    }
    #[inline]
    fn dscp(&self) -> u8 {
        (self.header >> DSCP_SHIFT) as u8 & !ECT_1
    }
}

/// Restores a number from its low 32 bits; `near` is less than 2^31 away from it.
#[inline]
pub(crate) fn unwrap(low: u32, near: u64) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_time_takes_32_bytes() {
        assert_eq!(size_of::<Packet>(), 24);
        assert_eq!(size_of::<(u64, Packet)>(), 32);
    }

    #[test]
    fn numbers_survive_the_loss_of_their_high_bits() {
        for number in [0u64, 1, 1 << 31, (1 << 32) - 1, 1 << 32, (5 << 32) + 7] {
            for near in [number.saturating_sub(1 << 30), number, number + (1 << 30)] {
                assert_eq!(unwrap(number as u32, near), number, "near {near}");
            }
        }
    }
}
