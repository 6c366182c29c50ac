//! Batches: many packets at once through one link, in the order of their times.
//!
//! A driver that knows which packets come next merges them with [`Merge`] and passes them with [`Link::pass`]. Each has
//! the fate that [`Link::enter`] would give it.

use weir_elements::Run;
use weir_units::{Dur, Time};

use crate::Record;
use crate::link::{DelayStage, Discipline, Link, Passage};
use crate::stats::Observer;

/// So many packets of one size are not worth a run.
const SHORT_RUN: usize = 3;

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

    /// The source of the earliest element before `end`.
    #[inline(always)]
    fn first_before(&self, end: u64) -> Option<usize> {
        let mask = (1 << self.source_bits) - 1;
        (self.winner < end).then_some((self.winner & mask) as usize)
    }

    /// The earliest element was taken; the next one of that source has this time.
    #[inline(always)]
    fn replace(&mut self, source: usize, at: Time) {
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

/// The elements of a source that are not merged yet, in two parts, the first of which is empty only if the other is.
#[derive(Debug)]
pub struct Source<'a, T> {
    elements: &'a [(Time, T)],
    newer: &'a [(Time, T)],
}

impl<'a, T: Copy> Source<'a, T> {
    /// A source of these elements, `older` first.
    pub fn new(older: &'a [(Time, T)], newer: &'a [(Time, T)]) -> Source<'a, T> {
        if older.is_empty() { Source { elements: newer, newer: older } } else { Source { elements: older, newer } }
    }

    /// The time of the next element; [`Time::MAX`] for none.
    #[inline(always)]
    pub fn due(&self) -> Time {
        self.elements.first().map_or(Time::MAX, |(at, _)| *at)
    }

    /// The number of elements left.
    pub fn left(&self) -> usize {
        self.elements.len() + self.newer.len()
    }

    #[inline(always)]
    fn take(&mut self) -> Option<(Time, T)> {
        let (first, others) = self.elements.split_first()?;
        self.elements = if others.is_empty() { std::mem::take(&mut self.newer) } else { others };
        Some(*first)
    }
}

impl Merge {
    /// Takes the earliest elements, at most `most`, out of the sources with whose times the merge [began](Merge::begin), and
    /// adds what `each` makes of them to `merged`.
    #[inline(always)]
    pub fn take<T: Copy>(
        &mut self,
        sources: &mut [Source<'_, T>],
        most: usize,
        merged: &mut Vec<(Time, T)>,
        each: impl Fn(T) -> T,
    ) {
        merged.reserve(most);
        let end = self.end;
        merged.extend((0..most).map_while(|_| {
            let first = self.first_before(end)?;
            let source = sources.get_mut(first)?;
            let (at, element) = source.take()?;
            self.replace(first, source.due());
            Some((at, each(element)))
        }));
    }
}

impl<P: Record> Link<P> {
    /// Passes packets, which come to the link in their order at their times: those that are sent have the times at which
    /// they reach the far end then; those that are dropped are in `lost` instead. The link
    /// [passes batches](Link::passes_batches).
    #[inline]
    pub fn pass(&mut self, packets: &mut Vec<(Time, P)>, lost: &mut Vec<P>) {
        let (mut done, mut drops) = (0, false);
        loop {
            done += self.pass_simply(&mut packets[done..]);
            let Some((at, packet)) = packets.get_mut(done) else { break };
            match self.enter_any(*at, *packet, lost) {
                Passage::Sent { packet: sent, arrival, .. } => (*at, *packet) = (arrival, sent),
                _ => (*at, drops) = (Time::MAX, true),
            }
            done += 1;
        }
        if drops {
            packets.retain(|(at, _)| *at < Time::MAX);
        }
    }

    /// Passes packets which [surely pass](Link::surely_passes), as [`pass`](Link::pass).
    #[inline]
    pub fn pass_surely(&mut self, mut packets: &mut [(Time, P)]) {
        let overhead = self.overhead;
        let (Discipline::Analytic(fifo), DelayStage::Fixed(delay), None) =
            (&mut self.discipline, &self.delay, &self.stats.0)
        else {
            let passed = self.pass_simply(packets);
            assert!(passed == packets.len(), "packets surely pass");
            return;
        };
        while let Some((_, packet)) = packets.first() {
            let wire = packet.ip_bytes() + overhead;
            let sent = fifo.send_run(wire, packets, |(at, packet)| (at, packet.ip_bytes() + overhead));
            let (passed, others) = std::mem::take(&mut packets).split_at_mut(sent);
            passed.iter_mut().for_each(|(at, _)| *at += *delay);
            packets = others;
        }
    }

    /// Passes packets to which nothing but queueing and a fixed delay happens, as [`pass`](Link::pass), and returns their
    /// number. On the next one [`enter_any`](Link::enter_any) decides.
    #[inline]
    pub(crate) fn pass_simply(&mut self, packets: &mut [(Time, P)]) -> usize {
        let (mtu, overhead) = (self.mtu, self.overhead);
        let Discipline::Analytic(fifo) = &mut self.discipline else { return 0 };
        let DelayStage::Fixed(delay) = self.delay else { return 0 };
        if self.loss.is_some() {
            return 0;
        }
        let mut done = 0;
        while let Some((at, packet)) = packets.get_mut(done).filter(|(_, packet)| mtu.fits(packet)) {
            let ip_bytes = packet.ip_bytes();
            let wire = ip_bytes + overhead;
            let one = match &mut self.stats.0 {
                None => fifo.send_observed(*at, wire, |_, _| {}),
                Some(bins) => {
                    let sent = fifo.send_observed(*at, wire, |start, wire| bins.began(start, wire - overhead));
                    if let Some((start, _)) = sent {
                        bins.arrived(*at, ip_bytes);
                        bins.accepted(*at, start, ip_bytes);
                    }
                    sent
                }
            };
            let Some((_, departure)) = one else { break };
            *at = departure + delay;
            done += 1;
            if packets.get(done + SHORT_RUN).is_none_or(|(_, later)| later.ip_bytes() != ip_bytes) {
                continue;
            }
            let run = fifo.run(wire);
            done += match &mut self.stats.0 {
                None => pass_run(run, &mut (), ip_bytes, (overhead, delay), &mut packets[done..]),
                Some(bins) => {
                    let mut tally = bins.tally(ip_bytes);
                    let passed = pass_run(run, &mut tally, ip_bytes, (overhead, delay), &mut packets[done..]);
                    bins.add(&tally);
                    passed
                }
            };
        }
        done
    }
}

/// Passes the first packets of a list, as far as they have one size and are within one interval of the statistics; returns
/// their number. `times`: the overhead of a packet, bytes, and the delay of the link.
#[inline(always)]
fn pass_run<P: Record>(
    mut run: Run<'_>,
    tally: &mut impl Observer,
    ip_bytes: u32,
    (overhead, delay): (u32, Dur),
    packets: &mut [(Time, P)],
) -> usize {
    let mut passed = 0;
    for (at, packet) in packets {
        // Two packets of one size may have more or fewer segments, and so another MTU.
        if packet.ip_bytes() != ip_bytes || packet.segments() != 1 || !tally.covers(*at) {
            break;
        }
        let Some((start, departure)) = run.send(*at, |wire| tally.began(wire - overhead)) else { break };
        tally.accepted(*at, start);
        *at = departure + delay;
        passed += 1;
    }
    run.end();
    passed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Numbered;

    /// A link of 1 Gb/s with a delay of 1 ms, recorded in intervals of 50 us or not at all.
    fn link(queue: &str, recorded: bool) -> Link<Numbered> {
        let plan = format!(
            r#"{{"name": "l", "from": 0, "to": 1, "rate_bps": 1000000007, "overhead_bytes": 38, "mtu_bytes": 1500,
                "delay": {{"kind": "fixed", "delay_ns": 1000000}}, "queue": {queue}}}"#
        );
        let plan = serde_json::from_str(&plan).expect("a link of a plan");
        Link::new(&plan, 0, 1, if recorded { 50_000 } else { 0 }, false)
    }

    /// Arrivals at the far end, drops, and the rows of the statistics.
    type Outcome = (Vec<(Time, Numbered)>, Vec<Numbered>, Vec<weir_run::LinkRow>);

    fn outcome(mut link: Link<Numbered>, sent: Vec<(Time, Numbered)>, lost: Vec<Numbered>) -> Outcome {
        let (end, mut rows) = (Time(20_000_000), Vec::new());
        link.advance(end);
        link.stats.roll(end);
        link.stats.drain(end, &mut rows);
        (sent, lost, rows)
    }

    proptest! {
        /// Packets in batches of any size have the fates of single ones, whatever their sizes; some exceed the MTU.
        #[test]
        fn batches_have_the_fates_of_single_packets(
            queue in proptest::sample::select(vec![
                r#"{"kind": "droptail", "limit": {"bytes": 12000}}"#,
                r#"{"kind": "droptail", "limit": {"packets": 5}}"#,
                r#"{"kind": "step", "limit": {"bytes": 12000}, "threshold_bytes": 4000, "drop": false}"#,
                r#"{"kind": "marks", "limit": {"bytes": 12000}, "p": 0.3}"#,
            ]),
            recorded in any::<bool>(),
            batches in proptest::collection::vec(
                (proptest::sample::select(vec![1500u32, 1500, 52, 0]), proptest::collection::vec(0u64..16_000, 1..30)), 1..12),
        ) {
            let (mut single, mut together) = (link(queue, recorded), link(queue, recorded));
            let (mut at, mut number) = (0, 0);
            let (mut sent, mut lost, mut all, mut dropped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for (bytes, gaps) in batches {
                let mut batch = Vec::new();
                for gap in gaps {
                    (at, number) = (at + gap, number + 1);
                    let bytes = if bytes > 0 { bytes } else { [52, 1500, 576, 1501][number % 4] };
                    batch.push((Time(at), Numbered { number, bytes, marked: false }));
                }
                for (at, packet) in &batch {
                    if let Passage::Sent { packet, arrival, .. } = single.enter(*at, *packet, &mut lost) {
                        sent.push((arrival, packet));
                    }
                }
                together.pass(&mut batch, &mut dropped);
                all.extend(batch);
            }
            prop_assert_eq!(outcome(together, all, dropped), outcome(single, sent, lost));
        }

        /// Compares with a stable sort by time, then source.
        #[test]
        fn merges_like_a_sort(
            mut sources in proptest::collection::vec((proptest::collection::vec(0u64..50, 0..20), 0usize..20), 1..70),
            end in 0u64..60,
            most in 1usize..30,
        ) {
            sources.iter_mut().for_each(|(source, _)| source.sort_unstable());
            let mut expected: Vec<(Time, usize)> = Vec::new();
            for (number, (source, _)) in sources.iter().enumerate() {
                expected.extend(source.iter().filter(|at| **at < end).map(|at| (Time(*at), number)));
            }
            expected.sort_unstable();
            let elements: Vec<Vec<(Time, usize)>> = (0..)
                .zip(&sources)
                .map(|(number, (source, _))| source.iter().map(|at| (Time(*at), number)).collect())
                .collect();
            let parts = elements.iter().zip(&sources).map(|(all, (_, cut))| all.split_at((*cut).min(all.len())));
            let mut parts: Vec<Source<'_, usize>> = parts.map(|(older, newer)| Source::new(older, newer)).collect();
            let mut merge = Merge::default();
            merge.begin(parts.iter().map(Source::due), Time(end));
            let mut merged = Vec::new();
            while {
                let before = merged.len();
                merge.take(&mut parts, most, &mut merged, |number| number);
                merged.len() - before == most
            } {}
            let left: usize = parts.iter().map(Source::left).sum();
            prop_assert_eq!(merged.len() + left, sources.iter().map(|(source, _)| source.len()).sum::<usize>());
            prop_assert_eq!(merged, expected);
        }
    }
}
