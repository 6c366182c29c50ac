//! A scheduler with two classes: its table has a row a class, and changes no other table.

use std::collections::BTreeMap;

use weir_elements::{AnyQdisc, Counters, Dequeued, Drops, Enqueued, Port, Qdisc};
use weir_plan::{Plan, Queue, Source};
use weir_units::{Rate, Stream, Time};

use super::common::{CONTROL, MS, S, add_flow, cbr, droptail, dumbbell, tcp, udp};
use super::run;
use crate::packet::Packet;
use crate::simulation::Options;

const EF: u8 = 46;

/// Strict priority: class 0 has the packets of code point EF, class 1 all others.
struct Priority {
    children: [AnyQdisc<Packet>; 2],
    counters: Counters,
}

impl Priority {
    fn before(port: Port, queue: &Queue) -> Priority {
        let child = || AnyQdisc::from_plan(queue, port, Stream::new(1, "child"));
        Priority { children: [child(), child()], counters: Counters::default() }
    }
}

impl Qdisc<Packet> for Priority {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops<'_, Packet>) -> Enqueued {
        let class = self.class_of(&packet);
        self.children[class as usize].enqueue(now, packet, drops)
    }
    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, Packet>) -> Option<Dequeued<Packet>> {
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
    fn classes(&self) -> u32 {
        2
    }
    fn class_of(&self, packet: &Packet) -> u32 {
        u32::from(weir_elements::Packet::dscp(packet) != EF)
    }
}

/// 4 Mb/s of EF datagrams beside a bulk flow on 10 Mb/s, with room for 50 packets a class.
fn plan() -> Plan {
    let mut plan = dumbbell(2, 100_000_000, 10_000_000, 20 * MS, droptail(None, Some(50)), 5 * S);
    plan.measure.links = vec![0, 1];
    let call = add_flow(&mut plan, 0, 0, tcp(CONTROL), cbr(4_000_000));
    plan.flows[call].transport = udp(1000);
    plan.flows[call].dscp = EF;
    add_flow(&mut plan, 1, 0, tcp(CONTROL), Source::Bulk);
    plan
}

fn scheduled(plan: &Plan, step_ns: u64) -> weir_run::Tables {
    run(plan, Options::default(), step_ns, |parts| {
        let (link, given) = (parts.links.remove(0), &plan.links[0]);
        parts.links.insert(0, link.with_queue(Box::new(Priority::before(Port::from(given), &given.queue))));
    })
}

#[test]
fn the_rows_of_classes_add_up_to_those_of_their_link() {
    let tables = scheduled(&plan(), S);
    let (links, classes) = (&tables.links, &tables.classes);
    let mut sums: BTreeMap<u64, [u64; 9]> = BTreeMap::new();
    for i in 0..classes.rows() {
        assert!(classes.link[i] == 0 && classes.class[i] < 2, "only link 0 has classes, and it has two");
        let columns = [
            &classes.in_packets,
            &classes.in_bytes,
            &classes.out_packets,
            &classes.out_bytes,
            &classes.drop_packets,
            &classes.drop_bytes,
            &classes.mark_packets,
            &classes.queue_bytes,
            &classes.queue_packets,
        ];
        let sum = sums.entry(classes.time_ns[i]).or_default();
        columns.iter().zip(sum).for_each(|(column, sum)| *sum += column[i]);
    }
    let mut compared = 0;
    for i in (0..links.rows()).filter(|&i| links.link[i] == 0) {
        let whole = [
            links.in_packets[i],
            links.in_bytes[i],
            links.out_packets[i],
            links.out_bytes[i],
            links.drop_packets[i],
            links.drop_bytes[i],
            links.mark_packets[i],
            links.queue_bytes[i],
            links.queue_packets[i],
        ];
        assert_eq!(sums.get(&links.time_ns[i]), Some(&whole), "interval {}", links.time_ns[i]);
        compared += 1;
    }
    assert_eq!((compared, sums.len()), (250, 250), "an interval each 20 ms");
}

#[test]
fn the_class_with_priority_waits_for_one_packet_at_most_and_the_other_is_dropped() {
    let tables = scheduled(&plan(), S);
    let classes = &tables.classes;
    let of_class = |class: u32| (0..classes.rows()).filter(move |&i| classes.class[i] == class);
    let packet_ns = (1500 + 38) * 8 * 100;
    let longest = of_class(0).filter_map(|i| Some(classes.queue_delay_max_ns[i]).filter(|&ns| ns < u64::MAX)).max();
    assert!(longest.is_some_and(|ns| 0 < ns && ns <= packet_ns), "{longest:?} of {packet_ns}");
    assert_eq!(of_class(0).map(|i| classes.drop_packets[i]).sum::<u64>(), 0);
    let dropped: u64 = of_class(1).map(|i| classes.drop_packets[i]).sum();
    assert!(dropped > 0, "a bulk flow fills its queue");
    assert_eq!(dropped, tables.flows.lost_packets.iter().sum::<u64>());
    let fullest = of_class(1).map(|i| classes.queue_max_bytes[i]).max();
    assert_eq!(fullest, Some(50 * 1500));
}

#[test]
fn rows_of_classes_do_not_depend_on_when_they_are_drained() {
    assert_eq!(scheduled(&plan(), 10 * S), scheduled(&plan(), 7 * MS));
}

#[test]
fn without_classes_the_table_is_empty() {
    let tables = run(&plan(), Options::default(), S, |_| {});
    assert_eq!(tables.classes.rows(), 0);
    assert!(tables.links.rows() > 250);
}
