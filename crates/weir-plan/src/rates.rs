//! The course of a rate profile: when its packets have passed.

use weir_units::Time;

use crate::RateStep;

const BITS: u64 = 8;
const NANOS: u64 = 1_000_000_000;

/// The rates of a profile that has a step, at instants that never go back.
#[derive(Clone, Debug)]
pub struct Rates {
    steps: Box<[RateStep]>,
    /// The step that holds, by its number.
    step: usize,
}

impl Rates {
    /// Those of a profile; `None` of one without steps.
    pub fn of(profile: &[RateStep]) -> Option<Rates> {
        (!profile.is_empty()).then(|| Rates { steps: profile.into(), step: 0 })
    }

    /// When a packet of `bytes` has passed whose first bit passes at `from`.
    pub fn passed(&mut self, from: Time, bytes: u32) -> Time {
        let mut at = from.0;
        // Bits times nanoseconds in a second: at one bit per second, a nanosecond passes one.
        let mut left = u64::from(bytes) * BITS * NANOS;
        self.advance(from);
        let mut rest = self.steps[self.step..].iter().peekable();
        while let Some(step) = rest.next() {
            let needed = left.div_ceil(step.rate_bps);
            match rest.peek() {
                Some(next) if at + needed > next.at_ns => {
                    left -= step.rate_bps * (next.at_ns - at);
                    at = next.at_ns;
                }
                _ => return Time(at + needed),
            }
        }
        unreachable!("the last step has no end")
    }

    /// Goes on to the step that holds at `at`.
    pub fn advance(&mut self, at: Time) {
        while self.next_step().is_some_and(|next| next <= at) {
            self.step += 1;
        }
    }

    /// When the step after this one begins.
    pub fn next_step(&self) -> Option<Time> {
        self.steps.get(self.step + 1).map(|next| Time(next.at_ns))
    }

    /// Payload in bytes per second at this step, in packets with so many bytes of payload and of headers.
    pub fn payload_rate(&self, payload_bytes: u32, header_bytes: u32) -> u64 {
        let (payload, full) = (u128::from(payload_bytes), u128::from(payload_bytes + header_bytes));
        (u128::from(self.steps[self.step].rate_bps / BITS) * payload / full) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(steps: &[(u64, u64)]) -> Rates {
        let steps: Vec<RateStep> = steps.iter().map(|&(at_ns, rate_bps)| RateStep { at_ns, rate_bps }).collect();
        Rates::of(&steps).expect("steps")
    }

    #[test]
    fn a_packet_takes_its_bytes_at_the_rate() {
        let mut it = rates(&[(0, 100_000_000)]);
        assert_eq!(it.passed(Time(0), 1500), Time(120_000));
        assert_eq!(it.passed(Time(1_000_000), 1000), Time(1_080_000));
        assert_eq!(it.payload_rate(1448, 52), 12_500_000 * 1448 / 1500);
    }

    /// 12 000 bits: 1000 at 1 Mb/s until the first step, 2000 at 2 Mb/s until the second, the rest at 9 Mb/s.
    #[test]
    fn a_packet_may_pass_several_steps() {
        let mut it = rates(&[(0, 1_000_000), (3_000_000, 2_000_000), (4_000_000, 9_000_000)]);
        assert_eq!(it.passed(Time(2_000_000), 1500), Time(5_000_000));
        assert_eq!(it.next_step(), Some(Time(3_000_000)), "the step of its first bit holds");
        assert_eq!(it.passed(Time(4_000_000), 1500), Time(4_000_000 + 1_333_334));
        assert_eq!(it.next_step(), None);
    }

    #[test]
    fn a_profile_without_steps_has_no_rates() {
        assert!(Rates::of(&[]).is_none());
    }
}
