//! Packets for the tests of this crate.

use weir_elements::Packet;

/// A packet of so many IP bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sized(pub u32);

impl Packet for Sized {
    fn ip_bytes(&self) -> u32 {
        self.0
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        false
    }
    fn is_l4s(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
    fn flow_hash(&self) -> u32 {
        0
    }
    fn dscp(&self) -> u8 {
        0
    }
}
