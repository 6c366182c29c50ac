//! A first-in, first-out queue whose router gives explicit feedback: what XCP, RCP and Quick-Start have in common.
//!
//! The queue has a hard limit and counts all packets; a [`Control`] computes the feedback. There is no timer: each call
//! makes what is due since the last one.

use std::fmt::Debug;

use weir_units::{Rate, Time};

use crate::explicit::{Explicit, Header, Scheme};
use crate::fifo::Fifo;
use crate::qdisc::Drops;
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Packet, Port, Qdisc};

/// What a router computes of the packets that pass.
pub trait Control: Clone + Debug + Send {
    /// The protocol whose headers it reads.
    const SCHEME: Scheme;

    /// Makes what is due by `now`; `waiting`: bytes in the queue since the last call.
    fn catch_up(&mut self, now: Time, waiting: u64);

    /// Counts a packet of `bytes` that comes to the queue, whether there is room or not.
    fn input(&mut self, bytes: u32);

    /// Notes that a packet has left, so that `waiting` bytes are in the queue.
    fn left(&mut self, _waiting: u64) {}

    /// Sets the rate of the link.
    fn set_capacity(&mut self, rate: Rate);

    /// A packet with a header of the protocol has arrived.
    fn arrived(&mut self, _now: Time, _header: &Header) {}

    /// Lowers the feedback in the header of a packet of `wire_bytes` that leaves.
    fn departs(&mut self, wire_bytes: u32, header: &mut Header);
}

/// A first-in, first-out queue that gives explicit feedback, with a hard limit.
#[derive(Clone, Debug)]
pub struct Router<P, C> {
    limit: DropTail,
    port: Port,
    fifo: Fifo<P>,
    counters: Counters,
    pub(crate) control: C,
}

impl<P: Packet, C: Control> Router<P, C> {
    pub(crate) fn new(limit: &Limit, port: Port, control: C) -> Router<P, C> {
        Router {
            limit: DropTail::from_plan(limit),
            port,
            fifo: Fifo::default(),
            counters: Counters::default(),
            control,
        }
    }
}

impl<P: Packet + Send, C: Control> Qdisc<P> for Router<P, C> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.control.catch_up(now, self.fifo.bytes());
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        self.control.input(bytes);
        if !self.limit.fits(bytes, self.fifo.bytes(), self.fifo.packets()) {
            self.counters.dropped(bytes, DropReason::Overflow);
            drops(packet, DropReason::Overflow);
            return Enqueued::Dropped;
        }
        self.fifo.push(packet, now, bytes);
        Enqueued::Queued
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.control.catch_up(now, self.fifo.bytes());
        let entry = self.fifo.pop()?;
        self.control.left(self.fifo.bytes());
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

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.control.catch_up(now, self.fifo.bytes());
        self.control.set_capacity(rate);
    }

    fn explicit(&mut self) -> Option<&mut dyn Explicit> {
        Some(self)
    }
}

impl<P: Packet, C: Control> Explicit for Router<P, C> {
    fn arrived(&mut self, now: Time, header: &Header) {
        if header.scheme == C::SCHEME {
            self.control.arrived(now, header);
        }
    }

    fn departs(&mut self, _now: Time, wire_bytes: u32, header: &mut Header) {
        if header.scheme == C::SCHEME {
            self.control.departs(wire_bytes, header);
        }
    }
}
