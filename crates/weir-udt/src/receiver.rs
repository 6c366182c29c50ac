//! The receiving end of a connection (section 6.2).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use weir_units::{Dur, Time};

use crate::filter::Intervals;
use crate::{Control, MOST_RANGES, Report, SYN};

/// Packets between two light acknowledgements.
const LIGHT_EVERY: u64 = 64;
/// Full acknowledgements whose answer is awaited.
const MOST_AWAITED: usize = 1024;

/// Packets of a range that are missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    end: u64,
    reported: Time,
    reports: u64,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    room: u64,
    /// The packet after the latest that has arrived.
    next: u64,
    /// By first packet.
    missing: BTreeMap<u64, Missing>,
    replies: VecDeque<Control>,
    rtt: Dur,
    variation: Dur,
    arrivals: Intervals,
    pairs: Intervals,
    last_arrival: Option<Time>,
    /// Packets since the last acknowledgement of either kind.
    since_ack: u64,
    ack_due: Time,
    nak_due: Time,
    /// What the last full acknowledgement said, and when; what the latest answered one said.
    last_ack: (u64, Time),
    answered: u64,
    number: u32,
    awaited: VecDeque<(u32, u64, Time)>,
}

impl Receiver {
    /// A receiver with room for so many packets.
    pub fn new(room: u64) -> Receiver {
        Receiver {
            room,
            next: 0,
            missing: BTreeMap::new(),
            replies: VecDeque::new(),
            rtt: Dur(100_000_000),
            variation: Dur(50_000_000),
            arrivals: Intervals::default(),
            pairs: Intervals::default(),
            last_arrival: None,
            since_ack: 0,
            ack_due: Time::MAX,
            nak_due: Time::MAX,
            last_ack: (0, Time::ZERO),
            answered: 0,
            number: 0,
            awaited: VecDeque::new(),
        }
    }

    /// The packet after the latest that has arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether there is room for packet `number`; no sender goes beyond it.
    pub fn has_room(&self, number: u64) -> bool {
        number < self.first_missing().saturating_add(self.room)
    }

    /// The next control packet to send.
    pub fn poll(&mut self) -> Option<Control> {
        self.replies.pop_front()
    }

    /// The next instant at which it acts by itself.
    pub fn deadline(&self) -> Time {
        let ack = if self.first_missing() > self.answered { self.ack_due } else { Time::MAX };
        let nak = if self.missing.is_empty() { Time::MAX } else { self.nak_due };
        ack.min(nak)
    }

    /// The first packet that has not arrived.
    fn first_missing(&self) -> u64 {
        self.missing.keys().next().copied().unwrap_or(self.next)
    }

    /// Data packet `number` arrives; returns whether for the first time.
    pub fn on_data(&mut self, now: Time, number: u64) -> bool {
        self.measure(now, number);
        let fresh = if number < self.next { self.fill(number) } else { self.advance(now, number) };
        if self.ack_due < now || self.ack_due == Time::MAX {
            self.ack_due = now + SYN;
        }
        self.since_ack += 1;
        if self.since_ack >= LIGHT_EVERY {
            self.since_ack = 0;
            self.replies.push_back(Control::Ack { next: self.first_missing(), report: None });
        }
        fresh
    }

    fn measure(&mut self, now: Time, number: u64) {
        if let Some(last) = self.last_arrival.replace(now) {
            self.arrivals.add(now.since(last).0);
            if number % 16 == 1 && number == self.next {
                self.pairs.add(now.since(last).0);
            }
        }
    }

    /// A packet beyond all others.
    fn advance(&mut self, now: Time, number: u64) -> bool {
        if number > self.next {
            if self.missing.is_empty() {
                self.nak_due = now + self.nak_interval();
            }
            self.missing.insert(self.next, Missing { end: number, reported: now, reports: 1 });
            self.replies.push_back(Control::Nak(std::iter::once(self.next..number).collect()));
        }
        self.next = number + 1;
        true
    }

    /// A packet that was missing, or came twice.
    fn fill(&mut self, number: u64) -> bool {
        let Some((&start, &it)) = self.missing.range(..=number).next_back().filter(|(_, it)| number < it.end) else {
            return false;
        };
        if start == number {
            self.missing.remove(&start);
        } else if let Some(first) = self.missing.get_mut(&start) {
            first.end = number;
        }
        if number + 1 < it.end {
            self.missing.insert(number + 1, it);
        }
        true
    }

    fn nak_interval(&self) -> Dur {
        Dur(4 * self.rtt.0 + self.variation.0 + SYN.0)
    }

    /// A deadline may have passed.
    pub fn on_timer(&mut self, now: Time) {
        if self.ack_due <= now {
            self.ack_due = now + SYN;
            self.acknowledge(now);
        }
        if self.nak_due <= now {
            self.nak_due = now + self.nak_interval();
            self.report_again(now);
        }
    }

    fn acknowledge(&mut self, now: Time) {
        let next = self.first_missing();
        let again = next == self.last_ack.0 && now.since(self.last_ack.1).0 < 2 * self.rtt.0;
        if next <= self.answered || again {
            return;
        }
        self.number += 1;
        (self.last_ack, self.since_ack) = ((next, now), 0);
        self.awaited.push_back((self.number, next, now));
        if self.awaited.len() > MOST_AWAITED {
            self.awaited.pop_front();
        }
        let report = Report {
            number: self.number,
            rtt: (self.rtt, self.variation),
            room: self.room,
            arrival_rate: self.arrivals.filtered_rate(),
            capacity: self.pairs.median_rate(),
        };
        self.replies.push_back(Control::Ack { next, report: Some(report) });
    }

    /// Reports those again whose last report is long ago: the more reports, the longer.
    fn report_again(&mut self, now: Time) {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&start, it) in &mut self.missing {
            if now.since(it.reported).0 < (it.reports + 1) * self.rtt.0 {
                continue;
            }
            (it.reported, it.reports) = (now, it.reports + 1);
            ranges.push(start..it.end);
            if ranges.len() == MOST_RANGES {
                break;
            }
        }
        if !ranges.is_empty() {
            self.replies.push_back(Control::Nak(ranges));
        }
    }

    /// A control packet arrives.
    pub fn on_control(&mut self, now: Time, control: &Control) {
        match control {
            Control::Handshake(step) => self.replies.push_back(Control::Handshake(*step)),
            Control::Ack2(number) => self.on_answer(now, *number),
            Control::Ack { .. } | Control::Nak(_) => {}
        }
    }

    fn on_answer(&mut self, now: Time, number: u32) {
        let Some(place) = self.awaited.iter().position(|(awaited, ..)| *awaited == number) else { return };
        let (_, next, sent) = self.awaited[place];
        self.awaited.drain(..=place);
        self.answered = self.answered.max(next);
        let rtt = now.since(sent).0;
        self.variation = Dur((3 * self.variation.0 + rtt.abs_diff(self.rtt.0)) / 4);
        self.rtt = Dur((7 * self.rtt.0 + rtt) / 8);
    }
}
