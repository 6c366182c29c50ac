//! A set of segment numbers as sorted, disjoint, non-adjacent ranges.
//!
//! Both ends of a connection keep one: the receiver of the segments that arrived out of order, the sender of those
//! selectively acknowledged. Nearly all insertions touch the last range and nearly all removals the first, so a deque
//! with binary search takes constant time in the common case.

use std::collections::VecDeque;

/// A half-open range of segments and the payload they carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First segment.
    pub start: u64,
    /// One past the last segment.
    pub end: u64,
    /// Payload of the segments, bytes; only the receiver uses it.
    pub bytes: u64,
}

/// Sorted, disjoint, non-adjacent ranges.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    ranges: VecDeque<Range>,
}

impl Ranges {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest range.
    pub fn first(&self) -> Option<&Range> {
        self.ranges.front()
    }

    /// One past the highest segment held.
    pub fn end(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.end)
    }

    /// Index of the first range that ends at or after `segment`.
    fn position(&self, segment: u64) -> usize {
        match self.ranges.back() {
            // The common case by far: new data extend or follow the last range.
            Some(last) if last.start <= segment => self.ranges.len() - usize::from(last.end >= segment),
            _ => self.ranges.partition_point(|r| r.end < segment),
        }
    }

    /// The range that holds `segment`.
    pub fn find(&self, segment: u64) -> Option<&Range> {
        self.ranges.get(self.position(segment + 1)).filter(|r| r.start <= segment)
    }

    /// Adds `[start, end)` with `bytes` of payload; calls `gap` with each part that the set did not hold.
    pub fn insert(&mut self, start: u64, end: u64, bytes: u64, mut gap: impl FnMut(u64, u64)) {
        debug_assert!(start < end);
        let first = self.position(start);
        let mut merged = Range { start, end, bytes };
        let mut covered = start;
        let mut last = first;
        while let Some(r) = self.ranges.get(last).filter(|r| r.start <= end) {
            if covered < r.start {
                gap(covered, r.start);
            }
            covered = covered.max(r.end);
            merged.start = merged.start.min(r.start);
            merged.end = merged.end.max(r.end);
            merged.bytes += r.bytes;
            last += 1;
        }
        if covered < end {
            gap(covered, end);
        }
        match last - first {
            0 => self.ranges.insert(first, merged),
            1 => self.ranges[first] = merged,
            _ => {
                self.ranges[first] = merged;
                self.ranges.drain(first + 1..last);
            }
        }
    }

    /// Removes the lowest range if it begins at `segment`.
    pub fn take_first_at(&mut self, segment: u64) -> Option<Range> {
        if self.ranges.front()?.start == segment { self.ranges.pop_front() } else { None }
    }

    /// Forgets everything below `segment`.
    pub fn trim_below(&mut self, segment: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.end <= segment {
                self.ranges.pop_front();
            } else {
                first.start = first.start.max(segment);
                break;
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = &Range> {
        self.ranges.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a set of numbers.
        #[test]
        fn behaves_like_a_set(ops in proptest::collection::vec((0u64..60, 1u64..8, 0u8..5), 1..80)) {
            let mut ranges = Ranges::default();
            let mut oracle = BTreeSet::new();
            for (start, len, op) in ops {
                if op == 0 {
                    ranges.trim_below(start);
                    oracle = oracle.split_off(&start);
                } else {
                    let mut fresh = Vec::new();
                    ranges.insert(start, start + len, 0, |a, b| fresh.extend(a..b));
                    let expected: Vec<u64> = (start..start + len).filter(|s| oracle.insert(*s)).collect();
                    prop_assert_eq!(fresh, expected);
                }
                let got: Vec<u64> = ranges.iter().flat_map(|r| r.start..r.end).collect();
                prop_assert_eq!(&got, &oracle.iter().copied().collect::<Vec<_>>());
                for segment in 0..70 {
                    prop_assert_eq!(ranges.find(segment).is_some(), oracle.contains(&segment));
                }
                for pair in ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)) {
                    prop_assert!(pair.0.end < pair.1.start, "adjacent ranges must merge");
                }
            }
        }
    }
}
