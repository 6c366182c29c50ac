//! FQ-CoDel: flow queues served by deficit round robin, each under CoDel (RFC 8290).
//!
//! A packet is hashed, with a random salt, to one of a fixed number of queues. A queue that becomes active joins the list
//! of *new* queues, which is served before the list of *old* ones, so that a flow that sends less than its share
//! never waits for the others. A queue sends while it has credits; when it has sent a quantum or more, it receives another
//! quantum and goes to the end of the old list. A new queue that is found empty also passes through the old list
//! before it is inactive, or it could starve the old ones by returning in time (section 4.2).
//!
//! Past the limit, half the packets of the queue with the most bytes, 64 at most, are dropped from its head (section 4.1).
//! "In excess" (see [`Codel`](crate::Codel)) is judged on the bytes of the flow's own queue.
//!
//! Train: taken apart on arrival, so that a turn of the round robin is never longer than a quantum and a packet.

use std::collections::VecDeque;

use weir_plan::{CodelParams, Limit};
use weir_units::{Rate, Stream, Time};

use crate::codel::{Control, Law};
use crate::fifo::{Entry, Fifo};
use crate::qdisc::Drops;
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Packet, Port, Qdisc};

/// Most packets dropped at once when the limit is passed.
const DROP_BATCH: u64 = 64;

/// The queue of the flows that share a bucket.
#[derive(Clone, Debug)]
struct Flow<P> {
    fifo: Fifo<P>,
    control: Control,
    /// Bytes it may still send before it gives way.
    credits: i64,
    /// Whether it is in the new or the old list.
    active: bool,
}

/// Flow queues under CoDel, with a hard limit over all of them.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    limit: DropTail,
    law: Law,
    port: Port,
    quantum: i64,
    salt: u32,
    flows: Vec<Flow<P>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    bytes: u64,
    packets: u64,
    counters: Counters,
}

impl<P: Packet> FqCodel<P> {
    /// Empty queues; `stream` gives the salt.
    ///
    /// # Panics
    /// When there are no buckets or the quantum is zero.
    pub fn from_plan(
        limit: &Limit,
        buckets: u32,
        quantum_bytes: u32,
        params: &CodelParams,
        port: Port,
        mut stream: Stream,
    ) -> FqCodel<P> {
        assert!(buckets > 0 && quantum_bytes > 0, "FQ-CoDel needs a bucket and a quantum");
        let flow = || Flow { fifo: Fifo::default(), control: Control::default(), credits: 0, active: false };
        FqCodel {
            limit: DropTail::from_plan(limit),
            law: Law::from_plan(params, &port),
            port,
            quantum: i64::from(quantum_bytes),
            salt: stream.bits() as u32,
            flows: (0..buckets).map(|_| flow()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            packets: 0,
            counters: Counters::default(),
        }
    }

    /// The bucket of a flow. The multiplication spreads the salt over all bits; the high bits choose the bucket.
    fn bucket(&self, flow_hash: u32) -> u32 {
        let salted = (flow_hash ^ self.salt).wrapping_mul(0x9e37_79b1);
        ((u64::from(salted) * self.flows.len() as u64) >> 32) as u32
    }

    fn push(&mut self, bucket: u32, now: Time, packet: P, bytes: u32) {
        let flow = &mut self.flows[bucket as usize];
        flow.fifo.push(packet, now, bytes);
        if !flow.active {
            flow.active = true;
            flow.credits = self.quantum;
            self.new.push_back(bucket);
        }
        self.bytes += u64::from(bytes);
        self.packets += 1;
    }

    /// Drops half of the fattest flow; returns its bucket.
    #[cold]
    fn drop_from_fattest(&mut self, drops: &mut Drops<'_, P>) -> usize {
        let active = self.new.iter().chain(&self.old).map(|&bucket| bucket as usize);
        // Of equals the lowest bucket, whatever the order of the lists.
        let fattest = active
            .max_by_key(|&bucket| (self.flows[bucket].fifo.bytes(), usize::MAX - bucket))
            .expect("a queue past its limit holds a packet");
        let fifo = &mut self.flows[fattest].fifo;
        for _ in 0..(fifo.packets() / 2).clamp(1, DROP_BATCH) {
            let Some(Entry { packet, bytes, .. }) = fifo.pop() else { break };
            self.bytes -= u64::from(bytes);
            self.packets -= 1;
            self.counters.dropped(bytes, DropReason::Overflow);
            drops(packet, DropReason::Overflow);
        }
        fattest
    }

    /// The next packet of a bucket, under CoDel.
    fn pop(&mut self, bucket: u32, now: Time, drops: &mut Drops<'_, P>) -> Option<Entry<P>> {
        let flow = &mut self.flows[bucket as usize];
        let (bytes, packets) = (flow.fifo.bytes(), flow.fifo.packets());
        let entry = flow.control.dequeue(&self.law, &mut flow.fifo, now, &mut self.counters, drops);
        self.bytes -= bytes - flow.fifo.bytes();
        self.packets -= packets - flow.fifo.packets();
        flow.credits -= entry.as_ref().map_or(0, |e| i64::from(e.bytes));
        entry
    }

    /// Takes the first bucket of its list away.
    fn leave_list(&mut self, is_new: bool) {
        if is_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }
}

impl<P: Packet + Send> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        let bucket = self.bucket(packet.flow_hash());
        self.push(bucket, now, packet, bytes);
        let mut outcome = Enqueued::Queued;
        while self.limit.is_exceeded(self.bytes, self.packets) {
            let fattest = self.drop_from_fattest(drops);
            // It is the last of its flow: once nothing is left there, it is gone as well.
            if fattest == bucket as usize && self.flows[fattest].fifo.packets() == 0 {
                outcome = Enqueued::Dropped;
            }
        }
        outcome
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let &bucket = if is_new { self.new.front() } else { self.old.front() }?;
            if self.flows[bucket as usize].credits <= 0 {
                self.flows[bucket as usize].credits += self.quantum;
                self.leave_list(is_new);
                self.old.push_back(bucket);
                continue;
            }
            if let Some(entry) = self.pop(bucket, now, drops) {
                self.counters.left(entry.bytes);
                return Some(Dequeued { packet: entry.packet, sojourn: now.since(entry.since) });
            }
            self.leave_list(is_new);
            if is_new {
                self.old.push_back(bucket);
            } else {
                self.flows[bucket as usize].active = false;
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Deficit round robin counts bytes and CoDel measures time: neither knows the rate.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}
}
