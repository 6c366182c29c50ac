//! UDT's own congestion control: additive increase by the estimated bandwidth, decrease by a ninth (section 7).
//!
//! Two details are those of the paper, because the draft leaves them open: slow start lasts until the first loss or until the
//! window is the receiver's, and after a decrease the rate grows by at most a ninth of the capacity at a time.

use weir_units::{Dur, Time};

use crate::{Report, SYN};

/// The window of a new connection, packets.
const FIRST_WINDOW: f64 = 16.0;
/// The interval of slow start, nanoseconds: as good as none.
const FIRST_PERIOD_NS: f64 = 1000.0;
/// The weight of the increase.
const BETA: f64 = 0.000_001_5;
/// What a decrease multiplies the interval by; the rate becomes 8/9.
const DECREASE: f64 = 1.125;
/// Decreases in a congestion period.
const MOST_DECREASES: u32 = 5;

/// The state of the control.
#[derive(Debug)]
pub struct Native {
    packet_bytes: f64,
    slow_start: bool,
    period_ns: f64,
    window: f64,
    /// Smoothed: packets that arrive in a second, and that the path passes in one.
    arrival_rate: f64,
    capacity: f64,
    rtt: Dur,
    /// A loss was reported since the last increase.
    lossy: bool,
    last_increase: Time,
    /// At the last decrease: the interval before it, and the first packet that was not sent.
    decreased_from_ns: f64,
    decreased_at: u64,
    reports: u32,
    mean_reports: u32,
    random: u32,
    decreases: u32,
    draws: u64,
}

impl Native {
    /// The control of a new connection whose IP packets have `packet_bytes`; `seed` of its random decreases.
    pub fn new(packet_bytes: u32, seed: u64) -> Native {
        Native {
            packet_bytes: f64::from(packet_bytes),
            slow_start: true,
            period_ns: FIRST_PERIOD_NS,
            window: FIRST_WINDOW,
            arrival_rate: 0.0,
            capacity: 0.0,
            rtt: Dur::ZERO,
            lossy: false,
            last_increase: Time::ZERO,
            decreased_from_ns: FIRST_PERIOD_NS,
            decreased_at: 0,
            reports: 1,
            mean_reports: 1,
            random: 1,
            decreases: 1,
            draws: seed | 1,
        }
    }

    /// Time between two packets, nanoseconds.
    pub fn period_ns(&self) -> f64 {
        self.period_ns
    }

    /// Packets that may be in flight.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// A full acknowledgement of `acked` more packets.
    pub fn on_ack(&mut self, now: Time, acked: u64, report: &Report) {
        self.rtt = report.rtt.0;
        self.arrival_rate = smoothed(self.arrival_rate, report.arrival_rate);
        self.capacity = smoothed(self.capacity, report.capacity);
        if self.slow_start {
            self.window += acked as f64;
            if self.window > report.room as f64 {
                self.window = report.room as f64;
                self.end_slow_start();
            }
            return;
        }
        self.window = self.arrival_rate * self.round_ns() / 1e9 + FIRST_WINDOW;
        if now.since(self.last_increase) < SYN {
            return;
        }
        self.last_increase = now;
        if !std::mem::take(&mut self.lossy) {
            self.increase();
        }
    }

    fn increase(&mut self) {
        let mut free = self.capacity - 1e9 / self.period_ns;
        if self.period_ns > self.decreased_from_ns {
            free = free.min(self.capacity / 9.0);
        }
        let least = 1.0 / self.packet_bytes;
        let more = if free <= 0.0 {
            least
        } else {
            (power_of_ten_above(free * self.packet_bytes * 8.0) * BETA / self.packet_bytes).max(least)
        };
        let syn = SYN.0 as f64;
        self.period_ns = self.period_ns * syn / (self.period_ns * more + syn);
    }

    /// A report of losses: `first` is the first lost packet, `next` the first that was not sent.
    pub fn on_nak(&mut self, first: u64, next: u64) {
        self.lossy = true;
        if self.slow_start {
            self.end_slow_start();
            return;
        }
        if first >= self.decreased_at {
            self.mean_reports = (0.875 * f64::from(self.mean_reports) + 0.125 * f64::from(self.reports)).ceil() as u32;
            (self.reports, self.decreases) = (1, 1);
            self.random = 1 + (self.draw() % u64::from(self.mean_reports.max(1))) as u32;
            self.decreased_from_ns = self.period_ns;
            self.decrease(next);
            return;
        }
        if self.decreases <= MOST_DECREASES && self.reports == self.decreases * self.random {
            self.decreases += 1;
            self.decrease(next);
        }
        self.reports += 1;
    }

    fn decrease(&mut self, next: u64) {
        self.period_ns *= DECREASE;
        self.decreased_at = next;
    }

    /// Nothing came back for long.
    pub fn on_timeout(&mut self) {
        if self.slow_start {
            self.end_slow_start();
        }
    }

    fn end_slow_start(&mut self) {
        self.slow_start = false;
        self.period_ns =
            if self.arrival_rate > 0.0 { 1e9 / self.arrival_rate } else { self.round_ns() / self.window.max(1.0) };
        self.decreased_from_ns = self.period_ns;
    }

    fn round_ns(&self) -> f64 {
        (self.rtt.0 + SYN.0) as f64
    }

    /// xorshift64 (Marsaglia, Journal of Statistical Software 8(14), 2003).
    fn draw(&mut self) -> u64 {
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        self.draws >> 16
    }

    /// What tables show: smoothed arrival rate and capacity, packets a second.
    pub fn estimates(&self) -> (f64, f64) {
        (self.arrival_rate, self.capacity)
    }
}

/// The mean of the draft, with a weight of 1/8 for the latest value; an unknown value changes nothing.
fn smoothed(mean: f64, value: f64) -> f64 {
    match (mean > 0.0, value > 0.0) {
        (_, false) => mean,
        (false, true) => value,
        (true, true) => (7.0 * mean + value) / 8.0,
    }
}

/// The least power of ten that is not below `value`.
fn power_of_ten_above(value: f64) -> f64 {
    let mut power = 1.0;
    while power < value {
        power *= 10.0;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(capacity: f64) -> Report {
        Report { number: 0, rtt: (Dur(10_000_000), Dur(0)), room: 10_000, arrival_rate: 10_000.0, capacity }
    }

    /// A control after slow start at 10 000 packets a second.
    fn steady() -> Native {
        let mut it = Native::new(1500, 1);
        it.on_ack(Time(10_000_000), 16, &report(100_000.0));
        it.on_nak(10, 100);
        assert_eq!(it.period_ns(), 100_000.0, "the arrival rate");
        it
    }

    #[test]
    fn slow_start_adds_what_is_acknowledged() {
        let mut it = Native::new(1500, 1);
        it.on_ack(Time(10_000_000), 16, &report(0.0));
        it.on_ack(Time(20_000_000), 32, &report(0.0));
        assert_eq!(it.window(), 64);
        assert_eq!(it.period_ns(), FIRST_PERIOD_NS);
        it.on_ack(Time(30_000_000), 20_000, &report(0.0));
        assert_eq!((it.window(), it.period_ns()), (10_000, 100_000.0), "the receiver's window, and its rate");
    }

    #[test]
    fn a_loss_takes_a_ninth_of_the_rate_once_in_a_period() {
        let mut it = steady();
        it.on_nak(150, 200);
        assert_eq!(it.period_ns(), 112_500.0);
        // Packets that were sent before the decrease; with one report a period on average, each may decrease again, five times.
        for _ in 0..20 {
            it.on_nak(199, 300);
        }
        assert!((it.period_ns() - 100_000.0 * 1.125f64.powi(6)).abs() < 1e-6, "{}", it.period_ns());
        it.on_nak(300, 400);
        assert!((it.period_ns() - 100_000.0 * 1.125f64.powi(7)).abs() < 1e-6, "{}", it.period_ns());
    }

    #[test]
    fn the_increase_is_that_of_the_draft() {
        // Section 7: 90 000 packets of 1500 bytes a second are free, 1.08 Gb/s, so 10^10 * 1.5e-6 / 1500 packets a SYN.
        let mut it = steady();
        it.on_ack(Time(30_000_000), 10, &report(100_000.0));
        assert_eq!(it.period_ns(), 100_000.0, "not after a loss");
        it.on_ack(Time(40_000_000), 10, &report(100_000.0));
        let expected = 100_000.0 * 1e7 / (100_000.0 * 10.0 + 1e7);
        assert!((it.period_ns() - expected).abs() < 1e-6, "{} for {expected}", it.period_ns());
        assert_eq!(it.window(), 200 + 16, "arrivals of a round-trip time and a SYN");
    }

    #[test]
    fn without_free_bandwidth_a_packet_of_payload_is_gained_in_many_intervals() {
        let mut it = steady();
        it.on_ack(Time(30_000_000), 10, &report(100.0));
        it.capacity = 100.0;
        it.on_ack(Time(40_000_000), 10, &report(100.0));
        let expected = 100_000.0 * 1e7 / (100_000.0 / 1500.0 + 1e7);
        assert!((it.period_ns() - expected).abs() < 1e-6);
    }
}
