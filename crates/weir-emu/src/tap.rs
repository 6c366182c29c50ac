//! A tap beside a TUN device: a packet socket whose ring shows the head of each packet that the host sends, with the
//! instant at which it entered the device.
//!
//! A TUN device does not say when a frame entered it. The emulator reads a frame some microseconds later, and on a busy
//! machine milliseconds later; without the tap, that would delay the frame on its way through the links. Reading the ring
//! needs no system call. packet(7) and `Documentation/networking/packet_mmap.rst` of Linux describe it.

use std::io;

use weir_emu::stamps::{HEAD_BYTES, Head, Stamps};
use weir_sys::clock;
use weir_sys::packet::Ring;

/// Header of a slot, address, alignment and a head: 80 + 64 bytes, rounded up to a power of two.
const SLOT_BYTES: usize = 256;
/// A ring holds what a device holds, and more: it is emptied whenever the device is read.
const MIN_SLOTS: usize = 512;
const MAX_SLOTS: usize = 16 * 1024;
/// Of all taps together; the kernel keeps them in memory.
const ALL_SLOTS: usize = 256 * 1024;
/// Between the tap and the device a packet takes less than a microsecond, unless its processor is taken away.
const GRACE_NS: u64 = 5_000_000;
/// A device that was not empty for so long drops; were its packets all alike, their instants would be mixed up.
const LONGEST_BACKLOG_NS: u64 = 500_000_000;

/// A tap.
pub struct Tap {
    ring: Ring,
    stamps: Stamps,
    /// The clock of the stamps less the monotonic one.
    offset_ns: i64,
    /// Since when each reading found a frame.
    backlog_since_ns: Option<u64>,
}

impl Tap {
    /// A tap beside `device` of this thread's namespace; one of `taps`.
    ///
    /// # Errors
    /// From the system, such as a kernel without packet sockets.
    pub fn open(device: &str, taps: usize) -> io::Result<Tap> {
        let ring = Ring::open(device, HEAD_BYTES as u32, SLOT_BYTES, slots(taps))?;
        let offset_ns = clock::realtime_lead_ns();
        Ok(Tap { ring, stamps: Stamps::default(), offset_ns, backlog_since_ns: None })
    }

    /// Learns how the clock of the stamps stands: it may be set at any time.
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

    /// The device was empty at `at_ns`.
    pub fn was_empty(&mut self, at_ns: u64) {
        self.backlog_since_ns = None;
        self.drain();
        self.stamps.forget_before(at_ns.saturating_sub(GRACE_NS));
    }

    /// Takes what is in the ring.
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
