//! The interface of packets, and the port of a queue.

use weir_units::Rate;

/// A packet, as elements see it.
pub trait Packet {
    /// Bytes of the IP packet; for a train, of all its packets including headers.
    fn ip_bytes(&self) -> u32;
    /// Whether it carries payload.
    fn is_data(&self) -> bool;
    /// Whether its ECN field is ECT(0), ECT(1) or CE (RFC 3168).
    fn ecn_capable(&self) -> bool;
    /// Whether its ECN field is ECT(1) or CE, so that it belongs to L4S (RFC 9331, section 5.1).
    fn is_l4s(&self) -> bool;
    /// Sets the ECN field to CE, congestion experienced.
    fn mark_ce(&mut self);
    /// A hash of the flow, the same for all its packets, spread over 32 bits.
    fn flow_hash(&self) -> u32;
    /// Differentiated-services code point, 0 to 63.
    fn dscp(&self) -> u8;
    /// Packets on the wire; more than 1 for a segmentation-offload train.
    #[inline]
    fn segments(&self) -> u32 {
        1
    }
    /// Detaches the first packet of a train; none for a single packet or a train that cannot be split.
    #[inline]
    fn split_front(&mut self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// The hash of the flow with this index in the plan, for [`Packet::flow_hash`]. Different flows have different hashes.
#[inline]
pub fn flow_hash(flow: u32) -> u32 {
    // Multiplicative hashing spreads neighbouring numbers over all bits; each step can be undone.
    flow.wrapping_add(1).wrapping_mul(0x9e37_79b1).rotate_left(15).wrapping_mul(0x85eb_ca77)
}

/// The port behind a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Rate of the transmitter.
    pub rate: Rate,
    /// Bytes added to each IP packet on the wire; queues count bytes on the wire.
    pub overhead_bytes: u32,
    /// Largest IP packet.
    pub mtu_bytes: u32,
}

impl Port {
    /// Bytes of `packet` on the wire.
    #[inline]
    pub fn wire_bytes(&self, packet: &impl Packet) -> u32 {
        packet.ip_bytes() + packet.segments() * self.overhead_bytes
    }

    /// Bytes of a full-sized packet on the wire.
    #[inline]
    pub fn full_packet(&self) -> u32 {
        self.mtu_bytes + self.overhead_bytes
    }
}
