//! The sending end (RFC 5348, section 4).

use std::collections::VecDeque;

use weir_units::{Dur, Time};

use crate::{Data, Feedback, throughput};

/// Longest time between two packets, s: t_mbi (section 4.3, step 4).
const LONGEST_GAP_S: f64 = 64.0;
/// Weight of the old estimate of the round-trip time: q (section 4.3, step 2).
const OLD_RTT: f64 = 0.9;
/// Bytes of the initial window, at least two packets and at most four: W_init (section 4.2).
const INITIAL_BYTES: f64 = 4380.0;

/// The sending end of a flow that always has data.
#[derive(Clone, Debug)]
pub struct Sender {
    packet_bytes: f64,
    /// The allowed rate, bytes per second: X.
    rate: f64,
    rtt: Option<f64>,
    /// The last reported loss event rate: p.
    loss: f64,
    /// Receive rates of the last two round-trip times, with the instants of their feedback: X_recv_set.
    received: VecDeque<(Time, f64)>,
    /// When slow start last doubled the rate: tld.
    doubled: Time,
    /// The no-feedback timer.
    silence: Time,
    /// Instant of the next packet; none before the first.
    next: Option<Time>,
    /// Instant of the last packet as planned.
    last: Time,
    number: u64,
}

impl Sender {
    /// A sender of packets with `packet_bytes` of payload, whose first one is due at `start`.
    pub fn new(packet_bytes: u32, start: Time) -> Sender {
        let packet_bytes = f64::from(packet_bytes);
        Sender {
            packet_bytes,
            // One packet a second until the round-trip time is known (section 4.2).
            rate: packet_bytes,
            rtt: None,
            loss: 0.0,
            received: VecDeque::new(),
            doubled: start,
            silence: start + seconds(2.0),
            next: Some(start),
            last: start,
            number: 0,
        }
    }

    /// The next instant at which the sender acts.
    pub fn due(&self) -> Time {
        self.next.map_or(self.silence, |next| next.min(self.silence))
    }

    /// Stops offering data.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// The packet that is due at `now`, if there is one. A sender that comes late sends what has become due within the last
    /// round-trip time only (section 4.6).
    pub fn poll(&mut self, now: Time) -> Option<Data> {
        let due = self.next.filter(|&next| next <= now)?;
        let due = due.max(Time(now.0.saturating_sub(seconds(self.rtt.unwrap_or(0.0)).0)));
        let data = Data { number: self.number, sent: now, rtt: self.rtt() };
        self.number += 1;
        self.last = due;
        self.next = Some(due + self.gap());
        Some(data)
    }

    /// Handles the no-feedback timer, if it has expired (section 4.4).
    pub fn on_timer(&mut self, now: Time) {
        if now < self.silence {
            return;
        }
        let Some(rtt) = self.rtt else {
            self.set_rate(now, self.rate / 2.0);
            self.wait_for_feedback(now);
            return;
        };
        if self.loss == 0.0 {
            self.set_rate(now, self.rate / 2.0);
        } else {
            let equation = throughput(self.packet_bytes, seconds(rtt), self.loss);
            let received = self.received_at_most();
            let limit = if equation > 2.0 * received { received } else { equation / 2.0 };
            let limit = limit.max(self.least_rate());
            self.received.clear();
            self.received.push_back((now, limit / 2.0));
            self.follow(now, rtt);
        }
        self.wait_for_feedback(now);
    }

    /// Takes feedback that arrives at `now` (section 4.3).
    pub fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        let sample = now.since(feedback.echo).0.saturating_sub(feedback.delay.0) as f64 / 1e9;
        let sample = sample.max(1e-9);
        let first = self.rtt.is_none();
        let rtt = self.rtt.map_or(sample, |rtt| OLD_RTT * rtt + (1.0 - OLD_RTT) * sample);
        self.rtt = Some(rtt);
        self.loss = feedback.loss;
        self.received.push_back((now, feedback.received.unwrap_or(f64::INFINITY)));
        let oldest = now.0.saturating_sub(seconds(2.0 * rtt).0);
        self.received.retain(|(at, _)| at.0 >= oldest);
        if first {
            // In place of step 4, whatever is lost already (section 4.2).
            self.doubled = now;
            self.set_rate(now, self.initial_rate(rtt));
        } else {
            self.follow(now, rtt);
        }
        self.wait_for_feedback(now);
    }

    /// The allowed sending rate, bytes of payload per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The estimate of the round-trip time.
    pub fn rtt(&self) -> Option<Dur> {
        self.rtt.map(seconds)
    }

    /// The last reported loss event rate.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// What it shows of its rate, by name: the allowed rate of payload, the loss event rate, the round-trip time.
    pub fn probes(&self) -> [(&'static str, i64); 3] {
        let rtt = self.rtt().map_or(0, |rtt| rtt.0);
        [
            ("allowed_bps", (self.rate * 8.0) as i64),
            ("loss_event_ppm", (self.loss * 1e6) as i64),
            ("rtt_ns", rtt as i64),
        ]
    }

    /// Step 4 of section 4.3: the equation, or slow start before the first loss.
    fn follow(&mut self, now: Time, rtt: f64) {
        let limit = 2.0 * self.received_at_most();
        if self.loss > 0.0 {
            let equation = throughput(self.packet_bytes, seconds(rtt), self.loss);
            self.set_rate(now, equation.min(limit));
        } else if now.since(self.doubled) >= seconds(rtt) {
            let rate = (2.0 * self.rate).min(limit).max(self.initial_rate(rtt));
            self.doubled = now;
            self.set_rate(now, rate);
        }
    }

    /// The greatest recent receive rate; infinite if none is known.
    fn received_at_most(&self) -> f64 {
        self.received.iter().map(|(_, rate)| *rate).reduce(f64::max).unwrap_or(f64::INFINITY)
    }

    fn initial_rate(&self, rtt: f64) -> f64 {
        let bytes = (4.0 * self.packet_bytes).min(INITIAL_BYTES.max(2.0 * self.packet_bytes));
        bytes / rtt
    }

    /// One packet in the longest time between two.
    fn least_rate(&self) -> f64 {
        self.packet_bytes / LONGEST_GAP_S
    }

    /// Sets the rate. The next packet follows the last one by the new gap, but is not due before now.
    fn set_rate(&mut self, now: Time, rate: f64) {
        self.rate = rate.max(self.least_rate());
        if self.next.is_some() && self.number > 0 {
            self.next = Some((self.last + self.gap()).max(now));
        }
    }

    /// Sets the no-feedback timer to max(4 R, 2 s / X), with the new rate, as RFC 3448, section 4.3, says; the steps of RFC
    /// 5348, section 4.3, take the rate before the feedback, which would be two seconds after the first one.
    fn wait_for_feedback(&mut self, now: Time) {
        let by_rtt = 4.0 * self.rtt.unwrap_or(0.0);
        self.silence = now + seconds(by_rtt.max(2.0 * self.packet_bytes / self.rate));
    }

    fn gap(&self) -> Dur {
        seconds(self.packet_bytes / self.rate)
    }
}

fn seconds(seconds: f64) -> Dur {
    Dur((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn feedback(echo: Time, received: Option<f64>, loss: f64) -> Feedback {
        Feedback { echo, delay: Dur::ZERO, received, loss }
    }

    fn near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-6
    }

    #[test]
    fn it_begins_with_a_packet_a_second() {
        let mut sender = Sender::new(1000, Time::ZERO);
        assert_eq!(sender.poll(Time::ZERO), Some(Data { number: 0, sent: Time::ZERO, rtt: None }));
        assert_eq!(sender.poll(at_ms(999)), None);
        assert_eq!(sender.due(), at_ms(1000));
    }

    /// Section 4.2: four packets of 1000 bytes a round-trip time, then doubling once in each, not above twice the
    /// receive rate.
    #[test]
    fn slow_start_doubles_once_a_round_trip_up_to_twice_the_receive_rate() {
        let mut sender = Sender::new(1000, Time::ZERO);
        sender.poll(Time::ZERO);
        sender.on_feedback(at_ms(100), &feedback(Time::ZERO, None, 0.0));
        assert!(near(sender.rate(), 40_000.0), "{}", sender.rate());
        assert_eq!(sender.due(), at_ms(100), "the next one is due at once");
        sender.on_feedback(at_ms(150), &feedback(at_ms(50), Some(40_000.0), 0.0));
        assert!(near(sender.rate(), 40_000.0), "not twice in a round-trip time");
        sender.on_feedback(at_ms(250), &feedback(at_ms(150), Some(40_000.0), 0.0));
        assert!(near(sender.rate(), 80_000.0));
        // The report of 250 ms is of the last two round-trip times still.
        sender.on_feedback(at_ms(450), &feedback(at_ms(350), Some(30_000.0), 0.0));
        assert!(near(sender.rate(), 80_000.0), "{}", sender.rate());
    }

    /// At 40 kB/s a packet of 1000 bytes is due every 25 ms. Half a second late, it makes up for a round-trip time of 100 ms.
    #[test]
    fn a_late_sender_makes_up_for_a_round_trip_at_most() {
        let mut sender = Sender::new(1000, Time::ZERO);
        sender.poll(Time::ZERO);
        sender.on_feedback(at_ms(100), &feedback(Time::ZERO, None, 0.0));
        let count = |sender: &mut Sender, now| std::iter::from_fn(|| sender.poll(now)).count();
        assert_eq!(count(&mut sender, at_ms(100)), 1);
        assert_eq!(count(&mut sender, at_ms(600)), 5);
        assert_eq!(sender.next, Some(at_ms(625)));
    }

    #[test]
    fn with_losses_it_follows_the_equation() {
        let mut sender = Sender::new(1000, Time::ZERO);
        sender.poll(Time::ZERO);
        sender.on_feedback(at_ms(100), &feedback(Time::ZERO, None, 0.0));
        sender.on_feedback(at_ms(200), &feedback(at_ms(100), Some(1e6), 0.01));
        // 11.233 packets a round-trip time of 100 ms at 1 %.
        assert!((sender.rate() - 112_331.0).abs() < 50.0, "{}", sender.rate());
        sender.on_feedback(at_ms(500), &feedback(at_ms(400), Some(20_000.0), 0.01));
        assert!(near(sender.rate(), 40_000.0), "twice the receive rate at most: {}", sender.rate());
    }

    #[test]
    fn silence_halves_the_rate_after_four_round_trips() {
        let mut sender = Sender::new(1000, Time::ZERO);
        sender.poll(Time::ZERO);
        sender.on_feedback(at_ms(100), &feedback(Time::ZERO, None, 0.0));
        let silence = sender.silence;
        assert_eq!(silence, at_ms(500));
        sender.on_timer(Time(silence.0 - 1));
        assert!(near(sender.rate(), 40_000.0));
        sender.on_timer(silence);
        assert!(near(sender.rate(), 20_000.0));
        assert_eq!(sender.silence, at_ms(900));
    }

    /// Section 4.4: half of what the equation gives, by the limit of the receive rate.
    #[test]
    fn silence_after_losses_halves_what_the_equation_gives() {
        let mut sender = Sender::new(1000, Time::ZERO);
        sender.poll(Time::ZERO);
        sender.on_feedback(at_ms(100), &feedback(Time::ZERO, None, 0.0));
        sender.on_feedback(at_ms(200), &feedback(at_ms(100), Some(200_000.0), 0.01));
        let before = sender.rate();
        sender.on_timer(sender.silence);
        assert!(near(sender.rate(), before / 2.0), "{} after {before}", sender.rate());
    }

    #[test]
    fn without_any_feedback_it_slows_down_to_a_packet_in_64_seconds() {
        let mut sender = Sender::new(1000, Time::ZERO);
        for _ in 0..20 {
            let due = sender.due();
            sender.on_timer(due);
            sender.poll(due);
        }
        assert!(near(sender.rate(), 1000.0 / 64.0), "{}", sender.rate());
    }

    #[test]
    fn a_sender_that_stops_sends_nothing_more() {
        let mut sender = Sender::new(1000, Time::ZERO);
        sender.poll(Time::ZERO);
        sender.stop();
        sender.on_feedback(at_ms(100), &feedback(Time::ZERO, None, 0.0));
        assert_eq!(sender.poll(at_ms(5000)), None);
    }
}
