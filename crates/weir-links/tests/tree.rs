//! A link takes a queue with children and classes, one that holds packets back, and one whose buffer others share.

use weir_elements::{AnyQdisc, Counters, Dequeued, Drops, Enqueued, Limit, Packet, Port, Qdisc, Queue};
use weir_links::{Link, Passage, Routes, Start, Stop, mark_fused};
use weir_plan::Plan;
use weir_units::{Rate, Stream, Time};

const MS: u64 = 1_000_000;
const PACKET: u32 = 1000;
/// A packet takes 10 us.
const RATE_BPS: u64 = 800_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Numbered {
    number: u32,
    dscp: u8,
}

impl Packet for Numbered {
    fn ip_bytes(&self) -> u32 {
        PACKET
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        false
    }
    fn is_l4s(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
    fn flow_hash(&self) -> u32 {
        self.number
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
}

/// Two classes by code point, the higher one first, behind a gate that is open in every second millisecond.
struct Gated {
    children: [AnyQdisc<Numbered>; 2],
    counters: Counters,
}

impl Gated {
    fn opens(now: Time) -> Option<Time> {
        let millisecond = now.0 / MS;
        (millisecond % 2 == 0).then(|| Time((millisecond + 1) * MS))
    }
}

impl Qdisc<Numbered> for Gated {
    fn enqueue(&mut self, now: Time, packet: Numbered, drops: &mut Drops<'_, Numbered>) -> Enqueued {
        self.children[usize::from(packet.dscp == 0)].enqueue(now, packet, drops)
    }
    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, Numbered>) -> Option<Dequeued<Numbered>> {
        if Gated::opens(now).is_some() {
            return None;
        }
        (0..)
            .zip(&mut self.children)
            .find_map(|(class, child)| child.dequeue(now, drops).map(|next| Dequeued { class, ..next }))
    }
    fn bytes(&self) -> u64 {
        self.children.iter().map(Qdisc::bytes).sum()
    }
    fn packets(&self) -> u64 {
        self.children.iter().map(Qdisc::packets).sum()
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.children.iter_mut().for_each(|child| child.set_rate(now, rate));
    }
    fn held_until(&self, now: Time) -> Option<Time> {
        Gated::opens(now).filter(|_| self.packets() > 0)
    }
    fn classes(&self) -> u32 {
        2
    }
    fn class_of(&self, packet: &Numbered) -> u32 {
        u32::from(packet.dscp == 0)
    }
}

fn plan() -> Plan {
    let link = |name: &str, from: u32, to: u32| {
        format!(
            r#"{{"name": "{name}", "from": {from}, "to": {to}, "rate_bps": {RATE_BPS}, "overhead_bytes": 0,
            "mtu_bytes": 1500, "delay": {{"kind": "fixed", "delay_ns": {MS}}},
            "queue": {{"kind": "droptail", "limit": {{"bytes": null, "packets": 100}}}}, "loss": null, "host_nic": false}}"#
        )
    };
    let nodes = r#"{"name": "a", "kind": "host"}, {"name": "r", "kind": "router"}, {"name": "b", "kind": "host"}"#;
    let text = format!(
        r#"{{"version": 1, "title": "", "seed": 1, "end_ns": {MS}, "nodes": [{nodes}],
        "links": [{}, {}], "flows": [{{"name": "f", "group": "f", "index": 0, "stream": 0, "role": "test", "from": 0,
        "to": 2, "path": [0, 1], "reverse_path": [], "start_ns": 0, "stop_ns": null,
        "source": {{"kind": "cbr", "rate_bps": 1000, "periods_ns": []}},
        "transport": {{"protocol": "udp", "payload_bytes": 1}}}}],
        "measure": {{"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0}}}}"#,
        link("ar", 0, 1),
        link("rb", 1, 2)
    );
    serde_json::from_str(&text).expect("a plan")
}

fn gated() -> Link<Numbered> {
    let plan = plan();
    let port = Port { rate: Rate::from_bps(RATE_BPS), overhead_bytes: 0, mtu_bytes: 1500 };
    let queue: Queue = plan.links[0].queue.clone();
    assert_eq!(queue.limit(), &Limit { bytes: None, packets: Some(100) });
    let child = || AnyQdisc::from_plan(&queue, port, Stream::new(1, "child"));
    let gated = Gated { children: [child(), child()], counters: Counters::default() };
    Link::new(&plan.links[0], 0, 1, MS, false).with_queue(Box::new(gated))
}

#[test]
fn classes_leave_in_the_order_of_their_scheduler_and_when_it_lets_them() {
    let (mut link, mut lost) = (gated(), Vec::new());
    assert!(link.is_evented() && !link.may_run_ahead());
    for number in 0..6 {
        let packet = Numbered { number, dscp: if number < 3 { 0 } else { 46 } };
        let passage = link.enter(Time(u64::from(number)), packet, &mut lost);
        assert!(matches!(passage, Passage::QueuedIdle), "packet {number}: the transmitter is free");
    }
    let (mut at, mut left, mut held) = (Time(10), Vec::new(), 0);
    loop {
        match link.start(at, &mut lost) {
            Start::Sent { packet, departure, arrival } => {
                assert_eq!(arrival.0, departure.0 + MS);
                left.push((packet.number, departure.0));
                at = departure;
            }
            Start::Held(until) => {
                assert!(until > at, "a driver that comes back at once never ends");
                (at, held) = (until, held + 1);
            }
            Start::Idle => break,
        }
    }
    let expected = [3, 4, 5, 0, 1, 2].into_iter().zip(1..).map(|(number, n)| (number, MS + n * 10_000));
    assert_eq!(left, expected.collect::<Vec<_>>());
    assert_eq!((held, link.packets(), lost.len()), (1, 0, 0));
}

#[test]
fn packets_that_are_held_back_count_as_waiting_in_their_class() {
    let (mut link, mut lost, mut rows) = (gated(), Vec::new(), Vec::new());
    for number in 0..5 {
        let packet = Numbered { number, dscp: if number < 2 { 46 } else { 0 } };
        link.enter(Time(0), packet, &mut lost);
        assert!(matches!(link.start(Time(0), &mut lost), Start::Held(_)), "packet {number}");
    }
    link.drain_classes(Time(MS), &mut rows);
    let seen: Vec<_> =
        rows.iter().map(|row| (row.class, row.in_packets, row.queue_max_bytes, row.queue_bytes)).collect();
    assert_eq!(seen, [(0, 2, 2000, 2000), (1, 3, 3000, 3000)]);
    assert!(rows.iter().all(|row| row.queue_delay_ns == u64::MAX && row.out_packets == 0));
}

#[test]
fn a_link_that_shares_its_buffer_is_entered_at_its_time() {
    let plan = plan();
    let links = || -> Vec<Link<Numbered>> { weir_links::build_links(&plan) };
    let second = |links: &mut Vec<Link<Numbered>>| {
        mark_fused(&plan, links);
        let routes = Routes::new(&plan, links);
        routes.stop(routes.start(0) + 1)
    };
    assert_eq!(second(&mut links()), Stop::Fused(1), "alone, it is fused with the one before");
    let mut shared = links();
    shared[1].shares_buffer = true;
    assert_eq!(second(&mut shared), Stop::Link(1));
}
