//! What an element must know of a packet and of the port it leaves through.

use weir_units::Rate;

/// What an element must know of a packet.
pub trait Packet {
    /// Bytes of the IP packet; for a train, of all its packets with the headers of each.
    fn ip_bytes(&self) -> u32;
    /// Whether it carries payload.
    fn is_data(&self) -> bool;
    /// Whether its ECN field says ECN-capable (ECT(0), ECT(1)) or already congestion-experienced (RFC 3168).
    fn ecn_capable(&self) -> bool;
    /// Sets the ECN field to congestion-experienced.
    fn mark_ce(&mut self);
    /// The same number for every packet of a flow, spread over 32 bits.
    fn flow_hash(&self) -> u32;
    /// Differentiated-services code point, 0 to 63.
    fn dscp(&self) -> u8;
    /// Packets on the wire; more than 1 for a segmentation-offload train.
    #[inline]
    fn segments(&self) -> u32 {
        1
    }
    /// Detaches the first packet of a train; none when this is a single packet or cannot be split.
    #[inline]
    fn split_front(&mut self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// The port that a queue feeds.
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
