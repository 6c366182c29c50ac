//! Batches: many packets at once through one link, in the order of their times.
//!
//! A driver that knows which packets come next merges them with [`Merge`] and passes them with [`Link::pass`]. Each has
//! the fate that [`Link::enter`] would give it.

use weir_units::Time;

use crate::Record;
use crate::link::{Link, Passage};

/// Merges sorted sources: a tournament tree over the times of their first elements.
///
/// Elements of one instant come in the order of their sources.
#[derive(Debug, Default)]
pub struct Merge {
    /// Groups of four nodes, the first of which is the top; the children of node `n`, counted over all groups, are group
    /// `n + 1`. Two levels of four are faster than four of two. Time and source in one word.
    groups: Vec<[u64; 4]>,
    /// The earliest of all.
    winner: u64,
    /// No element from here on is taken.
    end: u64,
    /// The node of the first source.
    leaves: usize,
    source_bits: u32,
}

impl Merge {
    /// Begins a merge of the elements before `end` of sources whose first elements have these times; [`Time::MAX`] for
    /// none.
    pub fn begin(&mut self, firsts: impl ExactSizeIterator<Item = Time>, end: Time) {
        let mut count = 4;
        while count < firsts.len() {
            count *= 4;
        }
        self.source_bits = count.trailing_zeros();
        self.end = self.key(0, end);
        self.leaves = (count - 4) / 3;
        self.groups.clear();
        self.groups.resize((self.leaves + count) / 4, [u64::MAX; 4]);
        for (source, at) in firsts.enumerate() {
            let leaf = self.leaves + source;
            self.groups[leaf / 4][leaf % 4] = self.key(source, at);
        }
        for group in (1..self.groups.len()).rev() {
            self.groups[(group - 1) / 4][(group - 1) % 4] = least(self.groups[group]);
        }
        self.winner = least(self.groups[0]);
    }

    #[inline]
    fn key(&self, source: usize, at: Time) -> u64 {
        at.0.min(u64::MAX >> self.source_bits) << self.source_bits | source as u64
    }

    /// The source of the earliest element.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let mask = (1 << self.source_bits) - 1;
        (self.winner < self.end).then_some((self.winner & mask) as usize)
    }

    /// The first element of [`first`](Merge::first) was taken; the next one has this time.
    #[inline]
    pub fn replace(&mut self, source: usize, at: Time) {
        let mut winner = self.key(source, at);
        let mut node = self.leaves + source;
        let groups = self.groups.as_mut_slice();
        loop {
            let group = &mut groups[node / 4];
            // Not from memory, where a wide read of what was just written would stall.
            let [b, c, d] = [1, 2, 3].map(|others| group[(node + others) % 4]);
            group[node % 4] = winner;
            winner = winner.min(b).min(c.min(d));
            if node < 4 {
                break;
            }
            node = node / 4 - 1;
        }
        self.winner = winner;
    }
}

#[inline(always)]
fn least([a, b, c, d]: [u64; 4]) -> u64 {
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
            merge.begin((0..sources.len()).map(|source| at(source, 0)), Time(end));
            let mut merged = Vec::new();
            while let Some(source) = merge.first() {
                merged.push((at(source, places[source]).0, source));
                places[source] += 1;
                merge.replace(source, at(source, places[source]));
            }
            prop_assert_eq!(merged, expected);
        }
    }
}
