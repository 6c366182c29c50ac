//! The queues of an output port.

use std::collections::VecDeque;

use weir_elements::Packet;

/// A packet in the memory, with the number of its input port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<P> {
    pub packet: P,
    pub input: u16,
}

/// The queues of an output port: one, or one for each input port.
pub(crate) struct Queues<P> {
    queues: Vec<VecDeque<Held<P>>>,
    bytes: Vec<u64>,
    /// By queue: whether the last packet that came was dropped.
    pub full: Vec<bool>,
    waiting: u64,
    /// Bytes that a packet adds on the wire.
    overhead: u64,
}

impl<P: Packet> Queues<P> {
    pub fn new(queues: usize, overhead_bytes: u32) -> Queues<P> {
        let overhead = u64::from(overhead_bytes);
        Queues {
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            bytes: vec![0; queues],
            full: vec![false; queues],
            waiting: 0,
            overhead,
        }
    }

    /// The queue of packets from `input`.
    pub fn of(&self, input: u16) -> usize {
        if self.queues.len() == 1 { 0 } else { usize::from(input) }
    }

    pub fn wire(&self, packet: &P) -> u64 {
        u64::from(packet.ip_bytes()) + self.overhead
    }

    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Packets in all of them.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    pub fn bytes(&self, queue: usize) -> u64 {
        self.bytes[queue]
    }

    pub fn has(&self, queue: usize) -> bool {
        !self.queues[queue].is_empty()
    }

    /// The first of the queues with packets, in turn from `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let count = self.queues.len();
        (from..count).chain(0..from.min(count)).find(|queue| self.has(*queue))
    }

    /// Bytes on the wire of the first packet.
    pub fn head(&self, queue: usize) -> Option<u64> {
        self.queues[queue].front().map(|held| self.wire(&held.packet))
    }

    pub fn push(&mut self, queue: usize, held: Held<P>) {
        self.bytes[queue] += self.wire(&held.packet);
        self.waiting += 1;
        self.queues[queue].push_back(held);
    }

    /// The first packet of a queue that has one.
    pub fn pop(&mut self, queue: usize) -> Held<P> {
        let Some(held) = self.queues[queue].pop_front() else {
            unreachable!("an arbiter chooses a queue with packets")
        };
        self.bytes[queue] -= self.wire(&held.packet);
        self.waiting -= 1;
        held
    }
}
