use super::*;
use crate::testing::TestPacket;

const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
const MS: u64 = 1_000_000;

fn plan() -> FqQueue {
    FqQueue {
        limit: Limit { bytes: None, packets: Some(1000) },
        flow_limit: 100,
        buckets: 1024,
        quantum_bytes: 3000,
        initial_quantum_bytes: 3000,
        refill_ns: 40 * MS,
        max_rate_bps: None,
        ce_threshold_ns: None,
    }
}

fn build(plan: &FqQueue) -> Fq<TestPacket> {
    Fq::from_plan(plan, PORT, Stream::new(1, "salt"))
}

/// Offers packets with ids `ids`; the ids dropped.
fn offer(queue: &mut Fq<TestPacket>, at: Time, flow: u32, bytes: u32, ids: std::ops::Range<u32>) -> Vec<u32> {
    let mut dropped = Vec::new();
    for id in ids {
        let packet = TestPacket::new(id, bytes).of_flow(flow).with_ecn();
        let outcome = queue.enqueue(at, packet, &mut |p, reason| {
            assert_eq!(reason, DropReason::Overflow);
            dropped.push(p.id);
        });
        assert_eq!(outcome == Enqueued::Dropped, dropped.last() == Some(&id));
    }
    dropped
}

fn next(queue: &mut Fq<TestPacket>, at: Time) -> Option<TestPacket> {
    queue.dequeue(at, &mut |_, _| panic!("a fair queue drops nothing at departure")).map(|out| out.packet)
}

fn take(queue: &mut Fq<TestPacket>, at: Time, n: usize) -> Vec<u32> {
    (0..n).filter_map(|_| next(queue, at)).map(|p| p.id).collect()
}

/// All departures of a queue whose transmitter takes no time, in microseconds.
fn departures(queue: &mut Fq<TestPacket>) -> Vec<(u64, u32)> {
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    loop {
        while let Some(packet) = next(queue, now) {
            out.push((now.0 / 1000, packet.id));
        }
        match queue.held_until(now) {
            Some(until) => {
                assert!(until > now, "it names an instant to come");
                now = until;
            }
            None => return out,
        }
    }
}

#[test]
fn flows_alternate_by_quantum_after_the_initial_one() {
    let plan = FqQueue { initial_quantum_bytes: 4500, ..plan() };
    let mut queue = build(&plan);
    offer(&mut queue, Time::ZERO, 1, 1500, 100..108);
    offer(&mut queue, Time::ZERO, 2, 1500, 200..208);
    // Three packets of the initial quantum, then two a turn.
    let order = [100, 101, 102, 200, 201, 202, 103, 104, 203, 204, 105, 106, 205, 206, 107, 207];
    assert_eq!(take(&mut queue, Time::ZERO, 17), order);
}

/// A flow's first packets have the initial quantum, however late they come: only one that was there before is refilled.
#[test]
fn a_late_first_packet_is_no_return() {
    let mut queue = build(&FqQueue { initial_quantum_bytes: 1000, ..plan() });
    offer(&mut queue, Time(1000 * MS), 1, 1500, 100..103);
    offer(&mut queue, Time(1000 * MS), 2, 1500, 200..203);
    // A packet each, which overdraws the quantum of 1000 bytes; then 2500 bytes are left of 3000.
    assert_eq!(take(&mut queue, Time(1000 * MS), 7), [100, 200, 101, 102, 201, 202]);
}

/// Where FQ-CoDel drops nothing and each flow has as much credit in both, they are the same scheduler.
#[test]
fn with_equal_quanta_it_serves_as_fq_codel() {
    let codel = crate::CodelParams {
        target_ns: u64::MAX / 4,
        interval_ns: u64::MAX / 4,
        mark: crate::Mark::Drop,
        ce_threshold_ns: None,
    };
    let other = crate::plan::FqCodelQueue { limit: plan().limit, buckets: 1024, quantum_bytes: 3000, codel };
    let mut fq_codel: crate::FqCodel<TestPacket> = crate::FqCodel::from_plan(&other, PORT, Stream::new(1, "salt"));
    let mut fq = build(&FqQueue { refill_ns: 0, ..plan() });
    let mut ids = 0;
    for round in 0..300u64 {
        let now = Time(round * MS);
        for flow in 1..5 {
            let bytes = 100 + (round as u32 * 397 + flow * 691) % 1400;
            for _ in 0..(round + u64::from(flow)) % 3 {
                ids += 1;
                let packet = TestPacket::new(ids, bytes).of_flow(flow);
                fq.enqueue(now, packet.clone(), &mut |_, _| panic!("there is room"));
                fq_codel.enqueue(now, packet, &mut |_, _| panic!("there is room"));
            }
        }
        for _ in 0..if round < 150 { 6 } else { 3 } {
            let one = next(&mut fq, now).map(|p| p.id);
            let two = fq_codel.dequeue(now, &mut |_, _| panic!("CoDel never acts")).map(|out| out.packet.id);
            assert_eq!(one, two, "in round {round}");
        }
    }
    assert!(fq.packets() > 0 && ids > 1000, "flows were backlogged");
}

#[test]
fn an_arrival_past_the_limit_of_its_flow_or_of_all_is_dropped() {
    let limit = Limit { bytes: None, packets: Some(5) };
    let mut queue = build(&FqQueue { flow_limit: 3, limit, ..plan() });
    assert_eq!(offer(&mut queue, Time::ZERO, 1, 1500, 100..105), [103, 104]);
    assert_eq!(offer(&mut queue, Time::ZERO, 2, 1500, 200..203), [202], "five are there");
    assert_eq!(queue.packets(), 5);
    assert_eq!(queue.counters().overflow_packets, 3);
}

/// FQ-CoDel gives a new quantum to each flow that becomes active; a fair queue only after the refill delay.
#[test]
fn a_flow_that_returns_soon_has_the_credits_it_left_with() {
    for (idle_ms, order) in [(40, [101, 200, 201, 102]), (41, [101, 102, 200, 201])] {
        let mut queue = build(&plan());
        offer(&mut queue, Time::ZERO, 1, 1500, 100..101);
        assert_eq!(take(&mut queue, Time::ZERO, 2), [100], "it goes with half a quantum");
        let later = Time(idle_ms * MS);
        offer(&mut queue, later, 1, 1500, 101..104);
        offer(&mut queue, later, 2, 1500, 200..204);
        assert_eq!(take(&mut queue, later, 4), order, "after {idle_ms} ms");
    }
}

/// 12 Mb/s: a quantum of 3000 bytes takes 2 ms.
#[test]
fn a_paced_flow_sends_a_quantum_at_its_rate() {
    let mut queue = build(&FqQueue { max_rate_bps: Some(12_000_000), ..plan() });
    offer(&mut queue, Time::ZERO, 1, 1500, 0..6);
    assert_eq!(departures(&mut queue), [(0, 0), (0, 1), (2000, 2), (2000, 3), (4000, 4), (4000, 5)]);
}

#[test]
fn a_paced_flow_leaves_the_others_alone() {
    let mut queue = build(&FqQueue { max_rate_bps: Some(12_000_000), ..plan() });
    offer(&mut queue, Time::ZERO, 1, 1500, 100..104);
    assert_eq!(take(&mut queue, Time::ZERO, 3), [100, 101]);
    assert_eq!(queue.held_until(Time::ZERO), Some(Time(2 * MS)));
    offer(&mut queue, Time(MS), 2, 1500, 200..201);
    assert_eq!(take(&mut queue, Time(MS), 2), [200]);
    assert_eq!(take(&mut queue, Time(2 * MS), 3), [102, 103]);
}

/// A flow that is served late waits for less, down to half.
#[test]
fn lateness_is_made_up_for_by_half_a_wait_at_most() {
    for (late_us, wait_us) in [(0, 2000), (600, 1400), (1500, 1000)] {
        let mut queue = build(&FqQueue { max_rate_bps: Some(12_000_000), ..plan() });
        offer(&mut queue, Time::ZERO, 1, 1500, 0..6);
        assert_eq!(take(&mut queue, Time::ZERO, 3).len(), 2);
        let served = Time((2000 + late_us) * 1000);
        assert_eq!(take(&mut queue, served, 3).len(), 2);
        assert_eq!(queue.held_until(served), Some(served + Dur(wait_us * 1000)), "{late_us} us late");
    }
}

/// 500 kbit/s: each packet of 1000 bytes takes 16 ms, whatever the quantum.
#[test]
fn at_a_low_rate_each_packet_is_paced() {
    let mut queue = build(&FqQueue { max_rate_bps: Some(500_000), ..plan() });
    offer(&mut queue, Time::ZERO, 1, 1000, 0..3);
    assert_eq!(departures(&mut queue), [(0, 0), (16_000, 1), (32_000, 2)]);
}

#[test]
fn no_wait_is_longer_than_a_second() {
    let mut queue = build(&FqQueue { max_rate_bps: Some(1000), ..plan() });
    offer(&mut queue, Time::ZERO, 1, 1000, 0..2);
    assert_eq!(departures(&mut queue), [(0, 0), (1_000_000, 1)]);
}

#[test]
fn marks_follow_a_wait_that_pacing_does_not_explain() {
    let rate = Some(12_000_000);
    let mut queue = build(&FqQueue { max_rate_bps: rate, ce_threshold_ns: Some(MS), ..plan() });
    offer(&mut queue, Time::ZERO, 1, 1500, 0..6);
    let marked = |at_us: u64, queue: &mut Fq<TestPacket>| {
        [(); 2].map(|()| next(queue, Time(at_us * 1000)).expect("two leave at once").ce)
    };
    assert_eq!(marked(1000, &mut queue), [false, false], "no longer than the threshold");
    assert!(next(&mut queue, Time(MS)).is_none());
    assert_eq!(marked(3500, &mut queue), [false, false], "due at 3 ms");
    assert!(next(&mut queue, Time(3_500_000)).is_none());
    assert_eq!(marked(6500, &mut queue), [true, true], "due at 5 ms");
    assert_eq!(queue.counters().marked_packets, 2);
}

#[test]
fn packets_that_cannot_carry_ecn_are_never_marked() {
    let mut queue = build(&FqQueue { ce_threshold_ns: Some(0), ..plan() });
    queue.enqueue(Time::ZERO, TestPacket::new(1, 1500), &mut |_, _| panic!("there is room"));
    assert_eq!(next(&mut queue, Time(MS)).map(|p| p.ce), Some(false));
}

#[test]
fn parameters_that_pass_nothing_are_refused() {
    let refused = |plan: &FqQueue| plan.validate("queue").map_err(|fault| fault.place);
    assert_eq!(refused(&plan()), Ok(()));
    assert_eq!(refused(&FqQueue { flow_limit: 0, ..plan() }), Err("queue.flow_limit".into()));
    assert_eq!(refused(&FqQueue { buckets: 0, ..plan() }), Err("queue.buckets".into()));
    assert_eq!(refused(&FqQueue { quantum_bytes: 0, ..plan() }), Err("queue.quantum_bytes".into()));
    assert_eq!(refused(&FqQueue { max_rate_bps: Some(0), ..plan() }), Err("queue.max_rate_bps".into()));
}
