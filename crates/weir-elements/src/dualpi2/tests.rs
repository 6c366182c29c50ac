//! DualPI2 against values computed by hand from RFC 9332.

use super::*;
use crate::testing::TestPacket;

/// A full packet takes a millisecond.
const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
const MS: u64 = 1_000_000;

fn plan() -> DualPi2Queue {
    DualPi2Queue {
        limit: Limit { bytes: None, packets: Some(1000) },
        target_ns: 15 * MS,
        update_ns: 15 * MS,
        alpha: 0.15,
        beta: 3.0,
        coupling: 2.0,
        threshold_ns: 800_000,
        range_ns: 400_000,
        spared_packets: 1,
        classic_ppm: 100_000,
        shift_ns: None,
        any_ect: false,
    }
}

fn queue(plan: &DualPi2Queue) -> DualPi2<TestPacket> {
    DualPi2::from_plan(plan, PORT)
}

/// A queue whose base probability stays as it is.
fn pinned(plan: &DualPi2Queue, probability: f64) -> DualPi2<TestPacket> {
    let mut queue = queue(plan);
    queue.base.probability = probability;
    queue.next_update = Time::MAX;
    queue
}

fn not_ect(id: u32) -> TestPacket {
    TestPacket::new(id, 1500)
}

fn ect0(id: u32) -> TestPacket {
    not_ect(id).with_ecn()
}

fn ect1(id: u32) -> TestPacket {
    TestPacket { ecn: true, ect1: true, ..not_ect(id) }
}

fn offer(queue: &mut DualPi2<TestPacket>, at: u64, packets: impl IntoIterator<Item = TestPacket>) {
    for packet in packets {
        let outcome = queue.enqueue(Time(at), packet, &mut |_, _| panic!("there is room"));
        assert_eq!(outcome, Enqueued::Queued, "nothing is decided at arrival");
    }
}

/// Packets that left, with their marks, and packets that were dropped, in `n` dequeues at this instant.
fn take(queue: &mut DualPi2<TestPacket>, at: u64, n: usize) -> (Vec<(u32, bool)>, Vec<u32>) {
    let mut dropped = Vec::new();
    let left = (0..n).filter_map(|_| {
        let out = queue.dequeue(Time(at), &mut |packet, reason| {
            assert_eq!(reason, DropReason::Early);
            dropped.push(packet.id);
        })?;
        Some((out.packet.id, out.packet.ce))
    });
    (left.collect(), dropped)
}

fn ids(left: &[(u32, bool)]) -> Vec<u32> {
    left.iter().map(|(id, _)| *id).collect()
}

fn marked(left: &[(u32, bool)]) -> Vec<u32> {
    left.iter().filter(|(_, ce)| *ce).map(|(id, _)| *id).collect()
}

fn assert_close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
}

#[test]
fn the_ecn_field_chooses_the_queue() {
    let ce = TestPacket { ce: true, ..ect0(0) };
    let classes = |plan| [not_ect(0), ect0(0), ect1(0), ce.clone()].map(|packet| queue(&plan).class_of(&packet));
    assert_eq!(classes(plan()), [1, 1, 0, 0]);
    assert_eq!(classes(DualPi2Queue { any_ect: true, ..plan() }), [1, 0, 0, 0]);
}

/// p' <- p' + alpha (delay - target) + beta (delay - last delay), every 15 ms (figure 6).
#[test]
fn the_base_probability_follows_the_delay_of_the_classic_queue() {
    let mut queue = queue(&plan());
    offer(&mut queue, 0, (0..100).map(not_ect));
    // At 15 ms the head has waited for 15 ms: the deviation is 0, the change 15 ms.
    take(&mut queue, 15 * MS, 1);
    assert_close(queue.base.probability, 3.0 * 0.015);
    // At 30 ms: 15 ms above the target, and 15 ms more than before.
    take(&mut queue, 44 * MS, 1);
    assert_close(queue.base.probability, 0.045 + 0.15 * 0.015 + 0.045);
    // The longer delay counts, here of the L queue, which has come last (appendix A.2).
    let before = queue.base.probability;
    take(&mut queue, 44 * MS, 98);
    offer(&mut queue, 44 * MS, [ect1(200)]);
    take(&mut queue, 45 * MS, 0);
    queue.update(Time(45 * MS));
    assert_close(queue.base.probability, before + 0.15 * (0.001 - 0.015) + 3.0 * (0.001 - 0.030));
}

#[test]
fn an_idle_queue_forgets_and_counts_its_updates_from_the_start_of_the_grid() {
    let mut queue = queue(&plan());
    offer(&mut queue, 0, [not_ect(0), not_ect(1)]);
    take(&mut queue, 20 * MS, 2);
    assert!(queue.base.probability > 0.0);
    queue.update(Time(10_000_000 * MS));
    assert!(queue.base.is_at_rest());
    // The next instant of the grid of 15 ms after 10 000 s.
    assert_eq!(queue.next_update, Time(10_000_005 * MS));
}

/// The C queue signals with p'^2: with p' = 0.2, every 25th packet.
#[test]
fn the_classic_queue_drops_with_the_square() {
    let mut queue = pinned(&plan(), 0.2);
    offer(&mut queue, 0, (1..=100).map(not_ect));
    let (left, dropped) = take(&mut queue, 0, 100);
    assert_eq!(dropped, [25, 50, 75]); // the 100th is alone, and spared
    assert_eq!(left.len(), 97);
    assert_eq!(queue.counters.early_packets, 3);
}

#[test]
fn the_classic_queue_marks_packets_with_ect_0() {
    let mut queue = pinned(&plan(), 0.2);
    offer(&mut queue, 0, (1..=60).map(ect0));
    let (left, dropped) = take(&mut queue, 0, 60);
    assert_eq!((marked(&left), dropped), (vec![25, 50], vec![]));
}

/// The L queue marks with k p': with p' = 0.1 and k = 2, every fifth packet, without a delay of its own.
#[test]
fn the_l_queue_is_marked_by_the_coupling() {
    let mut queue = pinned(&plan(), 0.1);
    offer(&mut queue, 0, (1..=21).map(ect1));
    let (left, dropped) = take(&mut queue, 0, 20);
    assert_eq!((marked(&left), dropped), (vec![5, 10, 15, 20], vec![]));
    let mut queue = pinned(&DualPi2Queue { coupling: 1.25, ..plan() }, 0.1);
    offer(&mut queue, 0, (1..=20).map(ect1));
    assert_eq!(marked(&take(&mut queue, 0, 20).0).len(), 2);
}

/// The ramp from 800 us to 1200 us (figure 5, laqm): half of the packets at 1 ms, all from 1.2 ms on.
#[test]
fn the_l_queue_is_marked_by_its_own_delay() {
    let marks = |plan: &DualPi2Queue, at: u64| {
        let mut queue = pinned(plan, 0.0);
        offer(&mut queue, 0, (1..=21).map(ect1));
        marked(&take(&mut queue, at, 20).0).len()
    };
    assert_eq!([800_000, 900_000, 1_000_000, 1_200_000, 5 * MS].map(|at| marks(&plan(), at)), [0, 5, 10, 20, 20]);
    let step = DualPi2Queue { range_ns: 0, threshold_ns: MS, ..plan() };
    assert_eq!([MS, MS + 1].map(|at| marks(&step, at)), [0, 20]);
}

/// The higher of both probabilities counts, not their sum.
#[test]
fn coupling_and_ramp_are_combined_by_their_maximum() {
    let mut queue = pinned(&plan(), 0.2);
    offer(&mut queue, 0, (1..=21).map(ect1));
    // 0.4 by the coupling, 0.5 by the ramp.
    assert_eq!(marked(&take(&mut queue, 1_000_000, 20).0).len(), 10);
}

#[test]
fn a_packet_that_is_alone_in_the_l_queue_is_not_marked_by_the_ramp() {
    let mut queue = pinned(&plan(), 0.0);
    offer(&mut queue, 0, [ect1(1), ect1(2), not_ect(3)]);
    assert_eq!(marked(&take(&mut queue, 5 * MS, 3).0), [1]);
    let mut queue = pinned(&DualPi2Queue { spared_packets: 0, ..plan() }, 0.0);
    offer(&mut queue, 0, [ect1(1), ect1(2)]);
    assert_eq!(marked(&take(&mut queue, 5 * MS, 2).0), [1, 2]);
}

/// A tenth of the bytes for the C queue while both have packets.
#[test]
fn the_classic_queue_has_its_share_and_the_l_queue_the_rest() {
    let mut queue = pinned(&plan(), 0.0);
    offer(&mut queue, 0, (0..300).map(ect1));
    offer(&mut queue, 0, (1000..1300).map(not_ect));
    let classic = ids(&take(&mut queue, 0, 200).0).iter().filter(|id| **id >= 1000).count();
    assert_eq!(classic, 20);
    // The L queue comes first after it was empty, however long the C queue was served.
    let mut queue = pinned(&plan(), 0.0);
    offer(&mut queue, 0, (1000..1300).map(not_ect));
    take(&mut queue, 0, 100);
    offer(&mut queue, 0, [ect1(1)]);
    assert_eq!(ids(&take(&mut queue, 0, 2).0), [1, 1100]);
}

/// Appendix A.1: the credit stays while one queue is empty, and an idle link resets it in favour of the L queue.
#[test]
fn the_credit_outlives_an_empty_queue_but_not_an_idle_link() {
    let mut queue = pinned(&plan(), 0.0);
    // Eight L packets pay 8 * 150 of the 1200 bytes that the C queue lacks at first; the last one leaves it at 150.
    offer(&mut queue, 0, [not_ect(1000), not_ect(1001)]);
    offer(&mut queue, 0, (0..9).map(ect1));
    assert_eq!(ids(&take(&mut queue, 0, 9).0), (0..9).collect::<Vec<_>>());
    let mut idle = queue.clone();
    offer(&mut queue, 0, [ect1(20)]);
    assert_eq!(ids(&take(&mut queue, 0, 2).0), [1000, 20], "the C queue has credit");
    assert_eq!(ids(&take(&mut idle, 0, 3).0), [1000, 1001]);
    offer(&mut idle, 0, [not_ect(1002), ect1(30)]);
    assert_eq!(ids(&take(&mut idle, 0, 2).0), [30, 1002], "the link was idle");
}

/// Linux adds the change after the drops of `dualpi2_qdisc_dequeue`.
#[test]
fn a_dropped_packet_does_not_use_the_credit() {
    let mut queue = pinned(&plan(), 0.4);
    queue.classic = Recurrence(0.9);
    queue.credit = 1;
    offer(&mut queue, 0, [not_ect(1), not_ect(2), not_ect(3), ect1(4), ect1(5)]);
    let (left, dropped) = take(&mut queue, 0, 2);
    assert_eq!((ids(&left), dropped), (vec![2, 4], vec![1]), "the second one has the turn of the first");
    assert_eq!(queue.credit, 1 - 1500 * 900_000 + 1500 * 100_000);
}

/// Appendix A.1: the controller spares both queues while less than two full packets wait.
#[test]
fn the_coupling_spares_the_last_packet() {
    let mut queue = pinned(&plan(), 0.6);
    offer(&mut queue, 0, [ect1(1), ect1(2)]);
    assert_eq!(marked(&take(&mut queue, 0, 2).0), [1]);
}

#[test]
fn shares_are_of_bytes() {
    let mut queue = pinned(&DualPi2Queue { classic_ppm: 500_000, ..plan() }, 0.0);
    offer(&mut queue, 0, (0..400).map(|id| TestPacket { bytes: 300, ..ect1(id) }));
    offer(&mut queue, 0, (1000..1100).map(not_ect));
    let left = ids(&take(&mut queue, 0, 120).0);
    // Five small packets for each large one.
    assert_eq!(left.iter().filter(|id| **id >= 1000).count(), 20);
}

/// A time-shifted FIFO: the L queue until the C packet has waited by the shift longer.
#[test]
fn a_time_shift_lets_a_classic_packet_go_that_has_waited_longer() {
    let mut queue = pinned(&DualPi2Queue { shift_ns: Some(50 * MS), ..plan() }, 0.0);
    offer(&mut queue, 0, [not_ect(1), not_ect(2)]);
    offer(&mut queue, 50 * MS, [ect1(10)]);
    offer(&mut queue, 51 * MS, [ect1(11)]);
    // The first L packet came 50 ms after the C packets: still before them. The second came 51 ms after them.
    assert_eq!(ids(&take(&mut queue, 60 * MS, 4).0), [10, 1, 2, 11]);
}

/// From k p' = 1 on: drops in both queues with p'^2 = 1/4, ECN or not, and all other L packets marked (appendix A.2).
#[test]
fn overload_drops_in_both_queues() {
    let mut queue = pinned(&plan(), 0.5);
    offer(&mut queue, 0, (1..=41).map(ect1));
    let (left, dropped) = take(&mut queue, 0, 30);
    assert_eq!(dropped, [4, 8, 12, 16, 20, 24, 28, 32, 36]);
    assert_eq!(marked(&left).len(), 30);
    let mut queue = pinned(&plan(), 0.5);
    offer(&mut queue, 0, (1..=41).map(ect0));
    let (left, dropped) = take(&mut queue, 0, 30);
    assert_eq!((marked(&left), dropped.len()), (vec![], 9), "ECN is off in the C queue");
}

#[test]
fn nothing_is_dropped_while_less_than_two_full_packets_wait() {
    let mut queue = pinned(&plan(), 1.0);
    offer(&mut queue, 0, [not_ect(1), TestPacket::new(2, 1499)]);
    assert!(take(&mut queue, 0, 2).1.is_empty());
    let mut queue = pinned(&plan(), 1.0);
    offer(&mut queue, 0, [not_ect(1), not_ect(2)]);
    assert_eq!(take(&mut queue, 0, 2), (vec![(2, false)], vec![1]));
}

#[test]
fn both_queues_share_the_limit() {
    let mut queue = queue(&DualPi2Queue { limit: Limit { bytes: None, packets: Some(3) }, ..plan() });
    offer(&mut queue, 0, [ect1(1), not_ect(2), ect1(3)]);
    let mut refused = Vec::new();
    for packet in [ect1(4), not_ect(5)] {
        let outcome = queue.enqueue(Time::ZERO, packet, &mut |p, reason| refused.push((p.id, reason)));
        assert_eq!(outcome, Enqueued::Dropped);
    }
    assert_eq!(refused, [(4, DropReason::Overflow), (5, DropReason::Overflow)]);
    assert_eq!((queue.packets(), queue.bytes(), queue.counters.overflow_packets), (3, 4500, 2));
}

/// A classic packet that is marked here leaves the class that it entered, though its ECN field is CE now.
#[test]
fn a_mark_does_not_change_the_class() {
    let mut queue = pinned(&plan(), 0.4999);
    offer(&mut queue, 0, (1..=8).map(ect0));
    let out: Vec<_> = std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut |_, _| panic!())).collect();
    assert!(out.iter().any(|out| out.packet.ce));
    assert!(out.iter().all(|out| out.class == 1));
}

/// In equilibrium the C queue signals with (p_L / k)^2 when the L queue marks with p_L (section 2.1, equation 1).
#[test]
fn the_signals_of_both_queues_are_coupled_as_equation_1_says() {
    let mut queue = pinned(&plan(), 0.1);
    let mut counts = (0, 0);
    for round in 0..1000 {
        offer(&mut queue, 0, [ect1(2 * round), not_ect(2 * round + 1), not_ect(9999), not_ect(9999)]);
        let (left, dropped) = take(&mut queue, 0, 4);
        counts = (counts.0 + marked(&left).len(), counts.1 + dropped.len());
    }
    let (p_l, p_c) = (counts.0 as f64 / 1000.0, counts.1 as f64 / 3000.0);
    assert!((p_l - 0.2).abs() < 0.002, "{p_l}");
    // The last packet of each round is spared.
    assert!((p_c - (p_l / 2.0).powi(2) * 2.0 / 3.0).abs() < 0.001, "{p_c}");
}
