//! Rate profiles: the spacing of packets by rates that are known in advance.
//!
//! R. Guillier, S. Soudan, P. Vicat-Blanc Primet, "UDT and TCP without congestion control for profile pursuit", INRIA
//! RR-6874, 2009, section 2.3: TCP fills its window, and a pacer below it spaces single packets at the rate of the profile.
//! Here the sender itself waits, so that no queue of unsent packets stands in its host, as with Linux' pacing within TCP.
//! Packets that the window or the application held back are not made up for.

use weir_plan::{Rates, Tcp};
use weir_units::{Dur, Time};

use super::Sender;
use crate::header_bytes;

const NANOS: u64 = 1_000_000_000;

/// The rates that a sender follows.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    rates: Rates,
    mss_bytes: u32,
    header_bytes: u32,
    /// Whether the flow would be paced without a profile.
    paced: bool,
}

impl Profile {
    /// That of these settings, if they have one.
    pub fn of(tcp: &Tcp) -> Option<Box<Profile>> {
        let rates = Rates::of(&tcp.profile)?;
        let header_bytes = header_bytes(tcp.timestamps);
        Some(Box::new(Profile { rates, mss_bytes: tcp.mss_bytes, header_bytes, paced: tcp.pacing }))
    }

    /// Payload in bytes per second of the step that held when the last packet left.
    fn payload_rate(&self) -> u64 {
        self.rates.payload_rate(self.mss_bytes, self.header_bytes)
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
        let by_profile = profile.rates.passed(from, len + profile.header_bytes);
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
