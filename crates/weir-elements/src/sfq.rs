//! Stochastic fairness queueing (McKenney 1990), with the choices of Linux' `sfq`.
//!
//! P. E. McKenney, "Stochastic fairness queueing", INFOCOM 1990. A hash with a random salt maps each packet to one of a
//! fixed number of buckets; each bucket with packets is a flow with a FIFO of its own. Flows take turns: a flow sends
//! while its allotment is positive, gets another quantum, and goes to the end of the list. Beyond the limit, the longest
//! flow loses its last packet. Where several are longest, it is the one whose length changed last, as in Linux.
//!
//! Unlike in [`fq_codel`](crate::FqCodel), a new flow goes to the end of the list and no flow has a queue management of its
//! own. As in Linux, the number of flows and the packets of each are limited besides.
//!
//! With `perturb`, a new salt is drawn after each period, so that no two flows share a bucket for long, and the waiting
//! packets move into their new buckets; those beyond a limit of a bucket are lost. There is no timer: what a period's end
//! changes shows at the next call only, which makes the ends before it good.
//!
//! Train: taken apart on arrival, so that a turn is at most a quantum and a packet.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::fifo::{Entry, Fifo};
use crate::limit::size;
use crate::qdisc::{AtDeparture, Drops};
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Packet, Port, Qdisc};

/// Stochastic fairness queueing (McKenney 1990).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SfqQueue {
    /// Hard limit over all flows; the longest one loses its last packet.
    pub limit: Limit,
    /// Number of hash buckets.
    pub buckets: u32,
    /// Bytes on the wire a flow may send a turn.
    pub quantum_bytes: u32,
    /// Most packets of a flow; a packet beyond is dropped.
    pub depth_packets: u32,
    /// Most flows with packets; a packet of another one is dropped.
    pub flows: u32,
    /// Time after which the hash gets another salt; 0: never.
    #[serde(default, skip_serializing_if = "is_never")]
    pub perturb_ns: u64,
}

fn is_never(period_ns: &u64) -> bool {
    *period_ns == 0
}

const FORM: Form = Form {
    name: "sfq",
    title: "Stochastic fairness queueing (McKenney, 1990).",
    keys: &[
        size("Hard limit over all flows; 127 packets, as in Linux.").or("127packets"),
        key("buckets", "buckets", Kind::Integer { min: 1, max: 65_536 }, "Number of hash buckets; 1024.").or("1024"),
        key("quantum", "quantum_bytes", Kind::PacketBytes, "Bytes a flow may send a turn; 1514.").or("1514B"),
        key("depth", "depth_packets", Kind::Integer { min: 1, max: 1 << 20 }, "Most packets of a flow; 127.").or("127"),
        key("flows", "flows", Kind::Integer { min: 1, max: 65_536 }, "Most flows with packets; 128.").or("128"),
        key("perturb", "perturb_ns", Kind::Time { positive: false }, "Time to another salt of the hash; 0: never.")
            .or("0s"),
    ],
};

impl QueuePlan for SfqQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "sfq",
        Place::Queue,
        "Flow queues in round robin; the longest loses its last packet",
        "McKenney 1990",
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
        check(self.buckets > 0, || format!("{at}.buckets"), "must not be zero")?;
        check(self.quantum_bytes > 0, || format!("{at}.quantum_bytes"), "a quantum of 0 bytes never sends")?;
        check(self.depth_packets > 0, || format!("{at}.depth_packets"), "a flow of 0 packets never sends")?;
        check(self.flows > 0, || format!("{at}.flows"), "a queue of 0 flows passes nothing")
    }
}

impl AtDeparture for SfqQueue {
    type Qdisc<P: Packet + Send> = Sfq<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Sfq<P> {
        Sfq::from_plan(self, port, stream)
    }
}

/// The packets that share a bucket.
#[derive(Clone, Debug)]
struct Flow<P> {
    fifo: Fifo<P>,
    /// Bytes that it may send before its turn ends.
    allotment: i64,
    /// When its length changed, counted over all flows.
    changed: u64,
}

/// Flow queues in round robin, with a hard limit over all of them.
#[derive(Clone, Debug)]
pub struct Sfq<P> {
    limit: DropTail,
    port: Port,
    quantum: i64,
    depth: u64,
    most_flows: usize,
    period_ns: u64,
    /// When the salt changes.
    next_salt: Time,
    stream: Stream,
    salt: u32,
    flows: Vec<Flow<P>>,
    /// Buckets with packets, in the order of their turns.
    turns: VecDeque<u32>,
    changes: u64,
    bytes: u64,
    packets: u64,
    counters: Counters,
}

impl<P: Packet> Sfq<P> {
    /// Empty queues; the salt is drawn from `stream`.
    ///
    /// # Panics
    /// When there are no buckets or the quantum is zero.
    pub fn from_plan(queue: &SfqQueue, port: Port, mut stream: Stream) -> Sfq<P> {
        let SfqQueue { limit, buckets, quantum_bytes, depth_packets, flows, perturb_ns } = *queue;
        assert!(buckets > 0 && quantum_bytes > 0, "stochastic fairness queueing needs a bucket and a quantum");
        Sfq {
            limit: DropTail::from_plan(&limit),
            port,
            quantum: i64::from(quantum_bytes),
            depth: u64::from(depth_packets),
            most_flows: flows as usize,
            period_ns: perturb_ns,
            next_salt: if perturb_ns > 0 { Time(perturb_ns) } else { Time::MAX },
            salt: stream.bits() as u32,
            stream,
            flows: (0..buckets).map(|_| Flow { fifo: Fifo::default(), allotment: 0, changed: 0 }).collect(),
            turns: VecDeque::new(),
            changes: 0,
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

    /// Notes that the length of a bucket changed.
    fn touch(&mut self, bucket: u32) {
        self.changes += 1;
        self.flows[bucket as usize].changed = self.changes;
    }

    fn drop(&mut self, packet: P, bytes: u32, drops: &mut Drops<'_, P>) {
        self.counters.dropped(bytes, DropReason::Overflow);
        drops(packet, DropReason::Overflow);
    }

    /// Appends a packet to a bucket, if its limits permit; otherwise returns the packet.
    fn push(&mut self, bucket: u32, entry: Entry<P>) -> Result<(), Entry<P>> {
        let flow = &mut self.flows[bucket as usize];
        let waiting = flow.fifo.packets();
        if waiting >= self.depth || (waiting == 0 && self.turns.len() >= self.most_flows) {
            return Err(entry);
        }
        self.bytes += u64::from(entry.bytes);
        self.packets += 1;
        flow.fifo.push(entry.packet, entry.since, entry.bytes);
        if waiting == 0 {
            flow.allotment = self.quantum;
            self.turns.push_back(bucket);
        }
        self.touch(bucket);
        Ok(())
    }

    /// Draws the salts that are due by `now`, and moves the packets into their new buckets.
    fn perturb(&mut self, now: Time, drops: &mut Drops<'_, P>) {
        if now < self.next_salt {
            return;
        }
        while now >= self.next_salt {
            self.salt = self.stream.bits() as u32;
            self.next_salt = Time(self.next_salt.0 + self.period_ns);
        }
        let mut buckets: Vec<u32> = self.turns.drain(..).collect();
        buckets.sort_unstable();
        let mut waiting = Vec::with_capacity(self.packets as usize);
        for bucket in buckets {
            let fifo = &mut self.flows[bucket as usize].fifo;
            waiting.extend(std::iter::from_fn(|| fifo.pop()));
        }
        (self.bytes, self.packets) = (0, 0);
        for entry in waiting {
            let bucket = self.bucket(entry.packet.flow_hash());
            if let Err(Entry { packet, bytes, .. }) = self.push(bucket, entry) {
                self.drop(packet, bytes, drops);
            }
        }
    }

    /// Drops the last packet of the longest flow, and where none has two, that of the flow whose turn it is; returns its
    /// bucket.
    #[cold]
    fn drop_from_longest(&mut self, drops: &mut Drops<'_, P>) -> u32 {
        let rank = |&bucket: &u32| {
            let flow = &self.flows[bucket as usize];
            (flow.fifo.packets(), flow.changed)
        };
        let longest = self.turns.iter().copied().max_by_key(rank).expect("a queue past its limit holds a packet");
        let alone = self.flows[longest as usize].fifo.packets() == 1;
        let bucket = if alone { self.turns.pop_front().expect("as above") } else { longest };
        let Entry { packet, bytes, .. } = self.flows[bucket as usize].fifo.pop_last().expect("it has a turn");
        self.touch(bucket);
        self.bytes -= u64::from(bytes);
        self.packets -= 1;
        self.drop(packet, bytes, drops);
        bucket
    }
}

impl<P: Packet + Send> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.perturb(now, drops);
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        let bucket = self.bucket(packet.flow_hash());
        if let Err(Entry { packet, .. }) = self.push(bucket, Entry { packet, since: now, bytes }) {
            self.drop(packet, bytes, drops);
            return Enqueued::Dropped;
        }
        let mut outcome = Enqueued::Queued;
        while self.limit.is_exceeded(self.bytes, self.packets) {
            // The arriving packet is the last of its flow, so the flow's first loss is that packet.
            if self.drop_from_longest(drops) == bucket {
                outcome = Enqueued::Dropped;
            }
        }
        outcome
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.perturb(now, drops);
        loop {
            let &bucket = self.turns.front()?;
            let flow = &mut self.flows[bucket as usize];
            if flow.allotment <= 0 {
                flow.allotment += self.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            let entry = flow.fifo.pop()?;
            flow.allotment -= i64::from(entry.bytes);
            if flow.fifo.packets() == 0 {
                self.turns.pop_front();
            }
            self.touch(bucket);
            self.bytes -= u64::from(entry.bytes);
            self.packets -= 1;
            self.counters.left(entry.bytes);
            return Some(Dequeued { packet: entry.packet, sojourn: now.since(entry.since), class: 0 });
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

    /// Round robin does not depend on the rate.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestPacket;

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };

    fn sfq(packets: u64, depth_packets: u32, most: u32) -> Sfq<TestPacket> {
        let limit = Limit { bytes: None, packets: Some(packets) };
        let plan = SfqQueue { limit, buckets: 1024, quantum_bytes: 1500, depth_packets, flows: most, perturb_ns: 0 };
        Sfq::from_plan(&plan, PORT, Stream::new(1, "salt"))
    }

    /// Flows A, B, C ... in different buckets.
    fn flows<const N: usize>(queue: &Sfq<TestPacket>) -> [u32; N] {
        let flows = std::array::from_fn(|i| i as u32 + 1);
        let buckets: std::collections::BTreeSet<_> = flows.iter().map(|&f| queue.bucket(f)).collect();
        assert_eq!(buckets.len(), N, "these flows share a bucket: choose others");
        flows
    }

    /// Offers packets with ids `ids` at instant 0; the ids dropped.
    fn offer(queue: &mut Sfq<TestPacket>, flow: u32, bytes: u32, ids: std::ops::Range<u32>) -> Vec<u32> {
        let mut dropped = Vec::new();
        for id in ids {
            let before = dropped.len();
            let outcome =
                queue.enqueue(Time::ZERO, TestPacket::new(id, bytes).of_flow(flow), &mut |p, _| dropped.push(p.id));
            assert_eq!(outcome == Enqueued::Dropped, dropped[before..].contains(&id));
        }
        dropped
    }

    fn take(queue: &mut Sfq<TestPacket>, n: usize) -> Vec<u32> {
        (0..n).filter_map(|_| queue.dequeue(Time::ZERO, &mut |_, _| panic!()).map(|out| out.packet.id)).collect()
    }

    #[test]
    fn flows_take_turns_of_a_quantum() {
        let mut queue = sfq(1000, 127, 127);
        let [a, b] = flows(&queue);
        offer(&mut queue, a, 1500, 100..104);
        offer(&mut queue, b, 500, 200..209);
        assert_eq!(take(&mut queue, 13), [100, 200, 201, 202, 101, 203, 204, 205, 102, 206, 207, 208, 103]);
        assert!(take(&mut queue, 1).is_empty());
    }

    #[test]
    fn a_debt_is_paid_in_the_next_turn() {
        let mut queue = sfq(10_000, 10_000, 127);
        let [a, b] = flows(&queue);
        offer(&mut queue, a, 1400, 0..1000);
        offer(&mut queue, b, 900, 1000..3000);
        let mut sent = [0u32; 2];
        for id in take(&mut queue, 1500) {
            sent[usize::from(id >= 1000)] += if id < 1000 { 1400 } else { 900 };
        }
        assert!(sent[0].abs_diff(sent[1]) <= 3000, "{sent:?}");
    }

    #[test]
    fn a_new_flow_goes_to_the_end_of_the_list() {
        let mut queue = sfq(1000, 127, 127);
        let [a, b, new] = flows(&queue);
        offer(&mut queue, a, 1500, 100..110);
        offer(&mut queue, b, 1500, 200..210);
        assert_eq!(take(&mut queue, 2), [100, 200]);
        offer(&mut queue, new, 100, 1..2);
        // B has spent its allotment, and leaves the head of the list when it is asked again, behind the new flow.
        assert_eq!(take(&mut queue, 4), [101, 1, 201, 102]);
    }

    #[test]
    fn past_the_limit_the_longest_flow_loses_its_last_packet() {
        let mut queue = sfq(5, 127, 127);
        let [a, b] = flows(&queue);
        offer(&mut queue, a, 1500, 100..104);
        assert_eq!(offer(&mut queue, b, 1500, 200..203), [103, 202], "then B is as long as A, and changed last");
        assert_eq!(take(&mut queue, 9), [100, 200, 101, 201, 102]);
    }

    #[test]
    fn among_flows_of_one_packet_the_next_one_loses() {
        let mut queue = sfq(2, 127, 127);
        let [a, b, c] = flows(&queue);
        offer(&mut queue, a, 1500, 1..2);
        offer(&mut queue, b, 1500, 2..3);
        assert_eq!(offer(&mut queue, c, 1500, 3..4), [1]);
        assert_eq!(take(&mut queue, 9), [2, 3]);
    }

    #[test]
    fn depth_and_number_of_flows_are_limits_of_their_own() {
        let mut queue = sfq(1000, 2, 1);
        let [a, b] = flows(&queue);
        assert_eq!(offer(&mut queue, a, 1500, 1..4), [3]);
        assert_eq!(offer(&mut queue, b, 1500, 4..5), [4]);
        assert_eq!(take(&mut queue, 2), [1, 2]);
        assert!(offer(&mut queue, b, 1500, 5..6).is_empty(), "A has left its place");
        assert_eq!((queue.packets(), queue.bytes(), queue.counters().overflow_packets), (1, 1500, 2));
    }

    #[test]
    fn another_salt_moves_waiting_packets_and_keeps_the_order_of_each_flow() {
        let limit = Limit { bytes: None, packets: Some(1000) };
        let plan =
            SfqQueue { limit, buckets: 1024, quantum_bytes: 1500, depth_packets: 9, flows: 127, perturb_ns: 1000 };
        let mut queue: Sfq<TestPacket> = Sfq::from_plan(&plan, PORT, Stream::new(1, "salt"));
        let [a, b] = flows(&queue);
        offer(&mut queue, a, 1500, 100..103);
        offer(&mut queue, b, 1500, 200..203);
        let before = (queue.bucket(a), queue.bucket(b));
        let first = queue.dequeue(Time(999), &mut |_, _| panic!()).map(|out| out.packet.id);
        assert_eq!((first, before), (Some(100), (queue.bucket(a), queue.bucket(b))), "not yet");
        let out = queue.dequeue(Time(3500), &mut |_, _| panic!("both have room")).unwrap();
        assert_eq!(out.sojourn.0, 3500, "it waits since its arrival");
        assert_ne!(before, (queue.bucket(a), queue.bucket(b)));
        let mut ids = vec![out.packet.id];
        ids.extend(std::iter::from_fn(|| queue.dequeue(Time(3999), &mut |_, _| panic!()).map(|out| out.packet.id)));
        let of = |flow: u32| ids.iter().copied().filter(|id| id / 100 == flow).collect::<Vec<_>>();
        assert_eq!((of(1), of(2)), (vec![101, 102], vec![200, 201, 202]));
        assert_eq!((queue.packets(), queue.bytes()), (0, 0));
    }

    #[test]
    fn packets_beyond_the_depth_of_their_new_bucket_are_lost() {
        let limit = Limit { bytes: None, packets: Some(1000) };
        let plan = SfqQueue { limit, buckets: 16, quantum_bytes: 1500, depth_packets: 3, flows: 127, perturb_ns: 1000 };
        let mut queue: Sfq<TestPacket> = Sfq::from_plan(&plan, PORT, Stream::new(1, "salt"));
        // Each bucket is full of packets of one flow; another salt puts some of these flows into one bucket.
        let (mut offered, mut dropped) = (0u64, 0u64);
        for flow in 0..100 {
            for id in 0..3 {
                offered += 1;
                queue.enqueue(Time::ZERO, TestPacket::new(id, 1500).of_flow(flow * flow * 7919), &mut |_, _| {
                    dropped += 1
                });
            }
        }
        let waited = queue.packets();
        assert_eq!(waited + dropped, offered);
        let mut lost = 0;
        let next = queue.dequeue(Time(1000), &mut |_, reason| {
            assert_eq!(reason, DropReason::Overflow);
            lost += 1;
        });
        assert!(next.is_some() && lost > 0, "{lost} lost");
        assert_eq!(queue.packets() + lost + 1, waited);
        assert_eq!(queue.bytes(), 1500 * queue.packets());
    }
}
