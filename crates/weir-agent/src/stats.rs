//! Distributions of durations.

/// Buckets per power of two.
const STEPS: u32 = 32;

/// A histogram of nanoseconds, with buckets no wider than 1/32 of their value.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Distribution {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest value; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that a share of `quantile` of all values does not exceed; 0 if there is none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let wanted = (self.count as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(bucket).min(self.max);
            }
        }
        self.max
    }
}

fn bucket_of(value: u64) -> usize {
    if value < u64::from(STEPS) {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (shift * STEPS) as usize + (value >> shift) as usize
}

/// The greatest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let steps = STEPS as usize;
    if bucket < 2 * steps {
        return bucket as u64;
    }
    let shift = bucket / steps - 1;
    let step = (bucket - shift * steps) as u128;
    u64::try_from(((step + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_close_above_it() {
        for value in
            (0..200).chain((3..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1])).chain([u64::MAX])
        {
            let bound = upper_bound(bucket_of(value));
            assert!(bound >= value && bound - value <= value / 32, "{value} {bound}");
            assert!(bucket_of(value) == 0 || upper_bound(bucket_of(value) - 1) < value);
        }
    }

    #[test]
    fn quantiles_of_a_thousand_values() {
        let mut distribution = Distribution::default();
        (1..=1000).for_each(|value| distribution.add(value));
        assert_eq!((distribution.count(), distribution.max()), (1000, 1000));
        assert!((500..=516).contains(&distribution.quantile(0.5)), "{}", distribution.quantile(0.5));
        assert!((990..=1000).contains(&distribution.quantile(0.99)));
        assert_eq!(distribution.quantile(1.0), 1000);
        assert_eq!(Distribution::default().quantile(0.5), 0);
    }
}
