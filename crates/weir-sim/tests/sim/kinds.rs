//! Batches change no table, whatever the regions of a network are: random dumbbells, whose regions are bottlenecks,
//! routers, ends of flows and mixtures, beside the mode with one event for each packet and link.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use weir_plan::{Ack, Delay, Limit, Loss, Plan, Queue, Source, Stack, StepQueue, Tcp};
use weir_sim::{Batches, Simulation, Tables};
use weir_units::Time;

use crate::common::{self, CONTROL, MS, add_flow, cbr, droptail, dumbbell, run_with, udp};
use crate::determinism::{AHEAD, REFERENCE, append, assert_same};
use crate::random::{self, cases};

const CASES: u32 = 96;

/// What sends from one host to another.
#[derive(Clone, Debug)]
enum Load {
    Tcp(Tcp),
    /// Against the others: data share a link with their acknowledgements.
    Against(Tcp),
    /// A second flow from the same host, whose region is no single end of a flow.
    Beside(Tcp),
    Datagrams(u64),
}

fn load() -> impl Strategy<Value = Load> {
    prop_oneof![
        6 => random::tcp().prop_map(Load::Tcp),
        1 => random::tcp().prop_map(Load::Against),
        1 => random::tcp().prop_map(Load::Beside),
        1 => (1_000_000u64..30_000_000).prop_map(Load::Datagrams),
    ]
}

/// Queues that mostly decide at arrival and have room for a window; any other queue now and then.
fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        4 => (20_000u64..600_000).prop_map(|bytes| droptail(Some(bytes), None)),
        1 => (5u64..200).prop_map(|packets| droptail(None, Some(packets))),
        2 => random::queue(true),
    ]
}

/// A fixed delay of an access link; now and then none, which makes its router and its host one region, or a varying one.
fn access_delay() -> impl Strategy<Value = Delay> {
    prop_oneof![
        12 => select(vec![10_000, MS / 10, MS, 2 * MS]).prop_map(|delay_ns| Delay::Fixed { delay_ns }),
        1 => random::delay(),
    ]
}

/// What differs between the links of a plan: the two of the bottleneck, then four of each pair of hosts.
type Access = (u64, Delay, Option<Queue>);

fn plan() -> impl Strategy<Value = Plan> {
    let access = || {
        let queue = prop_oneof![7 => Just(None), 1 => queue().prop_map(Some)];
        (select(vec![50_000_000u64, 200_000_000, 1_000_000_000]), access_delay(), queue)
    };
    let pair = (load(), 0u64..40, access(), access());
    let bottleneck = (select(vec![20_000_000u64, 100_000_000, 400_000_000]), 2u64..50, queue(), queue());
    let losses = (random::loss(), random::loss());
    (any::<u64>(), vec(pair, 1..9), bottleneck, losses, any::<bool>()).prop_map(
        |(seed, pairs, (rate, rtt_ms, queue, back), (loss, back_loss), observed)| {
            let mut plan = dumbbell(pairs.len() as u32, 1, rate, rtt_ms * MS, queue, 400 * MS);
            plan.seed = seed;
            plan.links[1].queue = back;
            (plan.links[0].loss, plan.links[1].loss) = (loss, back_loss);
            plan.measure.links = if observed { vec![0, 1, 3] } else { vec![1] };
            for (pair, (load, start_ms, up, down)) in (0..).zip(pairs) {
                for (link, access) in [(2, &up), (3, &down), (4, &down), (5, &up)] {
                    set_access(&mut plan, 4 * pair + link, access);
                }
                add_load(&mut plan, pair, start_ms * MS, load);
            }
            plan.validate().expect("a random plan is sound");
            plan
        },
    )
}

fn set_access(plan: &mut Plan, link: u32, (rate_bps, delay, queue): &Access) {
    let link = &mut plan.links[link as usize];
    (link.rate_bps, link.delay) = (*rate_bps, delay.clone());
    if let Some(queue) = queue {
        link.queue = queue.clone();
    }
}

fn add_load(plan: &mut Plan, pair: u32, start_ns: u64, load: Load) {
    match load {
        Load::Tcp(tcp) => {
            add_flow(plan, pair, start_ns, tcp, Source::Bulk);
        }
        Load::Against(tcp) => {
            let index = add_flow(plan, pair, start_ns, tcp, Source::Bulk);
            let flow = &mut plan.flows[index];
            std::mem::swap(&mut flow.from, &mut flow.to);
            std::mem::swap(&mut flow.path, &mut flow.reverse_path);
        }
        Load::Beside(tcp) => {
            add_flow(plan, pair, start_ns, tcp.clone(), Source::Bulk);
            add_flow(plan, pair, start_ns + MS, tcp, Source::Bulk);
        }
        Load::Datagrams(rate_bps) => {
            let index = add_flow(plan, pair, start_ns, common::tcp(CONTROL), cbr(rate_bps));
            plan.flows[index].transport = udp(1000);
        }
    }
}

fn run_ahead(plan: &Plan, step_ns: u64) -> (Tables, Batches) {
    let mut simulation = Simulation::with_options(plan, AHEAD).expect("the plan can be simulated");
    let (mut all, mut at) = (Tables::default(), 0);
    loop {
        at += step_ns;
        let ended = simulation.advance(Time(at));
        append(&mut all, simulation.drain());
        if ended {
            return (all, simulation.batches());
        }
    }
}

// A test reads one variable; the simulator does not.
#[allow(clippy::disallowed_methods)]
fn more() -> u32 {
    std::env::var("WEIR_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn batches_change_nothing_whatever_the_regions() {
    let seen = Cell::new(Batches::default());
    let steps = prop_oneof![Just(u64::MAX / 2), MS..150 * MS];
    let outcome = TestRunner::new(cases(more() * CASES)).run(&(plan(), steps), |(plan, step_ns)| {
        let (tables, batches) = run_ahead(&plan, step_ns);
        let Batches { passed, data, acks, trains } = seen.get();
        seen.set(Batches {
            passed: passed + batches.passed,
            data: data + batches.data,
            acks: acks + batches.acks,
            trains: trains + batches.trains,
        });
        assert_same(&tables, &run_with(&plan, REFERENCE), &[])
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let Batches { passed, data, acks, .. } = seen.get();
    let least = 1000 * u64::from(more());
    assert!(passed > least && data > least && acks > least, "hardly any batch: {:?}", seen.get());
}

/// An end that takes its packets in runs does what it does for single packets: one flow with each control, stack and
/// setting alone on its path, without losses and with them.
#[test]
fn runs_of_plain_packets_change_nothing() {
    let mut seen = Batches::default();
    for control in weir_cc::list() {
        for (queue, every, processing_ns) in [(4_000_000, false, 0), (60_000, false, 30_000), (60_000, true, 0)] {
            let mut plan = dumbbell(2, 1_000_000_000, 200_000_000, 10 * MS, droptail(Some(queue), None), 300 * MS);
            for link in &mut plan.links[2..] {
                link.delay = Delay::Fixed { delay_ns: MS / 100 };
            }
            for (pair, ecn) in [(0, false), (1, true)] {
                let ack = if every { Ack::Every } else { Ack::Delayed };
                let tcp = Tcp { ecn, ack, processing_ns, ..common::tcp(control.name()) };
                add_flow(&mut plan, pair, 0, tcp, Source::Bulk);
            }
            let (tables, batches) = run_ahead(&plan, 70 * MS);
            seen = Batches { data: seen.data + batches.data, acks: seen.acks + batches.acks, ..seen };
            assert_same(&tables, &run_with(&plan, REFERENCE), &[])
                .unwrap_or_else(|failure| panic!("{}: {failure}", control.name()));
        }
    }
    assert!(seen.data > 10_000 && seen.acks > 10_000, "hardly any run: {seen:?}");
}

/// A flow alone on its path sends trains over fused links, whether these have room for all packets, for most or for few,
/// mark some or lose some at random.
#[test]
fn trains_over_fused_links_change_nothing() {
    let limit = Limit { bytes: Some(1_000_000), packets: None };
    let marks = Queue::Step(StepQueue { limit, threshold_bytes: 300_000, drop: false });
    let bottlenecks = [
        ("room for all", droptail(Some(20_000_000), None), None),
        ("drops", droptail(Some(300_000), None), None),
        ("few packets wait", droptail(Some(60_000), None), None),
        ("marks", marks, None),
        ("random losses", droptail(Some(20_000_000), None), Some(Loss::Bernoulli { p: 1e-4 })),
    ];
    for (name, queue, loss) in bottlenecks {
        let mut seen = Batches::default();
        for (stack, processing_ns) in [(Stack::Linux, 0), (Stack::Linux26, 20_000)] {
            let mut plan = dumbbell(1, 1_000_000_000, 800_000_000, 10 * MS, queue.clone(), 400 * MS);
            plan.links[0].loss = loss.clone();
            add_flow(&mut plan, 0, 0, Tcp { stack, processing_ns, ecn: true, ..common::tcp(CONTROL) }, Source::Bulk);
            let (tables, batches) = run_ahead(&plan, 70 * MS);
            seen = Batches { data: seen.data + batches.data, trains: seen.trains + batches.trains, ..seen };
            assert_same(&tables, &run_with(&plan, REFERENCE), &[])
                .unwrap_or_else(|failure| panic!("{name}: {failure}"));
        }
        // Acknowledgements are in trains everywhere, data where the bottleneck has room for them.
        let with_data = ["room for all", "marks"].contains(&name);
        assert!(seen.trains > 2000 && (seen.trains > seen.data) == with_data, "{name}: {seen:?}");
    }
}

/// The packets of many pipes are sorted: more flows than a router merges, in step, so that packets often meet at the same
/// instant, with losses and without.
#[test]
fn a_router_with_many_pipes_changes_nothing() {
    let mut seen = Batches::default();
    for (queue, step_ns) in [(200_000, u64::MAX / 2), (2_000_000, 3 * MS)] {
        let mut plan = dumbbell(150, 1_000_000_000, 100_000_000, 10 * MS, droptail(Some(queue), None), 600 * MS);
        for link in &mut plan.links[2..] {
            link.delay = Delay::Fixed { delay_ns: MS / 100 };
        }
        for pair in 0..150 {
            add_flow(&mut plan, pair, u64::from(pair % 10) * MS, common::tcp(CONTROL), Source::Bulk);
        }
        let (tables, batches) = run_ahead(&plan, step_ns);
        seen = Batches { passed: seen.passed + batches.passed, ..seen };
        assert_same(&tables, &run_with(&plan, REFERENCE), &[]).unwrap_or_else(|failure| panic!("{queue}: {failure}"));
    }
    assert!(seen.passed > 10_000, "hardly any batch: {seen:?}");
}
