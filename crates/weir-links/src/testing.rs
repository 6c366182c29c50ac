//! Packets for tests.

/// A packet of a connection that can carry ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Numbered {
    pub number: usize,
    pub bytes: u32,
    pub marked: bool,
}

impl weir_elements::Packet for Numbered {
    fn ip_bytes(&self) -> u32 {
        self.bytes
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        true
    }
    fn mark_ce(&mut self) {
        self.marked = true;
    }
    fn is_l4s(&self) -> bool {
        false
    }
    fn flow_hash(&self) -> u32 {
        0
    }
    fn dscp(&self) -> u8 {
        0
    }
}
