//! A growing ring buffer of small records, for queues and delay lines.
//!
//! Like `VecDeque`, with a mask instead of wrap-around arithmetic, and with prefetching: a simulation touches each record
//! once per round trip.

use weir_units::fetch_line;

/// Records fetched ahead of the front.
const AHEAD: usize = 6;

/// A first-in, first-out buffer.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    /// None, or a power of two of them.
    slots: Box<[T]>,
    /// Records removed and added so far, wrapping; a record's slot is its number modulo the number of slots.
    head: usize,
    tail: usize,
}

impl<T: Copy + Default> Ring<T> {
    /// An empty buffer without memory.
    pub fn new() -> Ring<T> {
        Ring { slots: Box::default(), head: 0, tail: 0 }
    }

    /// Reserves memory for `records` in all.
    pub fn reserve(&mut self, records: usize) {
        if self.slots.len() < records {
            self.grow(records.next_power_of_two());
        }
    }

    /// Records held.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    #[inline(always)]
    fn slot(&self, number: usize) -> &T {
        &self.slots[number & (self.slots.len() - 1)]
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Whether another record needs more memory.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.slots.len()
    }

    /// The oldest record.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        (!self.is_empty()).then(|| self.slot(self.head))
    }

    /// The newest record.
    pub fn back(&self) -> Option<&T> {
        (!self.is_empty()).then(|| self.slot(self.tail.wrapping_sub(1)))
    }

    /// The record that follows `before` older ones.
    #[inline]
    pub fn get(&self, before: usize) -> Option<&T> {
        (before < self.len()).then(|| self.slot(self.head.wrapping_add(before)))
    }

    /// Adds a record.
    #[inline(always)]
    pub fn push(&mut self, record: T) {
        if self.is_full() {
            self.grow((2 * self.slots.len()).max(16));
        }
        let mask = self.slots.len() - 1;
        self.slots[self.tail & mask] = record;
        self.tail = self.tail.wrapping_add(1);
    }

    /// Removes the oldest record.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let record = *self.slot(self.head);
        fetch_line(self.slot(self.head.wrapping_add(AHEAD)));
        self.head = self.head.wrapping_add(1);
        Some(record)
    }

    /// Removes the oldest `records` records.
    #[inline]
    pub fn skip(&mut self, records: usize) {
        debug_assert!(records <= self.len(), "records that are not there");
        self.head = self.head.wrapping_add(records);
        if self.is_empty() {
            // A ring of few records stays in few lines of the cache.
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Removes all records.
    #[inline]
    pub fn clear(&mut self) {
        (self.head, self.tail) = (0, 0);
    }

    /// Fetches the memory of the oldest record and of the next one to be added into the cache.
    #[inline]
    pub fn fetch_ends(&self) {
        let mask = self.slots.len().wrapping_sub(1);
        for number in [self.head, self.tail] {
            fetch_line(self.slots.as_ptr().wrapping_add(number & mask));
        }
    }

    /// The records in two parts, the older ones first.
    #[inline]
    pub fn parts(&self) -> (&[T], &[T]) {
        let (start, len) = (self.head & self.slots.len().wrapping_sub(1), self.len());
        let first = len.min(self.slots.len() - start);
        (&self.slots[start..start + first], &self.slots[..len - first])
    }

    /// The newest `records` records in two parts, the older ones first.
    #[inline]
    pub fn newest_mut(&mut self, records: usize) -> (&mut [T], &mut [T]) {
        debug_assert!(records <= self.len(), "records that are not there");
        let start = self.tail.wrapping_sub(records) & self.slots.len().wrapping_sub(1);
        let first = records.min(self.slots.len() - start);
        let (begin, end) = self.slots.split_at_mut(start);
        (&mut end[..first], &mut begin[..records - first])
    }

    /// The records, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (older, newer) = self.parts();
        older.iter().chain(newer)
    }

    /// The memory, which holds a power of two of records or none, and the numbers of records removed and added so far: a
    /// loop keeps them in registers.
    #[inline]
    pub(crate) fn open(&mut self) -> (&mut [T], &mut usize, &mut usize) {
        (&mut self.slots, &mut self.head, &mut self.tail)
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        let mut slots: Vec<T> = Vec::with_capacity(count);
        slots.extend(self.iter());
        let len = slots.len();
        slots.resize(count, T::default());
        (self.slots, self.head, self.tail) = (slots.into(), 0, len);
    }
}

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Ring::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn room_that_was_made_is_there_and_nothing_is_lost() {
        let mut ring = Ring::new();
        (0..30).for_each(|record| ring.push(record));
        // The front is not at the start of its memory.
        assert!((0..20).all(|record| ring.pop() == Some(record)));
        ring.reserve(100);
        let memory = ring.slots.as_ptr();
        (30..120).for_each(|record| ring.push(record));
        assert_eq!((ring.len(), ring.slots.as_ptr()), (100, memory));
        assert!(ring.iter().copied().eq(20..120));
    }

    proptest! {
        #[test]
        fn behaves_like_a_deque(ops in proptest::collection::vec((any::<Option<u8>>(), 0usize..40), 1..300)) {
            let mut ring = Ring::new();
            let mut oracle = VecDeque::new();
            for (op, count) in ops {
                match op {
                    Some(record) => {
                        ring.push(record);
                        oracle.push_back(record);
                    }
                    None if count < 3 => {
                        let count = count.min(ring.len());
                        ring.skip(count);
                        oracle.drain(..count);
                    }
                    None if count == 39 => {
                        ring.clear();
                        oracle.clear();
                    }
                    None => prop_assert_eq!(ring.pop(), oracle.pop_front()),
                }
                prop_assert!(ring.iter().eq(&oracle));
                prop_assert_eq!(ring.front(), oracle.front());
                prop_assert_eq!(ring.get(count), oracle.get(count));
                prop_assert_eq!(ring.back(), oracle.back());
                prop_assert_eq!(ring.len(), oracle.len());
            }
        }
    }
}
