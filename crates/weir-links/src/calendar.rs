//! A calendar of event sources: it finds the earliest pending event.
//!
//! Each source (a link's pipe, a flow's timer) has at most one pending event, so the calendar is a tournament tree over
//! a fixed number of slots: setting a slot costs one comparison per level, and the earliest is at the root. Events are
//! ordered by (time, slot), so that a run is deterministic. One word holds both, the slot in the low bits.

use std::ops::Range;

use weir_units::Time;

/// The region of a slot that is never set.
pub const UNUSED: u32 = u32::MAX;

/// A tournament tree over the due times of a fixed number of sources.
///
/// The sources may be divided into regions. Each region has a subtree of its own, so that a driver can work through one
/// region at a time while the calendar is [split](Calendar::split).
pub struct Calendar {
    /// `tree[1]` is the root; the children of `i` are `2i` and `2i + 1`.
    tree: Vec<u64>,
    /// By slot.
    places: Vec<Place>,
    /// By region: the root of its subtree.
    roots: Vec<u32>,
    /// The nodes above the subtrees of regions, from the bottom up.
    upper: Vec<u32>,
    slot_bits: u32,
    split: bool,
}

/// The place of a slot in the tree.
#[derive(Clone, Copy)]
struct Place {
    leaf: u32,
    /// The root of the subtree of its region.
    root: u32,
}

impl Calendar {
    /// A calendar of `slots` sources without pending events, all in one region.
    pub fn new(slots: usize) -> Calendar {
        Calendar::with_regions(&vec![0; slots.max(1)])
    }

    /// A calendar of sources without pending events; `regions` has the number of the region of each slot, or
    /// [`UNUSED`].
    pub fn with_regions(regions: &[u32]) -> Calendar {
        let used = || regions.iter().filter(|region| **region != UNUSED);
        let count = used().max().map_or(1, |last| *last as usize + 1);
        let mut sizes = vec![0usize; count];
        used().for_each(|region| sizes[*region as usize] += 1);
        let leaves = sizes.iter().map(|size| size.next_power_of_two()).sum::<usize>().next_power_of_two().max(2);
        let slot_bits = slot_bits(regions.len());
        // In the order of their sizes, subtrees of powers of two are aligned.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|region| std::cmp::Reverse(sizes[*region].next_power_of_two()));
        let (mut next, mut roots, mut begin) = (leaves, vec![1; count], vec![0; count]);
        for region in order {
            let size = sizes[region].next_power_of_two();
            (begin[region], roots[region]) = (next, (next / size) as u32);
            next += size;
        }
        let mut tree = vec![u64::MAX; 2 * leaves];
        let mut places = Vec::with_capacity(regions.len());
        for (slot, region) in regions.iter().enumerate() {
            if *region == UNUSED {
                places.push(Place { leaf: 0, root: 0 });
                continue;
            }
            let leaf = &mut begin[*region as usize];
            tree[*leaf] = u64::MAX << slot_bits | slot as u64;
            places.push(Place { leaf: *leaf as u32, root: roots[*region as usize] });
            *leaf += 1;
        }
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        let mut upper: Vec<u32> =
            roots.iter().flat_map(|root| std::iter::successors(above(*root), |n| above(*n))).collect();
        upper.sort_unstable_by_key(|node| std::cmp::Reverse(*node));
        upper.dedup();
        Calendar { tree, places, roots, upper, slot_bits, split: false }
    }

    /// The first instant that is indistinguishable from "never" with this many slots.
    pub fn horizon(slots: usize) -> Time {
        Time(u64::MAX >> slot_bits(slots))
    }

    /// Time and slot of the earliest event; a time from the horizon on means never. The calendar is not split.
    #[inline]
    pub fn first(&self) -> (Time, u32) {
        debug_assert!(!self.split, "a split calendar does not know the earliest event of all");
        self.winner(1)
    }

    /// As [`first`](Calendar::first), of one region.
    #[inline]
    pub fn first_of(&self, region: u32) -> (Time, u32) {
        self.winner(self.roots[region as usize] as usize)
    }

    /// The times of the earliest events of each of these regions.
    #[inline]
    pub fn firsts_of(&self, regions: Range<u32>) -> impl Iterator<Item = Time> + '_ {
        let roots = &self.roots[regions.start as usize..regions.end as usize];
        roots.iter().map(|root| Time(self.tree[*root as usize] >> self.slot_bits))
    }

    /// The sources of a region that are due before `end`, with their times, in the order of their slots.
    #[inline]
    pub fn due_before(&self, region: u32, end: Time) -> impl Iterator<Item = (u32, Time)> + '_ {
        let (first, width) = self.leaves_of(region);
        let end = self.key(0, end);
        let (bits, mask) = (self.slot_bits, (1 << self.slot_bits) - 1);
        let leaves = self.tree[first..first + width].iter();
        leaves.filter(move |leaf| **leaf < end).map(move |leaf| ((leaf & mask) as u32, Time(leaf >> bits)))
    }

    /// The first leaf of a region and their number.
    #[inline]
    fn leaves_of(&self, region: u32) -> (usize, usize) {
        let (mut first, mut width) = (self.roots[region as usize] as usize, 1);
        while 2 * first < self.tree.len() {
            (first, width) = (2 * first, 2 * width);
        }
        (first, width)
    }

    #[inline]
    fn winner(&self, node: usize) -> (Time, u32) {
        let winner = self.tree[node];
        (Time(winner >> self.slot_bits), (winner & ((1 << self.slot_bits) - 1)) as u32)
    }

    /// The time at which a source is due.
    #[inline]
    pub fn due(&self, slot: u32) -> Time {
        Time(self.tree[self.places[slot as usize].leaf as usize] >> self.slot_bits)
    }

    /// Keeps each region in order by itself, until [`join`](Calendar::join).
    pub fn split(&mut self) {
        self.split = true;
    }

    /// Puts the regions in order again.
    pub fn join(&mut self) {
        if std::mem::take(&mut self.split) {
            for node in &self.upper {
                let node = *node as usize;
                self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]);
            }
        }
    }

    #[inline]
    fn key(&self, slot: u32, at: Time) -> u64 {
        at.0.min(u64::MAX >> self.slot_bits) << self.slot_bits | u64::from(slot)
    }

    /// Sets the time at which a source is due; [`Time::MAX`] for never.
    #[inline]
    pub fn set(&mut self, slot: u32, at: Time) {
        let mut winner = self.key(slot, at);
        let Place { leaf, root } = self.places[slot as usize];
        debug_assert!(leaf > 0, "slot {slot} is not used");
        let mut node = leaf as usize;
        let top = if self.split { root as usize } else { 1 };
        // Borrowed once: otherwise the compiler assumes that a write may change the address of the tree, and reloads it
        // at each level.
        let tree = self.tree.as_mut_slice();
        tree[node] = winner;
        while node > top {
            winner = winner.min(tree[node ^ 1]);
            node /= 2;
            // Many regions have two sources: at their root, whether the winner changed is hard to predict, and saves nothing.
            if node > top && tree[node] == winner {
                return;
            }
            tree[node] = winner;
        }
    }

    /// As [`set`](Calendar::set) for many sources of one region, while the calendar is split: one pass over the region.
    pub fn set_many(&mut self, region: u32, due: impl Iterator<Item = (u32, Time)>) {
        debug_assert!(self.split, "the nodes above the region would be wrong");
        for (slot, at) in due {
            let Place { leaf, root } = self.places[slot as usize];
            debug_assert!(leaf > 0 && root == self.roots[region as usize], "slot {slot} is not of region {region}");
            self.tree[leaf as usize] = self.key(slot, at);
        }
        let (mut first, mut width) = self.leaves_of(region);
        while width > 1 {
            let (upper, lower) = self.tree.split_at_mut(first);
            (first, width) = (first / 2, width / 2);
            for (node, children) in upper[first..first + width].iter_mut().zip(lower.chunks_exact(2)) {
                *node = children[0].min(children[1]);
            }
        }
    }

    /// Makes a source due at `at` unless it is due earlier.
    #[inline(always)]
    pub fn set_earlier(&mut self, slot: u32, at: Time) {
        // Most deadlines are later: the call is worth its while only for the others.
        if self.key(slot, at) < self.tree[self.places[slot as usize].leaf as usize] {
            self.set_out_of_line(slot, at);
        }
    }

    #[inline(never)]
    fn set_out_of_line(&mut self, slot: u32, at: Time) {
        self.set(slot, at);
    }
}

fn slot_bits(slots: usize) -> u32 {
    slots.next_power_of_two().max(2).trailing_zeros()
}

/// The parent of a node; none for the root.
fn above(node: u32) -> Option<u32> {
    (node > 1).then_some(node / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a linear search for the smallest (time, slot).
        #[test]
        fn yields_the_earliest_source(slots in 1usize..40, ops in proptest::collection::vec((0usize..40, 0u64..50), 1..200)) {
            let mut calendar = Calendar::new(slots);
            let mut oracle = vec![Time::MAX; slots];
            for (slot, at) in ops {
                let slot = slot % slots;
                let at = if at == 0 { Time::MAX } else { Time(at) };
                calendar.set(slot as u32, at);
                oracle[slot] = at;
                let (at, slot) = oracle.iter().enumerate().map(|(s, at)| (*at, s as u32)).min().unwrap();
                if at < Time::MAX {
                    prop_assert_eq!(calendar.first(), (at, slot));
                } else {
                    prop_assert!(calendar.first().0 >= Calendar::horizon(slots));
                }
            }
        }

        /// As above for each region of a calendar that is split from time to time, and for the whole when it is joined.
        #[test]
        fn yields_the_earliest_source_of_each_region(
            regions in proptest::collection::vec(0u32..6, 1..40),
            ops in proptest::collection::vec((0usize..40, 0u64..50, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut calendar = Calendar::with_regions(&regions);
            let mut oracle = vec![Time::MAX; regions.len()];
            let earliest = |oracle: &[Time], within: &dyn Fn(usize) -> bool| {
                let due = oracle.iter().enumerate().filter(|(slot, at)| within(*slot) && **at < Time::MAX);
                due.map(|(slot, at)| (*at, slot as u32)).min()
            };
            let horizon = Calendar::horizon(regions.len());
            for (slot, at, split, many) in ops {
                if split { calendar.split() } else { calendar.join() }
                let slot = slot % regions.len();
                let at = if at == 0 { Time::MAX } else { Time(at) };
                if split && many {
                    // The region's other slots, too.
                    let others = (0..regions.len()).filter(|other| regions[*other] == regions[slot]);
                    let due: Vec<_> = others.map(|slot| (slot as u32, Time(at.0.saturating_add(slot as u64)))).collect();
                    due.iter().for_each(|(slot, at)| oracle[*slot as usize] = *at);
                    calendar.set_many(regions[slot], due.into_iter());
                } else {
                    calendar.set(slot as u32, at);
                    oracle[slot] = at;
                }
                let due = |first: (Time, u32)| Some(first).filter(|first| first.0 < horizon);
                for region in 0..=*regions.iter().max().unwrap() {
                    let expected = earliest(&oracle, &|slot| regions[slot] == region);
                    prop_assert_eq!(due(calendar.first_of(region)), expected);
                    prop_assert_eq!(calendar.firsts_of(region..region + 1).next(), Some(calendar.first_of(region).0));
                    let early: Vec<(u32, Time)> = calendar.due_before(region, Time(25)).collect();
                    let expected = (0..).zip(&oracle).zip(&regions).filter(|((_, at), of)| **of == region && at.0 < 25);
                    prop_assert_eq!(early, expected.map(|((slot, at), _)| (slot, *at)).collect::<Vec<_>>());
                }
                if !split {
                    prop_assert_eq!(due(calendar.first()), earliest(&oracle, &|_| true));
                }
            }
        }
    }
}
