//! The queue and transmitter of an evented link: every departure is an event of its own.

use weir_elements::{AnyQdisc, Dequeued, Enqueued, Qdisc, Transmitter};
use weir_units::{Rate, Time};

use crate::Record;
use crate::stats::{ClassStats, LinkStats};

/// A queue with explicit dequeue before its transmitter.
pub(crate) struct Evented<P: Record> {
    pub qdisc: AnyQdisc<P>,
    pub transmitter: Transmitter,
    /// Whether the transmitter is busy until a pending event.
    pub busy: bool,
    /// The statistics of each class, if the queue has classes and the link is recorded.
    pub classes: Option<ClassStats>,
}

/// The outcome of a dequeue.
pub(crate) enum Next<P> {
    /// A packet begins its transmission, which ends at this instant.
    Sent(P, Time),
    /// Packets wait, but the queue holds them back until this instant.
    Held(Time),
    /// No packet may leave.
    Idle,
}

impl<P: Record> Evented<P> {
    pub fn new(qdisc: AnyQdisc<P>, transmitter: Transmitter) -> Evented<P> {
        Evented { qdisc, transmitter, busy: false, classes: None }
    }

    /// Whether the transmitter is idle and not stopped.
    pub fn is_ready(&self) -> bool {
        !self.busy && !self.transmitter.is_stopped()
    }

    /// Offers a packet to the queue; dropped packets, this or another one, are added to `lost`.
    pub fn enqueue(&mut self, at: Time, packet: P, stats: &mut LinkStats, lost: &mut Vec<P>) -> Enqueued {
        let bytes = packet.ip_bytes();
        stats.arrived(at, bytes);
        // The packet joins before the queue may drop another one for it, so that the gauge never falls below zero.
        stats.joined(bytes);
        let class = self.classes.as_mut().map(|classes| {
            let class = self.qdisc.class_of(&packet);
            classes.arrived(class, at, bytes);
            class
        });
        let lost_before = lost.len();
        let outcome = self.qdisc.enqueue(at, packet, &mut |dropped, _| {
            stats.unqueued(dropped.ip_bytes());
            stats.dropped(dropped.ip_bytes());
            lost.push(dropped);
        });
        if outcome == Enqueued::Marked {
            stats.marked();
        }
        let waits = outcome != Enqueued::Dropped && !self.is_ready();
        if waits {
            stats.note_peak();
        }
        self.count_drops(at, &lost[lost_before..]);
        if let (Some(classes), Some(class)) = (&mut self.classes, class) {
            classes.marked(class, u64::from(outcome == Enqueued::Marked));
            if waits {
                classes.note_peak(class);
            }
        }
        outcome
    }

    /// Begins the next transmission; dropped packets are added to `lost`. `overhead` is added to each packet on the
    /// wire.
    pub fn start(&mut self, at: Time, overhead: u32, stats: &mut LinkStats, lost: &mut Vec<P>) -> Next<P> {
        self.busy = false;
        if self.transmitter.is_stopped() {
            return Next::Idle;
        }
        stats.roll(at);
        let (marks_before, lost_before) = (self.qdisc.counters().marked_packets, lost.len());
        let next = self.qdisc.dequeue(at, &mut |dropped, _| {
            stats.unqueued(dropped.ip_bytes());
            stats.dropped(dropped.ip_bytes());
            lost.push(dropped);
        });
        self.count_drops(at, &lost[lost_before..]);
        let Some(Dequeued { packet, sojourn, class }) = next else {
            let Some(until) = self.qdisc.held_until(at) else { return Next::Idle };
            // A packet that found the transmitter idle waits as well.
            stats.note_peak();
            self.classes.iter_mut().for_each(ClassStats::note_peaks);
            return Next::Held(until);
        };
        let marks = self.qdisc.counters().marked_packets - marks_before;
        for _ in 0..marks {
            stats.marked();
        }
        let bytes = packet.ip_bytes();
        stats.began(at, bytes);
        stats.waited(sojourn.0);
        if let Some(classes) = &mut self.classes {
            classes.began(class, at, bytes, sojourn.0);
            classes.marked(class, marks);
        }
        let departure = self.transmitter.transmit(at, bytes + overhead);
        self.busy = true;
        Next::Sent(packet, departure)
    }

    fn count_drops(&mut self, at: Time, dropped: &[P]) {
        if let Some(classes) = &mut self.classes {
            for packet in dropped {
                classes.dropped(self.qdisc.class_of(packet), at, packet.ip_bytes());
            }
        }
    }

    /// Changes the rate; true if an idle transmitter must be started.
    pub fn set_rate(&mut self, at: Time, rate: Rate) -> bool {
        self.transmitter.set_rate(rate);
        self.qdisc.set_rate(at, rate);
        !self.busy
    }
}
