//! The interface of a queue discipline with an explicit dequeue.

use weir_units::{Dur, Rate, Stream, Time};

use crate::{Packet, Port, QueuePlan};

/// Why a queue dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// It would have passed the limit of the queue.
    Overflow,
    /// An active queue chose it to signal congestion: RED and PIE at its arrival, CoDel at its departure.
    Early,
    /// RED: the average queue is past the region where signals are spread.
    Forced,
}

/// What became of a packet handed to [`Qdisc::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits.
    Queued,
    /// It waits, marked congestion-experienced.
    Marked,
    /// It was dropped.
    Dropped,
}

/// What became of the packets of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainOutcome {
    /// Packets that wait, the marked ones included.
    pub queued: u32,
    /// Packets marked congestion-experienced on arrival.
    pub marked: u32,
    /// Packets dropped.
    pub dropped: u32,
}

impl TrainOutcome {
    fn count(&mut self, packet: Enqueued) {
        match packet {
            Enqueued::Queued => self.queued += 1,
            Enqueued::Marked => {
                self.queued += 1;
                self.marked += 1;
            }
            Enqueued::Dropped => self.dropped += 1,
        }
    }
}

/// A packet that leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dequeued<P> {
    /// The packet.
    pub packet: P,
    /// How long it waited.
    pub sojourn: Dur,
}

/// What a queue has done since it was built. Packets in = out + dropped + waiting, and the same in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed to the queue.
    pub in_packets: u64,
    /// Their bytes on the wire.
    pub in_bytes: u64,
    /// Packets that left for the transmitter.
    pub out_packets: u64,
    /// Their bytes on the wire.
    pub out_bytes: u64,
    /// Packets dropped because of the limit.
    pub overflow_packets: u64,
    /// Packets dropped to signal congestion ([`DropReason::Early`] and [`DropReason::Forced`]).
    pub early_packets: u64,
    /// Bytes on the wire of all packets dropped.
    pub dropped_bytes: u64,
    /// Packets marked congestion-experienced.
    pub marked_packets: u64,
}

impl Counters {
    /// Packets dropped, whatever the reason.
    pub fn dropped_packets(&self) -> u64 {
        self.overflow_packets + self.early_packets
    }

    #[inline]
    pub(crate) fn arrived(&mut self, bytes: u32) {
        self.in_packets += 1;
        self.in_bytes += u64::from(bytes);
    }

    #[inline]
    pub(crate) fn left(&mut self, bytes: u32) {
        self.out_packets += 1;
        self.out_bytes += u64::from(bytes);
    }

    pub(crate) fn dropped(&mut self, bytes: u32, reason: DropReason) {
        match reason {
            DropReason::Overflow => self.overflow_packets += 1,
            DropReason::Early | DropReason::Forced => self.early_packets += 1,
        }
        self.dropped_bytes += u64::from(bytes);
    }
}

/// Takes the packets that a queue drops.
pub type Drops<'a, P> = dyn FnMut(P, DropReason) + 'a;

/// A queue before a transmitter.
///
/// The driver calls [`dequeue`](Qdisc::dequeue) when the transmitter becomes free and when a packet was queued while it is
/// free. A `None` tells the queue that the transmitter is idle from then on. When a dequeue and an enqueue fall on the same
/// instant, the dequeue comes first: a packet that begins transmission no longer counts for the packet that arrives then.
///
/// `now` never decreases from call to call.
///
/// A scheduler is a queue whose children are queues, one a class of packets: it hands a packet to the child of its class, and
/// takes the next one from the child whose turn it is. What it counts is the sum over its children.
pub trait Qdisc<P: Packet>: Send {
    /// Offers one packet. A packet dropped, this one or one that had to give way, goes to `drops`.
    ///
    /// Give trains to [`enqueue_train`](Qdisc::enqueue_train): here, a train counts as one large packet.
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued;

    /// The next packet to transmit. Packets dropped on the way to it go to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>>;

    /// Bytes on the wire of the packets waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> u64;

    /// What the queue has done so far.
    fn counters(&self) -> &Counters;

    /// Tells the queue that its transmitter runs at another rate from `now` on.
    fn set_rate(&mut self, now: Time, rate: Rate);

    /// When to ask again after [`dequeue`](Qdisc::dequeue) gave none at `now` although packets wait: a shaper or a gate holds
    /// them back until then. None where a packet that waits may leave at any time.
    fn held_until(&self, now: Time) -> Option<Time> {
        let _ = now;
        None
    }

    /// Number of classes into which the queue sorts packets; 0 for a queue that treats all alike.
    fn classes(&self) -> u32 {
        0
    }

    /// The class of `packet`, below [`classes`](Qdisc::classes). A packet keeps its class until it has left the queue.
    fn class_of(&self, packet: &P) -> u32 {
        let _ = packet;
        0
    }

    /// Offers the packets of a train one by one, all at `now`.
    fn enqueue_train(&mut self, now: Time, mut train: P, drops: &mut Drops<'_, P>) -> TrainOutcome {
        let mut outcome = TrainOutcome::default();
        while let Some(packet) = train.split_front() {
            outcome.count(self.enqueue(now, packet, drops));
        }
        outcome.count(self.enqueue(now, train, drops));
        outcome
    }
}

/// The plan of a queue that also decides when a packet leaves.
pub trait AtDeparture: QueuePlan {
    /// The queue.
    type Qdisc<P: Packet + Send>: Qdisc<P>;

    /// Builds it before `port`; its random decisions are drawn from `stream`.
    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Self::Qdisc<P>;
}
