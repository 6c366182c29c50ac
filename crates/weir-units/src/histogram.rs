//! Histograms of durations, with bins that are narrow relative to their values.
//!
//! Bins are log-linear, as in G. Tene's HdrHistogram: [`STEPS`] of equal width per power of two. So a duration is known
//! to one part in [`STEPS`], whatever its size, and counts of the same bin of two histograms may be added.

/// Bins per power of two. The middle of a bin is off by at most half a bin's width: 0.4 %.
pub const STEPS: usize = 128;
const STEP_BITS: u32 = STEPS.ilog2();
/// Durations below [`STEPS`] have bins of 1 ns; then come the powers of two from [`STEPS`] to 2^63.
const OCTAVES: usize = 64 - STEP_BITS as usize + 1;

/// Counts of durations in nanoseconds. Memory for a power of two is allocated when the first duration falls into it.
#[derive(Clone, Debug)]
pub struct Histogram {
    octaves: [Option<Box<[u64; STEPS]>>; OCTAVES],
    /// One bit per octave with a nonzero count.
    used: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { octaves: [const { None }; OCTAVES], used: 0, max: 0 }
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Adds `count` durations of `ns`.
    #[inline]
    pub fn add(&mut self, ns: u64, count: u64) {
        let (octave, step) = place(ns);
        self.used |= 1 << octave;
        self.octaves[octave].get_or_insert_with(|| Box::new([0; STEPS]))[step] += count;
        self.max = self.max.max(ns);
    }

    /// The longest; 0 if empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The bins with a nonzero count, from the shortest duration to the longest.
    pub fn bins(&self) -> impl Iterator<Item = (Bin, u64)> {
        (0..OCTAVES).filter(|octave| self.used >> octave & 1 == 1).flat_map(|octave| {
            let counts = self.octaves[octave].iter().flat_map(|counts| counts.iter());
            counts
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(move |(step, count)| (Bin::at(octave, step), *count))
        })
    }

    /// Upper end of the bin below which a share `q` of all durations lies, or the longest if that is less; 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let total: u64 = self.bins().map(|(_, count)| count).sum();
        let rank = ((q * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |(_, count): &(Bin, u64)| {
            seen += count;
            seen >= rank
        };
        self.bins().find(reaches).map_or(0, |(bin, _)| bin.high_ns.min(self.max))
    }

    /// Removes all counts; keeps the memory.
    pub fn clear(&mut self) {
        for (octave, counts) in self.octaves.iter_mut().enumerate() {
            if self.used >> octave & 1 == 1 {
                counts.iter_mut().for_each(|counts| counts.fill(0));
            }
        }
        (self.used, self.max) = (0, 0);
    }
}

/// The durations of one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bin {
    /// The shortest of them.
    pub low_ns: u64,
    /// The longest of them.
    pub high_ns: u64,
}

impl Bin {
    /// The bin of a duration.
    pub fn of(ns: u64) -> Bin {
        let (octave, step) = place(ns);
        Bin::at(octave, step)
    }

    fn at(octave: usize, step: usize) -> Bin {
        let Some(shift) = octave.checked_sub(1) else { return Bin { low_ns: step as u64, high_ns: step as u64 } };
        let low_ns = ((STEPS + step) as u64) << shift;
        Bin { low_ns, high_ns: low_ns + ((1 << shift) - 1) }
    }
}

/// Octave and step within it.
#[inline]
fn place(ns: u64) -> (usize, usize) {
    // Durations below STEPS share one octave.
    let octave = (ns | (STEPS as u64 / 2)).ilog2() + 1 - STEP_BITS;
    let shift = octave.saturating_sub(1);
    (octave as usize, (ns >> shift) as usize & (STEPS - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]).chain([u64::MAX - 1, u64::MAX])
    }

    #[test]
    fn bins_follow_each_other_without_a_gap() {
        let mut next = 0;
        for octave in 0..OCTAVES {
            for step in 0..STEPS {
                let bin = Bin::at(octave, step);
                assert_eq!((bin.low_ns, Bin::of(bin.low_ns), Bin::of(bin.high_ns)), (next, bin, bin));
                next = bin.high_ns.wrapping_add(1);
            }
        }
        assert_eq!(next, 0, "the last bin ends at 2^64");
    }

    #[test]
    fn a_bin_is_narrow_beside_what_it_holds() {
        for ns in edges() {
            let bin = Bin::of(ns);
            assert!(bin.low_ns <= ns && ns <= bin.high_ns, "{ns}: {bin:?}");
            assert!(bin.high_ns - bin.low_ns <= bin.low_ns / STEPS as u64, "{ns}: {bin:?}");
        }
    }

    #[test]
    fn nothing_has_quantile_zero() {
        assert_eq!((Histogram::new().quantile(0.5), Histogram::new().max()), (0, 0));
        assert_eq!(Histogram::new().bins().count(), 0);
    }

    #[test]
    fn what_was_cleared_is_gone() {
        let mut histogram = Histogram::new();
        edges().for_each(|ns| histogram.add(ns, 3));
        histogram.clear();
        assert_eq!((histogram.bins().count(), histogram.max(), histogram.quantile(1.0)), (0, 0, 0));
        histogram.add(1_000_000, 2);
        assert_eq!(histogram.bins().collect::<Vec<_>>(), [(Bin::of(1_000_000), 2)]);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_bins(mut values in prop::collection::vec(0u64..1 << 40, 1..200), q in 0.0f64..=1.0) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&ns| histogram.add(ns, 1));
            for (bin, count) in histogram.bins() {
                prop_assert_eq!(values.iter().filter(|&&ns| Bin::of(ns) == bin).count() as u64, count);
            }
            prop_assert_eq!(histogram.bins().map(|(_, count)| count).sum::<u64>(), values.len() as u64);
            values.sort_unstable();
            let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
            let got = histogram.quantile(q);
            prop_assert!(got >= exact && got - exact <= exact / STEPS as u64, "{} for {}", got, exact);
        }
    }
}
