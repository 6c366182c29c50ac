//! Nothing appears and nothing vanishes: packets and bytes at every link, from end to end, and in every transfer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_plan::{Loss, NodeKind, Plan, Source, Tcp, Transport};
use weir_sim::trace::{Event, PacketKind, TraceRecord};
use weir_sim::{Options, Simulation, Statistics, Tables};
use weir_units::Time;

use crate::common::{CONTROL, MS, S, add_wire_flow, cbr, droptail, tcp, traced, udp, wire};
use crate::random::{self, Menu, cases};

const CASES: u32 = 128;

struct Outcome {
    tables: Tables,
    trace: Vec<TraceRecord>,
    packets: u64,
    unsent: u64,
    in_flight: u64,
}

fn run(plan: &Plan, reference: bool) -> Outcome {
    let mut simulation =
        Simulation::with_options(plan, Options { reference, ..Options::default() }).expect("the plan can be simulated");
    simulation.advance(Time::MAX);
    let (tables, trace) = (simulation.drain(), simulation.drain_trace());
    let Statistics { packets, unsent, .. } = simulation.statistics();
    Outcome { tables, trace, packets, unsent, in_flight: simulation.in_flight() }
}

/// Totals of a link over all bins.
#[derive(Default)]
struct LinkTotals {
    into: [u64; 2],
    out: [u64; 2],
    dropped: [u64; 2],
    waiting: [u64; 2],
}

fn link_totals(plan: &Plan, tables: &Tables) -> Vec<LinkTotals> {
    let mut totals: Vec<LinkTotals> = plan.links.iter().map(|_| LinkTotals::default()).collect();
    let table = &tables.links;
    for i in 0..table.rows() {
        let link = &mut totals[table.link[i] as usize];
        for (sum, value) in [
            (&mut link.into, [table.in_packets[i], table.in_bytes[i]]),
            (&mut link.out, [table.out_packets[i], table.out_bytes[i]]),
            (&mut link.dropped, [table.drop_packets[i], table.drop_bytes[i]]),
        ] {
            sum[0] += value[0];
            sum[1] += value[1];
        }
        link.waiting = [table.queue_packets[i], table.queue_bytes[i]];
    }
    totals
}

proptest! {
    #![proptest_config(cases(CASES))]

    /// Each link, in packets and in bytes, at the end of each interval: in = out + dropped + waiting.
    #[test]
    fn of_each_link(plan in random::plan(Menu::ALL)) {
        let outcome = run(&plan, false);
        let table = &outcome.tables.links;
        let mut balance = vec![[0i128; 2]; plan.links.len()];
        for i in 0..table.rows() {
            let link = &mut balance[table.link[i] as usize];
            let n = |value: u64| i128::from(value);
            link[0] += n(table.in_packets[i]) - n(table.out_packets[i]) - n(table.drop_packets[i]);
            link[1] += n(table.in_bytes[i]) - n(table.out_bytes[i]) - n(table.drop_bytes[i]);
            prop_assert_eq!(*link, [n(table.queue_packets[i]), n(table.queue_bytes[i])], "link {}, {} ns", table.link[i], table.time_ns[i]);
            prop_assert!(table.queue_max_bytes[i] >= table.queue_bytes[i]);
        }
    }

    /// From end to end while packets are under way: sent = received + dropped + in flight, and no packet arrives twice.
    #[test]
    fn of_each_packet(plan in random::plan(Menu::ALL), reference: bool) {
        check_packets(&plan, reference)?;
    }

    /// Sources that end: the network drains, every byte of a transfer that ended was delivered once, and what the links
    /// dropped is what was sent and did not arrive.
    #[test]
    fn of_each_transfer(plan in random::plan(Menu { finite: true, ..Menu::ALL })) {
        let outcome = run(&plan, false);
        let flows = &outcome.tables.flows;
        for i in 0..flows.rows() {
            let flow = &plan.flows[flows.flow[i] as usize];
            let datagram = match &flow.transport {
                Transport::Udp(udp) => Some(udp.payload_bytes),
                Transport::Tfrc(tfrc) => Some(tfrc.payload_bytes),
                _ => None,
            };
            if let Some(bytes) = datagram {
                let arrived = flows.sent_packets[i] - flows.lost_packets[i];
                prop_assert_eq!(flows.delivered_bytes[i], arrived * u64::from(bytes));
                continue;
            }
            prop_assert!(flows.delivered_bytes[i] <= flows.bytes[i]);
            if flows.end_ns[i] < u64::MAX {
                prop_assert_eq!(flows.delivered_bytes[i], flows.bytes[i]);
                prop_assert!(flows.sent_bytes[i] >= flows.bytes[i]);
                let first = flows.sent_packets[i] - flows.retransmitted_packets[i];
                prop_assert!(first >= flows.bytes[i].div_ceil(1460));
            }
        }
        if is_drained(&plan, &outcome) {
            check_drained(&plan, &outcome)?;
        }
    }
}

fn check_packets(plan: &Plan, reference: bool) -> Result<(), TestCaseError> {
    let outcome = run(&traced(plan), reference);
    let mut ways: BTreeMap<(u32, bool, u64), i32> = BTreeMap::new();
    let mut serials: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    let (mut sent, mut ended) = (0, 0);
    for record in &outcome.trace {
        let way = (record.flow, record.is_forward());
        if record.event == Event::Sent {
            let serial = serials.entry(way).or_default();
            *serial += 1;
            prop_assert_eq!((record.number, record.id), (*serial, *serial as u16));
            ways.insert((way.0, way.1, *serial), 1);
            sent += 1;
        } else {
            // The identification goes round: a sender without a limit in its host may fill a queue 65536 times.
            let place = ways.get_mut(&(way.0, way.1, record.number));
            prop_assert!(place.is_some_and(|n| std::mem::replace(n, 0) == 1), "no such packet, or twice: {record:?}");
            ended += 1;
        }
    }
    prop_assert_eq!(sent + outcome.unsent, outcome.packets);
    prop_assert!(ended + outcome.in_flight <= outcome.packets);
    // Fused links drop packets ahead of the clock: those are in flight in the trace, but on no link. So are packets that
    // a host sends after the end of the run, ahead of the clock, and that its link drops.
    if reference {
        prop_assert!(outcome.packets <= ended + outcome.in_flight + outcome.unsent);
    }
    Ok(())
}

/// The answer to a connection request leaves its host after the end of the run, and the first link drops it.
#[test]
fn of_a_packet_that_is_dropped_after_the_end() {
    let mut plan = wire(10_000_000, 0, droptail(None, Some(10)), MS);
    plan.links[1].loss = Some(Loss::Bernoulli { p: 1.0 });
    let tcp = Tcp { processing_ns: S, ..tcp(CONTROL) };
    add_wire_flow(&mut plan, 0, Transport::Tcp(tcp), Source::Bulk);
    for reference in [false, true] {
        let outcome = run(&traced(&plan), reference);
        assert_eq!((outcome.packets, outcome.unsent, outcome.in_flight, outcome.trace.len()), (2, 1, 0, 2));
        check_packets(&plan, reference).expect("it is accounted for");
    }
}

/// The identification of an IP packet has 16 bits.
#[test]
fn of_more_packets_than_have_an_identification() {
    let mut plan = wire(100_000_000, MS, droptail(None, Some(10)), S);
    add_wire_flow(&mut plan, 0, udp(29), cbr(20_000_000));
    assert!(run(&plan, false).packets > 1 << 16);
    check_packets(&plan, true).expect("each is accounted for");
}

/// Whether no source has anything left to do: a connection that cannot be established is tried for minutes.
fn is_drained(plan: &Plan, outcome: &Outcome) -> bool {
    let tcp = plan.flows.iter().filter(|flow| matches!(flow.source, Source::Transfers { .. })).count();
    let unfinished = outcome.tables.flows.end_ns.iter().filter(|end| **end == u64::MAX).count();
    tcp == 0 || unfinished == 0
}

fn check_drained(plan: &Plan, outcome: &Outcome) -> Result<(), TestCaseError> {
    prop_assert_eq!(outcome.in_flight, 0);
    let is_host = |node: u32| plan.nodes[node as usize].kind == NodeKind::Host;
    let (mut entered, mut left, mut dropped) = ([0, 0], [0, 0], [0, 0]);
    for (link, totals) in plan.links.iter().zip(link_totals(plan, &outcome.tables)) {
        prop_assert_eq!(totals.waiting, [0, 0]);
        for unit in 0..2 {
            dropped[unit] += totals.dropped[unit];
            entered[unit] += if is_host(link.from) { totals.into[unit] } else { 0 };
            left[unit] += if is_host(link.to) { totals.out[unit] } else { 0 };
        }
    }
    prop_assert_eq!(entered, [left[0] + dropped[0], left[1] + dropped[1]]);
    prop_assert_eq!(entered[0], outcome.packets);
    Ok(())
}

fn is_data(record: &TraceRecord) -> bool {
    record.is_forward() && matches!(record.kind, PacketKind::Data | PacketKind::Datagram)
}

/// The losses that table `flows` reports are the data packets that links dropped.
#[test]
fn losses_of_a_flow_are_what_links_dropped_of_its_data() {
    proptest!(cases(CASES), |(plan in random::plan(Menu::ALL))| {
        let outcome = run(&traced(&plan), false);
        let flows = &outcome.tables.flows;
        for index in 0..plan.flows.len() as u32 {
            let count = |wanted: fn(&TraceRecord) -> bool| {
                outcome.trace.iter().filter(|record| record.flow == index && wanted(record)).count() as u64
            };
            let rows = (0..flows.rows()).filter(|&i| flows.flow[i] == index);
            let lost: u64 = rows.clone().map(|i| flows.lost_packets[i]).sum();
            let sent: u64 = rows.clone().map(|i| flows.sent_packets[i]).sum();
            let is_loss = |record: &TraceRecord| is_data(record) && matches!(record.event, Event::Dropped { .. });
            let dropped = count(is_loss);
            let started = count(|record| is_data(record) && record.event == Event::Sent);
            // What is lost between two transfers of a flow belongs to neither.
            prop_assert!(lost <= dropped, "flow {index}: {lost} lost, {dropped} dropped");
            prop_assert!(sent <= started);
            let transfers = matches!(plan.flows[index as usize].source, Source::Transfers { .. });
            if !transfers {
                // A retransmission that was not needed may be lost when all is acknowledged and the flow has ended.
                let end = rows.map(|i| flows.end_ns[i]).max().unwrap_or(0);
                let late = |record: &&TraceRecord| record.flow == index && record.time_ns > end && is_loss(record);
                let late = outcome.trace.iter().filter(late).count() as u64;
                prop_assert!(lost == dropped || lost == dropped - late, "{lost} lost, {dropped} dropped, {late} late");
                prop_assert_eq!(sent, started);
            }
        }
    });
}
