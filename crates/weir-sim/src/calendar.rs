//! When each source of events is due next.
//!
//! Each source (a link's pipe, a flow's timer) has at most one pending event, so the calendar is a tournament over a
//! fixed number of slots: setting a slot costs one comparison a level, the earliest is at the root. Events are ordered
//! by (time, slot), which makes a run deterministic.

use weir_units::Time;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Time,
    slot: u32,
}

/// A tournament over the due times of a fixed number of sources.
pub(crate) struct Calendar {
    /// `tree[1]` is the root; the children of `i` are `2i` and `2i + 1`; leaves start at `leaves`.
    tree: Vec<Entry>,
    leaves: usize,
}

impl Calendar {
    /// A calendar of `slots` sources, none of them due.
    pub fn new(slots: usize) -> Calendar {
        let leaves = slots.next_power_of_two().max(2);
        let mut tree = vec![Entry { at: Time::MAX, slot: 0 }; 2 * leaves];
        for (slot, leaf) in tree[leaves..].iter_mut().enumerate() {
            leaf.slot = slot as u32;
        }
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        Calendar { tree, leaves }
    }

    /// The source due first, and when.
    #[inline]
    pub fn first(&self) -> (Time, u32) {
        let root = self.tree[1];
        (root.at, root.slot)
    }

    /// When a source is due.
    #[inline]
    pub fn get(&self, slot: u32) -> Time {
        self.tree[self.leaves + slot as usize].at
    }

    /// Says when a source is due; [`Time::MAX`] for never.
    #[inline]
    pub fn set(&mut self, slot: u32, at: Time) {
        let mut node = self.leaves + slot as usize;
        self.tree[node].at = at;
        while node > 1 {
            let winner = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            if self.tree[node] == winner {
                return;
            }
            self.tree[node] = winner;
        }
    }

    /// Makes a source due at `at` unless it is due before.
    #[inline]
    pub fn set_earlier(&mut self, slot: u32, at: Time) {
        if at < self.get(slot) {
            self.set(slot, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a linear search for the least (time, slot).
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
                prop_assert_eq!(calendar.first().0, at);
                if at < Time::MAX {
                    prop_assert_eq!(calendar.first().1, slot);
                }
            }
        }
    }
}
