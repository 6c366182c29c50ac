//! Batches: many packets at once through one link, in the order of their times.
//!
//! A driver that knows which packets come next merges them with [`Merge`] and passes them with [`Link::pass`]. Each has
//! the fate that [`Link::enter`] would give it.

use weir_units::Time;

use crate::Record;
use crate::link::{Link, Passage};

/// Children of a node of a [`Merge`]: two levels of four are faster than four of two.
const CHILDREN: usize = 4;

/// Merges sorted sources: a tournament tree over the times of their first elements.
///
/// Elements of one instant come in the order of their sources.
#[derive(Debug, Default)]
pub struct Merge {
    /// The children of node `i` are those from `4 i + 1` on; `tree[0]` is the root. Time and source in one word.
    tree: Vec<u64>,
    /// The first leaf.
    leaves: usize,
    source_bits: u32,
}

impl Merge {
    /// Begins a merge of sources whose first elements have these times; [`Time::MAX`] for none.
    pub fn begin(&mut self, firsts: impl ExactSizeIterator<Item = Time>) {
        let mut leaves = CHILDREN;
        while leaves < firsts.len() {
            leaves *= CHILDREN;
        }
        self.source_bits = leaves.trailing_zeros();
        self.leaves = (leaves - 1) / (CHILDREN - 1);
        self.tree.clear();
        self.tree.resize(self.leaves + leaves, u64::MAX);
        for (source, at) in firsts.enumerate() {
            self.tree[self.leaves + source] = self.key(source, at);
        }
        for node in (0..self.leaves).rev() {
            self.tree[node] = winner(&self.tree[CHILDREN * node + 1..]);
        }
    }

    #[inline]
    fn key(&self, source: usize, at: Time) -> u64 {
        at.0.min(u64::MAX >> self.source_bits) << self.source_bits | source as u64
    }

    /// The source whose first element is due before `end`, and the earliest.
    #[inline]
    pub fn first(&self, end: Time) -> Option<usize> {
        let winner = self.tree[0];
        let mask = (1 << self.source_bits) - 1;
        (winner >> self.source_bits < end.0.min(u64::MAX >> self.source_bits)).then_some((winner & mask) as usize)
    }

    /// The first element of [`first`](Merge::first) was taken; the next one has this time.
    #[inline]
    pub fn replace(&mut self, source: usize, at: Time) {
        let key = self.key(source, at);
        let tree = self.tree.as_mut_slice();
        let mut node = self.leaves + source;
        tree[node] = key;
        while node > 0 {
            node = (node - 1) / CHILDREN;
            tree[node] = winner(&tree[CHILDREN * node + 1..]);
        }
    }
}

/// The least of the first children.
#[inline(always)]
fn winner(children: &[u64]) -> u64 {
    let Some(&[a, b, c, d]) = children.first_chunk() else { unreachable!("a node has four children") };
    a.min(b).min(c.min(d))
}

impl<P: Record> Link<P> {
    /// Passes packets with the times at which they come to the link, in their order: those that are sent remain, with
    /// the times at which they reach its far end; those that are dropped are added to `lost`. The link [passes
    /// batches](Link::passes_batches).
    pub fn pass(&mut self, batch: &mut Vec<(Time, P)>, lost: &mut Vec<P>) {
        let lost_before = lost.len();
        let mut rest = batch.as_mut_slice();
        loop {
            let passed = self.pass_simply(rest);
            let Some(((at, packet), others)) = rest[passed..].split_first_mut() else { break };
            match self.enter_any(*at, *packet, lost) {
                Passage::Sent { packet: sent, arrival, .. } => (*at, *packet) = (arrival, sent),
                Passage::Dropped | Passage::Queued | Passage::QueuedIdle => *at = Time::MAX,
            }
            rest = others;
        }
        if lost.len() > lost_before {
            batch.retain(|(at, _)| *at < Time::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a stable sort by time, then source.
        #[test]
        fn merges_like_a_sort(mut sources in proptest::collection::vec(proptest::collection::vec(0u64..50, 0..20), 1..70), end in 0u64..60) {
            sources.iter_mut().for_each(|source| source.sort_unstable());
            let mut expected: Vec<(u64, usize)> = Vec::new();
            for (number, source) in sources.iter().enumerate() {
                expected.extend(source.iter().filter(|at| **at < end).map(|at| (*at, number)));
            }
            expected.sort_unstable();
            let at = |source: usize, place: usize| sources[source].get(place).map_or(Time::MAX, |at| Time(*at));
            let mut places = vec![0; sources.len()];
            let mut merge = Merge::default();
            merge.begin((0..sources.len()).map(|source| at(source, 0)));
            let mut merged = Vec::new();
            while let Some(source) = merge.first(Time(end)) {
                merged.push((at(source, places[source]).0, source));
                places[source] += 1;
                merge.replace(source, at(source, places[source]));
            }
            prop_assert_eq!(merged, expected);
        }
    }
}
