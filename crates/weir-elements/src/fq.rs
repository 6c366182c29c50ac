//! Fair queue with pacing, as Linux' `sch_fq`: flow queues served by deficit round robin.
//!
//! A hash with a random salt maps each packet to one of a fixed number of queues, as Linux does with packets that a
//! router forwards. A queue that becomes active joins the list of *new* queues, which is served before the list of *old*
//! ones. A queue sends while it has credits; then it receives another quantum and goes to the end of the old list. Unlike
//! FQ-CoDel, a queue keeps its credits while it is idle: it begins with the initial quantum, and gets a full quantum when
//! it returns after the refill delay. Linux may forget a queue after three idle seconds, and then begins it anew with the initial
//! quantum (`fq_gc`); here none is forgotten.
//!
//! A packet is dropped on arrival if all queues together, or its own one, are full. Nothing is dropped at departure.
//!
//! `max_rate` paces each queue. After it has spent its credits, it waits as long as a quantum takes at that rate, less
//! the time by which it was served late, at most half of it. At 550 kbit/s or less it waits after each packet. A waiting
//! queue is in no list, and joins the old one afterwards; [`Qdisc::held_until`] names that instant.
//!
//! Linux also paces by the rate of the sending socket and by departure times in packets. Both exist at hosts only; the
//! hosts of a plan pace themselves. Neither the three bands of priority nor the path past the queues of an idle fair
//! queue (both Linux 6.7) is here.
//!
//! Train: taken apart on arrival, so that a turn is at most a quantum and a packet.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Dur, Rate, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::fifo::{Entry, Fifo};
use crate::limit::size;
use crate::qdisc::{AtDeparture, Drops};
use crate::turns::{Turn, Turns, bucket};
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Packet, Port, Qdisc};

/// Fair queue with pacing, as Linux' `sch_fq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqQueue {
    /// Hard limit over all flows; an arriving packet is dropped.
    pub limit: Limit,
    /// Packets that a flow may have in the queue.
    pub flow_limit: u64,
    /// Number of hash buckets.
    pub buckets: u32,
    /// Bytes a flow may send a round.
    pub quantum_bytes: u32,
    /// Bytes a flow may send before its first round ends.
    pub initial_quantum_bytes: u32,
    /// A flow that returns after this time has a full quantum.
    pub refill_ns: u64,
    /// Maximum rate of a flow, on the wire; none: unlimited.
    #[serde(default)]
    pub max_rate_bps: Option<u64>,
    /// Packets that can carry ECN are marked after a wait longer than this, besides that of pacing; none: never.
    #[serde(default)]
    pub ce_threshold_ns: Option<u64>,
}

const FORM: Form = Form {
    name: "fq",
    title: "Fair queue with pacing, as Linux' `sch_fq`.",
    keys: &[
        size("Hard limit over all flows; 10000 packets, as in Linux.").or("10000packets"),
        key(
            "flow_limit",
            "flow_limit",
            Kind::Integer { min: 1, max: 1 << 32 },
            "Packets that a flow may have in the queue; 100.",
        )
        .or("100"),
        key("buckets", "buckets", Kind::Integer { min: 1, max: 65_536 }, "Number of hash buckets; 1024.").or("1024"),
        key("quantum", "quantum_bytes", Kind::PacketBytes, "Bytes a flow may send a round; 3028.").or("3028B"),
        key(
            "initial_quantum",
            "initial_quantum_bytes",
            Kind::PacketBytes,
            "Bytes a flow may send before its first round ends; 15140.",
        )
        .or("15140B"),
        key(
            "refill",
            "refill_ns",
            Kind::Time { positive: false },
            "A flow that returns after this time has a full quantum; 40 ms.",
        )
        .or("40ms"),
        key(
            "max_rate",
            "max_rate_bps",
            Kind::Rate,
            "Maximum rate of a flow, counted on the wire: its packets are paced. Default: unlimited.",
        )
        .optional(),
        key(
            "ce_threshold",
            "ce_threshold_ns",
            Kind::Time { positive: false },
            "Mark each packet that can carry ECN and has waited longer than this, the wait of pacing not counted. \
             Default: never.",
        )
        .optional(),
    ],
};

impl QueuePlan for FqQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "fq",
        Place::Queue,
        "Flow queues in deficit round robin, each with a limit, and paced if there is a maximum rate",
        "Linux, `tc-fq(8)`",
        &[FORM],
    )
    .random();

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.flow_limit > 0, || format!("{at}.flow_limit"), "a flow of 0 packets passes nothing")?;
        check(self.buckets > 0, || format!("{at}.buckets"), "must not be zero")?;
        check(self.quantum_bytes > 0, || format!("{at}.quantum_bytes"), "a quantum of 0 bytes never sends")?;
        check(self.max_rate_bps != Some(0), || format!("{at}.max_rate_bps"), "a flow of rate 0 never sends")
    }
}

impl AtDeparture for FqQueue {
    type Qdisc<P: Packet + Send> = Fq<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Fq<P> {
        Fq::from_plan(self, port, stream)
    }
}

/// Up to this rate, a flow is paced packet by packet, bit/s: Linux' `low_rate_threshold`, 550000 / 8 bytes/s.
const LOW_RATE: u64 = 550_000;
/// Longest wait of a paced flow: the clamp of `fq_dequeue`.
const LONGEST_WAIT: Dur = Dur(1_000_000_000);

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In no list, and empty since this instant; none before its first packet.
    Idle(Option<Time>),
    /// In a list.
    Active,
    /// Waits until its next packet may leave.
    Paced,
}

/// The queue of the flows that share a bucket.
#[derive(Clone, Debug)]
struct Flow<P> {
    fifo: Fifo<P>,
    /// Bytes that it may send before its turn ends.
    credits: i64,
    state: State,
    /// The earliest instant of its next packet by pacing; none before pacing has set one.
    next: Option<Time>,
}

/// Flow queues with pacing, and a hard limit over all of them.
#[derive(Clone, Debug)]
pub struct Fq<P> {
    limit: DropTail,
    flow_limit: u64,
    port: Port,
    quantum: i64,
    refill: Dur,
    max_rate: Option<u64>,
    ce_threshold: Dur,
    salt: u32,
    flows: Vec<Flow<P>>,
    turns: Turns,
    /// Paced flows, by the instant until which they wait.
    paced: BTreeSet<(Time, u32)>,
    bytes: u64,
    packets: u64,
    counters: Counters,
}

impl<P: Packet> Fq<P> {
    /// Empty queues; the salt is drawn from `stream`.
    ///
    /// # Panics
    /// When there are no buckets or the quantum is zero.
    pub fn from_plan(queue: &FqQueue, port: Port, mut stream: Stream) -> Fq<P> {
        assert!(queue.buckets > 0 && queue.quantum_bytes > 0, "a fair queue needs a bucket and a quantum");
        let credits = i64::from(queue.initial_quantum_bytes);
        let flow = || Flow { fifo: Fifo::default(), credits, state: State::Idle(None), next: None };
        Fq {
            limit: DropTail::from_plan(&queue.limit),
            flow_limit: queue.flow_limit,
            port,
            quantum: i64::from(queue.quantum_bytes),
            refill: Dur(queue.refill_ns),
            max_rate: queue.max_rate_bps,
            ce_threshold: Dur(queue.ce_threshold_ns.unwrap_or(u64::MAX)),
            salt: stream.bits() as u32,
            flows: (0..queue.buckets).map(|_| flow()).collect(),
            turns: Turns::default(),
            paced: BTreeSet::new(),
            bytes: 0,
            packets: 0,
            counters: Counters::default(),
        }
    }

    /// Returns paced flows whose time has come to the old list.
    fn resume(&mut self, now: Time) {
        while let Some(&(_, flow)) = self.paced.first().filter(|(until, _)| *until <= now) {
            self.paced.pop_first();
            self.flows[flow as usize].state = State::Active;
            self.turns.join_old(flow);
        }
    }

    /// Ends the turn of a flow that has no packet, or none that may leave yet.
    fn suspend(&mut self, turn: Turn, now: Time) {
        let flow = &mut self.flows[turn.flow as usize];
        if flow.fifo.packets() == 0 {
            if self.turns.retire(turn) {
                flow.state = State::Idle(Some(now));
            }
        } else if let Some(until) = flow.next {
            self.turns.leave(turn);
            flow.state = State::Paced;
            self.paced.insert((until, turn.flow));
        }
    }

    /// Takes the packet at the head of a flow, which pays for it and is paced.
    fn pop(&mut self, flow: u32, now: Time) -> Option<Entry<P>> {
        let flow = &mut self.flows[flow as usize];
        let due = flow.next.filter(|_| flow.fifo.packets() > 0);
        if due.is_some_and(|due| due > now) {
            return None;
        }
        let mut entry = flow.fifo.pop()?;
        let waits_since = entry.since.max(due.unwrap_or(Time::ZERO));
        if now.since(waits_since) > self.ce_threshold && entry.packet.ecn_capable() {
            entry.packet.mark_ce();
            self.counters.marked_packets += 1;
        }
        flow.credits -= i64::from(entry.bytes);
        if let Some(rate) = self.max_rate {
            flow.pace(rate, entry.bytes, self.quantum as u64, now);
        }
        self.bytes -= u64::from(entry.bytes);
        self.packets -= 1;
        self.counters.left(entry.bytes);
        Some(entry)
    }
}

impl<P> Flow<P> {
    /// Sets the instant of the next packet after one of `bytes` at `now`.
    fn pace(&mut self, rate_bps: u64, bytes: u32, quantum: u64, now: Time) {
        let mut bytes = u64::from(bytes);
        if rate_bps <= LOW_RATE {
            self.credits = 0;
        } else if self.credits > 0 {
            return;
        } else {
            bytes = bytes.max(quantum);
        }
        let wait = Dur(bytes * 8_000_000_000 / rate_bps).min(LONGEST_WAIT);
        let late = self.next.map_or(Dur::ZERO, |due| now.since(due)).min(Dur(wait.0 / 2));
        self.next = Some(now + (wait - late));
    }
}

impl<P: Packet + Send> Qdisc<P> for Fq<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        let number = bucket(packet.flow_hash(), self.salt, self.flows.len());
        let flow = &mut self.flows[number as usize];
        if !self.limit.fits(bytes, self.bytes, self.packets) || flow.fifo.packets() >= self.flow_limit {
            self.counters.dropped(bytes, DropReason::Overflow);
            drops(packet, DropReason::Overflow);
            return Enqueued::Dropped;
        }
        flow.fifo.push(packet, now, bytes);
        if let State::Idle(since) = flow.state {
            if since.is_some_and(|since| now.since(since) > self.refill) {
                flow.credits = flow.credits.max(self.quantum);
            }
            flow.state = State::Active;
            self.turns.join_new(number);
        }
        self.bytes += u64::from(bytes);
        self.packets += 1;
        Enqueued::Queued
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.resume(now);
        loop {
            let turn = self.turns.current()?;
            let flow = &mut self.flows[turn.flow as usize];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                self.turns.pass_on(turn);
                continue;
            }
            if let Some(Entry { packet, since, .. }) = self.pop(turn.flow, now) {
                return Some(Dequeued { packet, sojourn: now.since(since), class: 0 });
            }
            self.suspend(turn, now);
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

    /// Neither deficit round robin nor pacing depends on the rate of the transmitter.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}

    fn held_until(&self, _now: Time) -> Option<Time> {
        self.paced.first().map(|&(until, _)| until)
    }
}

#[cfg(test)]
mod tests;
