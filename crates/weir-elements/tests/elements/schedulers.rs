//! Schedulers against what their papers promise.

use std::collections::BTreeMap;

use weir_elements::plan::{DroptailQueue, DrrQueue, EtsQueue, PrioQueue, RedQueue, TbfQueue, WfqQueue, WrrQueue};
use weir_elements::{
    AnyQdisc, DrrClass, EtsClass, Limit, Mark, Members, Port, PrioClass, Qdisc, Queue, RedCurve, Transmitter, WfqClass,
    WrrClass,
};
use weir_units::{Rate, Stream, Time};

use crate::common::EventedLink;
use crate::testing::TestPacket;

const PORT: Port = Port { rate: Rate::from_gbps(1), overhead_bytes: 38, mtu_bytes: 1500 };
const AF: u8 = 10;
const NO_LIMIT: Limit = Limit { bytes: Some(1 << 40), packets: None };

fn droptail(packets: u64) -> Queue {
    Queue::Droptail(DroptailQueue { limit: Limit { bytes: None, packets: Some(packets) } })
}

fn members(dscp: &[u8]) -> Members {
    Members { dscp: dscp.to_vec(), flows: Vec::new(), rest: dscp.is_empty() }
}

fn wrr_class(dscp: &[u8], percent: u32, high: bool) -> WrrClass {
    let (name, queue) = (format!("{dscp:?}"), droptail(1000));
    WrrClass { name, members: members(dscp), weight_ppm: percent * 10_000, high, queue }
}

fn wrr(classes: Vec<WrrClass>) -> Queue {
    Queue::Wrr(WrrQueue { limit: NO_LIMIT, burst_bytes: 2 * 1538, classes })
}

/// A link whose classes are filled by hand; packets have the code point of their class.
struct Bench {
    queue: AnyQdisc<TestPacket>,
    transmitter: Transmitter,
    now: Time,
    next_id: u32,
}

impl Bench {
    fn new(queue: &Queue) -> Bench {
        let queue = AnyQdisc::from_plan(queue, PORT, Stream::new(1, "queue"));
        // Long idle: a scheduler has all its credit.
        Bench { queue, transmitter: Transmitter::new(PORT.rate), now: Time(1_000_000_000), next_id: 0 }
    }

    fn offer(&mut self, dscp: u8, bytes: u32, packets: u32) {
        for _ in 0..packets {
            self.next_id += 1;
            let packet = TestPacket { dscp, ..TestPacket::new(self.next_id, bytes) };
            self.queue.enqueue(self.now, packet, &mut |_, _| {});
        }
    }

    /// Sends a packet; time goes on to its end.
    fn send(&mut self) -> Option<TestPacket> {
        let packet = self.queue.dequeue(self.now, &mut |_, _| panic!("drop-tail drops at arrival"))?.packet;
        self.now = self.transmitter.transmit(self.now, PORT.wire_bytes(&packet));
        Some(packet)
    }

    fn sent_points(&mut self, packets: usize) -> Vec<u8> {
        (0..packets).map_while(|_| self.send()).map(|packet| packet.dscp).collect()
    }

    /// Bytes on the wire of each of these classes while all of them always have packets, of these sizes.
    fn backlogged(&mut self, packets: u32, classes: &[(u8, u32)]) -> Vec<u64> {
        let mut sent = vec![0; classes.len()];
        for &(dscp, bytes) in classes {
            self.offer(dscp, bytes, 50);
        }
        for _ in 0..packets {
            let packet = self.send().expect("packets wait");
            let class = classes.iter().position(|&(dscp, _)| dscp == packet.dscp).expect("one of the classes");
            sent[class] += u64::from(PORT.wire_bytes(&packet));
            self.offer(packet.dscp, classes[class].1, 1);
        }
        sent
    }
}

mod weighted_round_robin {
    use super::*;

    fn two(af_percent: u32) -> Queue {
        wrr(vec![wrr_class(&[AF], af_percent, true), wrr_class(&[], 100 - af_percent, false)])
    }

    /// DataTAG, figure 6: two classes, each offered more than it gets.
    #[test]
    fn each_class_gets_its_allocation_for_all_five_splits_and_any_sizes() {
        for af_percent in [90, 70, 50, 30, 10] {
            for sizes in [(1500, 1500), (1500, 64), (300, 1500)] {
                let mut bench = Bench::new(&two(af_percent));
                let classes = [(AF, sizes.0), (0, sizes.1)];
                bench.backlogged(1_000, &classes); // the credit that they saved
                let sent = bench.backlogged(60_000, &classes);
                let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
                let allocated = f64::from(af_percent) / 100.0;
                assert!((share / allocated - 1.0).abs() < 0.005, "{share} of {allocated}, sizes {sizes:?}");
                assert!(((1.0 - share) / (1.0 - allocated) - 1.0).abs() < 0.005, "{share}, sizes {sizes:?}");
            }
        }
    }

    /// As the paper's router: the allocation changes every minute, and each class has the new one at once.
    #[test]
    fn new_weights_hold_from_the_instant_of_the_change() {
        let mut bench = Bench::new(&two(90));
        let classes = [(AF, 1500), (0, 1500)];
        for af_percent in [90, 30, 70, 10] {
            bench.queue.set_shares(bench.now, &[af_percent * 10_000, (100 - af_percent) * 10_000]);
            bench.backlogged(4, &classes); // what the classes owed
            let sent = bench.backlogged(2_000, &classes);
            let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
            assert!((share - af_percent as f64 / 100.0).abs() < 0.005, "{share} at {af_percent} %");
        }
    }

    /// The deviation does not grow: burst and a packet, however long.
    #[test]
    fn the_deviation_from_the_allocation_is_bounded() {
        let mut bench = Bench::new(&two(70));
        let mut total = [0u64; 2];
        for _ in 0..200 {
            let sent = bench.backlogged(100, &[(AF, 1500), (0, 700)]);
            total = [total[0] + sent[0], total[1] + sent[1]];
            let due = (total[0] + total[1]) as f64 * 0.7;
            assert!((total[0] as f64 - due).abs() <= 3.0 * 1538.0, "{total:?}");
        }
    }

    #[test]
    fn the_four_steps_come_in_their_order() {
        // High with 20 %, low with 40 %, high without a guarantee, low without.
        let (high, low, high_rest, low_rest) = (1, 2, 3, 0);
        let classes = vec![
            wrr_class(&[high], 20, true),
            wrr_class(&[low], 40, false),
            wrr_class(&[high_rest], 0, true),
            wrr_class(&[], 0, false),
        ];
        let mut bench = Bench::new(&wrr(classes));
        for class in [low_rest, high_rest, low, high] {
            bench.offer(class, 1500, 200);
        }
        let first = bench.sent_points(5);
        // Two packets of credit and what is earned meanwhile: first the high class, then the low one.
        assert_eq!(first[..3], [high, high, high], "{first:?}");
        assert_eq!(first[3..], [low, low], "{first:?}");
        let later = bench.sent_points(300);
        let count = |class: u8| later.iter().filter(|&&c| c == class).count();
        assert_eq!(count(low_rest), 0, "nothing is left after the high classes without credit");
        // The low class gets its 40 %; the two high ones share the rest in turns, the first after its 20 %.
        assert!((118..=122).contains(&count(low)), "{}", count(low));
        assert!(count(high) >= 60 && count(high_rest) > 50, "{} and {}", count(high), count(high_rest));
        assert_eq!(count(high) + count(high_rest) + count(low), 300);
    }

    #[test]
    fn classes_at_the_same_step_take_turns() {
        let mut bench =
            Bench::new(&wrr(vec![wrr_class(&[1], 0, false), wrr_class(&[2], 0, false), wrr_class(&[], 0, false)]));
        for class in [0, 1, 2] {
            bench.offer(class, 1500, 5);
        }
        assert_eq!(bench.sent_points(6), [1, 2, 0, 1, 2, 0]);
    }

    /// Who used the rest for long does not pay for it, and who was idle has its guarantee at once.
    #[test]
    fn a_class_that_comes_back_gets_its_share_at_once() {
        for af_percent in [90, 10] {
            let mut bench = Bench::new(&two(af_percent));
            let alone = bench.backlogged(5_000, &[(0, 1500)]);
            assert_eq!(alone[0], 5_000 * 1538, "the link is never idle");
            let sent = bench.backlogged(200, &[(AF, 1500), (0, 1500)]);
            let due = 200.0 * 1538.0 * f64::from(af_percent) / 100.0;
            assert!((sent[0] as f64 - due).abs() <= 5.0 * 1538.0, "{sent:?} at {af_percent} %");
        }
    }

    /// Within its guarantee, a class waits for one packet at most: its credit is positive.
    #[test]
    fn within_its_guarantee_a_high_class_goes_first() {
        let mut bench = Bench::new(&two(50));
        bench.offer(0, 1500, 900);
        for _ in 0..100 {
            bench.offer(AF, 1500, 1);
            assert_eq!(bench.send().map(|packet| packet.dscp), Some(AF));
            assert_eq!(bench.sent_points(2), [0, 0]);
        }
    }

    #[test]
    fn a_class_that_is_held_back_leaves_the_link_to_the_others() {
        let mut classes = vec![wrr_class(&[AF], 90, true), wrr_class(&[], 10, false)];
        classes[0].queue = Queue::Tbf(TbfQueue {
            limit: NO_LIMIT,
            rate_bps: 100_000_000,
            burst_bytes: 1538,
            queue: Box::new(droptail(1000)),
        });
        let mut bench = Bench::new(&wrr(classes));
        let sent = bench.backlogged(10_000, &[(AF, 1500), (0, 1500)]);
        assert!(sent[0].abs_diff(1_538_000) <= 3 * 1538, "a tenth of the link for the shaper: {sent:?}");
    }

    /// RED before both classes, with a filter that follows the queue within some packets.
    fn with_red() -> Bench {
        let curve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 20_000, max_bytes: 60_000, max_p: 1.0 };
        let limit = Limit { bytes: None, packets: Some(1000) };
        let red = RedQueue { limit, curves: vec![curve], weight: 0.2, gentle: false, mark: Mark::Drop };
        let mut classes = vec![wrr_class(&[AF], 50, true), wrr_class(&[], 50, false)];
        classes.iter_mut().for_each(|class| class.queue = Queue::Red(red.clone()));
        Bench::new(&wrr(classes))
    }

    /// Packets of a class that are dropped when `packets` of them arrive at once.
    fn dropped(bench: &mut Bench, dscp: u8, packets: u32) -> u64 {
        let before = bench.queue.counters().dropped_packets();
        bench.offer(dscp, 1500, packets);
        bench.queue.counters().dropped_packets() - before
    }

    #[test]
    fn red_in_a_class_sees_the_queue_of_its_class_only() {
        let mut bench = with_red();
        assert!(dropped(&mut bench, 0, 200) > 100, "the queue of this class is long");
        assert_eq!(dropped(&mut bench, AF, 10), 0, "that of the other is not");
    }

    /// A class without packets is idle, however busy the link is with the others: its average decays.
    #[test]
    fn red_in_a_class_ages_while_the_link_serves_others() {
        let mut bench = with_red();
        assert!(dropped(&mut bench, 0, 200) > 100, "the average is high");
        while bench.send().is_some() {}
        for _ in 0..5_000 {
            bench.offer(AF, 1500, 1);
            bench.send();
        }
        assert_eq!(dropped(&mut bench, 0, 10), 0, "its queue was empty for long");
    }

    #[test]
    fn a_flow_of_its_own_class_goes_there_whatever_its_code_point() {
        let mut first = wrr_class(&[AF], 50, true);
        first.members.flows = vec![3];
        let queue = wrr(vec![first, wrr_class(&[], 50, false)]);
        let queue: AnyQdisc<TestPacket> = AnyQdisc::from_plan(&queue, PORT, Stream::new(1, "queue"));
        let class = |flow: u32, dscp| {
            queue.class_of(&TestPacket { dscp, ..TestPacket::new(1, 100).of_flow(weir_elements::flow_hash(flow)) })
        };
        assert_eq!([class(3, 0), class(3, AF), class(2, AF), class(2, 0)], [0, 0, 0, 1]);
    }

    #[test]
    fn classes_of_a_scheduler_in_a_class_count_one_by_one() {
        let mut outer = vec![wrr_class(&[1, 2], 50, false), wrr_class(&[], 50, false)];
        outer[0].queue = wrr(vec![wrr_class(&[1], 50, false), wrr_class(&[], 50, false)]);
        let queue: AnyQdisc<TestPacket> = AnyQdisc::from_plan(&wrr(outer), PORT, Stream::new(1, "queue"));
        let class = |dscp| queue.class_of(&TestPacket { dscp, ..TestPacket::new(1, 100) });
        assert_eq!((queue.classes(), [class(1), class(2), class(0)]), (3, [0, 1, 2]));
    }
}

mod strict_priority {
    use super::*;

    fn three() -> Queue {
        let class =
            |name: &str, dscp: &[u8]| PrioClass { name: name.into(), members: members(dscp), queue: droptail(100) };
        Queue::Prio(PrioQueue {
            limit: NO_LIMIT,
            classes: vec![class("first", &[1]), class("second", &[2]), class("rest", &[])],
        })
    }

    #[test]
    fn a_class_is_served_while_all_before_it_are_empty() {
        let mut bench = Bench::new(&three());
        for class in [0, 2, 1] {
            bench.offer(class, 1500, 2);
        }
        assert_eq!(bench.sent_points(3), [1, 1, 2]);
        bench.offer(1, 1500, 1);
        assert_eq!(bench.sent_points(9), [1, 2, 0, 0]);
    }
}

mod deficit_round_robin {
    use super::*;

    const QUANTA: [(u8, u64); 3] = [(1, 1500), (2, 3000), (0, 10_000)];

    fn drr(quanta: &[(u8, u64)]) -> Queue {
        let class = |&(point, quantum_bytes): &(u8, u64)| {
            let points: &[u8] = if point == 0 { &[] } else { &[point] };
            DrrClass { name: format!("{point}"), members: members(points), quantum_bytes, queue: droptail(1000) }
        };
        Queue::Drr(DrrQueue { limit: NO_LIMIT, classes: quanta.iter().map(class).collect() })
    }

    /// The paper's lemma 2: over any time in which two classes have packets, what they send, in quanta, differs by less
    /// than a round and a largest packet of each.
    #[test]
    fn backlogged_classes_are_never_apart_by_more_than_a_round() {
        let mut random = Stream::new(5, "sizes");
        let mut bench = Bench::new(&drr(&QUANTA));
        let mut sent = [0.0f64; 3];
        let mut range = [[(0.0f64, 0.0f64); 3]; 3];
        for (class, _) in QUANTA {
            bench.offer(class, 1462, 50);
        }
        for _ in 0..30_000 {
            let packet = bench.send().expect("packets wait");
            let class = QUANTA.iter().position(|&(point, _)| point == packet.dscp).expect("one of the classes");
            sent[class] += f64::from(PORT.wire_bytes(&packet)) / QUANTA[class].1 as f64;
            bench.offer(packet.dscp, 40 + (random.bits() % 1423) as u32, 1);
            for i in 0..3 {
                for j in 0..3 {
                    let (low, high) = &mut range[i][j];
                    (*low, *high) = (low.min(sent[i] - sent[j]), high.max(sent[i] - sent[j]));
                    let bound = 1.0 + 1500.0 / QUANTA[i].1 as f64 + 1500.0 / QUANTA[j].1 as f64;
                    assert!(*high - *low <= bound, "classes {i} and {j}: {low} to {high}, bound {bound}");
                }
            }
        }
        assert!(sent.iter().all(|&rounds| rounds > 1000.0), "{sent:?}");
    }

    #[test]
    fn new_quanta_hold_from_the_next_turn() {
        let mut bench = Bench::new(&drr(&[(1, 1538), (0, 1538)]));
        assert_eq!(bench.backlogged(600, &[(1, 1500), (0, 1500)]), [300 * 1538; 2]);
        bench.queue.set_shares(bench.now, &[3 * 1538, 1538]);
        let sent = bench.backlogged(600, &[(1, 1500), (0, 1500)]);
        assert!((sent[0] as f64 / sent[1] as f64 - 3.0).abs() < 0.05, "{sent:?}");
    }

    /// As in the paper's figures 2 and 3: a packet larger than the deficit waits for the next turn, and the rest is kept.
    #[test]
    fn a_packet_waits_until_the_deficit_suffices() {
        let mut bench = Bench::new(&drr(&[(1, 500), (0, 500)]));
        // On the wire: 238 and 788 bytes, then 538.
        bench.offer(1, 200, 1);
        bench.offer(1, 750, 1);
        bench.offer(0, 500, 3);
        // Turn 1: 238 of 500, 262 kept; 538 is too large. Turn 2: 762 is too little for 788; 1000 of 538, 462 kept.
        // Turn 3: 1262 of 788; 962 of 538. Turn 4: 924 of 538.
        assert_eq!(bench.sent_points(9), [1, 0, 1, 0, 0]);
    }

    #[test]
    fn a_class_that_was_empty_saves_nothing() {
        let mut bench = Bench::new(&drr(&[(1, 5000), (0, 1600)]));
        bench.offer(1, 1462, 1);
        bench.offer(0, 1462, 20);
        assert_eq!(bench.sent_points(4), [1, 0, 0, 0]);
        bench.offer(1, 1462, 20);
        // One quantum, and none for the turns in which it was away.
        assert_eq!(bench.sent_points(5), [1, 1, 1, 0, 1]);
    }
}

mod enhanced_transmission_selection {
    use super::*;

    /// Code points 1 and 2 are strict; 3 and the rest share 3 to 1.
    fn ets() -> Queue {
        let class = |(point, strict, quantum_bytes): (u8, bool, u64)| {
            let points: &[u8] = if point == 0 { &[] } else { &[point] };
            let (name, queue) = (format!("{point}"), droptail(1000));
            EtsClass { name, members: members(points), strict, quantum_bytes, queue }
        };
        let classes = [(1, true, 1), (2, true, 1), (3, false, 3 * 1538), (0, false, 1538)].map(class).into();
        Queue::Ets(EtsQueue { limit: NO_LIMIT, classes })
    }

    #[test]
    fn strict_classes_come_first_in_their_order_and_the_others_share_the_rest() {
        let mut bench = Bench::new(&ets());
        for class in [0, 3, 2, 1] {
            bench.offer(class, 1500, 6);
        }
        assert_eq!(bench.sent_points(7), [1, 1, 1, 1, 1, 1, 2]);
        bench.offer(1, 1500, 1);
        assert_eq!(bench.sent_points(6), [1, 2, 2, 2, 2, 2]);
        // The first of them in the queue has the first turn.
        assert_eq!(bench.sent_points(8), [0, 3, 3, 3, 0, 3, 3, 3]);
    }

    #[test]
    fn a_turn_goes_on_after_a_strict_packet() {
        let mut bench = Bench::new(&ets());
        bench.offer(3, 1500, 6);
        bench.offer(0, 1500, 6);
        assert_eq!(bench.sent_points(2), [3, 3]);
        bench.offer(2, 1500, 1);
        assert_eq!(bench.sent_points(4), [2, 3, 0, 3]);
    }
}

mod weighted_fair_queueing {
    use super::*;

    const WEIGHTS: [(u8, u32); 3] = [(1, 600_000), (2, 300_000), (0, 100_000)];

    fn wfq() -> Queue {
        let class = |&(point, weight_ppm): &(u8, u32)| {
            let points: &[u8] = if point == 0 { &[] } else { &[point] };
            WfqClass { name: format!("{point}"), members: members(points), weight_ppm, queue: droptail(100_000) }
        };
        Queue::Wfq(WfqQueue { limit: NO_LIMIT, classes: WEIGHTS.iter().map(class).collect() })
    }

    #[test]
    fn new_weights_hold_from_the_next_packet_of_each_class() {
        let mut bench = Bench::new(&wfq());
        let classes = [(1, 1500), (2, 1500), (0, 1500)];
        bench.backlogged(100, &classes);
        bench.queue.set_shares(bench.now, &[100_000, 100_000, 600_000]);
        bench.backlogged(16, &classes); // the packets with times of the old weights
        let sent = bench.backlogged(8_000, &classes);
        let whole = sent.iter().sum::<u64>() as f64;
        for (class, expected) in [0.125, 0.125, 0.75].into_iter().enumerate() {
            assert!((sent[class] as f64 / whole - expected).abs() < 0.002, "{sent:?}");
        }
    }

    /// Each class leaves at most a largest packet's time later than from a link of its own at its share of the rate,
    /// which is no earlier than in generalised processor sharing.
    #[test]
    fn no_packet_is_later_than_from_a_link_of_its_own_and_a_packet() {
        for seed in 0..20 {
            let mut random = Stream::new(seed, "arrivals");
            // On average 25 us a packet at 0.4 to 1.6 times the rate of the link, in bursts.
            let load = 0.4 + 0.06 * seed as f64;
            let mut now = 0u64;
            let arrivals = (0..5_000u32).map(|id| {
                if random.chance(0.3) {
                    now += (random.unit() * 2.0 * 6_500.0 / 0.3 / load) as u64;
                }
                let dscp = [1, 1, 2, 0][(random.bits() % 4) as usize];
                (Time(now), TestPacket { dscp, ..TestPacket::new(id, 40 + (random.bits() % 1461) as u32) })
            });
            let arrivals: Vec<_> = arrivals.collect();
            let mut link = EventedLink::new(AnyQdisc::from_plan(&wfq(), PORT, Stream::new(1, "queue")), PORT);
            for (now, packet) in &arrivals {
                link.advance(*now);
                link.arrive(*now, packet.clone());
            }
            link.advance(Time::MAX);
            assert_eq!(link.departures.len(), arrivals.len());
            let left: BTreeMap<u32, u64> = link.departures.iter().map(|(at, packet)| (packet.id, at.0)).collect();
            let mut clocks = [0.0f64; 3];
            for (now, packet) in &arrivals {
                let class = WEIGHTS.iter().position(|&(point, _)| point == packet.dscp).expect("one of the classes");
                let share = f64::from(WEIGHTS[class].1) / 1e6;
                let alone = f64::from(PORT.wire_bytes(packet)) * 8.0 / share;
                clocks[class] = clocks[class].max(now.0 as f64) + alone;
                let bound = clocks[class] + 1538.0 * 8.0 + 1.0;
                assert!(left[&packet.id] as f64 <= bound, "seed {seed}, {packet:?}: {} of {bound}", left[&packet.id]);
            }
        }
    }

    /// Worst-case fair: no class is ahead of the fluid ideal, or behind it, by more than a packet.
    #[test]
    fn backlogged_classes_stay_within_a_packet_of_their_shares() {
        let mut bench = Bench::new(&wfq());
        let sizes = [(1, 1462), (2, 700), (0, 100)];
        let mut total = [0u64; 3];
        for _ in 0..3_000 {
            let sent = bench.backlogged(10, &sizes);
            (0..3).for_each(|i| total[i] += sent[i]);
            let all: u64 = total.iter().sum();
            for (i, (_, weight_ppm)) in WEIGHTS.iter().enumerate() {
                let due = all as f64 * f64::from(*weight_ppm) / 1e6;
                assert!((total[i] as f64 - due).abs() <= 1538.0, "class {i}: {total:?}");
            }
        }
    }

    #[test]
    fn what_a_class_leaves_is_shared_in_proportion() {
        let mut bench = Bench::new(&wfq());
        let sent = bench.backlogged(9_000, &[(2, 1000), (0, 1000)]);
        let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
        assert!((share - 0.75).abs() < 0.001, "{share}");
    }
}

#[test]
fn classes_that_contradict_each_other_are_refused() {
    let named = |name: &str, dscp: &[u8]| WrrClass { name: name.into(), ..wrr_class(dscp, 10, false) };
    let with_flow = |name: &str, flow| {
        let mut class = named(name, &[]);
        class.members = Members { flows: vec![flow], ..Members::default() };
        class
    };
    let deep = (0..5).fold(droptail(1), |queue, _| {
        let mut class = wrr_class(&[], 10, false);
        class.queue = queue;
        wrr(vec![class])
    });
    for (classes, place) in [
        (vec![], "q.classes"),
        (vec![named("a", &[1]), named("a", &[])], "q.classes[1].name"),
        (vec![named("a", &[1]), named("b", &[1]), named("c", &[])], "q.classes[1].members.dscp"),
        (vec![named("a", &[64]), named("b", &[])], "q.classes[0].members.dscp"),
        (vec![named("a", &[]), named("b", &[])], "q.classes"),
        (vec![named("a", &[1])], "q.classes"),
        (vec![with_flow("a", 1), with_flow("b", 1), named("c", &[])], "q.classes"),
        (vec![wrr_class(&[1], 60, false), wrr_class(&[], 50, false)], "q.classes"),
    ] {
        assert_eq!(wrr(classes.clone()).validate("q").map_err(|e| e.place), Err(place.to_owned()), "{classes:?}");
    }
    assert!(deep.validate("q").is_err(), "five deep");
    assert_eq!(wrr(vec![wrr_class(&[1], 60, true), wrr_class(&[], 40, false)]).validate("q"), Ok(()));
}
