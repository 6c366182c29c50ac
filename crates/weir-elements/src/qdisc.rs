//! The interface of a queue discipline with an explicit dequeue.

use weir_units::{Dur, Rate, Stream, Time};

use crate::explicit::Explicit;
use crate::{Packet, Port, QueuePlan, TokenRates};

/// The reason for a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The packet would have exceeded the limit of the queue, or the tokens of a policer.
    Overflow,
    /// A congestion signal of an active queue: RED and PIE at arrival, CoDel at departure.
    Early,
    /// RED: the average queue is above the range of random signals.
    Forced,
}

/// The outcome of [`Qdisc::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The packet waits.
    Queued,
    /// The packet waits, with its ECN field set to CE.
    Marked,
    /// The packet was dropped.
    Dropped,
}

/// The outcome for the packets of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainOutcome {
    /// Waiting packets, including marked ones.
    pub queued: u32,
    /// Packets marked on arrival.
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
    /// Its time in the queue.
    pub sojourn: Dur,
    /// Its class, see [`Qdisc::class_of`]; 0 if the queue has no classes. A mark may change what `class_of` says.
    pub class: u32,
}

/// Counters of a queue since its creation. Packets in = out + dropped + waiting, and the same in bytes.
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
    /// Packets dropped for any reason.
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
/// The driver calls [`dequeue`](Qdisc::dequeue) when the transmitter becomes free and when a packet was queued while it
/// is free. A `None` tells the queue that the transmitter is idle from then on. When a dequeue and an enqueue fall on
/// the same instant, the dequeue comes first: a packet that begins transmission no longer counts for the packet that
/// arrives then.
///
/// `now` never decreases from call to call.
///
/// A scheduler is a queue with a child queue for each class of packets. It enqueues a packet into the child of its
/// class and chooses the child of the next packet. Its counters are the sum over its children.
pub trait Qdisc<P: Packet>: Send {
    /// Offers one packet. A dropped packet, this or another one, goes to `drops`.
    ///
    /// Give trains to [`enqueue_train`](Qdisc::enqueue_train): here, a train counts as one large packet.
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued;

    /// The next packet to transmit. Packets dropped on the way to it go to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>>;

    /// Bytes on the wire of the packets waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> u64;

    /// The counters so far.
    fn counters(&self) -> &Counters;

    /// Changes the rate of the transmitter from `now` on.
    fn set_rate(&mut self, now: Time, rate: Rate);

    /// Gives each class a new share from the next packet on: its weight in millionths, or its quantum in bytes. A queue
    /// whose classes have no shares does nothing.
    fn set_shares(&mut self, now: Time, shares: &[u64]) {
        let _ = (now, shares);
    }

    /// Gives its token buckets and those of the queues within new rates from `now` on, in the order of the plan: its own
    /// before those within, and those of a class before the next class. Each takes the next ones.
    fn set_token_rates(&mut self, now: Time, rates: &mut std::slice::Iter<'_, TokenRates>) {
        let _ = (now, rates);
    }

    /// The instant of the next [`dequeue`](Qdisc::dequeue) after one at `now` returned none although packets wait, as
    /// with a shaper. None if waiting packets may leave at any time.
    fn held_until(&self, now: Time) -> Option<Time> {
        let _ = now;
        None
    }

    /// Number of classes into which the queue sorts packets; 0 for a queue that treats all alike.
    fn classes(&self) -> u32 {
        0
    }

    /// The class of `packet`, below [`classes`](Qdisc::classes). A packet keeps its class until it has left the queue, see
    /// [`Dequeued::class`].
    fn class_of(&self, packet: &P) -> u32 {
        let _ = packet;
        0
    }

    /// The queue as one that gives explicit feedback to packets with a congestion header, if it is one.
    fn explicit(&mut self) -> Option<&mut dyn Explicit> {
        None
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

    /// Builds the queue for `port`; it draws from `stream`.
    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Self::Qdisc<P>;
}
