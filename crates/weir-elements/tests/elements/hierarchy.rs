//! Hierarchical token buckets: guarantees, ceilings, and who borrows from whom.

use std::collections::BTreeMap;

use weir_elements::plan::{DroptailQueue, FqQueue, HtbQueue, TbfQueue};
use weir_elements::{AnyQdisc, HtbClass, Limit, Members, Port, Qdisc, Queue, TokenRates, Transmitter};
use weir_units::{Rate, Stream, Time};

use crate::testing::TestPacket;

const PORT: Port = Port { rate: Rate::from_mbps(100), overhead_bytes: 38, mtu_bytes: 1500 };
const SECOND: u64 = 1_000_000_000;

/// A leaf for a code point, 0 being the rest: rate and ceiling in Mb/s.
fn leaf(point: u8, rate: u64, ceil: u64) -> HtbClass {
    let limit = Limit { bytes: None, packets: Some(50) };
    HtbClass {
        name: format!("{point}"),
        members: Members { dscp: if point == 0 { vec![] } else { vec![point] }, flows: vec![], rest: point == 0 },
        rate_bps: rate * 1_000_000,
        ceil_bps: Some(ceil * 1_000_000),
        burst_bytes: 2 * 1538,
        priority: 0,
        quantum_bytes: 1538,
        queue: Queue::Droptail(DroptailQueue { limit }),
    }
}

fn htb(rate_mbps: Option<u64>, classes: Vec<HtbClass>) -> Queue {
    let limit = Limit { bytes: Some(1 << 40), packets: None };
    Queue::Htb(HtbQueue { limit, rate_bps: rate_mbps.map(|rate| rate * 1_000_000), classes })
}

/// Mb/s on the wire of each code point over two seconds in which the `busy` ones always have packets.
fn rates(queue: &Queue, busy: &[u8]) -> BTreeMap<u8, f64> {
    rates_of(&mut AnyQdisc::from_plan(queue, PORT, Stream::new(1, "queue")), busy, Time(SECOND))
}

/// The same, of a queue that is empty, or whose packets are of busy code points, from `now` on.
fn rates_of(queue: &mut AnyQdisc<TestPacket>, busy: &[u8], mut now: Time) -> BTreeMap<u8, f64> {
    let mut transmitter = Transmitter::new(PORT.rate);
    let (mut id, end) = (0, now.0 + 2 * SECOND);
    let mut offer = |queue: &mut AnyQdisc<TestPacket>, now, dscp, packets| {
        for _ in 0..packets {
            id += 1;
            queue.enqueue(now, TestPacket { dscp, ..TestPacket::new(id, 1500) }, &mut |_, _| {});
        }
    };
    busy.iter().for_each(|&dscp| offer(queue, now, dscp, 20));
    let mut sent: BTreeMap<u8, u64> = busy.iter().map(|&dscp| (dscp, 0)).collect();
    while now < Time(end) {
        if let Some(next) = queue.dequeue(now, &mut |_, _| panic!("drop-tail drops at arrival")) {
            *sent.get_mut(&next.packet.dscp).expect("busy") += 1538;
            offer(queue, now, next.packet.dscp, 1);
            now = transmitter.transmit(now, PORT.wire_bytes(&next.packet));
        } else {
            let later = queue.held_until(now).expect("packets wait");
            assert!(later > now, "an instant in the future");
            now = later;
        }
    }
    sent.into_iter().map(|(dscp, bytes)| (dscp, bytes as f64 * 8.0 / 2e6)).collect()
}

#[track_caller]
fn assert_rates(found: &BTreeMap<u8, f64>, expected: &[(u8, f64)]) {
    for &(dscp, mbps) in expected {
        assert!((found[&dscp] - mbps).abs() < 0.2, "class {dscp}: {} Mb/s, expected {mbps}", found[&dscp]);
    }
}

#[test]
fn busy_classes_have_their_rates_and_share_the_rest_by_their_quanta() {
    let mut classes = vec![leaf(1, 20, 100), leaf(2, 30, 100), leaf(0, 10, 100)];
    classes[0].quantum_bytes = 3 * 1538;
    // 60 are guaranteed; the other 40 are lent 3 : 1 : 1.
    assert_rates(&rates(&htb(None, classes), &[0, 1, 2]), &[(1, 44.0), (2, 38.0), (0, 18.0)]);
}

#[test]
fn no_class_passes_its_ceiling_and_the_root_its_rate() {
    let classes = || vec![leaf(1, 20, 35), leaf(2, 20, 100)];
    let with_rest = |mut classes: Vec<HtbClass>| {
        classes[1].members = Members { rest: true, ..Members::default() };
        classes
    };
    assert_rates(&rates(&htb(None, with_rest(classes())), &[1, 2]), &[(1, 35.0), (2, 65.0)]);
    assert_rates(&rates(&htb(Some(60), with_rest(classes())), &[1, 2]), &[(1, 30.0), (2, 30.0)]);
    assert_rates(&rates(&htb(Some(60), with_rest(classes())), &[1]), &[(1, 35.0)]);
    assert_rates(&rates(&htb(Some(60), with_rest(classes())), &[2]), &[(2, 60.0)]);
}

#[test]
fn a_class_borrows_from_its_own_parent_first_and_then_from_the_root() {
    let mut tenant = leaf(1, 60, 60);
    tenant.members = Members { dscp: vec![1, 2], ..Members::default() };
    tenant.queue = htb(None, vec![leaf(1, 10, 100), leaf(2, 20, 100), leaf(0, 1, 1)]);
    let queue = || htb(Some(100), vec![tenant.clone(), leaf(0, 40, 100)]);
    // The tenant's 60 stay its own, whatever the other class asks for: 30 guaranteed, 30 lent in equal parts.
    assert_rates(&rates(&queue(), &[0, 1, 2]), &[(1, 25.0), (2, 35.0), (0, 40.0)]);
    // Its ceiling holds for both together; the rest of the link goes to the other class.
    assert_rates(&rates(&queue(), &[1]), &[(1, 60.0)]);
    assert_rates(&rates(&queue(), &[0, 1]), &[(1, 60.0), (0, 40.0)]);
    assert_rates(&rates(&queue(), &[0]), &[(0, 100.0)]);
}

/// Rates in the order of the plan: the root, then each class before its own ones.
#[test]
fn new_rates_and_ceilings_hold_from_the_instant_of_the_change() {
    let mbps = |rate: u64, ceil: Option<u64>| TokenRates {
        rate_bps: rate * 1_000_000,
        peak_bps: ceil.map(|rate| rate * 1_000_000),
    };
    let mut tenant = leaf(1, 60, 60);
    tenant.members = Members { dscp: vec![1, 2], ..Members::default() };
    tenant.queue = htb(None, vec![leaf(1, 10, 100), leaf(2, 20, 100), leaf(0, 1, 1)]);
    let mut shaped = leaf(0, 30, 100);
    let (limit, queue) = (Limit { bytes: Some(1 << 40), packets: None }, Box::new(shaped.queue));
    shaped.queue = Queue::Tbf(TbfQueue { limit, rate_bps: 15_000_000, burst_bytes: 3076, queue });
    let plan = htb(Some(90), vec![tenant, shaped]);
    let mut queue = AnyQdisc::from_plan(&plan, PORT, Stream::new(1, "queue"));
    assert_rates(&rates_of(&mut queue, &[0, 1, 2], Time(SECOND)), &[(1, 25.0), (2, 35.0), (0, 15.0)]);

    let new = [mbps(50, None), mbps(30, None), mbps(20, Some(50)), mbps(5, Some(50)), mbps(1, None)];
    let new: Vec<TokenRates> = new.into_iter().chain([mbps(10, Some(50)), mbps(12, None)]).collect();
    plan.validate_token_rates(&new, "here").expect("as many rates as the plan has buckets");
    queue.set_token_rates(Time(3 * SECOND), &mut new.iter());
    let found = rates_of(&mut queue, &[0, 1, 2], Time(4 * SECOND));
    // 30 for the tenant, whose ceiling follows its rate: 20 and 5 guaranteed, 5 lent in equal parts.
    assert_rates(&found, &[(1, 22.5), (2, 7.5), (0, 12.0)]);

    for wrong in [&new[1..], &[&new[..], &new[..1]].concat(), &[]] {
        plan.validate_token_rates(wrong, "here").expect_err("as many rates as buckets");
    }
    let mut peak = new.clone();
    peak[6].peak_bps = Some(20_000_000);
    plan.validate_token_rates(&peak, "here").expect_err("a shaper has no peak rate");
    let mut low = new.clone();
    low[1].peak_bps = Some(1_000_000);
    let fault = plan.validate_token_rates(&low, "here").expect_err("a ceiling below the rate");
    assert_eq!(fault.to_string(), "here.classes[0].ceil_bps: must not be below the rate");
}

/// A queue that paces its packets in a class that waits for tokens: the later of both instants counts.
#[test]
fn a_class_without_tokens_waits_for_them_and_not_for_the_pacing_of_its_queue() {
    let paced = |mbps: u64| {
        let limit = Limit { bytes: None, packets: Some(50) };
        let mut class = leaf(0, 10, 10);
        class.queue = Queue::Fq(FqQueue {
            limit,
            flow_limit: 50,
            buckets: 1,
            quantum_bytes: 1538,
            initial_quantum_bytes: 1538,
            refill_ns: 0,
            max_rate_bps: Some(mbps * 1_000_000),
            ce_threshold_ns: None,
        });
        rates(&htb(None, vec![class]), &[0])
    };
    assert_rates(&paced(20), &[(0, 10.0)]);
    assert_rates(&paced(5), &[(0, 5.0)]);
}

#[test]
fn who_has_the_smaller_priority_borrows_first() {
    let mut classes = vec![leaf(1, 10, 50), leaf(0, 10, 100)];
    classes[1].priority = 1;
    assert_rates(&rates(&htb(None, classes), &[0, 1]), &[(1, 50.0), (0, 50.0)]);
    let mut classes = vec![leaf(1, 10, 100), leaf(0, 10, 100)];
    classes[1].priority = 1;
    // A guarantee holds against any priority.
    assert_rates(&rates(&htb(None, classes), &[0, 1]), &[(1, 90.0), (0, 10.0)]);
}

#[test]
fn classes_within_classes_count_one_by_one() {
    let mut tenant = leaf(1, 50, 50);
    tenant.members = Members { dscp: vec![1, 2], ..Members::default() };
    tenant.queue = htb(None, vec![leaf(1, 10, 50), leaf(0, 10, 50)]);
    let queue: AnyQdisc<TestPacket> =
        AnyQdisc::from_plan(&htb(None, vec![tenant, leaf(0, 10, 10)]), PORT, Stream::new(1, "queue"));
    let class = |dscp| queue.class_of(&TestPacket { dscp, ..TestPacket::new(1, 100) });
    assert_eq!((queue.classes(), [class(1), class(2), class(0)]), (3, [0, 1, 2]));
}

#[test]
fn a_plan_that_cannot_work_is_refused_with_its_place() {
    let refusal = |change: fn(&mut HtbClass)| {
        let mut class = leaf(0, 10, 20);
        change(&mut class);
        htb(None, vec![class]).validate("queue").expect_err("it is wrong").to_string()
    };
    assert_eq!(refusal(|c| c.ceil_bps = Some(1)), "queue.classes[0].ceil_bps: must not be below the rate");
    assert_eq!(refusal(|c| c.rate_bps = 0), "queue.classes[0].rate_bps: must not be zero");
    assert_eq!(refusal(|c| c.priority = 8), "queue.classes[0].priority: expected 0 to 7");
}
