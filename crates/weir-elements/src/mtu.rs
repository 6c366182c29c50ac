//! The MTU check: larger packets are dropped, as with the don't-fragment bit that TCP sets.
//!
//! Train: all packets but the last have one size, so the mean, rounded up, is checked; a train is dropped or passes as
//! a whole, like its packets.

use crate::Packet;
use crate::declare::{ElementInfo, Form, Kind, Place, key};

pub(crate) const INFO: ElementInfo = ElementInfo::new(
    "mtu",
    Place::Mtu,
    "Drops packets larger than the link carries",
    "RFC 791, RFC 8200",
    &[Form {
        name: "mtu",
        title: "The largest IP packet of a link.",
        keys: &[key("mtu", "mtu_bytes", Kind::Bytes, "Largest IP packet.").or("1500B")],
    }],
);

/// The largest IP packet of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    max_bytes: u32,
}

impl Mtu {
    /// A link that carries IP packets of up to `max_bytes`.
    pub fn new(max_bytes: u32) -> Mtu {
        Mtu { max_bytes }
    }

    /// The largest IP packet, bytes.
    pub fn bytes(&self) -> u32 {
        self.max_bytes
    }

    /// Whether a packet of `ip_bytes` passes.
    #[inline]
    pub fn fits_bytes(&self, ip_bytes: u32) -> bool {
        ip_bytes <= self.max_bytes
    }

    /// Whether `packet` passes.
    #[inline]
    pub fn fits(&self, packet: &impl Packet) -> bool {
        // Without a division: n packets of at most `max_bytes` have at most n times that.
        u64::from(packet.ip_bytes()) <= u64::from(packet.segments()) * u64::from(self.max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestPacket;

    #[test]
    fn the_mtu_itself_passes_and_one_byte_more_does_not() {
        let mtu = Mtu::new(1500);
        assert!(mtu.fits(&TestPacket::new(0, 1500)));
        assert!(!mtu.fits(&TestPacket::new(0, 1501)));
    }

    #[test]
    fn a_train_is_judged_by_its_packets() {
        let mtu = Mtu::new(1500);
        assert!(mtu.fits(&TestPacket::new(0, 1500).train(43)));
        assert!(!mtu.fits(&TestPacket::new(0, 1501).train(43)));
    }
}
