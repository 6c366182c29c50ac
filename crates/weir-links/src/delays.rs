//! One-way delay and jitter of each flow, in intervals of `measure.delay`.
//!
//! The one-way delay of a packet is the time from its arrival at the queue of its first link to the arrival of its last
//! bit at the other host (RFC 7679; the host's own queue is part of the path). Jitter is the absolute difference from
//! the delay of the flow's previous arrival: the variation between consecutive packets of RFC 3393 and RFC 3550, in the
//! order of arrival. A lost packet has neither; a retransmission is a packet of its own.

use weir_run::{DelayBinRow, DelayBins, DelayRow, Delays};
use weir_units::{Bin, Histogram, Time};

/// The delays of all flows.
#[derive(Debug)]
pub struct DelayStats {
    interval_ns: u64,
    interval_end: u64,
    flows: Vec<Option<Box<FlowDelays>>>,
    /// The flows with a packet in the interval.
    heard: Vec<u32>,
    rows: Delays,
    bins: DelayBins,
}

/// The arrivals of one flow in the interval.
#[derive(Debug, Default)]
struct FlowDelays {
    delays: Population,
    jitters: Population,
    /// Delay of the previous arrival, perhaps from an earlier interval.
    last_ns: Option<u64>,
}

#[derive(Debug, Default)]
struct Population {
    count: u64,
    sum: u64,
    min: u64,
    histogram: Histogram,
}

impl DelayStats {
    /// Delays of `flows` flows, in intervals of `interval_ns`.
    ///
    /// # Panics
    /// When `interval_ns` is 0.
    pub fn new(flows: usize, interval_ns: u64) -> DelayStats {
        assert!(interval_ns > 0, "an interval of no time");
        DelayStats {
            interval_ns,
            interval_end: interval_ns,
            flows: (0..flows).map(|_| None).collect(),
            heard: Vec::new(),
            rows: Delays::default(),
            bins: DelayBins::default(),
        }
    }

    /// Adds a packet of `flow`, sent at `sent` and received at `now`; `now` never decreases from call to call.
    pub fn arrived(&mut self, flow: u32, sent: Time, now: Time) {
        self.roll(now);
        let delay_ns = now.since(sent).0;
        let seen = self.flows[flow as usize].get_or_insert_default();
        if seen.delays.count == 0 {
            self.heard.push(flow);
        }
        seen.delays.add(delay_ns);
        if let Some(last_ns) = seen.last_ns.replace(delay_ns) {
            seen.jitters.add(delay_ns.abs_diff(last_ns));
        }
    }

    /// Removes and returns the rows of the intervals that end by `until`; a flow has no row for an interval without
    /// packets.
    pub fn take(&mut self, until: Time) -> (Delays, DelayBins) {
        self.roll(until);
        (std::mem::take(&mut self.rows), std::mem::take(&mut self.bins))
    }

    /// Closes the interval if it ends by `at`.
    #[inline]
    fn roll(&mut self, at: Time) {
        if at.0 >= self.interval_end {
            self.close();
            self.interval_end = (at.0 / self.interval_ns + 1) * self.interval_ns;
        }
    }

    #[cold]
    fn close(&mut self) {
        self.heard.sort_unstable();
        for flow in self.heard.drain(..) {
            let Some(seen) = &mut self.flows[flow as usize] else { continue };
            let (time_ns, bins) = (self.interval_end, &mut self.bins);
            self.rows.push(seen.row(time_ns, flow));
            merge(&seen.delays.histogram, &seen.jitters.histogram, |bin, delay_packets, jitter_packets| {
                let Bin { low_ns, high_ns } = bin;
                bins.push(DelayBinRow { time_ns, flow, low_ns, high_ns, delay_packets, jitter_packets });
            });
            seen.delays.clear();
            seen.jitters.clear();
        }
    }
}

impl FlowDelays {
    fn row(&self, time_ns: u64, flow: u32) -> DelayRow {
        let (delays, jitters) = (&self.delays, &self.jitters);
        let or_null = |value: u64| if jitters.count > 0 { value } else { u64::MAX };
        DelayRow {
            time_ns,
            flow,
            packets: delays.count,
            delay_ns: delays.mean(),
            delay_min_ns: delays.min,
            delay_max_ns: delays.histogram.max(),
            jitter_packets: jitters.count,
            jitter_ns: or_null(jitters.mean()),
            jitter_max_ns: or_null(jitters.histogram.max()),
        }
    }
}

impl Population {
    #[inline]
    fn add(&mut self, ns: u64) {
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.count += 1;
        self.sum += ns;
        self.histogram.add(ns, 1);
    }

    /// The mean, rounded down; 0 without values.
    fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    fn clear(&mut self) {
        (self.count, self.sum, self.min) = (0, 0, 0);
        self.histogram.clear();
    }
}

/// Calls `each` with the bins of both in order, and the two counts of each bin.
fn merge(a: &Histogram, b: &Histogram, mut each: impl FnMut(Bin, u64, u64)) {
    let (mut a, mut b) = (a.bins().peekable(), b.bins().peekable());
    while let Some(bin) = a.peek().into_iter().chain(b.peek()).map(|(bin, _)| *bin).min() {
        let count = |found: Option<(Bin, u64)>| found.map_or(0, |(_, count)| count);
        each(bin, count(a.next_if(|next| next.0 == bin)), count(b.next_if(|next| next.0 == bin)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Tables of packets of flow 1 that arrive at these instants with these delays, in intervals of 100 ms, taken at
    /// `steps`.
    fn tables(packets: &[(u64, u64)], steps: &[u64]) -> (Delays, DelayBins) {
        let mut stats = DelayStats::new(3, 100 * MS);
        let mut taken = Vec::new();
        let mut steps = steps.iter().peekable();
        for &(at, delay) in packets {
            while let Some(step) = steps.next_if(|step| **step <= at) {
                taken.push(stats.take(Time(*step)));
            }
            stats.arrived(1, Time(at - delay), Time(at));
        }
        taken.push(stats.take(Time(1_000 * MS)));
        let mut all = (Delays::default(), DelayBins::default());
        for (rows, bins) in taken {
            all.0.extend(rows);
            all.1.extend(bins);
        }
        all
    }

    #[test]
    fn an_interval_has_the_mean_the_extremes_and_the_changes() {
        let (delays, bins) = tables(&[(10 * MS, 100), (20 * MS, 250), (30 * MS, 70), (99 * MS, 70)], &[]);
        assert_eq!(delays.rows(), 1);
        assert_eq!((delays.time_ns[0], delays.flow[0], delays.packets[0]), (100 * MS, 1, 4));
        assert_eq!((delays.delay_ns[0], delays.delay_min_ns[0], delays.delay_max_ns[0]), (122, 70, 250));
        // 150, 180, 0
        assert_eq!((delays.jitter_packets[0], delays.jitter_ns[0], delays.jitter_max_ns[0]), (3, 110, 180));
        assert_eq!(bins.low_ns, [0, 70, 100, 150, 180, 250]);
        assert_eq!(bins.delay_packets, [0, 2, 1, 0, 0, 1]);
        assert_eq!(bins.jitter_packets, [1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn the_first_packet_has_no_jitter_and_the_first_of_an_interval_has_that_to_the_one_before() {
        let (found, _) = tables(&[(10 * MS, 5 * MS), (150 * MS, 8 * MS)], &[]);
        assert_eq!(found.jitter_packets, [0, 1]);
        assert_eq!((found.jitter_ns[0], found.jitter_max_ns[0]), (u64::MAX, u64::MAX));
        assert_eq!(found.jitter_ns[1], 3 * MS);
    }

    #[test]
    fn a_packet_at_the_end_of_an_interval_is_in_the_next() {
        let (found, _) = tables(&[(100 * MS - 1, 1), (100 * MS, 1), (500 * MS, 1)], &[]);
        assert_eq!(found.time_ns, [100 * MS, 200 * MS, 600 * MS]);
    }

    #[test]
    fn rows_do_not_depend_on_when_they_are_taken() {
        let packets: Vec<(u64, u64)> = (1..90).map(|i| (i * 11 * MS, i * 997 % 4_096)).collect();
        let steps: Vec<u64> = (0..500).map(|i| i * 2 * MS).collect();
        assert_eq!(tables(&packets, &[]), tables(&packets, &steps));
    }

    #[test]
    fn flows_of_an_interval_are_in_their_order() {
        let mut stats = DelayStats::new(3, 100 * MS);
        [2, 0, 1, 2].iter().for_each(|&flow| stats.arrived(flow, Time(MS), Time(3 * MS)));
        let (rows, bins) = stats.take(Time(100 * MS));
        assert_eq!((rows.flow, bins.flow), (vec![0, 1, 2], vec![0, 1, 2, 2]));
    }
}
