//! The clock of a constant-bit-rate source.

use weir_plan::Cbr;
use weir_units::Time;

const NS_PER_S: u128 = 1_000_000_000;

/// Times of the datagrams of a constant-bit-rate source: each `bits / rate` after the previous one, without drift,
/// restarting with each ON period.
#[derive(Clone, Debug)]
pub struct CbrClock {
    bits: u128,
    rate: u128,
    periods: Vec<u64>,
    period: usize,
    /// Bounds of the present ON period.
    on_from: Time,
    on_to: Time,
    sent: u128,
    stop: Time,
}

impl CbrClock {
    /// A clock for IP packets of `ip_bytes` from `start`; nothing is due at or after `stop_ns`.
    pub fn new(cbr: &Cbr, ip_bytes: u32, start: Time, stop_ns: Option<u64>) -> CbrClock {
        let on_to = cbr.periods_ns.first().map_or(Time::MAX, |on| Time(start.0.saturating_add(*on)));
        CbrClock {
            bits: u128::from(ip_bytes) * 8,
            rate: u128::from(cbr.rate_bps),
            periods: cbr.periods_ns.clone(),
            period: 0,
            on_from: start,
            on_to,
            sent: 0,
            stop: stop_ns.map_or(Time::MAX, Time),
        }
    }

    /// Time of the next datagram; none if there is no more.
    pub fn due(&mut self) -> Option<Time> {
        loop {
            let offset = (self.sent * self.bits * NS_PER_S / self.rate) as u64;
            let at = Time(self.on_from.0.saturating_add(offset));
            if at < self.on_to {
                return Some(at).filter(|at| *at < self.stop);
            }
            self.next_period()?;
        }
    }

    /// The due datagram has been sent.
    pub fn sent(&mut self) {
        self.sent += 1;
    }

    fn next_period(&mut self) -> Option<()> {
        let off = *self.periods.get(self.period + 1)?;
        let on = *self.periods.get(self.period + 2)?;
        self.period += 2;
        self.on_from = Time(self.on_to.0.saturating_add(off));
        self.on_to = Time(self.on_from.0.saturating_add(on));
        self.sent = 0;
        (self.on_from < self.stop).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(cbr: &Cbr, ip_bytes: u32, stop_ns: Option<u64>, n: usize) -> Vec<u64> {
        let mut clock = CbrClock::new(cbr, ip_bytes, Time(1000), stop_ns);
        let mut times = Vec::new();
        while times.len() < n {
            let Some(at) = clock.due() else { break };
            times.push(at.0);
            clock.sent();
        }
        times
    }

    #[test]
    fn spacing_is_exact_over_a_million_datagrams() {
        // 1500 B at 7 Mb/s: 12000/7 microseconds each, which is not a whole number of nanoseconds.
        let cbr = Cbr { rate_bps: 7_000_000, periods_ns: vec![] };
        let last = *times(&cbr, 1500, None, 1_000_001).last().unwrap();
        assert_eq!(last, 1000 + 1_000_000 * 12_000_000 / 7);
    }

    #[test]
    fn on_and_off_periods_alternate() {
        let cbr = Cbr { rate_bps: 8_000_000_000, periods_ns: vec![3, 10, 2] };
        // A byte per nanosecond: three datagrams of one byte, ten nanoseconds of silence, two more.
        assert_eq!(times(&cbr, 1, None, 100), vec![1000, 1001, 1002, 1013, 1014]);
    }

    #[test]
    fn stop_ends_it() {
        let cbr = Cbr { rate_bps: 8_000_000_000, periods_ns: vec![] };
        assert_eq!(times(&cbr, 1, Some(1003), 100), vec![1000, 1001, 1002]);
    }
}
