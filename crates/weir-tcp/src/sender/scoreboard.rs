//! The state of each segment between the first unacknowledged one and the next new one.
//!
//! A ring of 16-byte records holds time of transmission and flags of each segment; [`Ranges`] finds the new part of a
//! SACK block; a heap holds the segments to retransmit; a queue holds retransmissions in the order of their time. Each
//! operation takes amortised constant time, whatever the number of segments in flight.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_units::fetch;

use crate::ranges::Ranges;

/// Selectively acknowledged.
pub(super) const SACKED: u8 = 1;
/// Believed lost.
pub(super) const LOST: u8 = 2;
/// Retransmitted, with the retransmission believed in flight.
pub(super) const RETRANS: u8 = 4;
/// Retransmitted at any time.
pub(super) const EVER_RETRANS: u8 = 8;

/// The record of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Time of the last transmission, nanoseconds.
    pub sent_ns: u64,
    /// Number of that transmission, wrapping: the order of transmissions of one instant.
    pub order: u32,
    /// Payload bytes.
    pub len: u16,
    /// `SACKED`, `LOST`, `RETRANS`, `EVER_RETRANS`.
    pub flags: u8,
}

/// A retransmission, in the order of its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retransmission {
    pub seq: u64,
    pub sent_ns: u64,
    pub order: u32,
    /// The next new segment at that time: an ACK for it or above shows that the retransmission had time to arrive.
    pub next_at: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    ring: Vec<Record>,
    pub una: u64,
    pub next: u64,
    pub sacked: Ranges,
    lost: BinaryHeap<Reverse<u64>>,
    pub retransmissions: VecDeque<Retransmission>,
    /// Original transmissions below this were examined by loss detection.
    pub examined: u64,
}

impl Scoreboard {
    pub fn new() -> Scoreboard {
        Scoreboard {
            ring: vec![Record::default(); 64],
            una: 0,
            next: 0,
            sacked: Ranges::default(),
            lost: BinaryHeap::new(),
            retransmissions: VecDeque::new(),
            examined: 0,
        }
    }

    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.next - self.una
    }

    #[inline]
    pub fn get(&self, seq: u64) -> &Record {
        &self.ring[seq as usize & (self.ring.len() - 1)]
    }

    #[inline]
    pub fn get_mut(&mut self, seq: u64) -> &mut Record {
        let mask = self.ring.len() - 1;
        &mut self.ring[seq as usize & mask]
    }

    /// Fetches the records of the first and of the next segment into the cache.
    #[inline]
    pub fn fetch_ends(&self) {
        fetch(self.get(self.una));
        fetch(self.get(self.next));
    }

    /// Records a new segment; returns its number.
    #[inline]
    pub fn push(&mut self, sent_ns: u64, order: u32, len: u16) -> u64 {
        if self.outstanding() as usize == self.ring.len() {
            self.grow();
        }
        let seq = self.next;
        *self.get_mut(seq) = Record { sent_ns, order, len, flags: 0 };
        self.next += 1;
        seq
    }

    #[cold]
    fn grow(&mut self) {
        let mut ring = vec![Record::default(); self.ring.len() * 2];
        let mask = ring.len() - 1;
        for seq in self.una..self.next {
            ring[seq as usize & mask] = *self.get(seq);
        }
        self.ring = ring;
    }

    /// Queues a segment for retransmission.
    pub fn queue_lost(&mut self, seq: u64) {
        self.lost.push(Reverse(seq));
    }

    /// The lowest segment that waits for retransmission.
    pub fn next_lost(&mut self) -> Option<u64> {
        while let Some(&Reverse(seq)) = self.lost.peek() {
            if seq >= self.una {
                let flags = self.get(seq).flags;
                if flags & LOST != 0 && flags & (SACKED | RETRANS) == 0 {
                    return Some(seq);
                }
            }
            self.lost.pop();
        }
        None
    }

    /// Every segment queued for retransmission, in no order, with its current record.
    pub fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        self.lost.iter().map(|Reverse(seq)| *seq)
    }

    /// Removes the segments below the cumulative acknowledgement `una`.
    pub fn advanced(&mut self) {
        if !self.sacked.is_empty() {
            self.sacked.trim_below(self.una);
        }
        self.examined = self.examined.max(self.una);
        while self.retransmissions.front().is_some_and(|r| r.seq < self.una) {
            self.retransmissions.pop_front();
        }
        if self.una == self.next {
            self.lost.clear();
        }
    }

    /// Removes all loss marks: the losses were spurious.
    pub fn forgive(&mut self) {
        for seq in self.una..self.next {
            self.get_mut(seq).flags &= !LOST;
        }
        self.lost.clear();
        // Loss detection examines these segments again.
        self.examined = self.una;
    }
}
