//! Entry instants of frames in a device that does not tell them: a tap beside the device saw their heads, in the same
//! order.
//!
//! A head is the beginning of an IP packet. It distinguishes packets: identification, sequence number, checksum. A
//! packet that the tap saw and the device does not deliver was dropped in between.

use std::collections::VecDeque;

/// Bytes of a head: IPv6 and TCP headers without options.
pub const HEAD_BYTES: usize = 64;

/// The head of a packet; a shorter packet is followed by zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head([u8; HEAD_BYTES]);

impl Head {
    /// The head of `packet`, which begins with its IP header.
    pub fn of(packet: &[u8]) -> Head {
        let mut head = [0; HEAD_BYTES];
        let len = packet.len().min(HEAD_BYTES);
        head[..len].copy_from_slice(&packet[..len]);
        Head(head)
    }
}

/// Heads and instants that wait for their frames.
#[derive(Debug, Default)]
pub struct Stamps {
    seen: VecDeque<(u64, Head)>,
}

impl Stamps {
    /// Adds a packet that the tap saw at `at_ns`.
    pub fn add(&mut self, at_ns: u64, head: Head) {
        self.seen.push_back((at_ns, head));
    }

    /// The instant at which the tap saw the packet that the device now delivers, if it did. Earlier packets were
    /// dropped.
    pub fn take(&mut self, head: &Head) -> Option<u64> {
        let index = self.seen.iter().position(|(_, seen)| seen == head)?;
        self.seen.drain(..=index).next_back().map(|(at_ns, _)| at_ns)
    }

    /// Forgets packets that the tap saw before `at_ns`: the device has dropped them.
    pub fn forget_before(&mut self, at_ns: u64) {
        while self.seen.front().is_some_and(|&(seen_ns, _)| seen_ns < at_ns) {
            self.seen.pop_front();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// Number of waiting heads.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether no head waits.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u8) -> [u8; 100] {
        let mut packet = [7; 100];
        packet[5] = id;
        packet
    }

    fn seen(packets: impl IntoIterator<Item = (u64, u8)>) -> Stamps {
        let mut stamps = Stamps::default();
        packets.into_iter().for_each(|(at, id)| stamps.add(at, Head::of(&packet(id))));
        stamps
    }

    #[test]
    fn each_frame_gets_the_instant_of_its_own_packet() {
        let mut stamps = seen([(10, 1), (20, 2), (30, 3)]);
        let got: Vec<_> = (1..=4).map(|id| stamps.take(&Head::of(&packet(id)))).collect();
        assert_eq!(got, [Some(10), Some(20), Some(30), None]);
        assert!(stamps.is_empty());
    }

    #[test]
    fn what_the_device_dropped_is_skipped() {
        let mut stamps = seen([(10, 1), (20, 2), (30, 3), (40, 4)]);
        assert_eq!(stamps.take(&Head::of(&packet(3))), Some(30));
        assert_eq!(stamps.len(), 1);
        assert_eq!(stamps.take(&Head::of(&packet(2))), None);
        assert_eq!(stamps.take(&Head::of(&packet(4))), Some(40));
    }

    #[test]
    fn equal_packets_come_out_in_the_order_in_which_they_were_seen() {
        let mut stamps = seen([(10, 1), (20, 1), (30, 1)]);
        let got: Vec<_> = (0..3).map(|_| stamps.take(&Head::of(&packet(1)))).collect();
        assert_eq!(got, [Some(10), Some(20), Some(30)]);
    }

    #[test]
    fn an_empty_device_holds_nothing_that_was_seen_before() {
        let mut stamps = seen([(10, 1), (20, 1), (30, 1)]);
        stamps.forget_before(20);
        assert_eq!(stamps.take(&Head::of(&packet(1))), Some(20));
    }

    #[test]
    fn short_packets_have_heads_too() {
        assert_eq!(Head::of(&[1, 2]), Head::of(&[1, 2, 0]));
        assert_ne!(Head::of(&[1, 2]), Head::of(&[1, 2, 3]));
        assert_eq!(Head::of(&packet(1)), Head::of(&packet(1)[..HEAD_BYTES]));
    }
}
