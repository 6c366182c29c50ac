//! A tap beside a TUN device: a packet socket whose ring shows the head of each packet that the host sends, with the
//! instant at which it entered the device.
//!
//! A TUN device does not tell when a frame entered it. The emulator reads a frame some microseconds later, on a busy
//! machine milliseconds later. Without the tap, that would delay the frame on its way through the links.

use std::io;

use weir_emu::stamps::{HEAD_BYTES, Head, Stamps};
use weir_sys::clock;
use weir_sys::packet::Ring;

/// Header of a slot, address, alignment and a head: 80 + 64 bytes, rounded up to a power of two.
const SLOT_BYTES: usize = 256;
/// A ring has more slots than a device's queue, and is emptied whenever the device is read.
const MIN_SLOTS: usize = 512;
const MAX_SLOTS: usize = 16 * 1024;
/// Maximum slots of all taps together; the kernel keeps them in memory.
const ALL_SLOTS: usize = 256 * 1024;
/// Maximum time of a packet between tap and device: less than a microsecond, unless the sender is preempted.
const GRACE_NS: u64 = 5_000_000;
/// A device that is not empty for so long drops packets; if they were all alike, their instants would be confused.
const LONGEST_BACKLOG_NS: u64 = 500_000_000;

/// A tap beside a device.
pub struct Tap {
    ring: Ring,
    stamps: Stamps,
    /// The lead of the timestamps' clock over the monotonic clock.
    offset_ns: i64,
    /// The instant since which each reading found a frame.
    backlog_since_ns: Option<u64>,
}

impl Tap {
    /// Opens a tap beside `device` of this thread's namespace, one of `taps`.
    ///
    /// # Errors
    /// From the system, such as a kernel without packet sockets.
    pub fn open(device: &str, taps: usize) -> io::Result<Tap> {
        let ring = Ring::open(device, HEAD_BYTES as u32, SLOT_BYTES, slots(taps))?;
        let offset_ns = clock::realtime_lead_ns();
        Ok(Tap { ring, stamps: Stamps::default(), offset_ns, backlog_since_ns: None })
    }

    /// Compares the clocks again: the timestamps' clock may be set at any time.
    pub fn read_clocks(&mut self) {
        self.offset_ns = clock::realtime_lead_ns();
    }

    /// The monotonic instant at which `packet`, which was read at `at_ns`, entered the device.
    pub fn stamp(&mut self, packet: &[u8], at_ns: u64) -> Option<u64> {
        self.drain();
        let since_ns = *self.backlog_since_ns.get_or_insert(at_ns);
        if at_ns - since_ns > LONGEST_BACKLOG_NS {
            self.stamps.clear();
        }
        self.stamps.take(&Head::of(packet))
    }

    /// Records that the device was empty at `at_ns`.
    pub fn was_empty(&mut self, at_ns: u64) {
        self.backlog_since_ns = None;
        self.drain();
        self.stamps.forget_before(at_ns.saturating_sub(GRACE_NS));
    }

    /// Empties the ring.
    fn drain(&mut self) {
        let (stamps, offset_ns) = (&mut self.stamps, self.offset_ns);
        self.ring.take(|at_ns, head| stamps.add(at_ns.saturating_add_signed(-offset_ns), Head::of(head)));
    }
}

fn slots(taps: usize) -> usize {
    (ALL_SLOTS / taps.max(1)).next_power_of_two().clamp(MIN_SLOTS, MAX_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_taps_share_the_memory() {
        assert_eq!((slots(1), slots(2), slots(400), slots(100_000)), (MAX_SLOTS, MAX_SLOTS, 1024, MIN_SLOTS));
    }
}
