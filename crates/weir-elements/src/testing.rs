//! A packet for tests, and a transmitter driven by events.

use crate::Packet;

/// A packet with everything that an element looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPacket {
    pub id: u32,
    pub bytes: u32,
    pub flow: u32,
    pub dscp: u8,
    pub ecn: bool,
    pub ce: bool,
    /// ECT(1) instead of ECT(0).
    pub ect1: bool,
    pub segments: u32,
}

impl TestPacket {
    pub fn new(id: u32, bytes: u32) -> TestPacket {
        TestPacket { id, bytes, flow: 0, dscp: 0, ecn: false, ce: false, ect1: false, segments: 1 }
    }

    pub fn of_flow(self, flow: u32) -> TestPacket {
        TestPacket { flow, ..self }
    }

    pub fn with_ecn(self) -> TestPacket {
        TestPacket { ecn: true, ..self }
    }

    /// A train of `segments` packets of these bytes; their ids count up from this one's.
    pub fn train(self, segments: u32) -> TestPacket {
        TestPacket { bytes: self.bytes * segments, segments, ..self }
    }
}

impl Packet for TestPacket {
    fn ip_bytes(&self) -> u32 {
        self.bytes
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        self.ecn
    }
    fn is_l4s(&self) -> bool {
        self.ect1 || self.ce
    }
    fn mark_ce(&mut self) {
        assert!(self.ecn, "a packet that is not ECN-capable must not be marked");
        self.ce = true;
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn segments(&self) -> u32 {
        self.segments
    }
    fn split_front(&mut self) -> Option<TestPacket> {
        if self.segments == 1 {
            return None;
        }
        let front = TestPacket { bytes: self.bytes / self.segments, segments: 1, ..self.clone() };
        self.bytes -= front.bytes;
        self.segments -= 1;
        self.id += 1;
        Some(front)
    }
}
