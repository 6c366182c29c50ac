//! The packets in flight on a link, in the order of their arrival at its far end.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use weir_elements::Ring;
use weir_units::Time;

use crate::Record;

/// The packets in flight on a link.
pub enum Pipe<P: Record> {
    /// Packets stay in order: a ring.
    Fifo(Ring<(Time, P)>),
    /// Packets may overtake: a heap, with a serial number to break ties.
    Reordering(BinaryHeap<Reverse<Overtaking<P>>>, u64),
}

/// A packet that may overtake others, ordered by (time, serial number).
pub struct Overtaking<P> {
    at: Time,
    serial: u64,
    packet: P,
}

impl<P> PartialEq for Overtaking<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<P> Eq for Overtaking<P> {}
impl<P> PartialOrd for Overtaking<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> Ord for Overtaking<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl<P: Record> Pipe<P> {
    /// An empty pipe.
    pub fn new(reordering: bool) -> Pipe<P> {
        if reordering { Pipe::Reordering(BinaryHeap::new(), 0) } else { Pipe::Fifo(Ring::new()) }
    }

    /// Reserves room for `packets` packets.
    pub fn reserve(&mut self, packets: usize) {
        match self {
            Pipe::Fifo(ring) => ring.reserve(packets),
            Pipe::Reordering(heap, _) => heap.reserve(packets.saturating_sub(heap.len())),
        }
    }

    /// Adds a packet; true if it is the next to arrive.
    // Always inlined: through memory, a packet just built would be read wider than it was written, which stalls.
    #[inline(always)]
    pub fn push(&mut self, at: Time, packet: P) -> bool {
        match self {
            Pipe::Fifo(ring) => {
                debug_assert!(ring.back().is_none_or(|(last, _)| *last <= at), "a FIFO pipe must not reorder");
                ring.push((at, packet));
                ring.len() == 1
            }
            Pipe::Reordering(heap, serial) => {
                *serial += 1;
                let first = heap.peek().is_none_or(|Reverse(head)| at < head.at);
                heap.push(Reverse(Overtaking { at, serial: *serial, packet }));
                first
            }
        }
    }

    /// Removes the next packet to arrive.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<P> {
        match self {
            Pipe::Fifo(ring) => ring.pop().map(|(_, packet)| packet),
            Pipe::Reordering(heap, _) => heap.pop().map(|Reverse(first)| first.packet),
        }
    }

    /// Arrival of the next packet; [`Time::MAX`] for none.
    #[inline]
    pub fn next(&self) -> Time {
        match self {
            Pipe::Fifo(ring) => ring.front().map_or(Time::MAX, |(at, _)| *at),
            Pipe::Reordering(heap, _) => heap.peek().map_or(Time::MAX, |Reverse(first)| first.at),
        }
    }

    /// Whether no packet is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of packets in flight.
    pub fn len(&self) -> usize {
        match self {
            Pipe::Fifo(ring) => ring.len(),
            Pipe::Reordering(heap, _) => heap.len(),
        }
    }
}
