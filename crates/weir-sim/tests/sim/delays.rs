//! One-way delays and jitter: against arithmetic, and packet by packet against the trace.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_plan::{Delay, Loss, Plan, Source, Transport};
use weir_sim::trace::{Event, PacketKind};
use weir_sim::{Simulation, Tables};
use weir_units::{Bin, Time};

use crate::common::{
    MS, S, add_flow, add_wire_flow, cbr, close, droptail, dumbbell, run, tcp, traced, transfers, udp, wire,
};
use crate::random::{self, Menu, cases};

/// One flow and interval of table `delays`, without its null values, and of `delay_bins`: bin, packets, jitters.
#[derive(Debug, Default, PartialEq)]
struct Row {
    packets: u64,
    mean: u64,
    extremes: (u64, u64),
    jitters: u64,
    jitter: Option<(u64, u64)>,
    bins: Vec<(Bin, u64, u64)>,
}

/// By end of the interval and flow.
type Rows = BTreeMap<(u64, u32), Row>;

fn rows(tables: &Tables) -> Rows {
    let (delays, bins) = (&tables.delays, &tables.delay_bins);
    let mut rows = Rows::new();
    for i in 0..delays.rows() {
        let row = Row {
            packets: delays.packets[i],
            mean: delays.delay_ns[i],
            extremes: (delays.delay_min_ns[i], delays.delay_max_ns[i]),
            jitters: delays.jitter_packets[i],
            jitter: (delays.jitter_ns[i] < u64::MAX).then_some((delays.jitter_ns[i], delays.jitter_max_ns[i])),
            bins: Vec::new(),
        };
        assert!(rows.insert((delays.time_ns[i], delays.flow[i]), row).is_none(), "one row a flow and interval");
    }
    for i in 0..bins.rows() {
        let bin = Bin { low_ns: bins.low_ns[i], high_ns: bins.high_ns[i] };
        let row = rows.get_mut(&(bins.time_ns[i], bins.flow[i])).expect("bins are of a row of delays");
        row.bins.push((bin, bins.delay_packets[i], bins.jitter_packets[i]));
    }
    rows
}

/// The same from the trace: when each packet was sent and received.
fn expected(plan: &Plan, simulation: &mut Simulation) -> Rows {
    let (mut sent, mut last) = (BTreeMap::new(), BTreeMap::new());
    let mut populations: BTreeMap<(u64, u32), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for record in simulation.drain_trace() {
        let (flow, at) = (record.flow, record.time_ns);
        match record.event {
            _ if !record.is_forward() || !matches!(record.kind, PacketKind::Data | PacketKind::Datagram) => {}
            Event::Sent => drop(sent.insert((flow, record.id), at)),
            Event::Dropped { .. } => {}
            Event::Received => {
                let delay = at - sent[&(flow, record.id)];
                let end = (at / plan.measure.delay_ns + 1) * plan.measure.delay_ns;
                let (delays, jitters) = populations.entry((end, flow)).or_default();
                delays.push(delay);
                jitters.extend(last.insert(flow, delay).map(|last: u64| last.abs_diff(delay)));
            }
        }
    }
    populations.retain(|(end, _), _| *end <= plan.end_ns);
    populations.into_iter().map(|(key, (delays, jitters))| (key, row_of(&delays, &jitters))).collect()
}

fn row_of(delays: &[u64], jitters: &[u64]) -> Row {
    let mean = |values: &[u64]| values.iter().sum::<u64>() / values.len() as u64;
    let mut bins: BTreeMap<Bin, (u64, u64)> = BTreeMap::new();
    delays.iter().for_each(|&ns| bins.entry(Bin::of(ns)).or_default().0 += 1);
    jitters.iter().for_each(|&ns| bins.entry(Bin::of(ns)).or_default().1 += 1);
    Row {
        packets: delays.len() as u64,
        mean: mean(delays),
        extremes: (*delays.iter().min().unwrap(), *delays.iter().max().unwrap()),
        jitters: jitters.len() as u64,
        jitter: jitters.iter().max().map(|&max| (mean(jitters), max)),
        bins: bins.into_iter().map(|(bin, (delays, jitters))| (bin, delays, jitters)).collect(),
    }
}

fn compare_with_trace(plan: &Plan) -> usize {
    let plan = traced(plan);
    let mut simulation = Simulation::new(&plan).expect("the plan can be simulated");
    simulation.advance(Time::MAX);
    let (expected, found) = (expected(&plan, &mut simulation), rows(&simulation.drain()));
    for (key, row) in &expected {
        assert_eq!(found.get(key), Some(row), "interval and flow {key:?}");
    }
    assert_eq!(found.len(), expected.len());
    expected.len()
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn the_trace_has_the_same_delays(plan in random::plan(Menu::ALL)) {
        compare_with_trace(&plan);
    }

    #[test]
    fn to_measure_changes_nothing_else(plan in random::plan(Menu::ALL)) {
        let mut without = plan.clone();
        without.measure.delay_ns = 0;
        let (with, without) = (run(&plan), run(&without));
        prop_assert_eq!((without.delays.rows(), without.delay_bins.rows()), (0, 0));
        prop_assert_eq!(Tables { delays: Default::default(), delay_bins: Default::default(), ..with }, without);
    }
}

/// Seconds that `ip_bytes` and the overhead of a test link take at a rate.
fn serialisation(ip_bytes: u64, rate_bps: u64) -> u64 {
    ((ip_bytes + 38) * 8 * S + rate_bps / 2) / rate_bps
}

#[test]
fn a_call_alone_has_propagation_and_serialisation() {
    let mut plan = dumbbell(1, 100_000_000, 10_000_000, 40 * MS, droptail(None, Some(100)), 10 * S);
    plan.measure.delay_ns = 500 * MS;
    let call = add_flow(&mut plan, 0, 0, tcp("reno"), cbr(80_000)) as u32;
    plan.flows[call as usize].transport = udp(200);
    let exact = 20 * MS + 2 * serialisation(200, 100_000_000) + serialisation(200, 10_000_000);
    let found = rows(&run(&plan));
    assert_eq!(found.len(), 20, "an interval each half second");
    for (&(end, flow), row) in &found {
        assert_eq!((flow, row.mean, row.extremes), (call, exact, (exact, exact)));
        // The first packet of all has none before it.
        assert_eq!((row.jitters, row.jitter), (row.packets - u64::from(end == 500 * MS), Some((0, 0))));
        let whole = (Bin::of(exact), row.packets, 0);
        assert_eq!(row.bins, [(Bin::of(0), 0, row.jitters), whole]);
    }
    // 50 a second, but for those still under way at the end.
    assert_eq!(found.values().map(|row| row.packets).sum::<u64>(), 499);
}

/// Two senders of one host share the queue of its card: the time in that queue is part of the delay.
#[test]
fn the_queue_of_the_host_is_part_of_the_path() {
    let mut plan = wire(8_000_000, 5 * MS, droptail(None, Some(100)), S);
    plan.measure.delay_ns = S;
    for _ in 0..2 {
        add_wire_flow(&mut plan, 0, udp(962), cbr(8 * 962 * 10));
    }
    let found = rows(&run(&plan));
    let (first, second) = (&found[&(S, 0)], &found[&(S, 1)]);
    assert_eq!((first.mean, second.mean), (6 * MS, 7 * MS));
}

/// A FIFO that is always full: each packet waits for those that it holds, so that delay and queue say the same.
#[test]
fn a_full_fifo_delays_by_its_length() {
    let mut plan = dumbbell(2, 100_000_000, 10_000_000, 20 * MS, droptail(None, Some(50)), 10 * S);
    plan.measure.delay_ns = S;
    for pair in 0..2 {
        let flow = add_flow(&mut plan, pair, 0, tcp("reno"), cbr(9_000_000));
        plan.flows[flow].transport = udp(1212);
    }
    let found = rows(&run(&plan));
    let full = 10 * MS + 51 * serialisation(1212, 10_000_000) + 2 * serialisation(1212, 100_000_000);
    for flow in 0..2 {
        let row = &found[&(9 * S, flow)];
        close("mean delay through a full queue", row.mean as f64, full as f64, 0.02);
        assert!(row.extremes.1 <= full, "{} above {full}", row.extremes.1);
    }
}

/// Delays beyond 2^32 ns, packets that overtake each other, losses, and connections that follow each other.
#[test]
fn long_delays_and_overtaking_are_as_in_the_trace() {
    let mut plan = wire(400_000, 3 * S, droptail(None, Some(400)), 60 * S);
    plan.measure.delay_ns = 700 * MS;
    plan.links[0].loss = Some(Loss::Bernoulli { p: 0.02 });
    plan.links[0].delay = Delay::Reorder { delay_ns: 3 * S, extra_ns: 80 * MS, probability: 0.2 };
    add_wire_flow(&mut plan, 0, udp(700), cbr(390_000));
    let jobs = transfers(&[(0, 30_000), (0, 20_000), (S, 9_000)], false);
    add_wire_flow(&mut plan, 0, Transport::Tcp(tcp("cubic")), jobs);
    assert!(rows(&run(&plan)).values().any(|row| row.extremes.0 > 1 << 32));
    assert!(compare_with_trace(&plan) > 80);
}

#[test]
fn every_packet_arrives_is_lost_or_is_under_way() {
    let mut plan = dumbbell(1, 100_000_000, 10_000_000, 20 * MS, droptail(None, Some(20)), 5 * S);
    plan.measure.delay_ns = 100 * MS;
    add_flow(&mut plan, 0, 0, tcp("cubic"), Source::Bulk);
    let tables = run(&plan);
    let arrived: u64 = tables.delays.packets.iter().sum();
    let (sent, lost) = (tables.flows.sent_packets[0], tables.flows.lost_packets[0]);
    assert!(lost > 10 && tables.flows.retransmitted_packets[0] > 10);
    assert!(arrived + lost <= sent && sent <= arrived + lost + 60, "{arrived} + {lost} of {sent}");
}
