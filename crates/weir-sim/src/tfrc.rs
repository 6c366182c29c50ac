//! A flow over TFRC: both ends, and what their packets in flight say.

use std::collections::VecDeque;

use weir_tfrc::{Data, Feedback, Receiver, Sender};
use weir_units::Time;

use crate::packet::{UDP_HEADERS, unwrap};

/// A packet that comes so much later than others sent after it is taken as lost.
const MOST_LATE: usize = 1 << 14;
/// Payload of a report: the four values of RFC 5348, section 3.2.2, and a tag.
const REPORT_BYTES: u32 = 40;

/// A flow over TFRC.
pub(crate) struct Tfrc {
    pub sender: Sender,
    pub receiver: Receiver,
    /// Bytes of each IP packet.
    pub ip_bytes: u32,
    pub stop: Time,
    pub last_sent: Time,
    data: Contents<Data>,
    reports: Contents<Feedback>,
}

impl Tfrc {
    /// Bytes of the IP packet of a report.
    pub const REPORT_IP_BYTES: u32 = REPORT_BYTES + UDP_HEADERS;

    pub fn new(payload_bytes: u32, start: Time, stop_ns: Option<u64>) -> Tfrc {
        Tfrc {
            sender: Sender::new(payload_bytes, start),
            receiver: Receiver::new(payload_bytes),
            ip_bytes: payload_bytes + UDP_HEADERS,
            stop: stop_ns.map_or(Time::MAX, Time),
            last_sent: Time::ZERO,
            data: Contents::default(),
            reports: Contents::default(),
        }
    }

    /// The next instant at which the sender acts.
    pub fn sender_due(&self) -> Time {
        self.sender.due().min(self.stop)
    }

    /// The number of the packet that is due at `now`, if there is one.
    pub fn send(&mut self, now: Time) -> Option<u64> {
        let data = self.sender.poll(now)?;
        self.last_sent = now;
        Some(self.data.put(data))
    }

    /// Data with this number arrive; returns the number of the report to send at once.
    pub fn data_arrived(&mut self, now: Time, number: u32) -> Option<u64> {
        let data = self.data.take(number)?;
        self.receiver.on_data(now, data).map(|report| self.reports.put(report))
    }

    /// The receiver's timer may have expired; returns the number of the report to send.
    pub fn receiver_timer(&mut self, now: Time) -> Option<u64> {
        self.receiver.on_timer(now).map(|report| self.reports.put(report))
    }

    /// The report with this number arrives.
    pub fn report_arrived(&mut self, now: Time, number: u32) {
        if let Some(report) = self.reports.take(number) {
            self.sender.on_feedback(now, &report);
        }
    }
}

/// The contents of packets in flight, by their numbers. Those of lost packets go when later ones have arrived.
pub(crate) struct Contents<T> {
    first: u64,
    values: VecDeque<T>,
    latest: u64,
}

impl<T> Default for Contents<T> {
    fn default() -> Contents<T> {
        Contents { first: 0, values: VecDeque::new(), latest: 0 }
    }
}

impl<T: Clone> Contents<T> {
    pub fn put(&mut self, value: T) -> u64 {
        self.values.push_back(value);
        self.first + self.values.len() as u64 - 1
    }

    /// The content of a packet that arrives; `number`: its low bits.
    pub fn take(&mut self, number: u32) -> Option<T> {
        let number = unwrap(number, self.latest);
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let value = self.values.get(place)?.clone();
        self.latest = self.latest.max(number);
        let gone = place.saturating_sub(MOST_LATE);
        self.values.drain(..gone);
        self.first += gone as u64;
        Some(value)
    }
}
