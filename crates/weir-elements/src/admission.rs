//! Admission: the decisions of drop-tail and RED, made at arrival, and the queue with explicit dequeue built on them.

use weir_units::{Rate, Stream, Time};

use crate::fifo::Fifo;
use crate::qdisc::Drops;
use crate::{Admission, Counters, Dequeued, DropReason, DropTail, Enqueued, Packet, Port, Qdisc, QueuePlan};

/// A packet at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes on the wire.
    pub bytes: u32,
    /// See [`Packet::ecn_capable`].
    pub ecn_capable: bool,
    /// See [`Packet::dscp`].
    pub dscp: u8,
}

/// The queue at the arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes on the wire of the packets waiting, the one in transmission not counted.
    pub bytes: u64,
    /// Packets waiting, the one in transmission not counted.
    pub packets: u64,
    /// Start of the transmitter's idle time, the instant of the last departure; none while it is busy.
    pub idle_since: Option<Time>,
}

/// The decision on an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Queue it.
    Pass,
    /// Mark it congestion-experienced and queue it.
    Mark,
    /// Drop it.
    Drop(DropReason),
}

/// A discipline that decides at arrival only.
pub trait Admits {
    /// Decides on a packet that arrives at `now` and finds `queue`.
    fn admit(&mut self, now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict;

    /// Whether this queue surely admits a packet of `bytes` on the wire.
    fn has_room(&self, bytes: u32, queue_bytes: u64, queue_packets: u64) -> bool;

    /// A limit within which this queue admits all packets, whatever they are, and marks none; of nothing without one.
    fn room(&self) -> DropTail;

    /// Changes the rate of the transmitter.
    fn set_rate(&mut self, rate: Rate);
}

impl<A: Admits> Admits for Box<A> {
    #[inline]
    fn admit(&mut self, now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
        (**self).admit(now, arrival, queue)
    }

    #[inline]
    fn has_room(&self, bytes: u32, queue_bytes: u64, queue_packets: u64) -> bool {
        (**self).has_room(bytes, queue_bytes, queue_packets)
    }

    fn room(&self) -> DropTail {
        (**self).room()
    }

    fn set_rate(&mut self, rate: Rate) {
        (**self).set_rate(rate);
    }
}

/// The plan of a queue that decides at arrival only.
pub trait AtArrival: QueuePlan {
    /// The type that decides.
    type Admits: Admits;

    /// Builds the discipline for `port`; it draws from `stream`.
    fn admission(&self, port: &Port, stream: Stream) -> Self::Admits;
}

/// A first-in, first-out queue with explicit dequeue under an [`Admission`].
#[derive(Clone, Debug)]
pub struct AdmissionQueue<P> {
    admission: Admission,
    port: Port,
    fifo: Fifo<P>,
    idle_since: Option<Time>,
    counters: Counters,
}

impl<P: Packet> AdmissionQueue<P> {
    /// An empty queue before an idle transmitter.
    pub fn new(admission: Admission, port: Port) -> AdmissionQueue<P> {
        let counters = Counters::default();
        AdmissionQueue { admission, port, fifo: Fifo::default(), idle_since: Some(Time::ZERO), counters }
    }

    /// Whether the queue surely admits a packet of `bytes` on the wire; never for RED.
    #[inline]
    pub fn has_room(&self, bytes: u32) -> bool {
        self.admission.has_room(bytes, self.fifo.bytes(), self.fifo.packets())
    }
}

impl<P: Packet + Send> Qdisc<P> for AdmissionQueue<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        let arrival = Arrival { bytes, ecn_capable: packet.ecn_capable(), dscp: packet.dscp() };
        // In a class, packets may wait while the link serves others: then the queue is not idle.
        let idle_since = self.idle_since.filter(|_| self.fifo.packets() == 0);
        let queue = Backlog { bytes: self.fifo.bytes(), packets: self.fifo.packets(), idle_since };
        let verdict = self.admission.admit(now, &arrival, &queue);
        match verdict {
            Verdict::Drop(reason) => {
                self.counters.dropped(bytes, reason);
                drops(packet, reason);
                return Enqueued::Dropped;
            }
            Verdict::Mark => {
                packet.mark_ce();
                self.counters.marked_packets += 1;
            }
            Verdict::Pass => {}
        }
        self.fifo.push(packet, now, bytes);
        if verdict == Verdict::Mark { Enqueued::Marked } else { Enqueued::Queued }
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        let Some(entry) = self.fifo.pop() else {
            self.idle_since.get_or_insert(now);
            return None;
        };
        self.idle_since = None;
        self.counters.left(entry.bytes);
        Some(Dequeued { packet: entry.packet, sojourn: now.since(entry.since), class: 0 })
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn set_rate(&mut self, _now: Time, rate: Rate) {
        self.admission.set_rate(rate);
    }
}
