//! Batches: many packets at once through one link, in the order of their times.
//!
//! A driver that knows which packets come next merges them with [`Merge`] and passes them with [`Link::pass`]. Each has
//! the fate that [`Link::enter`] would give it.

use weir_units::Time;

use crate::Record;
use crate::link::{Link, Passage};

/// Merges sorted sources: a tree of losers over the times of their first elements (D. E. Knuth, "The Art of Computer
/// Programming", volume 3, section 5.4.1).
///
/// Elements of one instant come in the order of their sources.
#[derive(Debug, Default)]
pub struct Merge {
    /// The loser of the match at each node but node 0; the children of node `n` are `2 n` and `2 n + 1`, the sources are
    /// below the last nodes. Time and source in one word.
    losers: Vec<u64>,
    /// The earliest of all.
    winner: u64,
    /// No element from here on is taken.
    end: u64,
    source_bits: u32,
}

impl Merge {
    /// Begins a merge of the elements before `end` of sources whose first elements have these times; [`Time::MAX`] for
    /// none.
    pub fn begin(&mut self, firsts: impl ExactSizeIterator<Item = Time>, end: Time) {
        let count = firsts.len().next_power_of_two();
        self.source_bits = count.trailing_zeros();
        self.end = self.key(0, end);
        let mut winners = vec![u64::MAX; 2 * count];
        for (source, at) in firsts.enumerate() {
            winners[count + source] = self.key(source, at);
        }
        self.losers.clear();
        self.losers.resize(count, u64::MAX);
        for node in (1..count).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], self.losers[node]) = (left.min(right), left.max(right));
        }
        self.winner = winners[1];
    }

    #[inline]
    fn key(&self, source: usize, at: Time) -> u64 {
        at.0.min(u64::MAX >> self.source_bits) << self.source_bits | source as u64
    }

    /// The source of the earliest element.
    #[inline(always)]
    pub fn first(&self) -> Option<usize> {
        let mask = (1 << self.source_bits) - 1;
        (self.winner < self.end).then_some((self.winner & mask) as usize)
    }

    /// The first element of [`first`](Merge::first) was taken; the next one of that source has this time.
    #[inline(always)]
    pub fn replace(&mut self, source: usize, at: Time) {
        let mut winner = self.key(source, at);
        let losers = self.losers.as_mut_slice();
        let mut node = (losers.len() + source) / 2;
        while node > 0 {
            let other = losers[node];
            losers[node] = winner.max(other);
            winner = winner.min(other);
            node /= 2;
        }
        self.winner = winner;
    }
}

impl<P: Record> Link<P> {
    /// Passes packets, which `next` yields in the order in which they come to the link, until it yields none: adds those
    /// that are sent to `sent`, with the times at which they reach the far end, and those that are dropped to `lost`. The
    /// link [passes batches](Link::passes_batches).
    #[inline(always)]
    pub fn pass(&mut self, mut next: impl FnMut() -> Option<(Time, P)>, sent: &mut Vec<(Time, P)>, lost: &mut Vec<P>) {
        while let Some((at, packet)) = self.pass_simply(&mut next, sent) {
            if let Passage::Sent { packet, arrival, .. } = self.enter_any(at, packet, lost) {
                sent.push((arrival, packet));
            }
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
