//! A histogram of durations with a relative error of 3 %, in constant memory.

/// Buckets of each power of two.
const STEPS: u32 = 32;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = (64 * STEPS) as usize;

/// Durations in nanoseconds.
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    max: u64,
}

impl Histogram {
    /// Nothing yet.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0, max: 0 }
    }

    /// `count` times `ns`.
    pub fn add(&mut self, ns: u64, count: u64) {
        self.counts[bucket(ns)] += count;
        self.total += count;
        self.max = self.max.max(ns);
    }

    /// The longest.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The least upper bound of a bucket under which a share `q` of all lies; 0 when there are none.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(index).min(self.max);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < u64::from(STEPS) {
        return ns as usize;
    }
    let power = ns.ilog2();
    let step = (ns >> (power - STEP_BITS)) - u64::from(STEPS);
    ((power - STEP_BITS + 1) * STEPS) as usize + step as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (row, step) = (bucket as u32 / STEPS, bucket as u64 % u64::from(STEPS));
    if row == 0 {
        return step;
    }
    let shift = row - 1;
    ((step + u64::from(STEPS) + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_three_percent() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|ns| histogram.add(ns, 1));
        for (q, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.001, 100.0)] {
            let got = histogram.quantile(q) as f64;
            assert!((got / exact - 1.0).abs() < 0.035, "{q}: {got}, expected {exact}");
        }
        assert_eq!((histogram.max(), histogram.quantile(1.0)), (100_000, 100_000));
    }

    #[test]
    fn every_duration_lies_in_its_bucket() {
        let edges = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for ns in edges.chain([u64::MAX]) {
            let index = bucket(ns);
            assert!(upper(index) >= ns, "{ns}");
            assert!(index == 0 || upper(index - 1) < ns, "{ns}");
        }
    }

    #[test]
    fn nothing_has_quantile_zero() {
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}
