//! The analytic FIFO link: the departure of a packet is known at its arrival.
//!
//! Valid while the rate does not change under queued packets and the discipline decides at arrival only. It makes the same
//! decisions at the same instants as an [`AdmissionQueue`](crate::AdmissionQueue) drained by events.
//!
//! Train: offer each packet on its own.

use weir_units::{Rate, Time};

use crate::{Admission, Arrival, Backlog, DropReason, Ring, Transmitter, Verdict};

/// The answer to an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It begins transmission at `start`, and its last bit leaves at `departure`.
    Sent {
        /// Begin of its transmission; until then it waits in the queue.
        start: Time,
        /// End of its transmission.
        departure: Time,
        /// Whether to mark it congestion-experienced.
        mark: bool,
    },
    /// It is dropped.
    Dropped(DropReason),
}

/// Packets that wait for their transmission: when each begins, and its bytes.
#[derive(Clone, Debug, Default)]
struct Waiting {
    packets: Ring<(Time, u32)>,
    bytes: u64,
}

impl Waiting {
    /// Forgets the packets that have begun by `now`, and tells of each when it began and its bytes.
    #[inline]
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

    #[inline]
    fn push(&mut self, start: Time, bytes: u32) {
        self.packets.push((start, bytes));
        self.bytes += u64::from(bytes);
    }
}

/// An admission and a transmitter, and the packets that wait between them.
#[derive(Clone, Debug)]
pub struct FifoLink {
    admission: Admission,
    transmitter: Transmitter,
    waiting: Waiting,
}

impl FifoLink {
    /// An empty, idle link.
    pub fn new(admission: Admission, rate: Rate) -> FifoLink {
        FifoLink { admission, transmitter: Transmitter::new(rate), waiting: Waiting::default() }
    }

    /// Makes room for so many packets that wait.
    pub fn reserve(&mut self, packets: usize) {
        self.waiting.packets.reserve(packets);
    }

    /// Offers a packet at `now`; `now` never decreases from call to call.
    #[inline]
    pub fn offer(&mut self, now: Time, arrival: &Arrival) -> Offer {
        self.offer_observed(now, arrival, |_, _| {})
    }

    /// As [`offer`](FifoLink::offer); `began` is told of each packet that waited and has begun its transmission by `now`:
    /// when, and its bytes on the wire. It is told in the order of time, before the decision on this packet.
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

    /// Whether a packet of `bytes` on the wire would have been admitted for sure at the last call that passed the time.
    /// What had room then has room now; RED is never sure.
    #[inline]
    pub fn had_room(&self, bytes: u32) -> bool {
        self.admission.has_room(bytes, self.waiting.bytes, self.waiting.packets.len() as u64)
    }

    /// The transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.transmitter
    }
}
