//! A packet in flight: 24 bytes, so that with its due time it takes 32 in a link's pipe.

use weir_elements::Packet as ElementPacket;

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Data = 0,
    Ack = 1,
    Syn = 2,
    SynAck = 3,
    Datagram = 4,
}

const KIND_MASK: u8 = 7;
/// ECN-capable transport.
pub(crate) const ECT: u8 = 8;
/// Congestion experienced.
pub(crate) const CE: u8 = 16;
/// On data: congestion window reduced. On an ACK: ECN echo.
pub(crate) const CWR_OR_ECE: u8 = 32;
/// A retransmission.
pub(crate) const RESENT: u8 = 64;

/// No SACK blocks.
pub(crate) const NO_SACK: u32 = u32::MAX;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Twice the flow, plus one on the reverse path.
    pub route: u32,
    /// Segment, or acknowledged segment, or datagram: the low 32 bits of its number.
    pub seq: u32,
    /// Timestamp: of the sender on data, echoed on an ACK.
    pub stamp: u32,
    /// Index of the SACK blocks of an ACK.
    pub sack: u32,
    /// Bytes of the IP packet.
    pub ip_bytes: u16,
    flags: u8,
    /// Links already crossed.
    pub hop: u8,
    /// Number of the connection within its flow, modulo 256: leftovers of an earlier one are ignored.
    pub connection: u8,
    dscp: u8,
}

impl Packet {
    pub fn new(kind: Kind, route: u32, ip_bytes: u32, connection: u8, dscp: u8) -> Packet {
        let ip_bytes = ip_bytes as u16;
        Packet { route, seq: 0, stamp: 0, sack: NO_SACK, ip_bytes, flags: kind as u8, hop: 0, connection, dscp }
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        match self.flags & KIND_MASK {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => Kind::Syn,
            3 => Kind::SynAck,
            _ => Kind::Datagram,
        }
    }

    #[inline]
    pub fn flow(&self) -> usize {
        (self.route >> 1) as usize
    }

    #[inline]
    pub fn set(&mut self, flag: u8, on: bool) {
        self.flags |= if on { flag } else { 0 };
    }

    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl ElementPacket for Packet {
    #[inline]
    fn ip_bytes(&self) -> u32 {
        u32::from(self.ip_bytes)
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
    fn mark_ce(&mut self) {
        self.flags |= CE;
    }
    #[inline]
    fn flow_hash(&self) -> u32 {
        // Multiplicative hashing spreads neighbouring flow numbers over all bits.
        (self.route | 1).wrapping_mul(0x9e37_79b1).rotate_left(15).wrapping_mul(0x85eb_ca77)
    }
    #[inline]
    fn dscp(&self) -> u8 {
        self.dscp
    }
}

/// Rebuilds a number from its low 32 bits; `near` is less than 2^31 away from it.
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
