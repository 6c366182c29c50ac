//! Rate profiles: the spacing of packets by rates that are known in advance.
//!
//! R. Guillier, S. Soudan, P. Vicat-Blanc Primet, "UDT and TCP without congestion control for profile pursuit", INRIA
//! RR-6874, 2009, section 2.3: TCP fills its window, and a pacer below it spaces single packets at the rate of the profile.
//! Here the sender itself waits, so that no queue of unsent packets stands in its host, as with Linux' pacing within TCP.
//! Packets that the window or the application held back are not made up for.

use weir_plan::{RateStep, Tcp};
use weir_units::{Dur, Time};

use super::Sender;
use crate::header_bytes;

const BITS: u64 = 8;
const NANOS: u64 = 1_000_000_000;

/// The rates that a sender follows.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    steps: Box<[RateStep]>,
    /// The step that holds, by its number.
    step: usize,
    /// Bytes of a packet besides its payload, and of a full packet.
    header_bytes: u32,
    full_bytes: u32,
    /// Whether the flow would be paced without a profile.
    paced: bool,
}

impl Profile {
    /// That of these settings, if they have one.
    pub fn of(tcp: &Tcp) -> Option<Box<Profile>> {
        let header_bytes = header_bytes(tcp.timestamps);
        (!tcp.profile.is_empty()).then(|| {
            Box::new(Profile {
                steps: tcp.profile.as_slice().into(),
                step: 0,
                header_bytes,
                full_bytes: tcp.mss_bytes + header_bytes,
                paced: tcp.pacing,
            })
        })
    }

    /// When a packet with `len` bytes of payload has passed whose first bit passes at `from`, which never goes back.
    fn passed(&mut self, from: Time, len: u32) -> Time {
        let mut at = from.0;
        // Bits times nanoseconds in a second: at one bit per second, a nanosecond passes one.
        let mut left = u64::from(len + self.header_bytes) * BITS * NANOS;
        while self.next_at().is_some_and(|next| next <= at) {
            self.step += 1;
        }
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

    fn next_at(&self) -> Option<u64> {
        self.steps.get(self.step + 1).map(|next| next.at_ns)
    }

    /// Payload in bytes per second of the step that held when the last packet left.
    fn payload_rate(&self) -> u64 {
        let payload = u128::from(self.full_bytes - self.header_bytes);
        (u128::from(self.steps[self.step].rate_bps / BITS) * payload / u128::from(self.full_bytes)) as u64
    }
}

impl Sender {
    /// The next packet leaves when this one, with `len` bytes of payload, has passed at the rates of the profile, and at the
    /// congestion control's own pacing rate if it has one.
    #[cold]
    pub(super) fn pace_by_profile(&mut self, now: Time, len: u32) {
        let rate = self.cc.sock.pacing_rate.min(self.cc.sock.max_pacing_rate).max(1);
        let asks = self.cc.sock.pacing_status != 0;
        let Some(profile) = self.profile.as_deref_mut() else { return };
        let from = self.next_send.max(now);
        let by_profile = profile.passed(from, len);
        let by_control = if profile.paced || asks { Dur(u64::from(len) * NANOS / rate) } else { Dur::ZERO };
        self.next_send = by_profile.max(from + by_control);
    }

    /// Pacing rate by a profile, bytes per second, as far as the congestion control permits it.
    pub(super) fn rate_by_profile(&self, profile: &Profile) -> u64 {
        let by_profile = profile.payload_rate();
        let controlled = profile.paced || self.cc.sock.pacing_status != 0;
        if controlled { by_profile.min(self.cc.sock.pacing_rate) } else { by_profile }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(steps: &[(u64, u64)]) -> Profile {
        let steps = steps.iter().map(|&(at_ns, rate_bps)| RateStep { at_ns, rate_bps }).collect();
        Profile { steps, step: 0, header_bytes: 52, full_bytes: 1500, paced: false }
    }

    #[test]
    fn a_packet_takes_its_bytes_at_the_rate() {
        let mut it = profile(&[(0, 100_000_000)]);
        assert_eq!(it.passed(Time(0), 1448), Time(120_000));
        assert_eq!(it.passed(Time(1_000_000), 948), Time(1_080_000));
        assert_eq!(it.payload_rate(), 12_500_000 * 1448 / 1500);
    }

    /// 12 000 bits: 1000 at 1 Mb/s until the first step, 2000 at 2 Mb/s until the second, the rest at 9 Mb/s.
    #[test]
    fn a_packet_may_pass_several_steps() {
        let mut it = profile(&[(0, 1_000_000), (3_000_000, 2_000_000), (4_000_000, 9_000_000)]);
        assert_eq!(it.passed(Time(2_000_000), 1448), Time(5_000_000));
        assert_eq!(it.step, 0, "the step of its first bit");
        assert_eq!(it.passed(Time(4_000_000), 1448), Time(4_000_000 + 1_333_334));
        assert_eq!(it.step, 2);
    }
}
