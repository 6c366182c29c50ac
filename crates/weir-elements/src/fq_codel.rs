//! FQ-CoDel: flow queues served by deficit round robin, each under CoDel (RFC 8290).
//!
//! A hash with a random salt maps each packet to one of a fixed number of queues. A queue that becomes active joins the
//! list of *new* queues, which is served before the list of *old* ones: a flow that sends less than its share never
//! waits for others. A queue sends while it has credits; then it receives another quantum and goes to the end of the
//! old list. An empty new queue passes through the old list before it becomes inactive, or it could starve the old ones
//! (section 4.2).
//!
//! Beyond the limit, the longest queue loses half its bytes from its head, 64 packets at most (section 4.1), which
//! count as signals of its CoDel, as in Linux. Also as in Linux, "in excess" (see [`Codel`](crate::Codel)) refers to
//! the bytes of all queues: a flow with one packet is in excess while it waits behind others.
//!
//! Train: taken apart on arrival, so that a turn is at most a quantum and a packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::codel::{CE_THRESHOLD, Control, INTERVAL, Law, TARGET};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, ecn, key};
use crate::fifo::{Entry, Fifo};
use crate::limit::size;
use crate::qdisc::{AtDeparture, Drops};
use crate::turns::{Turns, bucket};
use crate::{CodelParams, Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Packet, Port, Qdisc};

/// Flow queue CoDel (RFC 8290).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqCodelQueue {
    /// Hard limit over all flows; a packet is dropped from the longest queue.
    pub limit: Limit,
    /// Number of hash buckets; 1024.
    pub buckets: u32,
    /// Bytes a flow may send a round.
    pub quantum_bytes: u32,
    /// Parameters of each queue.
    pub codel: CodelParams,
}

const FORM: Form = Form {
    name: "fq_codel",
    title: "Flow queue CoDel (RFC 8290).",
    keys: &[
        size("Hard limit over all flows; 10240 packets, as in Linux.").or("10240packets"),
        key("buckets", "buckets", Kind::Integer { min: 1, max: 65_536 }, "Number of hash buckets; 1024.").or("1024"),
        key("quantum", "quantum_bytes", Kind::PacketBytes, "Bytes a flow may send a round; 1514.").or("1514B"),
        TARGET,
        INTERVAL,
        ecn("codel.mark"),
        CE_THRESHOLD,
    ],
};

impl QueuePlan for FqCodelQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "fq_codel",
        Place::Queue,
        "Flow queues in deficit round robin, each under CoDel",
        "RFC 8290",
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
        self.codel.validate(at)
    }
}

impl AtDeparture for FqCodelQueue {
    type Qdisc<P: Packet + Send> = FqCodel<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> FqCodel<P> {
        FqCodel::from_plan(self, port, stream)
    }
}

/// Limit on packets dropped at once when the limit is exceeded.
const DROP_BATCH: u64 = 64;

/// The queue of the flows that share a bucket.
#[derive(Clone, Debug)]
struct Flow<P> {
    fifo: Fifo<P>,
    control: Control,
    /// Bytes that it may send before its turn ends.
    credits: i64,
    /// The list that it is in.
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
    turns: Turns,
    bytes: u64,
    packets: u64,
    counters: Counters,
}

impl<P: Packet> FqCodel<P> {
    /// Empty queues; the salt is drawn from `stream`.
    ///
    /// # Panics
    /// When there are no buckets or the quantum is zero.
    pub fn from_plan(queue: &FqCodelQueue, port: Port, mut stream: Stream) -> FqCodel<P> {
        let FqCodelQueue { limit, buckets, quantum_bytes, codel } = *queue;
        assert!(buckets > 0 && quantum_bytes > 0, "FQ-CoDel needs a bucket and a quantum");
        let flow = || Flow { fifo: Fifo::default(), control: Control::default(), credits: 0, active: false };
        FqCodel {
            limit: DropTail::from_plan(&limit),
            law: Law::from_plan(&codel, &port),
            port,
            quantum: i64::from(quantum_bytes),
            salt: stream.bits() as u32,
            flows: (0..buckets).map(|_| flow()).collect(),
            turns: Turns::default(),
            bytes: 0,
            packets: 0,
            counters: Counters::default(),
        }
    }

    /// The bucket of a flow.
    fn bucket(&self, flow_hash: u32) -> u32 {
        bucket(flow_hash, self.salt, self.flows.len())
    }

    fn push(&mut self, bucket: u32, now: Time, packet: P, bytes: u32) {
        let flow = &mut self.flows[bucket as usize];
        flow.fifo.push(packet, now, bytes);
        if !flow.active {
            flow.active = true;
            flow.credits = self.quantum;
            self.turns.join_new(bucket);
        }
        self.bytes += u64::from(bytes);
        self.packets += 1;
    }

    /// Drops half the bytes of the longest queue and counts them in its CoDel; returns its bucket.
    #[cold]
    fn drop_from_fattest(&mut self, drops: &mut Drops<'_, P>) -> usize {
        let active = self.turns.flows().map(|bucket| bucket as usize);
        // The lowest bucket among equals, whatever the order of the lists.
        let fattest = active
            .max_by_key(|&bucket| (self.flows[bucket].fifo.bytes(), usize::MAX - bucket))
            .expect("a queue past its limit holds a packet");
        let Flow { fifo, control, .. } = &mut self.flows[fattest];
        let rest = fifo.bytes() - fifo.bytes() / 2;
        let mut dropped = 0;
        while dropped == 0 || (dropped < DROP_BATCH && fifo.bytes() > rest) {
            let Some(Entry { packet, bytes, .. }) = fifo.pop() else { break };
            self.bytes -= u64::from(bytes);
            dropped += 1;
            self.counters.dropped(bytes, DropReason::Overflow);
            drops(packet, DropReason::Overflow);
        }
        self.packets -= dropped;
        control.note_drops(dropped);
        fattest
    }

    /// The next packet of a bucket, under CoDel.
    fn pop(&mut self, bucket: u32, now: Time, drops: &mut Drops<'_, P>) -> Option<Entry<P>> {
        let flow = &mut self.flows[bucket as usize];
        let (bytes, packets) = (flow.fifo.bytes(), flow.fifo.packets());
        let others = self.bytes - bytes;
        let entry = flow.control.dequeue(&self.law, &mut flow.fifo, others, now, &mut self.counters, drops);
        self.bytes -= bytes - flow.fifo.bytes();
        self.packets -= packets - flow.fifo.packets();
        flow.credits -= entry.as_ref().map_or(0, |e| i64::from(e.bytes));
        entry
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
            // The arriving packet is the last of its queue: if the queue is empty, it was dropped.
            if fattest == bucket as usize && self.flows[fattest].fifo.packets() == 0 {
                outcome = Enqueued::Dropped;
            }
        }
        outcome
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        loop {
            let turn = self.turns.current()?;
            let flow = &mut self.flows[turn.flow as usize];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                self.turns.pass_on(turn);
                continue;
            }
            if let Some(entry) = self.pop(turn.flow, now, drops) {
                self.counters.left(entry.bytes);
                return Some(Dequeued { packet: entry.packet, sojourn: now.since(entry.since), class: 0 });
            }
            if self.turns.retire(turn) {
                self.flows[turn.flow as usize].active = false;
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

    /// Neither deficit round robin nor CoDel depends on the rate.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;
    use crate::testing::TestPacket;

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };

    fn fq_codel(packets: u64) -> FqCodel<TestPacket> {
        let limit = Limit { bytes: None, packets: Some(packets) };
        let codel =
            CodelParams { target_ns: 5_000_000, interval_ns: 100_000_000, mark: Mark::Drop, ce_threshold_ns: None };
        FqCodel::from_plan(
            &FqCodelQueue { limit, buckets: 1024, quantum_bytes: 1500, codel },
            PORT,
            Stream::new(1, "salt"),
        )
    }

    /// Flows A, B, C ... in different buckets.
    fn flows<const N: usize>(queue: &FqCodel<TestPacket>) -> [u32; N] {
        let flows = std::array::from_fn(|i| i as u32 + 1);
        let buckets: std::collections::BTreeSet<_> = flows.iter().map(|&f| queue.bucket(f)).collect();
        assert_eq!(buckets.len(), N, "these flows share a bucket: choose others");
        flows
    }

    /// Offers packets with ids `ids` at instant 0; the ids dropped.
    fn offer(queue: &mut FqCodel<TestPacket>, flow: u32, bytes: u32, ids: std::ops::Range<u32>) -> Vec<u32> {
        let mut dropped = Vec::new();
        for id in ids {
            queue.enqueue(Time::ZERO, TestPacket::new(id, bytes).of_flow(flow), &mut |p, reason| {
                assert_eq!(reason, DropReason::Overflow);
                dropped.push(p.id);
            });
        }
        dropped
    }

    fn next(queue: &mut FqCodel<TestPacket>) -> Option<u32> {
        queue.dequeue(Time::ZERO, &mut |_, _| panic!("nothing waits long")).map(|out| out.packet.id)
    }

    fn take(queue: &mut FqCodel<TestPacket>, n: usize) -> Vec<u32> {
        (0..n).filter_map(|_| next(queue)).collect()
    }

    #[test]
    fn backlogged_flows_alternate_by_quantum() {
        let mut queue = fq_codel(1000);
        let [a, b] = flows(&queue);
        offer(&mut queue, a, 1500, 100..104);
        offer(&mut queue, b, 500, 200..209);
        // A sends a packet a turn, B three of a third.
        assert_eq!(take(&mut queue, 13), [100, 200, 201, 202, 101, 203, 204, 205, 102, 206, 207, 208, 103]);
        assert_eq!(next(&mut queue), None);
    }

    #[test]
    fn bytes_are_shared_evenly_whatever_the_packet_size() {
        let mut queue = fq_codel(100_000);
        let [a, b, c] = flows(&queue);
        for (flow, bytes) in [(a, 1500), (b, 400), (c, 77)] {
            offer(&mut queue, flow, bytes, 0..20_000);
        }
        let mut sent = [0u32; 4];
        for _ in 0..10_000 {
            let out = queue.dequeue(Time::ZERO, &mut |_, _| panic!()).unwrap().packet;
            sent[out.flow as usize] += out.bytes;
        }
        let (least, most) = (sent[1].min(sent[2]).min(sent[3]), sent[1].max(sent[2]).max(sent[3]));
        // Deficit round robin is never apart by more than a quantum and a packet.
        assert!(most - least <= 3000, "{sent:?}");
    }

    #[test]
    fn a_sparse_flow_goes_first() {
        let mut queue = fq_codel(1000);
        let [a, b, sparse] = flows(&queue);
        offer(&mut queue, a, 1500, 100..150);
        offer(&mut queue, b, 1500, 200..250);
        take(&mut queue, 10);
        offer(&mut queue, sparse, 100, 1..2);
        assert_eq!(next(&mut queue), Some(1));
    }

    #[test]
    fn a_new_flow_that_has_had_its_quantum_waits_like_the_others() {
        let mut queue = fq_codel(1000);
        let [a, b, new] = flows(&queue);
        offer(&mut queue, a, 1500, 100..150);
        offer(&mut queue, b, 1500, 200..250);
        take(&mut queue, 10);
        offer(&mut queue, new, 1500, 1..10);
        // B, served last, is at the head of the old list with its credits spent: its next turn comes after the new
        // flow's.
        assert_eq!(take(&mut queue, 7), [1, 105, 2, 205, 106, 3, 206]);
    }

    /// The rule against starvation: an emptied new queue passes through the old list. A flow that returns meanwhile is
    /// not new.
    #[test]
    fn a_flow_that_returns_at_once_does_not_go_first_again() {
        let mut queue = fq_codel(1000);
        let [bulk, sparse] = flows(&queue);
        offer(&mut queue, bulk, 500, 100..150);
        take(&mut queue, 3);
        offer(&mut queue, sparse, 100, 1..2);
        assert_eq!(next(&mut queue), Some(1));
        assert_eq!(next(&mut queue), Some(103), "the empty queue went to the end of the old list");
        offer(&mut queue, sparse, 100, 2..3);
        assert_eq!(take(&mut queue, 3), [104, 105, 2], "it is served in its turn");
        // Empty in the old list: inactive after its next turn, and then new again.
        assert_eq!(take(&mut queue, 4), [106, 107, 108, 109]);
        offer(&mut queue, sparse, 100, 3..4);
        assert_eq!(next(&mut queue), Some(3));
    }

    #[test]
    fn past_the_limit_the_fattest_flow_loses_half_from_its_head() {
        let mut queue = fq_codel(10);
        let [fat, thin] = flows(&queue);
        assert!(offer(&mut queue, fat, 1500, 100..108).is_empty());
        assert!(offer(&mut queue, thin, 1500, 200..202).is_empty());
        assert_eq!(offer(&mut queue, thin, 1500, 202..203), [100, 101, 102, 103]);
        assert_eq!(queue.packets(), 7);
    }

    #[test]
    fn fat_is_measured_in_bytes() {
        let mut queue = fq_codel(10);
        let [many, large] = flows(&queue);
        offer(&mut queue, many, 100, 100..108);
        offer(&mut queue, large, 1500, 200..202);
        assert_eq!(offer(&mut queue, many, 100, 108..109), [200]);
    }

    #[test]
    fn of_equally_fat_flows_the_lowest_bucket_loses() {
        let lowest_loses = |first: usize| {
            let mut queue = fq_codel(10);
            let mut pair: [u32; 2] = flows(&queue);
            pair.sort_by_key(|&flow| queue.bucket(flow));
            let [low, high] = pair;
            // Whichever came first and stands first in the lists.
            for flow in if first == 0 { [low, high] } else { [high, low] } {
                offer(&mut queue, flow, 1000, if flow == low { 100..105 } else { 200..205 });
            }
            let [_, _, thin] = flows(&queue);
            offer(&mut queue, thin, 10, 1..2)
        };
        assert_eq!(lowest_loses(0), [100, 101, 102]);
        assert_eq!(lowest_loses(1), [100, 101, 102]);
    }

    /// Each flow has a single packet waiting, so that its own queue is never in excess.
    #[test]
    fn a_single_packet_behind_other_flows_is_in_excess() {
        let mut queue = fq_codel(1000);
        let [a, b, c] = flows(&queue);
        let mut dropped = 0;
        for round in 0..200u64 {
            let now = Time(round * 30_000_000);
            for flow in [a, b, c] {
                queue.enqueue(now, TestPacket::new(1, 1500).of_flow(flow), &mut |_, _| panic!("there is room"));
            }
            for _ in 0..3 {
                queue.dequeue(Time(now.0 + 20_000_000), &mut |_, reason| {
                    assert_eq!(reason, DropReason::Early);
                    dropped += 1;
                });
            }
        }
        assert!(dropped > 0);
    }

    #[test]
    fn no_more_than_64_are_dropped_at_once() {
        let mut queue = fq_codel(300);
        let [flow] = flows(&queue);
        assert_eq!(offer(&mut queue, flow, 1500, 0..301), (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn an_arrival_that_is_dropped_itself_is_reported() {
        let limit = Limit { bytes: Some(1400), packets: None };
        let codel =
            CodelParams { target_ns: 5_000_000, interval_ns: 100_000_000, mark: Mark::Drop, ce_threshold_ns: None };
        let mut queue: FqCodel<TestPacket> = FqCodel::from_plan(
            &FqCodelQueue { limit, buckets: 8, quantum_bytes: 1500, codel },
            PORT,
            Stream::new(1, "salt"),
        );
        assert_eq!(queue.enqueue(Time::ZERO, TestPacket::new(0, 100), &mut |_, _| panic!()), Enqueued::Queued);
        let mut dropped = Vec::new();
        let outcome = queue.enqueue(Time::ZERO, TestPacket::new(1, 1500), &mut |p, _| dropped.push(p.id));
        assert_eq!(outcome, Enqueued::Dropped);
        assert!(dropped.contains(&1));
    }

    #[test]
    fn each_flow_has_its_own_controller() {
        let mut queue = fq_codel(100_000);
        let [bulk, sparse] = flows(&queue);
        offer(&mut queue, bulk, 1500, 1000..3000);
        let ms = |t: u64| Time(t * 1_000_000);
        let mut dropped = Vec::new();
        for t in 10..=300 {
            if t % 20 == 0 {
                let packet = TestPacket::new(t as u32, 100).of_flow(sparse);
                queue.enqueue(ms(t), packet, &mut |_, _| panic!());
            }
            queue.dequeue(ms(t), &mut |p, _| dropped.push((p.flow, t)));
        }
        // The bulk flow is served in every millisecond but those of the sparse packets (multiples of 20).
        assert_eq!(dropped, [(bulk, 110), (bulk, 210), (bulk, 261)]);
    }

    #[test]
    fn the_salt_changes_which_flows_share_a_bucket() {
        let buckets = |seed| {
            let codel = CodelParams { target_ns: 1, interval_ns: 1, mark: Mark::Drop, ce_threshold_ns: None };
            let limit = Limit { bytes: None, packets: Some(1) };
            let queue: FqCodel<TestPacket> = FqCodel::from_plan(
                &FqCodelQueue { limit, buckets: 1024, quantum_bytes: 1500, codel },
                PORT,
                Stream::new(seed, "salt"),
            );
            (0..100).map(|flow| queue.bucket(flow)).collect::<Vec<_>>()
        };
        assert_ne!(buckets(1), buckets(2));
        assert_eq!(buckets(1), buckets(1));
        assert!(buckets(1).iter().all(|&b| b < 1024));
    }
}
