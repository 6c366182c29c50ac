//! Regions that run ahead of each other change no table: random plans whose events mostly fall into windows, beside the
//! mode with one event for each packet and link.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_plan::{
    After, ChangeKind, Delay, Flow, Limit, Loss, Mark, NodeKind, Plan, Queue, RedCurve, RedQueue, Source, Stack, Tcp,
    Transfer, Transport,
};
use weir_sim::{Options, Simulation, Statistics, Tables};
use weir_units::Time;

use crate::common::{MS, add_flow, cbr, droptail, dumbbell, run_with, tcp, udp};
use crate::determinism::{AHEAD, REFERENCE, append, assert_same};
use crate::random::{self, Menu, cases};

const CASES: u32 = 192;

/// A random plan with at least two regions, whose packets are not observed singly: every link has a fixed delay, which may
/// be zero from a host to its router. Bulk flows last until the second half of the run.
fn with_regions() -> impl Strategy<Value = Plan> {
    random::plan(Menu::ALL).prop_map(|mut plan| {
        for link in &mut plan.links {
            let least = u64::from(plan.nodes[link.from as usize].kind != NodeKind::Host);
            if !matches!(link.delay, Delay::Fixed { delay_ns } if delay_ns >= least) {
                link.delay = Delay::Fixed { delay_ns: MS };
            }
        }
        for flow in plan.flows.iter_mut().filter(|flow| matches!(flow.source, Source::Bulk)) {
            flow.stop_ns = flow.stop_ns.filter(|stop| 2 * stop >= plan.end_ns);
        }
        plan.changes.retain(|change| !matches!(change.change, ChangeKind::Delay { .. }));
        plan.measure.delay_ns = 0;
        plan
    })
}

/// The same, with no reason for one order in its first half: no source ends by itself.
fn endless() -> impl Strategy<Value = Plan> {
    with_regions().prop_map(|mut plan| {
        for flow in &mut plan.flows {
            if let Source::Transfers { .. } = flow.source {
                flow.source = Source::Bulk;
            }
            flow.stop_ns = flow.stop_ns.filter(|stop| 2 * stop >= plan.end_ns);
        }
        plan
    })
}

/// The same without a delay on any link: a queue divides the network while packets wait there.
fn without_delays() -> impl Strategy<Value = Plan> {
    endless().prop_map(|mut plan| {
        for link in &mut plan.links {
            link.delay = Delay::Fixed { delay_ns: 0 };
        }
        plan
    })
}

/// A transfer: of a few bytes up to minutes, or a multiple of a segment; with or without a pause before it.
fn transfer() -> impl Strategy<Value = Transfer> {
    let bytes = prop_oneof![
        1u64..20_000,
        (1u64..400).prop_map(|segments| segments * 1448),
        100_000u64..3_000_000,
        Just(1_000_000_000)
    ];
    let wait_ns = prop_oneof![Just(0), (0u64..60).prop_map(|ms| ms * MS)];
    (wait_ns, bytes).prop_map(|(wait_ns, bytes)| Transfer { wait_ns, bytes, ..Transfer::default() })
}

/// How a flow of [`finite`] sends: as it does; transfers; over two connections of a user; stopped early.
#[derive(Clone, Debug)]
struct Recipe {
    transfers: Vec<Transfer>,
    keep_connection: bool,
    changes: bool,
    of_user: bool,
    stop_ns: Option<u64>,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let stop = prop_oneof![3 => Just(None), 1 => (0u64..800).prop_map(|ms| Some(ms * MS))];
    (vec(transfer(), 1..6), any::<bool>(), 0u32..4, any::<bool>(), stop).prop_map(
        |(transfers, keep_connection, changes, of_user, stop_ns)| Recipe {
            transfers,
            keep_connection,
            changes: changes > 0,
            of_user,
            stop_ns,
        },
    )
}

/// A random plan in which most sources end: bulk flows, datagrams with pauses, transfers one after the other, and users
/// whose transfers wait for those of another connection.
fn finite() -> impl Strategy<Value = Plan> {
    (with_regions(), vec(recipe(), 5)).prop_map(|(mut plan, recipes)| {
        let mut second = Vec::new();
        for (flow, recipe) in plan.flows.iter_mut().zip(recipes) {
            let Transport::Tcp(_) = flow.transport else { continue };
            if !recipe.changes {
                continue;
            }
            let Recipe { transfers, keep_connection, of_user, stop_ns, .. } = recipe;
            flow.stop_ns = stop_ns;
            if of_user {
                second.push(share_with_second(flow, transfers, keep_connection));
            } else {
                flow.source = Source::Transfers { transfers, keep_connection };
            }
        }
        plan.flows.extend(second);
        plan.validate().expect("a random plan is sound");
        plan
    })
}

/// Makes a flow the first connection of a user and returns the second: its transfers wait for those of the first with the
/// same number; from the second on, those of the first wait for the one before of the second.
fn share_with_second(flow: &mut Flow, transfers: Vec<Transfer>, keep_connection: bool) -> Flow {
    (flow.group, flow.index) = (format!("user of {}", flow.name), 0);
    let waits_for = |stream: u32, transfer: Option<usize>| {
        transfer.into_iter().map(|transfer| After { stream, transfer: transfer as u32 }).collect()
    };
    let all = |stream: u32| {
        let after =
            |place: usize| if stream == 0 { waits_for(1, place.checked_sub(1)) } else { waits_for(0, Some(place)) };
        let list = transfers.iter().enumerate().map(|(place, one)| Transfer { after: after(place), ..one.clone() });
        Source::Transfers { transfers: list.collect(), keep_connection }
    };
    let second = Flow { name: format!("{}.1", flow.name), stream: 1, source: all(1), ..flow.clone() };
    (flow.stream, flow.source) = (0, all(0));
    second
}

/// Runs ahead in steps, in windows of about `window_events`; returns the tables, the totals and the number of events in
/// windows.
fn run_ahead(plan: &Plan, step_ns: u64, window_events: Option<u64>) -> (Tables, Statistics, u64) {
    let options = Options { window_events, ..AHEAD };
    let mut simulation = Simulation::with_options(plan, options).expect("the plan can be simulated");
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

/// Whether a sending host takes time for selective acknowledgements.
fn has_busy_host(plan: &Plan) -> bool {
    plan.flows.iter().any(|flow| matches!(&flow.transport, Transport::Tcp(tcp) if tcp.sack_cost_ns > 0))
}

/// Runs `plans` ahead and compares with the reference; returns the number of events in windows, and of all.
fn compare(plans: impl Strategy<Value = Plan>) -> (u64, u64) {
    let (ahead, total) = (Cell::new(0), Cell::new(0));
    let steps = prop_oneof![Just(u64::MAX / 2), 100_000u64..300 * MS];
    let windows = prop_oneof![Just(None), (20u64..600).prop_map(Some)];
    let outcome = TestRunner::new(cases(CASES)).run(&(plans, steps, windows), |(plan, step_ns, window_events)| {
        let (tables, statistics, events) = run_ahead(&plan, step_ns, window_events);
        if has_busy_host(&plan) {
            prop_assert_eq!(events, 0, "its flows share a host's time");
        } else {
            ahead.set(ahead.get() + events);
            total.set(total.get() + statistics.events);
        }
        assert_same(&tables, &run_with(&plan, REFERENCE), &[])
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    (ahead.get(), total.get())
}

#[test]
fn windows_change_nothing() {
    let (ahead, total) = compare(endless());
    assert!(3 * ahead > 2 * total, "{ahead} of {total} events in windows");
}

#[test]
fn windows_between_transfers_change_nothing() {
    let (ahead, total) = compare(finite());
    assert!(2 * ahead > total, "{ahead} of {total} events in windows");
}

#[test]
fn windows_behind_a_queue_change_nothing() {
    let (ahead, total) = compare(without_delays());
    assert!(16 * ahead > total, "{ahead} of {total} events in windows");
}

/// Without a delay, what waits at the bottleneck divides the network; when it is empty, one order is needed.
#[test]
fn a_full_queue_divides_a_network_without_delays() {
    let mut seldom_full = bottleneck(droptail(Some(4_000_000), None));
    for (pair, flow) in (0..).zip(&mut seldom_full.flows) {
        (flow.start_ns, flow.stop_ns) = (pair / 4 * 40 * MS, Some((pair / 4 * 40 + 50) * MS));
    }
    for (mut plan, least) in [(bottleneck(droptail(Some(4_000_000), None)), 0.8), (seldom_full, 0.05)] {
        for link in &mut plan.links {
            link.delay = Delay::Fixed { delay_ns: 0 };
        }
        let (tables, statistics, events) = run_ahead(&plan, 130 * MS, None);
        let share = events as f64 / statistics.events as f64;
        assert!(share > least, "{share} of all events in windows");
        assert_same(&tables, &run_with(&plan, REFERENCE), &[]).unwrap();
    }
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
        let (tables, statistics, events) = run_ahead(&plan, 130 * MS, None);
        assert!(statistics.packets > 10_000, "{} packets", statistics.packets);
        assert!(10 * events > 9 * statistics.events, "{events} of {} events in windows", statistics.events);
        let lost: u64 = tables.flows.lost_packets.iter().sum();
        assert!(lost > 20, "{lost} packets lost");
        assert_same(&tables, &run_with(&plan, REFERENCE), &[]).unwrap();
    }
}
