//! A calendar of event sources: it finds the earliest pending event.
//!
//! Each source (a link's pipe, a flow's timer) has at most one pending event, so the calendar is a tournament tree over
//! a fixed number of slots: setting a slot costs one comparison per level, and the earliest is at the root. Events are
//! ordered by (time, slot), so that a run is deterministic. One word holds both, the slot in the low bits.

use weir_units::Time;

/// A tournament tree over the due times of a fixed number of sources.
pub struct Calendar {
    /// `tree[1]` is the root; the children of `i` are `2i` and `2i + 1`; leaves start at `leaves`.
    tree: Vec<u64>,
    leaves: usize,
    slot_bits: u32,
}

impl Calendar {
    /// A calendar of `slots` sources without pending events.
    pub fn new(slots: usize) -> Calendar {
        let leaves = slots.next_power_of_two().max(2);
        let slot_bits = leaves.trailing_zeros();
        let mut tree = vec![0; 2 * leaves];
        for (slot, leaf) in tree[leaves..].iter_mut().enumerate() {
            *leaf = u64::MAX << slot_bits | slot as u64;
        }
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        Calendar { tree, leaves, slot_bits }
    }

    /// The first instant that is indistinguishable from "never" with this many slots.
    pub fn horizon(slots: usize) -> Time {
        Time(u64::MAX >> slots.next_power_of_two().max(2).trailing_zeros())
    }

    /// Time and slot of the earliest event; a time from the horizon on means never.
    #[inline]
    pub fn first(&self) -> (Time, u32) {
        let root = self.tree[1];
        (Time(root >> self.slot_bits), (root & (self.leaves as u64 - 1)) as u32)
    }

    #[inline]
    fn key(&self, slot: u32, at: Time) -> u64 {
        at.0.min(u64::MAX >> self.slot_bits) << self.slot_bits | u64::from(slot)
    }

    /// Sets the time at which a source is due; [`Time::MAX`] for never.
    #[inline]
    pub fn set(&mut self, slot: u32, at: Time) {
        let mut winner = self.key(slot, at);
        let mut node = self.leaves + slot as usize;
        // Borrowed once: otherwise the compiler assumes that a write may change the address of the tree, and reloads it
        // at each level.
        let tree = self.tree.as_mut_slice();
        tree[node] = winner;
        while node > 1 {
            winner = winner.min(tree[node ^ 1]);
            node /= 2;
            if tree[node] == winner {
                return;
            }
            tree[node] = winner;
        }
    }

    /// Makes a source due at `at` unless it is due earlier.
    #[inline]
    pub fn set_earlier(&mut self, slot: u32, at: Time) {
        if self.key(slot, at) < self.tree[self.leaves + slot as usize] {
            self.set(slot, at);
        }
    }
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
    }
}
