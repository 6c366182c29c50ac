//! The storage of every queue: packets in order, with size and time of arrival.

use std::collections::VecDeque;

use weir_units::Time;

/// A waiting packet.
#[derive(Clone, Debug)]
pub(crate) struct Entry<P> {
    pub packet: P,
    pub since: Time,
    pub bytes: u32,
}

/// Packets in the order of their arrival.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<P> {
    entries: VecDeque<Entry<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Fifo<P> {
        Fifo { entries: VecDeque::new(), bytes: 0 }
    }
}

impl<P> Fifo<P> {
    #[inline]
    pub fn push(&mut self, packet: P, since: Time, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.entries.push_back(Entry { packet, since, bytes });
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Entry<P>> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.bytes);
        Some(entry)
    }

    /// Removes the last packet.
    pub fn pop_last(&mut self) -> Option<Entry<P>> {
        let entry = self.entries.pop_back()?;
        self.bytes -= u64::from(entry.bytes);
        Some(entry)
    }

    /// The first packet.
    #[inline]
    pub fn front(&self) -> Option<&Entry<P>> {
        self.entries.front()
    }

    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub fn packets(&self) -> u64 {
        self.entries.len() as u64
    }
}
