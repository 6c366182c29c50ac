//! Conservation at every queue: what goes in comes out once, is dropped once, or waits, in packets and in bytes; in order,
//! within the limit, and never idle while something waits.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_elements::plan::{DroptailQueue, PieQueue};
use weir_elements::{AnyQdisc, DropReason, Enqueued, Port, Qdisc};
use weir_elements::{Limit, Queue};
use weir_units::{Rate, Stream, Time};

use crate::common::{EventedLink, any_queue, arrivals, port};
use crate::testing::TestPacket;

/// Follows every packet through a queue.
struct Ledger {
    queue: AnyQdisc<TestPacket>,
    port: Port,
    limit: Limit,
    waiting: BTreeMap<u32, (Time, TestPacket)>,
    /// Last packet of each flow, by class.
    last_out: BTreeMap<(u32, u32), u32>,
    out: (u64, u64),
    dropped: (u64, u64),
    entered: (u64, u64),
    marked: u64,
}

impl Ledger {
    fn new(plan: &Queue, port: Port) -> Ledger {
        Ledger {
            queue: AnyQdisc::from_plan(plan, port, Stream::new(1, "queue")),
            port,
            limit: *plan.limit(),
            waiting: BTreeMap::new(),
            last_out: BTreeMap::new(),
            out: (0, 0),
            dropped: (0, 0),
            entered: (0, 0),
            marked: 0,
        }
    }

    fn wire(&self, packet: &TestPacket) -> u64 {
        u64::from(self.port.wire_bytes(packet))
    }

    fn enqueue(&mut self, now: Time, packet: &TestPacket) {
        self.entered.0 += 1;
        self.entered.1 += self.wire(packet);
        self.waiting.insert(packet.id, (now, packet.clone()));
        let mut gone = Vec::new();
        let outcome = self.queue.enqueue(now, packet.clone(), &mut |p, reason| gone.push((p, reason)));
        assert_eq!(outcome == Enqueued::Dropped, gone.iter().any(|(p, _)| p.id == packet.id), "{outcome:?}");
        self.marked += u64::from(outcome == Enqueued::Marked);
        self.account_drops(gone);
        self.check();
    }

    fn dequeue(&mut self, now: Time) {
        let had = self.queue.packets();
        let mut gone = Vec::new();
        let out = self.queue.dequeue(now, &mut |p, reason| gone.push((p, reason)));
        self.account_drops(gone);
        let is_held = out.is_none() && self.queue.held_until(now).is_some_and(|until| until > now);
        assert!(is_held || out.is_some() == (had > 0), "a queue that holds a packet gives one, or says when it will");
        if let Some(out) = out {
            let (since, packet) = self.waiting.remove(&out.packet.id).expect("it waits, once");
            assert_eq!(out.sojourn, now.since(since));
            assert_eq!(out.packet, TestPacket { ce: out.packet.ce, ..packet.clone() });
            let class = self.queue.class_of(&packet);
            assert_eq!(out.class, class, "it leaves the class that it entered");
            let before = self.last_out.insert((packet.flow, class), packet.id);
            assert!(before < Some(packet.id), "flow {} is reordered in class {class}", packet.flow);
            self.out.0 += 1;
            self.out.1 += self.wire(&packet);
        }
        self.check();
    }

    fn account_drops(&mut self, gone: Vec<(TestPacket, DropReason)>) {
        for (packet, _) in gone {
            self.waiting.remove(&packet.id).expect("only what waits is dropped, and once");
            self.dropped.0 += 1;
            self.dropped.1 += self.wire(&packet);
        }
    }

    fn check(&self) {
        let bytes: u64 = self.waiting.values().map(|(_, packet)| self.wire(packet)).sum();
        assert_eq!((self.queue.packets(), self.queue.bytes()), (self.waiting.len() as u64, bytes));
        assert!(self.limit.bytes.is_none_or(|most| bytes <= most));
        assert!(self.limit.packets.is_none_or(|most| self.waiting.len() as u64 <= most));
        let counters = self.queue.counters();
        assert_eq!((counters.in_packets, counters.in_bytes), self.entered);
        assert_eq!((counters.out_packets, counters.out_bytes), self.out);
        assert_eq!((counters.dropped_packets(), counters.dropped_bytes), self.dropped);
        assert_eq!(self.entered.0, self.out.0 + self.dropped.0 + self.queue.packets());
        assert_eq!(self.entered.1, self.out.1 + self.dropped.1 + self.queue.bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(768))]

    #[test]
    fn every_packet_is_accounted_for(
        plan in any_queue(),
        port in port(),
        arrivals in arrivals(),
        dequeues in prop::collection::vec(0u8..3, 400),
    ) {
        let mut ledger = Ledger::new(&plan, port);
        for ((now, packet), dequeues) in arrivals.iter().zip(dequeues) {
            for _ in 0..dequeues {
                ledger.dequeue(*now);
            }
            ledger.enqueue(*now, packet);
        }
        let mut end = arrivals.last().map_or(Time::ZERO, |(now, _)| *now);
        while ledger.queue.packets() > 0 {
            ledger.dequeue(end);
            end = ledger.queue.held_until(end).map_or(end, |until| end.max(until));
        }
        ledger.dequeue(end);
        prop_assert_eq!(ledger.entered.1, ledger.out.1 + ledger.dropped.1);
        prop_assert!(ledger.marked <= ledger.queue.counters().marked_packets);
    }

    /// A train is its packets, one after the other.
    #[test]
    fn a_train_is_taken_apart(plan in any_queue(), port in port(), trains in prop::collection::vec((1u32..45, 40u32..1500, 0u64..5_000_000), 1..20)) {
        let build = || AnyQdisc::from_plan(&plan, port, Stream::new(1, "queue"));
        let (mut whole, mut apart): (AnyQdisc<TestPacket>, AnyQdisc<TestPacket>) = (build(), build());
        let (mut now, mut id) = (0, 0);
        for (segments, bytes, gap) in trains {
            now += gap;
            let (mut dropped_whole, mut dropped_apart) = (Vec::new(), Vec::new());
            let outcome =
                whole.enqueue_train(Time(now), TestPacket::new(id, bytes).with_ecn().train(segments), &mut |p, _| dropped_whole.push(p));
            for i in 0..segments {
                apart.enqueue(Time(now), TestPacket::new(id + i, bytes).with_ecn(), &mut |p, _| dropped_apart.push(p));
            }
            prop_assert_eq!(&dropped_whole, &dropped_apart);
            prop_assert_eq!(whole.counters(), apart.counters());
            prop_assert_eq!(outcome.queued + outcome.dropped, segments);
            id += segments;
            for _ in 0..segments / 2 {
                let out = [&mut whole, &mut apart].map(|queue| queue.dequeue(Time(now), &mut |_, _| {}));
                prop_assert_eq!(&out[0], &out[1]);
            }
        }
    }

    /// The same plan and stream, the same decisions.
    #[test]
    fn decisions_are_reproducible(plan in any_queue(), port in port(), arrivals in arrivals()) {
        let run = || {
            let mut link = EventedLink::new(AnyQdisc::from_plan(&plan, port, Stream::new(7, "queue")), port);
            for (now, packet) in &arrivals {
                link.arrive(*now, packet.clone());
            }
            link.advance(Time::MAX);
            (link.departures, link.dropped)
        };
        prop_assert_eq!(run(), run());
    }
}

/// A new rate in the middle neither loses nor duplicates a packet, and RED and PIE take it.
#[test]
fn a_change_of_rate_keeps_every_packet() {
    for plan in [
        Queue::Droptail(DroptailQueue { limit: Limit { bytes: None, packets: Some(50) } }),
        Queue::Pie(PieQueue {
            limit: Limit { bytes: None, packets: Some(50) },
            target_ns: 1_000_000,
            update_ns: 1_000_000,
            alpha: 0.125,
            beta: 1.25,
            mark: weir_elements::Mark::Drop,
        }),
    ] {
        let port = Port { rate: Rate::from_mbps(12), overhead_bytes: 38, mtu_bytes: 1500 };
        let mut ledger = Ledger::new(&plan, port);
        for id in 0..2000u32 {
            let now = Time(u64::from(id) * 400_000);
            if id % 500 == 250 {
                ledger.queue.set_rate(now, Rate::from_mbps(if id % 1000 == 250 { 0 } else { 50 }));
            }
            if id % 3 == 0 {
                ledger.dequeue(now);
            }
            ledger.enqueue(now, &TestPacket::new(id, 1500));
        }
        assert!(ledger.dropped.0 > 0);
    }
}
