//! The analytic FIFO link: the departure of a packet is computed at its arrival.
//!
//! It requires a constant rate and a discipline that decides at arrival only. Its decisions and departures equal those
//! of an [`AdmissionQueue`](crate::AdmissionQueue) drained by events.
//!
//! Train: offer each packet on its own.

use weir_units::{Rate, Time};

use crate::transmitter::OneSize;
use crate::{Admission, Arrival, Backlog, DropReason, DropTail, Ring, Transmitter, Verdict};

/// The outcome of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The packet is sent: its transmission lasts from `start` to `departure`.
    Sent {
        /// Start of its transmission; until then it waits in the queue.
        start: Time,
        /// End of its transmission.
        departure: Time,
        /// Whether to mark it congestion-experienced.
        mark: bool,
    },
    /// The packet is dropped.
    Dropped(DropReason),
}

/// The waiting packets: start of transmission and bytes of each.
#[derive(Clone, Debug, Default)]
struct Waiting {
    packets: Ring<(Time, u32)>,
    bytes: u64,
}

impl Waiting {
    /// Removes the packets whose transmission has begun by `now`; calls `began` with start and bytes of each.
    #[inline(always)]
    fn advance(&mut self, now: Time, mut began: impl FnMut(Time, u32)) {
        while let Some(&(start, bytes)) = self.packets.front() {
            if start > now {
                break;
            }
            self.bytes -= u64::from(bytes);
            self.packets.pop();
            began(start, bytes);
        }
    }

    #[inline(always)]
    fn push(&mut self, start: Time, bytes: u32) {
        self.packets.push((start, bytes));
        self.bytes += u64::from(bytes);
    }

    #[inline]
    fn clear(&mut self) {
        self.packets.clear();
        self.bytes = 0;
    }
}

/// An admission, a transmitter, and the packets that wait between them.
#[derive(Clone, Debug)]
pub struct FifoLink {
    admission: Admission,
    /// What the admission surely admits.
    room: DropTail,
    transmitter: Transmitter,
    waiting: Waiting,
}

/// Packets of one size that are sent one after the other: the state of a [`FifoLink`] that a loop keeps in registers.
pub struct Run<'a> {
    slots: &'a mut [(Time, u32)],
    head: usize,
    tail: usize,
    waiting_bytes: u64,
    sender: OneSize,
    wire: u32,
    room: DropTail,
    transmitter: &'a mut Transmitter,
    /// Where the state goes at the end.
    kept: (&'a mut usize, &'a mut usize, &'a mut u64),
}

impl Run<'_> {
    /// As [`FifoLink::send_observed`]; `began` gets the bytes on the wire of each packet.
    #[inline(always)]
    pub fn send(&mut self, now: Time, mut began: impl FnMut(u32)) -> Option<(Time, Time)> {
        let mask = self.slots.len().wrapping_sub(1);
        while self.head != self.tail {
            let (start, wire) = self.slots[self.head & mask];
            if start > now {
                break;
            }
            self.waiting_bytes -= u64::from(wire);
            self.head = self.head.wrapping_add(1);
            began(wire);
        }
        let waiting = self.tail.wrapping_sub(self.head);
        if waiting == self.slots.len() || !self.room.fits(self.wire, self.waiting_bytes, waiting as u64) {
            return None;
        }
        let start = now.max(self.sender.busy_until());
        if start > now {
            self.slots[self.tail & mask] = (start, self.wire);
            self.tail = self.tail.wrapping_add(1);
            self.waiting_bytes += u64::from(self.wire);
        }
        Some((start, self.sender.transmit(now)))
    }

    /// Ends the run.
    #[inline]
    pub fn end(self) {
        (*self.kept.0, *self.kept.1, *self.kept.2) = (self.head, self.tail, self.waiting_bytes);
        self.transmitter.resume(self.sender);
    }
}

impl FifoLink {
    /// An empty, idle link.
    pub fn new(admission: Admission, rate: Rate) -> FifoLink {
        let room = admission.room();
        FifoLink { admission, room, transmitter: Transmitter::new(rate), waiting: Waiting::default() }
    }

    /// Reserves room for so many waiting packets.
    pub fn reserve(&mut self, packets: usize) {
        self.waiting.packets.reserve(packets);
    }

    /// Offers a packet at `now`; `now` never decreases from call to call.
    #[inline]
    pub fn offer(&mut self, now: Time, arrival: &Arrival) -> Offer {
        self.offer_observed(now, arrival, |_, _| {})
    }

    /// Sends a packet of `bytes` on the wire if it surely has room; start and end of its transmission. None says nothing:
    /// [`offer`](FifoLink::offer) decides then. The packets that have begun transmission are removed when their number
    /// matters: drop-tail admits what a longer queue would admit.
    #[inline(always)]
    pub fn send_surely(&mut self, now: Time, bytes: u32) -> Option<(Time, Time)> {
        let busy_until = self.transmitter.busy_until();
        if busy_until <= now {
            if !self.room.fits(bytes, 0, 0) {
                return None;
            }
            self.waiting.clear();
            return Some((now, self.transmitter.transmit(now, bytes)));
        }
        if self.waiting.packets.is_full() || !self.fits(bytes) {
            return None;
        }
        self.waiting.push(busy_until, bytes);
        Some((busy_until, self.transmitter.transmit(now, bytes)))
    }

    /// As [`send_surely`](FifoLink::send_surely), with the observer of [`offer_observed`](FifoLink::offer_observed).
    #[inline(always)]
    pub fn send_observed(&mut self, now: Time, bytes: u32, began: impl FnMut(Time, u32)) -> Option<(Time, Time)> {
        self.waiting.advance(now, began);
        if !self.fits(bytes) {
            return None;
        }
        let start = now.max(self.transmitter.busy_until());
        if start > now {
            self.waiting.push(start, bytes);
        }
        Some((start, self.transmitter.transmit(now, bytes)))
    }

    /// Begins a run of packets of `bytes` on the wire; until its [end](Run::end) the link is not asked anything else.
    #[inline]
    pub fn run(&mut self, bytes: u32) -> Run<'_> {
        let Waiting { packets, bytes: waiting_bytes } = &mut self.waiting;
        let (slots, head, tail) = packets.open();
        Run {
            slots,
            head: *head,
            tail: *tail,
            waiting_bytes: *waiting_bytes,
            sender: self.transmitter.of_size(bytes),
            wire: bytes,
            room: self.room,
            transmitter: &mut self.transmitter,
            kept: (head, tail, waiting_bytes),
        }
    }

    /// Sends the first of some packets, as far as they have one size, at the times in `times`, which become those of their
    /// departures, and returns their number. All of them surely have room. `bytes` is the size of the first one on the wire.
    ///
    /// What waits matters to later packets only: it is found at the end, from the departures.
    #[inline]
    pub fn send_run<T>(
        &mut self,
        bytes: u32,
        packets: &mut [T],
        mut parts: impl FnMut(&mut T) -> (&mut Time, u32),
    ) -> usize {
        let before = self.transmitter.busy_until();
        let mut sender = self.transmitter.of_size(bytes);
        let (mut sent, mut last) = (0, Time::ZERO);
        for packet in packets.iter_mut() {
            let (at, size) = parts(packet);
            if size != bytes {
                break;
            }
            last = *at;
            *at = sender.transmit(last);
            sent += 1;
        }
        self.transmitter.resume(sender);
        self.waiting.advance(last, |_, _| {});
        // A packet waits at that instant if the one before it departs later.
        let mut first = sent;
        while first > 0 {
            let start = if first > 1 { *parts(&mut packets[first - 2]).0 } else { before };
            if start <= last {
                break;
            }
            first -= 1;
        }
        for waits in first..sent {
            let start = if waits > 0 { *parts(&mut packets[waits - 1]).0 } else { before };
            self.waiting.push(start, bytes);
        }
        sent
    }

    /// Whether `packets` more packets of `bytes` each surely have room.
    #[inline]
    pub fn has_room_for(&self, packets: u64, bytes: u32) -> bool {
        let before = packets - 1;
        let queue_bytes = self.waiting.bytes + before * u64::from(bytes);
        self.room.fits(bytes, queue_bytes, self.waiting.packets.len() as u64 + before)
    }

    #[inline(always)]
    fn fits(&self, bytes: u32) -> bool {
        self.room.fits(bytes, self.waiting.bytes, self.waiting.packets.len() as u64)
    }

    /// As [`offer`](FifoLink::offer). Before the decision, calls `began` for each waiting packet whose transmission has
    /// begun by `now`, in the order of time, with the start and its bytes on the wire.
    #[inline]
    pub fn offer_observed(&mut self, now: Time, arrival: &Arrival, began: impl FnMut(Time, u32)) -> Offer {
        let queue = self.backlog_observed(now, began);
        let mark = match self.admission.admit(now, arrival, &queue) {
            Verdict::Drop(reason) => return Offer::Dropped(reason),
            verdict => verdict == Verdict::Mark,
        };
        let start = now.max(self.transmitter.busy_until());
        let departure = self.transmitter.transmit(now, arrival.bytes);
        if start > now {
            self.waiting.push(start, arrival.bytes);
        }
        Offer::Sent { start, departure, mark }
    }

    /// The queue at `now`, the packet in transmission not counted.
    #[inline]
    pub fn backlog(&mut self, now: Time) -> Backlog {
        self.backlog_observed(now, |_, _| {})
    }

    /// As [`backlog`](FifoLink::backlog), with the observer of [`offer_observed`](FifoLink::offer_observed).
    #[inline]
    pub fn backlog_observed(&mut self, now: Time, began: impl FnMut(Time, u32)) -> Backlog {
        self.waiting.advance(now, began);
        let busy_until = self.transmitter.busy_until();
        let idle_since = (busy_until <= now).then_some(busy_until);
        Backlog { bytes: self.waiting.bytes, packets: self.waiting.packets.len() as u64, idle_since }
    }

    /// Whether a packet of `bytes` on the wire surely had room at the instant of the last call; never for RED. It has
    /// room now if it had room then.
    #[inline]
    pub fn had_room(&self, bytes: u32) -> bool {
        self.admission.has_room(bytes, self.waiting.bytes, self.waiting.packets.len() as u64)
    }

    /// The transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.transmitter
    }
}
