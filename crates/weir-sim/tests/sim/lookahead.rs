//! Regions that run ahead of each other change no table: random plans whose events mostly fall into windows, beside the
//! mode with one event for each packet and link.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_plan::{ChangeKind, Delay, Limit, Loss, Mark, Plan, Queue, RedCurve, RedQueue, Source, Stack, Tcp};
use weir_sim::{Simulation, Statistics, Tables};
use weir_units::Time;

use crate::common::{MS, add_flow, cbr, droptail, dumbbell, run_with, tcp, udp};
use crate::determinism::{AHEAD, REFERENCE, append, assert_same};
use crate::random::{self, Menu, cases};

const CASES: u32 = 192;

/// A random plan with at least two regions and no reason for one order before its second half: every link has a fixed
/// delay, no source ends by itself, and no packet is observed singly.
fn plan() -> impl Strategy<Value = Plan> {
    random::plan(Menu::ALL).prop_map(|mut plan| {
        for link in &mut plan.links {
            if !matches!(link.delay, Delay::Fixed { delay_ns: 1.. }) {
                link.delay = Delay::Fixed { delay_ns: MS };
            }
        }
        for flow in &mut plan.flows {
            if let Source::Transfers { .. } = flow.source {
                flow.source = Source::Bulk;
            }
            flow.stop_ns = flow.stop_ns.filter(|stop| 2 * stop >= plan.end_ns);
        }
        plan.changes.retain(|change| !matches!(change.change, ChangeKind::Delay { .. }));
        plan.measure.delay_ns = 0;
        plan
    })
}

/// Runs ahead in steps; returns the tables, the totals and the number of events in windows.
fn run_ahead(plan: &Plan, step_ns: u64) -> (Tables, Statistics, u64) {
    let mut simulation = Simulation::with_options(plan, AHEAD).expect("the plan can be simulated");
    let (mut all, mut at) = (Tables::default(), 0);
    loop {
        at += step_ns;
        let ended = simulation.advance(Time(at));
        append(&mut all, simulation.drain());
        if ended {
            return (all, simulation.statistics(), simulation.events_ahead());
        }
    }
}

#[test]
fn windows_change_nothing() {
    let (ahead, total) = (Cell::new(0), Cell::new(0));
    let steps = prop_oneof![Just(u64::MAX / 2), 100_000u64..300 * MS];
    let outcome = TestRunner::new(cases(CASES)).run(&(plan(), steps), |(plan, step_ns)| {
        let (tables, statistics, events) = run_ahead(&plan, step_ns);
        prop_assert!(events > 0, "no event in a window");
        ahead.set(ahead.get() + events);
        total.set(total.get() + statistics.events);
        assert_same(&tables, &run_with(&plan, REFERENCE), &[])
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(4 * ahead.get() > 3 * total.get(), "{} of {} events in windows", ahead.get(), total.get());
}

/// A bottleneck of 2 Gb/s and 20 ms: thousands of packets come to it in a window, more than a batch. One flow for each
/// congestion control, alternately with either stack, and datagrams.
fn bottleneck(queue: Queue) -> Plan {
    let names: Vec<&str> = weir_cc::list().iter().map(|algorithm| algorithm.name()).collect();
    let pairs = names.len() as u32 + 1;
    let mut plan = dumbbell(pairs, 1000 * 1_000_000, 2000 * 1_000_000, 20 * MS, queue, 400 * MS);
    for link in &mut plan.links[2..] {
        link.delay = Delay::Fixed { delay_ns: MS / 10 };
    }
    for (pair, name) in (0..).zip(&names) {
        let stack = if pair % 2 == 0 { Stack::Linux } else { Stack::Linux26 };
        let settings = Tcp { ecn: pair % 3 == 0, sack: pair % 5 != 4, stack, ..tcp(name) };
        add_flow(&mut plan, pair, u64::from(pair) * 3 * MS, settings, Source::Bulk);
    }
    let datagrams = add_flow(&mut plan, pairs - 1, 0, tcp("reno"), cbr(100_000_000));
    plan.flows[datagrams].transport = udp(1500);
    plan
}

#[test]
fn batches_at_a_bottleneck_change_nothing() {
    let curve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 200_000, max_bytes: 900_000, max_p: 0.05 };
    let limit = Limit { bytes: Some(1_000_000), packets: None };
    let red = Queue::Red(RedQueue { limit, curves: vec![curve], weight: 0.002, gentle: true, mark: Mark::Ecn });
    let mut lossy = bottleneck(droptail(None, Some(500)));
    lossy.links[0].loss = Some(Loss::Bernoulli { p: 3e-4 });
    lossy.links[1].loss = Some(Loss::Bernoulli { p: 3e-4 });
    // The same queue, with no row of its own in a table.
    let mut unobserved = bottleneck(droptail(Some(400_000), None));
    unobserved.measure.links = vec![1];
    // Links behind the bottleneck drop, too.
    let mut narrow = bottleneck(droptail(Some(400_000), None));
    for link in narrow.links[2..].iter_mut().filter(|link| link.name.starts_with("right->")) {
        (link.rate_bps, link.queue) = (100_000_000, droptail(None, Some(20)));
    }
    for plan in [bottleneck(droptail(Some(400_000), None)), bottleneck(red), lossy, unobserved, narrow] {
        let (tables, statistics, events) = run_ahead(&plan, 130 * MS);
        assert!(statistics.packets > 10_000, "{} packets", statistics.packets);
        assert!(10 * events > 9 * statistics.events, "{events} of {} events in windows", statistics.events);
        let lost: u64 = tables.flows.lost_packets.iter().sum();
        assert!(lost > 20, "{lost} packets lost");
        assert_same(&tables, &run_with(&plan, REFERENCE), &[]).unwrap();
    }
}
