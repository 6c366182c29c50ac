//! A growing ring buffer of small records, for queues and delay lines.
//!
//! Like `VecDeque`, with a mask instead of wrap-around arithmetic, and with prefetching: a simulation reads dozens of
//! rings at once, more streams than hardware prefetchers follow, and touches each record once per round trip.

/// Records fetched ahead of the front.
const AHEAD: usize = 6;

/// A first-in, first-out buffer.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    slots: Vec<T>,
    head: usize,
    len: usize,
}

impl<T: Copy + Default> Ring<T> {
    /// An empty buffer.
    pub fn new() -> Ring<T> {
        Ring { slots: vec![T::default(); 16], head: 0, len: 0 }
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
        self.len
    }

    #[inline]
    fn at(&self, index: usize) -> usize {
        (self.head + index) & (self.slots.len() - 1)
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The oldest record.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        (self.len > 0).then(|| &self.slots[self.at(0)])
    }

    /// The newest record.
    pub fn back(&self) -> Option<&T> {
        (self.len > 0).then(|| &self.slots[self.at(self.len - 1)])
    }

    /// Adds a record.
    #[inline(always)]
    pub fn push(&mut self, record: T) {
        if self.len == self.slots.len() {
            self.grow(2 * self.slots.len());
        }
        let end = self.at(self.len);
        self.slots[end] = record;
        prefetch(&self.slots[self.at(self.len + AHEAD)]);
        self.len += 1;
    }

    /// Removes the oldest record.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let record = self.slots[self.head];
        prefetch(&self.slots[self.at(AHEAD)]);
        self.head = self.at(1);
        self.len -= 1;
        Some(record)
    }

    /// The records, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self.slots[self.at(index)])
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        let mut slots = Vec::with_capacity(count);
        slots.extend_from_slice(&self.slots[self.head..]);
        slots.extend_from_slice(&self.slots[..self.head]);
        slots.resize(count, T::default());
        (self.slots, self.head) = (slots, 0);
    }
}

#[inline]
fn prefetch<T>(record: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally, and the address is that of a live record.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(record).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = record;
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
        fn behaves_like_a_deque(ops in proptest::collection::vec(any::<Option<u8>>(), 1..300)) {
            let mut ring = Ring::new();
            let mut oracle = VecDeque::new();
            for op in ops {
                match op {
                    Some(record) => {
                        ring.push(record);
                        oracle.push_back(record);
                    }
                    None => prop_assert_eq!(ring.pop(), oracle.pop_front()),
                }
                prop_assert_eq!(ring.front(), oracle.front());
                prop_assert_eq!(ring.back(), oracle.back());
                prop_assert_eq!(ring.len(), oracle.len());
            }
        }
    }
}
