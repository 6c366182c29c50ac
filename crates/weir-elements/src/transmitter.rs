//! The transmitter of a link: sends packets one after the other, with exact times.
//!
//! A packet of `b` bytes takes `8e9 b / rate` nanoseconds, seldom a whole number. The fraction carries over to the next
//! packet of a busy period as a numerator over the rate, so that the n-th departure is the exact rational rounded up.
//!
//! Train: [`Transmitter::transmit`] with the bytes of the whole train gives the departure of its last packet; the same
//! instant as one call for each.

use weir_units::{Rate, Time};

use crate::declare::{ElementInfo, Form, Kind, Place, key};

pub(crate) const INFO: ElementInfo = ElementInfo::new(
    "transmitter",
    Place::Transmitter,
    "Puts packets on the wire one after the other",
    "",
    &[Form {
        name: "transmitter",
        title: "The transmitter of a link.",
        keys: &[
            key("rate", "rate_bps", Kind::Rate, "Rate of the transmitter."),
            key("overhead", "overhead_bytes", Kind::Bytes, "Bytes added to each IP packet on the wire.").or("38B"),
        ],
    }],
);

const BIT_NS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// Transmission time of a size: `ns + numerator / rate` nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Cached {
    bytes: u32,
    ns: u64,
    numerator: u64,
}

/// An impossible size: marks an empty place of the cache.
const NO_SIZE: Cached = Cached { bytes: u32::MAX, ns: 0, numerator: 0 };

/// An analytic transmitter: its state is the end of its busy period.
#[derive(Clone, Debug)]
pub struct Transmitter {
    rate: u64,
    /// Busy until `busy_until - short / rate` nanoseconds: the end of the busy period is rounded up.
    busy_until: Time,
    short: u64,
    /// The two sizes of most traffic, full packets and acknowledgements, cost no division. The latest is first.
    cache: [Cached; 2],
}

/// The state of a transmitter that sends packets of one size, apart from it: a loop over them keeps it in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneSize {
    rate: u64,
    busy_until: u64,
    short: u64,
    ns: u64,
    numerator: u64,
}

impl OneSize {
    /// As [`Transmitter::busy_until`].
    #[inline(always)]
    pub fn busy_until(&self) -> Time {
        Time(self.busy_until)
    }

    /// As [`Transmitter::transmit`]; without a branch on the fraction, which no branch predictor foresees.
    #[inline(always)]
    pub fn transmit(&mut self, now: Time) -> Time {
        let short = if now.0 > self.busy_until { 0 } else { self.short };
        let (left, borrow) = short.overflowing_sub(self.numerator);
        self.busy_until = now.0.max(self.busy_until) + self.ns + u64::from(borrow);
        self.short = if borrow { left.wrapping_add(self.rate) } else { left };
        Time(self.busy_until)
    }
}

impl Transmitter {
    /// An idle transmitter at the start of the run.
    pub fn new(rate: Rate) -> Transmitter {
        Transmitter { rate: rate.0, busy_until: Time::ZERO, short: 0, cache: [NO_SIZE; 2] }
    }

    /// The rate; zero while it is stopped.
    pub fn rate(&self) -> Rate {
        Rate(self.rate)
    }

    /// Whether its rate is zero: no transmission until the next [`set_rate`](Transmitter::set_rate).
    pub fn is_stopped(&self) -> bool {
        self.rate == 0
    }

    /// The departure of the last packet: the start of idle time.
    #[inline]
    pub fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Whether a packet that arrives at `now` begins at once.
    #[inline]
    pub fn is_idle(&self, now: Time) -> bool {
        self.busy_until() <= now
    }

    /// Transmits `wire_bytes` from `now`, or from the end of the busy period; returns the departure of the last bit.
    ///
    /// A packet offered in the nanosecond of the last departure continues the busy period, so that a queue drained by
    /// events at whole nanoseconds loses no time.
    ///
    /// # Panics
    /// A stopped transmitter.
    #[inline(always)]
    pub fn transmit(&mut self, now: Time, wire_bytes: u32) -> Time {
        if now > self.busy_until {
            self.busy_until = now;
            self.short = 0;
        }
        let (ns, numerator) = self.duration(wire_bytes);
        if numerator > self.short {
            self.busy_until.0 += ns + 1;
            self.short += self.rate - numerator;
        } else {
            self.busy_until.0 += ns;
            self.short -= numerator;
        }
        self.busy_until
    }

    /// The state for packets of one size; [`resume`](Transmitter::resume) puts it back.
    #[inline]
    pub(crate) fn of_size(&mut self, wire_bytes: u32) -> OneSize {
        let (ns, numerator) = self.duration(wire_bytes);
        OneSize { rate: self.rate, busy_until: self.busy_until.0, short: self.short, ns, numerator }
    }

    /// Continues after the packets of one size.
    #[inline]
    pub(crate) fn resume(&mut self, after: OneSize) {
        (self.busy_until, self.short) = (after.busy_until(), after.short);
    }

    /// Changes the rate, from the next packet on; the one in transmission keeps its departure. Zero stops it.
    pub fn set_rate(&mut self, rate: Rate) {
        if self.short != 0 {
            // The fraction is converted to the new denominator, rounded up; at rate zero, to a whole nanosecond.
            let numerator = u128::from(self.rate - self.short);
            let scaled = (numerator * u128::from(rate.0)).div_ceil(u128::from(self.rate)) as u64;
            self.short = rate.0.saturating_sub(scaled);
        }
        self.rate = rate.0;
        self.cache = [NO_SIZE; 2];
    }

    #[inline]
    fn duration(&mut self, bytes: u32) -> (u64, u64) {
        if self.cache[0].bytes == bytes {
            return (self.cache[0].ns, self.cache[0].numerator);
        }
        if self.cache[1].bytes == bytes {
            return (self.cache[1].ns, self.cache[1].numerator);
        }
        self.divide(bytes)
    }

    #[cold]
    fn divide(&mut self, bytes: u32) -> (u64, u64) {
        assert!(self.rate != 0, "a stopped transmitter cannot transmit");
        // 2^31 bytes, a second of 17 Gb/s, still fit 64 bits.
        assert!(bytes <= 1 << 31, "{bytes} bytes are no packet");
        let bit_ns = u64::from(bytes) * BIT_NS_PER_BYTE;
        let entry = Cached { bytes, ns: bit_ns / self.rate, numerator: bit_ns % self.rate };
        self.cache = [entry, self.cache[0]];
        (entry.ns, entry.numerator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The end of `bytes` sent from instant 0, by the definition.
    fn exact(bytes: u64, rate: u64) -> u64 {
        (u128::from(bytes) * u128::from(BIT_NS_PER_BYTE)).div_ceil(u128::from(rate)) as u64
    }

    #[test]
    fn a_million_departures_at_odd_rates_are_the_exact_rational_rounded_up() {
        for rate in [9_999_999_937, 1_000_000_007, 999_983, 3, 1_000_000_000, 400_000_000_009, u64::MAX / 2] {
            let mut transmitter = Transmitter::new(Rate(rate));
            let mut sent = 0u64;
            for k in 0..1_000_000u64 {
                // Three sizes: more than the cache holds.
                let bytes = [1538, 90, 1538, 590][(k % 4) as usize];
                sent += u64::from(bytes);
                if exact(sent, rate) > u64::MAX / 4 {
                    break;
                }
                assert_eq!(transmitter.transmit(Time(0), bytes).0, exact(sent, rate), "packet {k} at {rate} bit/s");
            }
        }
    }

    #[test]
    fn a_queue_drained_by_events_at_whole_nanoseconds_loses_no_time() {
        let rate = Rate(9_999_999_937);
        let (mut analytic, mut evented) = (Transmitter::new(rate), Transmitter::new(rate));
        let mut now = Time(0);
        for _ in 0..100_000 {
            now = evented.transmit(now, 1538);
            assert_eq!(analytic.transmit(Time(0), 1538), now);
        }
    }

    #[test]
    fn an_idle_transmitter_begins_at_the_arrival() {
        let mut transmitter = Transmitter::new(Rate::from_gbps(1));
        assert_eq!(transmitter.transmit(Time(0), 1500), Time(12_000));
        assert!(!transmitter.is_idle(Time(11_999)));
        assert!(transmitter.is_idle(Time(12_000)));
        assert_eq!(transmitter.transmit(Time(1_000_000), 125), Time(1_001_000));
    }

    #[test]
    fn a_new_rate_serves_the_next_packet_and_keeps_the_fraction() {
        let mut transmitter = Transmitter::new(Rate(3));
        // 8/3 s = 2666666666.67 ns, then 8/6 s: together 4 s.
        assert_eq!(transmitter.transmit(Time(0), 1), Time(2_666_666_667));
        transmitter.set_rate(Rate(6));
        assert_eq!(transmitter.transmit(Time(0), 1), Time(4_000_000_000));
    }

    #[test]
    fn a_stop_ends_the_packet_in_transmission_and_holds_the_next() {
        let mut transmitter = Transmitter::new(Rate(3));
        transmitter.transmit(Time(0), 1);
        transmitter.set_rate(Rate(0));
        assert!(transmitter.is_stopped());
        assert_eq!(transmitter.busy_until(), Time(2_666_666_667));
        transmitter.set_rate(Rate(8));
        assert_eq!(transmitter.transmit(Time(5_000_000_000), 1), Time(6_000_000_000));
    }

    #[test]
    #[should_panic(expected = "a stopped transmitter cannot transmit")]
    fn transmitting_while_stopped_is_a_bug_of_the_driver() {
        Transmitter::new(Rate(0)).transmit(Time(0), 1500);
    }

    proptest! {
        /// The state apart from the transmitter makes the same departures, and leaves it as they would.
        #[test]
        fn packets_of_one_size_depart_as_single_ones(
            rate in 1_000u64..400_000_000_000,
            runs in prop::collection::vec((1u32..9_038, prop::collection::vec(0u64..30_000, 0..20)), 1..10),
        ) {
            let (mut single, mut run) = (Transmitter::new(Rate(rate)), Transmitter::new(Rate(rate)));
            let mut now = 0;
            for (bytes, gaps) in runs {
                let mut apart = run.of_size(bytes);
                for gap in gaps {
                    now += gap;
                    prop_assert_eq!(apart.busy_until(), single.busy_until());
                    prop_assert_eq!(apart.transmit(Time(now)), single.transmit(Time(now), bytes));
                }
                run.resume(apart);
            }
            prop_assert_eq!((run.busy_until, run.short), (single.busy_until, single.short));
        }

        /// A busy period that begins at `start` ends at `start` plus the exact time of its bytes, whatever came before.
        #[test]
        fn every_busy_period_is_exact(
            rate in 1_000u64..1_000_000_000_000,
            packets in prop::collection::vec((0u64..3_000_000, 1u32..65_536), 1..200),
        ) {
            let mut transmitter = Transmitter::new(Rate(rate));
            let (mut now, mut start, mut bytes, mut end) = (0, 0, 0, 0);
            for (gap, size) in packets {
                now += gap;
                if now > end {
                    (start, bytes) = (now, 0);
                }
                bytes += u64::from(size);
                end = start + exact(bytes, rate);
                prop_assert_eq!(transmitter.transmit(Time(now), size), Time(end));
            }
        }

        #[test]
        fn a_train_departs_with_its_last_packet(rate in 1_000u64..400_000_000_000, size in 64u32..9038, n in 1u32..64) {
            let (mut single, mut train) = (Transmitter::new(Rate(rate)), Transmitter::new(Rate(rate)));
            let last = (0..n).map(|_| single.transmit(Time(7), size)).last();
            prop_assert_eq!(last, Some(train.transmit(Time(7), n * size)));
        }

        #[test]
        fn a_change_of_rate_never_shortens_what_was_sent(old in 1u64..1_000_000, new in 0u64..1_000_000, bytes in 1u32..9000) {
            let mut transmitter = Transmitter::new(Rate(old));
            let end = transmitter.transmit(Time(0), bytes);
            transmitter.set_rate(Rate(new));
            prop_assert_eq!(transmitter.busy_until(), end);
        }
    }
}
