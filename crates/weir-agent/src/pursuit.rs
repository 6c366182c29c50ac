//! A TCP sender that follows a rate profile.
//!
//! The kernel paces the segments: each of `len` bytes of payload holds back the next one for `len` over the socket's pacing
//! rate (`tcp_update_skb_after_send` of Linux), retransmissions included. `SO_MAX_PACING_RATE` bounds this rate. So the rate of
//! the IP packets is set as that of their payload, anew at each step. The kernel lowers its rate at once, and raises it at the
//! next acknowledgement (`tcp_update_pacing_rate`).
//!
//! It does not pace the first ten segments of a connection. Here the sender writes them one by one, when they are due.

use weir_plan::{Rates, Tcp};
use weir_units::Time;

/// The segments of a connection before those that the kernel paces.
const UNPACED_SEGMENTS: u32 = 10;
/// Bytes of the IPv4 and TCP headers, and of the timestamps option.
const HEADER_BYTES: u32 = 40;
const TIMESTAMPS_BYTES: u32 = 12;

/// The pursuit of a profile by one connection after another.
#[derive(Debug)]
pub struct Pursuit {
    rates: Rates,
    mss_bytes: u32,
    header_bytes: u32,
    /// Segments of this connection that are still to be written one by one.
    left: u32,
    /// When the next one is due.
    due: Time,
    /// Whether the kernel had no room for it, because the window holds earlier ones back.
    held: bool,
    /// A write that waits until it is due.
    turn: Option<Time>,
    /// The pacing rate that was last told, and the step that was.
    rate: u64,
    step: Option<Time>,
}

impl Pursuit {
    /// That of these settings, if they have a profile.
    pub fn of(tcp: &Tcp) -> Option<Pursuit> {
        let rates = Rates::of(&tcp.profile)?;
        let header_bytes = HEADER_BYTES + if tcp.timestamps { TIMESTAMPS_BYTES } else { 0 };
        Some(Pursuit {
            rates,
            mss_bytes: tcp.mss_bytes,
            header_bytes,
            left: UNPACED_SEGMENTS,
            due: Time::ZERO,
            held: false,
            turn: None,
            rate: 0,
            step: None,
        })
    }

    /// A new connection is opened at `now`; the greatest pacing rate of its socket, payload in bytes per second.
    pub fn open(&mut self, now: Time) -> u64 {
        (self.left, self.due, self.held) = (UNPACED_SEGMENTS, Time::ZERO, false);
        self.turn = None;
        self.rate_at(now)
    }

    /// The pacing rate, if it has changed since it was last asked for.
    pub fn new_rate(&mut self, now: Time) -> Option<u64> {
        let before = self.rate;
        Some(self.rate_at(now)).filter(|rate| *rate != before)
    }

    /// When the rate changes next, once.
    pub fn new_step(&mut self) -> Option<Time> {
        let next = self.rates.next_step();
        (std::mem::replace(&mut self.step, next) != next).then_some(next).flatten()
    }

    fn rate_at(&mut self, now: Time) -> u64 {
        self.rates.advance(now);
        self.rate = self.rates.payload_rate(self.mss_bytes, self.header_bytes).max(1);
        self.rate
    }

    /// The application has data after a while without.
    pub fn resume(&mut self, now: Time) {
        self.due = self.due.max(now);
    }

    /// When the next write is due, if it is not due at `now`; [`Pursuit::take_turn`] says so then.
    pub fn wait(&mut self, now: Time) -> Option<Time> {
        self.turn = (now < self.due).then_some(self.due);
        self.turn
    }

    /// Whether a write that had to wait is due at `now`.
    pub fn take_turn(&mut self, now: Time) -> bool {
        self.turn.take_if(|due| *due <= now).is_some()
    }

    /// Bytes of the next write to a connection to which `written` bytes were written: what fills a segment. `None`: the kernel
    /// paces.
    pub fn segment(&self, written: u64) -> Option<u64> {
        let mss = u64::from(self.mss_bytes);
        (self.left > 0).then(|| mss - written % mss)
    }

    /// The kernel has no room for the segment that is due, until earlier ones are sent.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// A segment of `bytes` was written. The next one is due when this one has passed at the rates of the profile: from its
    /// own due instant on, because a process that wakes late shall not fall behind; or from `now` on if the window held it.
    pub fn wrote(&mut self, now: Time, bytes: u64) {
        let from = if std::mem::take(&mut self.held) { now } else { self.due };
        self.due = self.rates.passed(from, bytes as u32 + self.header_bytes);
        self.left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::RateStep;

    use super::*;

    /// 12 Mb/s, a packet in a millisecond; from 5 ms on twice as much.
    fn pursuit() -> Pursuit {
        let mut tcp = tcp();
        tcp.profile =
            vec![RateStep { at_ns: 0, rate_bps: 12_000_000 }, RateStep { at_ns: 5_000_000, rate_bps: 24_000_000 }];
        Pursuit::of(&tcp).expect("a profile")
    }

    fn tcp() -> Tcp {
        let text = r#"{"cc": "reno", "stack": "linux", "mss_bytes": 1448, "timestamps": true, "sack": true, "ecn": false,
            "initial_window": 10, "send_buffer_bytes": 1000000, "receive_buffer_bytes": 1000000, "pacing": false,
            "ack": "delayed"}"#;
        serde_json::from_str(text).expect("settings")
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn settings_without_a_profile_have_no_pursuit() {
        assert!(Pursuit::of(&tcp()).is_none());
    }

    #[test]
    fn the_kernel_is_told_each_rate_of_the_payload_once() {
        let mut it = pursuit();
        assert_eq!(it.open(Time(0)), 1_448_000);
        assert_eq!((it.new_rate(Time(1)), it.new_step()), (None, Some(Time(5 * MS))));
        assert_eq!((it.new_rate(Time(5 * MS - 1)), it.new_step()), (None, None));
        assert_eq!((it.new_rate(Time(5 * MS)), it.new_step()), (Some(2_896_000), None));
        assert_eq!(it.open(Time(6 * MS)), 2_896_000, "another connection is told anew");
    }

    #[test]
    fn ten_segments_are_written_when_they_are_due_and_the_kernel_paces_the_others() {
        let mut it = pursuit();
        it.resume(Time(MS));
        let mut dues = Vec::new();
        let mut written = 100;
        while let Some(bytes) = it.segment(written) {
            dues.push(it.due.0 / 1000);
            // The process wakes late; the next segment is due as if it had not.
            let late = Time(it.due.0 + 300_000);
            assert_eq!(it.wait(late), None);
            it.wrote(late, bytes);
            written += bytes;
        }
        // The first one is filled up: 100 bytes were there.
        assert_eq!(written, 10 * 1448);
        let first = 1000 + (1448 - 100 + 52) * 8 / 12;
        assert_eq!(dues[..5], [1000, first, first + 1000, first + 2000, first + 3000]);
        assert_eq!(dues[9] - dues[8], 500, "at the rate of the second step");
        let due = it.due;
        assert_eq!(it.wait(Time(due.0 - 1)), Some(due), "the eleventh waits, too");
        assert!(!it.take_turn(Time(due.0 - 1)) && it.take_turn(due) && !it.take_turn(due), "once");
        it.open(due);
        assert_eq!(it.segment(0), Some(1448), "another connection begins anew");
    }

    #[test]
    fn what_the_window_held_back_is_not_made_up_for() {
        let mut it = pursuit();
        it.resume(Time(0));
        it.wrote(Time(0), 1448);
        it.hold();
        it.wrote(Time(3 * MS), 1448);
        assert_eq!(it.wait(Time(3 * MS)), Some(Time(4 * MS)));
    }
}
