//! Estimates from intervals between packets, with a median filter (section 6.2).

/// Intervals that an estimate has.
pub(crate) const INTERVALS: usize = 16;

/// The latest intervals, nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    values: [u64; INTERVALS],
    count: usize,
}

impl Intervals {
    pub fn add(&mut self, interval_ns: u64) {
        self.values[self.count % INTERVALS] = interval_ns;
        self.count += 1;
    }

    fn median(&self) -> Option<u64> {
        if self.count < INTERVALS {
            return None;
        }
        let mut sorted = self.values;
        sorted.sort_unstable();
        Some(sorted[INTERVALS / 2])
    }

    /// Packets a second, by the mean of the intervals within a factor of eight of the median; 0 if half of them or fewer are.
    pub fn filtered_rate(&self) -> f64 {
        let Some(median) = self.median() else { return 0.0 };
        let near = self.values.iter().filter(|it| **it < 8 * median && 8 * **it > median);
        let (count, sum) = near.fold((0u64, 0u64), |(count, sum), it| (count + 1, sum + it));
        if count > INTERVALS as u64 / 2 && sum > 0 { 1e9 * count as f64 / sum as f64 } else { 0.0 }
    }

    /// Packets a second, by the median of the intervals.
    pub fn median_rate(&self) -> f64 {
        self.median().filter(|it| *it > 0).map_or(0.0, |it| 1e9 / it as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(values: impl IntoIterator<Item = u64>) -> Intervals {
        let mut it = Intervals::default();
        values.into_iter().for_each(|value| it.add(value));
        it
    }

    #[test]
    fn an_estimate_needs_sixteen_intervals() {
        assert_eq!(filled([1000; 15]).filtered_rate(), 0.0);
        assert_eq!(filled([1000; 16]).filtered_rate(), 1e6);
        assert_eq!(filled([1000; 16]).median_rate(), 1e6);
    }

    #[test]
    fn intervals_far_from_the_median_do_not_count() {
        let mostly = (0..16).map(|i| if i % 4 == 0 { 10_000_000 } else { 1000 });
        assert_eq!(filled(mostly).filtered_rate(), 1e6);
        let scattered = (0..16).map(|i| 10u64.pow(i % 8));
        assert_eq!(filled(scattered).filtered_rate(), 0.0);
    }
}
