//! The receiving end (RFC 5348, section 6).

use std::collections::VecDeque;

use weir_units::{Dur, Time};

use crate::{Data, Feedback, LossHistory, loss_for};

/// The receiving end of a flow.
#[derive(Clone, Debug)]
pub struct Receiver {
    packet_bytes: f64,
    history: LossHistory,
    /// Arrivals during the last round-trip time.
    recent: VecDeque<Time>,
    /// The last packet, and when it came.
    last: Option<(Data, Time)>,
    /// The greatest receive rate so far.
    greatest_rate: f64,
    /// Whether data have come since the last feedback.
    fresh: bool,
    /// Whether the feedback timer has last expired without feedback.
    silent: bool,
    /// The loss event rate as last computed.
    loss: f64,
    /// The round-trip time by which the feedback timer runs: R_(m-1) of section 6.2.
    round: Option<Dur>,
    /// The feedback timer.
    deadline: Time,
}

impl Receiver {
    /// The receiver of packets with `packet_bytes` of payload.
    pub fn new(packet_bytes: u32) -> Receiver {
        Receiver {
            packet_bytes: f64::from(packet_bytes),
            history: LossHistory::default(),
            recent: VecDeque::new(),
            last: None,
            greatest_rate: 0.0,
            fresh: false,
            silent: false,
            loss: 0.0,
            round: None,
            deadline: Time::MAX,
        }
    }

    /// Takes a data packet (sections 6.1, 6.3); returns the feedback to send at once: to the first packet, and as long as
    /// the sender has no estimate of the round-trip time, at a new loss event that raises the loss event rate, and to data
    /// that follow a round-trip time without any.
    pub fn on_data(&mut self, now: Time, data: Data) -> Option<Feedback> {
        self.fresh = true;
        self.recent.push_back(now);
        let rtt = data.rtt.unwrap_or(Dur::ZERO);
        let begun = self.history.arrived(now, data.number, rtt);
        if self.last.is_none_or(|(last, _)| data.number >= last.number) {
            self.last = Some((data, now));
        }
        if begun && self.history.is_first_event() {
            self.begin_history(now);
        }
        let raised = begun && self.history.loss() > self.loss;
        if raised || self.silent || self.deadline == Time::MAX {
            return self.feedback(now);
        }
        if begun {
            self.loss = self.history.loss();
        }
        None
    }

    /// Handles the feedback timer (section 6.2): nothing is reported if no data came.
    pub fn on_timer(&mut self, now: Time) -> Option<Feedback> {
        if now < self.deadline {
            return None;
        }
        if self.fresh {
            return self.feedback(now);
        }
        self.silent = true;
        self.restart(now);
        None
    }

    /// The instant of the feedback timer; [`Time::MAX`] if it is off.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// The loss event rate.
    pub fn loss(&self) -> f64 {
        self.history.loss()
    }

    fn rtt(&self) -> Option<Dur> {
        self.last.and_then(|(data, _)| data.rtt)
    }

    fn feedback(&mut self, now: Time) -> Option<Feedback> {
        let (data, at) = self.last?;
        let received = self.receive_rate(now);
        self.greatest_rate = self.greatest_rate.max(received.unwrap_or(0.0));
        (self.fresh, self.silent) = (false, false);
        self.loss = self.history.loss();
        self.restart(now);
        Some(Feedback { echo: data.sent, delay: now.since(at), received, loss: self.loss })
    }

    fn restart(&mut self, now: Time) {
        self.round = self.rtt();
        self.deadline = self.round.map_or(Time::MAX, |rtt| now + rtt);
    }

    /// The rate of the packets of the last round-trip time, as it was when the feedback timer was set (section 6.2).
    fn receive_rate(&mut self, now: Time) -> Option<f64> {
        let rtt = self.round.or(self.rtt())?;
        while self.recent.front().is_some_and(|&at| at + rtt < now) {
            self.recent.pop_front();
        }
        Some(self.recent.len() as f64 * self.packet_bytes / rtt.as_secs_f64().max(1e-9))
    }

    /// The interval before the first loss event (section 6.3.1): as long as the equation needs for the greatest rate so
    /// far, but at least half a packet a round-trip time.
    fn begin_history(&mut self, now: Time) {
        let Some(rtt) = self.rtt() else { return };
        let rate = self.greatest_rate.max(self.receive_rate(now).unwrap_or(0.0));
        let target = rate.max(0.5 * self.packet_bytes / rtt.as_secs_f64());
        self.history.set_first_interval(1.0 / loss_for(self.packet_bytes, rtt, target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput;

    const RTT: Dur = Dur(100_000_000);

    fn at_ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn data(number: u64, sent_ms: u64) -> Data {
        Data { number, sent: at_ms(sent_ms), rtt: (number > 0).then_some(RTT) }
    }

    #[test]
    fn the_first_packet_is_answered_at_once_and_without_a_rate() {
        let mut receiver = Receiver::new(1000);
        let answer = receiver.on_data(at_ms(50), data(0, 0));
        assert_eq!(answer, Some(Feedback { echo: at_ms(0), delay: Dur::ZERO, received: None, loss: 0.0 }));
        assert_eq!(receiver.deadline(), Time::MAX);
    }

    #[test]
    fn feedback_follows_once_a_round_trip_with_the_rate() {
        let mut receiver = Receiver::new(1000);
        receiver.on_data(at_ms(50), data(0, 0));
        // The second packet is answered at once, too: only now is the round-trip time known.
        assert!(receiver.on_data(at_ms(150), data(1, 100)).is_some());
        assert_eq!(receiver.deadline(), at_ms(250));
        for k in 1..10 {
            assert!(receiver.on_data(at_ms(150 + 10 * k), data(1 + k, 100 + 10 * k)).is_none());
        }
        let report = receiver.on_timer(at_ms(250)).expect("the timer has expired");
        // Ten packets of 1000 bytes within (150, 250] ms or at its begin; the last one 10 ms ago.
        assert_eq!(report.received, Some(100_000.0));
        assert_eq!((report.echo, report.delay, report.loss), (at_ms(190), Dur(10_000_000), 0.0));
        assert_eq!(receiver.deadline(), at_ms(350));
        assert!(receiver.on_timer(at_ms(350)).is_none(), "no data came");
        assert_eq!(receiver.deadline(), at_ms(450));
    }

    /// Section 6.1, step 4: feedback that was due without data follows with the next data, at once.
    #[test]
    fn data_after_a_round_trip_without_any_are_answered_at_once() {
        let mut receiver = Receiver::new(1000);
        receiver.on_data(at_ms(50), data(0, 0));
        receiver.on_data(at_ms(150), data(1, 100));
        assert!(receiver.on_timer(at_ms(250)).is_none(), "no data came");
        let report = receiver.on_data(at_ms(300), data(2, 250)).expect("feedback is overdue");
        assert_eq!((report.echo, report.received), (at_ms(250), Some(10_000.0)));
        assert_eq!(receiver.deadline(), at_ms(400));
        assert!(receiver.on_data(at_ms(310), data(3, 260)).is_none(), "it is no longer");
    }

    /// Section 6.2: the rate is that of the round-trip time with which the timer was set, 100 ms, though packets tell of
    /// 200 ms meanwhile. Of the packets at 150, 160, ... 250 ms those from 150 ms on count.
    #[test]
    fn the_rate_is_that_of_the_round_trip_by_which_the_timer_ran() {
        let mut receiver = Receiver::new(1000);
        receiver.on_data(at_ms(50), data(0, 0));
        receiver.on_data(at_ms(150), data(1, 100));
        for k in 1..10 {
            receiver.on_data(at_ms(150 + 10 * k), Data { rtt: Some(RTT + RTT), ..data(1 + k, 100 + 10 * k) });
        }
        let report = receiver.on_timer(at_ms(250)).expect("the timer has expired");
        assert_eq!(report.received, Some(100_000.0));
        assert_eq!(receiver.deadline(), at_ms(450));
    }

    #[test]
    fn a_loss_event_is_reported_at_once_with_the_rate_that_the_equation_gives() {
        let mut receiver = Receiver::new(1000);
        let mut reports = Vec::new();
        for number in (0..400).filter(|n| *n != 300) {
            let now = at_ms(50 + number);
            reports.extend(receiver.on_timer(now).map(|r| (number, r)));
            reports.extend(receiver.on_data(now, data(number, number)).map(|r| (number, r)));
        }
        let (number, report) = *reports.iter().find(|(_, r)| r.loss > 0.0).expect("a packet was lost");
        assert_eq!(number, 303);
        // A packet a millisecond, so a megabyte a second: the equation gives it at this loss rate.
        let rate = throughput(1000.0, RTT, report.loss);
        assert!((rate / 1e6 - 1.0).abs() < 0.02, "{rate}");
    }
}
