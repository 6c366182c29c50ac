//! Sets of packet numbers, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of packet numbers.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// First number of each range to the number after its last.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds the numbers of `range`, some of which may be there.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((&first, &last)) = self.ends.range(..=start).next_back()
            && last >= start
        {
            (start, end) = (first, end.max(last));
        }
        while let Some((&first, &last)) = self.ends.range(start..=end).next() {
            self.ends.remove(&first);
            end = end.max(last);
        }
        self.ends.insert(start, end);
    }

    /// Removes and returns the least number.
    pub fn pop(&mut self) -> Option<u64> {
        let (start, end) = self.ends.pop_first()?;
        if start + 1 < end {
            self.ends.insert(start + 1, end);
        }
        Some(start)
    }

    /// Removes all numbers below `floor`.
    pub fn remove_below(&mut self, floor: u64) {
        while let Some(entry) = self.ends.first_entry()
            && *entry.key() < floor
        {
            let end = entry.remove();
            if end > floor {
                self.ends.insert(floor, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut ranges: Ranges) -> Vec<u64> {
        std::iter::from_fn(|| ranges.pop()).collect()
    }

    #[test]
    fn ranges_are_sets_in_ascending_order() {
        let mut it = Ranges::default();
        for range in [8..10, 3..5, 4..6, 9..12, 20..20, 1..2, 12..13] {
            it.insert(range);
        }
        assert_eq!(all(it), [1, 3, 4, 5, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn numbers_below_a_floor_go() {
        let mut it = Ranges::default();
        it.insert(1..4);
        it.insert(6..9);
        it.remove_below(7);
        assert_eq!(all(it), [7, 8]);
    }
}
