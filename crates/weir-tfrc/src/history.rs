//! The loss history of a receiver: losses, loss events and their intervals (RFC 5348, section 5).

use std::collections::{BTreeMap, VecDeque};

use weir_units::{Dur, Time};

/// Loss intervals that count: n (section 5.4).
pub const INTERVALS: usize = 8;
/// A packet is lost when so many with greater numbers have arrived (section 5.1).
const NDUPACK: usize = 3;

/// Which packets were lost, in which loss events, and how many packets lie between these.
#[derive(Clone, Debug, Default)]
pub struct LossHistory {
    /// The number expected next: all below have arrived, or are lost.
    next: u64,
    /// Numbers from `next` on that have arrived, and when.
    ahead: BTreeMap<u64, Time>,
    /// The last arrival below `next`, and when: losses are dated between it and the first one ahead.
    before: Option<(u64, Time)>,
    /// Number and time of the first loss of the last loss event.
    event: Option<(u64, Time)>,
    /// Closed loss intervals in packets, latest first.
    closed: VecDeque<f64>,
    greatest: u64,
}

impl LossHistory {
    /// Takes the arrival of a packet; returns whether a new loss event has begun. `rtt`: the sender's estimate.
    pub fn arrived(&mut self, now: Time, number: u64, rtt: Dur) -> bool {
        self.greatest = self.greatest.max(number);
        if number < self.next {
            // It was given up already, or arrived twice.
            return false;
        }
        self.ahead.insert(number, now);
        self.take_in_order();
        let mut begun = false;
        while self.ahead.len() >= NDUPACK {
            begun |= self.lose_first_gap(rtt);
            self.take_in_order();
        }
        begun
    }

    /// The loss event rate (section 5.4): the inverse of the mean loss interval.
    pub fn loss(&self) -> f64 {
        if self.closed.is_empty() {
            return 0.0;
        }
        let closed = weighted_mean(self.closed.iter().copied());
        let with_open =
            weighted_mean(std::iter::once(self.open()).chain(self.closed.iter().copied()).take(self.closed.len()));
        1.0 / closed.max(with_open).max(1.0)
    }

    /// Replaces the interval before the first loss event, which says nothing of the network: section 6.3.1.
    pub fn set_first_interval(&mut self, packets: f64) {
        self.closed.clear();
        self.closed.push_front(packets);
    }

    /// Whether exactly one loss event has begun so far.
    pub fn is_first_event(&self) -> bool {
        self.closed.len() == 1
    }

    /// Packets since the last loss event began.
    fn open(&self) -> f64 {
        self.event.map_or(0.0, |(number, _)| (self.greatest - number + 1) as f64)
    }

    fn take_in_order(&mut self) {
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() != self.next {
                return;
            }
            self.before = Some(entry.remove_entry());
            self.next += 1;
        }
    }

    /// Declares the packets lost that are missing before the first one ahead; returns whether a loss event has begun.
    fn lose_first_gap(&mut self, rtt: Dur) -> bool {
        let Some((&after, &after_at)) = self.ahead.first_key_value() else { return false };
        let lost = std::mem::replace(&mut self.next, after)..after;
        let mut begun = false;
        for number in lost {
            let at = self.dated(number, after, after_at);
            // Section 5.2: losses within a round-trip time of the first one belong to the same event.
            if self.event.is_none_or(|(_, event_at)| at > event_at + rtt) {
                self.begin_event(number, at);
                begun = true;
            }
        }
        begun
    }

    /// When a lost packet would have arrived, between the arrivals around it (section 5.2).
    fn dated(&self, number: u64, after: u64, after_at: Time) -> Time {
        let Some((before, before_at)) = self.before else { return after_at };
        let share = u128::from(number - before) * u128::from(after_at.since(before_at).0) / u128::from(after - before);
        before_at + Dur(share as u64)
    }

    fn begin_event(&mut self, number: u64, at: Time) {
        let first = self.event.map_or(0, |(first, _)| first);
        self.closed.push_front((number - first) as f64);
        self.closed.truncate(INTERVALS);
        self.event = Some((number, at));
    }
}

/// The mean of the latest intervals: the newer half with weight 1, then less and less (section 5.4).
fn weighted_mean(intervals: impl Iterator<Item = f64>) -> f64 {
    const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
    let (mut sum, mut weights) = (0.0, 0.0);
    for (interval, weight) in intervals.zip(WEIGHTS) {
        sum += interval * weight;
        weights += weight;
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur(100_000_000);

    fn at_ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Packets 0 to `end` in order, one a millisecond, without those `lost`; the number at whose arrival each event began.
    fn pass(history: &mut LossHistory, end: u64, lost: &[u64]) -> Vec<u64> {
        (0..end).filter(|n| !lost.contains(n)).filter(|&n| history.arrived(at_ms(n), n, RTT)).collect()
    }

    #[test]
    fn a_loss_is_known_at_the_third_later_packet() {
        let mut history = LossHistory::default();
        assert_eq!(pass(&mut history, 20, &[10]), [13]);
    }

    #[test]
    fn a_packet_that_is_late_by_two_is_not_lost() {
        let mut history = LossHistory::default();
        for number in [0, 1, 3, 4, 2, 5, 6, 7] {
            assert!(!history.arrived(at_ms(number), number, RTT));
        }
        assert_eq!(history.loss(), 0.0);
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let mut history = LossHistory::default();
        // 10 begins an event at 10 ms; 110 is dated at 110 ms, not later than it by more than 100 ms; 111 is.
        assert_eq!(pass(&mut history, 130, &[10, 40, 110, 111]), [13, 114]);
        assert_eq!(history.event, Some((111, at_ms(111))));
        assert_eq!(history.closed, [101.0, 10.0]);
    }

    /// Intervals of 100, then 200, ... 1000 packets, latest last: the eight latest are 1000 down to 300.
    #[test]
    fn the_mean_has_eight_intervals_with_their_weights() {
        let mut history = LossHistory::default();
        let mut lost = vec![];
        let mut number = 0;
        for interval in 1..=10 {
            number += interval * 100;
            lost.push(number);
        }
        pass(&mut history, number + 4, &lost);
        let sum = 1000.0 + 900.0 + 800.0 + 700.0 + 0.8 * 600.0 + 0.6 * 500.0 + 0.4 * 400.0 + 0.2 * 300.0;
        assert!((history.loss() - 6.0 / sum).abs() < 1e-12, "{}", 1.0 / history.loss());
    }

    /// The open interval counts once it raises the mean: the rate falls only at losses.
    #[test]
    fn the_open_interval_counts_when_it_lowers_the_loss_rate() {
        let mut history = LossHistory::default();
        pass(&mut history, 304, &[150, 300]);
        // 150 and 150 closed; open: 300 to 303.
        assert!((history.loss() - 1.0 / 150.0).abs() < 1e-12);
        for number in 304..900 {
            history.arrived(at_ms(number), number, RTT);
        }
        // 600 open, 150 and 150 closed, of which the newer two count.
        assert!((history.loss() - 1.0 / 375.0).abs() < 1e-12, "{}", 1.0 / history.loss());
    }
}
