//! The queues of a scheduler's classes, with their sums.
//!
//! A scheduler decides only which class is next. This module finds the class of an arriving packet, keeps the limit that
//! all classes share, and adds up bytes, packets and counters. Nothing is allocated for a packet.

use weir_units::{Rate, Stream, Time};

use crate::classes::{ClassPlan, Classifier};
use crate::declare::TokenRates;
use crate::qdisc::Drops;
use crate::{AnyQdisc, Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Packet, Port, Qdisc};

/// A packet that a scheduler has taken out of its queue ahead of time, to know its size.
struct Head<P> {
    next: Dequeued<P>,
    since: Time,
    bytes: u32,
}

/// The queues of the classes.
pub(crate) struct Children<P: Packet + Send> {
    classifier: Classifier,
    limit: DropTail,
    port: Port,
    queues: Box<[AnyQdisc<P>]>,
    heads: Box<[Option<Head<P>>]>,
    /// Number of each queue's first class among the classes of all.
    first: Box<[u32]>,
    count: u32,
    occupied: u64,
    /// Queues that have become empty and do not know yet that nobody sends for them.
    emptied: u64,
    bytes: u64,
    packets: u64,
    counters: Counters,
}

impl<P: Packet + Send> Children<P> {
    /// Empty queues; each draws from a stream of its own.
    pub fn new<C: ClassPlan>(classes: &[C], limit: &Limit, port: Port, mut stream: Stream) -> Children<P> {
        let seed = stream.bits();
        let queue = |class: &C| AnyQdisc::from_plan(class.queue(), port, Stream::new(seed, class.name()));
        let queues: Box<[AnyQdisc<P>]> = classes.iter().map(queue).collect();
        let mut count = 0;
        let first = queues.iter().map(|queue| {
            let first = count;
            count += queue.classes().max(1);
            first
        });
        let first = first.collect();
        Children {
            classifier: Classifier::new(classes),
            limit: DropTail::from_plan(limit),
            port,
            heads: queues.iter().map(|_| None).collect(),
            queues,
            first,
            count,
            occupied: 0,
            emptied: 0,
            bytes: 0,
            packets: 0,
            counters: Counters::default(),
        }
    }

    /// The classes in which packets wait, one bit each.
    #[inline]
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// Bytes of `packet` on the wire.
    #[inline]
    pub fn wire_bytes(&self, packet: &P) -> u32 {
        self.port.wire_bytes(packet)
    }

    /// Offers a packet to the queue of its class; returns the class and the outcome.
    pub fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> (usize, Enqueued) {
        let class = self.classifier.class_of(&packet);
        (class, self.enqueue_in(class, now, packet, drops))
    }

    /// Offers a packet to the queue of `class`.
    pub fn enqueue_in(&mut self, class: usize, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        if !self.limit.fits(bytes, self.bytes, self.packets) {
            return self.drop(packet, bytes, drops);
        }
        self.observe(class, drops, |queue, drops| queue.enqueue(now, packet, drops))
    }

    /// Drops a packet that arrives.
    pub fn refuse(&mut self, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        self.drop(packet, bytes, drops)
    }

    #[cold]
    fn drop(&mut self, packet: P, bytes: u32, drops: &mut Drops<'_, P>) -> Enqueued {
        self.counters.dropped(bytes, DropReason::Overflow);
        drops(packet, DropReason::Overflow);
        Enqueued::Dropped
    }

    /// The size on the wire of a class's next packet, which it takes out of the class's queue: from then on the packet
    /// counts for the limit of all classes only. None if the queue is empty, holds back or drops what waits.
    pub fn peek(&mut self, class: usize, now: Time, drops: &mut Drops<'_, P>) -> Option<u32> {
        if let Some(head) = &self.heads[class] {
            return Some(head.bytes);
        }
        let next = self.observe(class, drops, |queue, drops| queue.dequeue(now, drops))?;
        let bytes = self.port.wire_bytes(&next.packet);
        self.heads[class] = Some(Head { next, since: now, bytes });
        self.bytes += u64::from(bytes);
        self.packets += 1;
        self.occupied |= 1 << class;
        Some(bytes)
    }

    fn take_head(&mut self, class: usize, now: Time) -> Option<Dequeued<P>> {
        let Head { next, since, bytes } = self.heads[class].take()?;
        self.bytes -= u64::from(bytes);
        self.packets -= 1;
        self.occupied = self.occupied & !(1 << class) | u64::from(self.queues[class].packets() > 0) << class;
        Some(Dequeued { sojourn: next.sojourn + now.since(since), ..next })
    }

    /// The next packet of a class. None if its queue holds back or drops what waits.
    pub fn dequeue(&mut self, class: usize, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        let head = self.take_head(class, now);
        let next = head.or_else(|| self.observe(class, drops, |queue, drops| queue.dequeue(now, drops)));
        if let Some(next) = &next {
            let bytes = self.port.wire_bytes(&next.packet);
            self.counters.left(bytes);
        }
        if self.queues[class].packets() == 0 {
            self.emptied |= 1 << class;
        }
        next.map(|next| Dequeued { class: self.first[class] + next.class, ..next })
    }

    /// Tells queues that became empty that nobody sends for them, as a transmitter that is idle does: RED ages.
    ///
    /// Call it at the begin of each dequeue.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        while self.emptied != 0 {
            let class = self.emptied.trailing_zeros() as usize;
            self.emptied &= self.emptied - 1;
            if self.occupied >> class & 1 == 0 {
                let nothing = self.queues[class].dequeue(now, &mut |_, _| {});
                debug_assert!(nothing.is_none(), "the queue is empty");
            }
        }
    }

    /// Calls `act` on the queue of `class`, and adds up what it changed.
    #[inline]
    fn observe<T>(
        &mut self,
        class: usize,
        drops: &mut Drops<'_, P>,
        act: impl FnOnce(&mut AnyQdisc<P>, &mut Drops<'_, P>) -> T,
    ) -> T {
        let (queue, counters, port) = (&mut self.queues[class], &mut self.counters, self.port);
        let (bytes, packets, marked) = (queue.bytes(), queue.packets(), queue.counters().marked_packets);
        let done = act(queue, &mut |packet, reason| {
            counters.dropped(port.wire_bytes(&packet), reason);
            drops(packet, reason);
        });
        self.counters.marked_packets += queue.counters().marked_packets - marked;
        self.bytes = self.bytes - bytes + queue.bytes();
        self.packets = self.packets - packets + queue.packets();
        let occupied = u64::from(queue.packets() > 0 || self.heads[class].is_some()) << class;
        self.occupied = self.occupied & !(1 << class) | occupied;
        done
    }

    /// Bytes on the wire of all packets waiting.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets waiting.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The counters over all classes.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Changes the rate of the transmitter.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.port.rate = rate;
        self.queues.iter_mut().for_each(|queue| queue.set_rate(now, rate));
    }

    /// Gives the token buckets of all queues new rates; each takes the next ones.
    pub fn set_token_rates(&mut self, now: Time, rates: &mut std::slice::Iter<'_, TokenRates>) {
        self.queues.iter_mut().for_each(|queue| queue.set_token_rates(now, rates));
    }

    /// The same, of the queue of `class`.
    pub fn set_token_rates_of(&mut self, class: usize, now: Time, rates: &mut std::slice::Iter<'_, TokenRates>) {
        self.queues[class].set_token_rates(now, rates);
    }

    /// The first instant at which a queue that holds packets back gives one.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        self.held_until_of(self.occupied, now)
    }

    /// The same, of these classes.
    pub fn held_until_of(&self, classes: u64, now: Time) -> Option<Time> {
        let waiting = bits(self.occupied & classes).filter(|&class| self.heads[class].is_none());
        waiting.filter_map(|class| self.queues[class].held_until(now)).min()
    }

    /// The queue of the first class.
    pub fn only(&self) -> &AnyQdisc<P> {
        &self.queues[0]
    }

    /// Classes, those of children counted one by one.
    pub fn classes(&self) -> u32 {
        self.count
    }

    /// The class of `packet` among them.
    pub fn class_of(&self, packet: &P) -> u32 {
        self.class_within(self.classifier.class_of(packet), packet)
    }

    /// The same, of a packet whose class here is known.
    pub fn class_within(&self, class: usize, packet: &P) -> u32 {
        self.first[class] + self.queues[class].class_of(packet)
    }
}

/// The indices of the bits that are set, ascending.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros() as usize;
        (index < 64).then(|| {
            set &= set - 1;
            index
        })
    })
}

/// The first set bit from `from` on, around the end.
#[inline]
pub(crate) fn next_bit(set: u64, from: usize) -> Option<usize> {
    let ahead = set & (u64::MAX << from);
    let found = if ahead != 0 { ahead } else { set };
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// Implements the parts of [`Qdisc`] that a queue around a single other one takes from its field `children`.
macro_rules! of_child {
    () => {
        fn bytes(&self) -> u64 {
            self.children.bytes()
        }
        fn packets(&self) -> u64 {
            self.children.packets()
        }
        fn counters(&self) -> &crate::Counters {
            self.children.counters()
        }
        fn classes(&self) -> u32 {
            self.children.only().classes()
        }
        fn class_of(&self, packet: &P) -> u32 {
            self.children.only().class_of(packet)
        }
    };
}
pub(crate) use of_child;

/// Implements the parts of [`Qdisc`] that a scheduler takes from its field `children`.
macro_rules! of_children {
    () => {
        fn bytes(&self) -> u64 {
            self.children.bytes()
        }
        fn packets(&self) -> u64 {
            self.children.packets()
        }
        fn counters(&self) -> &crate::Counters {
            self.children.counters()
        }
        fn held_until(&self, now: weir_units::Time) -> Option<weir_units::Time> {
            self.children.held_until(now)
        }
        fn set_token_rates(
            &mut self,
            now: weir_units::Time,
            rates: &mut std::slice::Iter<'_, crate::declare::TokenRates>,
        ) {
            self.children.set_token_rates(now, rates);
        }
        fn classes(&self) -> u32 {
            self.children.classes()
        }
        fn class_of(&self, packet: &P) -> u32 {
            self.children.class_of(packet)
        }
    };
}
pub(crate) use of_children;
