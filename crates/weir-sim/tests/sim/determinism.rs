//! The same plan gives the same tables: twice, in steps of any size, fused or not, and with the queues of all links
//! driven by events.

use proptest::prelude::*;
use weir_plan::{
    Change, ChangeKind, Delay, Limit, Loss, Mark, Plan, Queue, RedCurve, RedQueue, Source, Tcp, Transport,
};
use weir_sim::{Column, Options, Simulation, Statistics, Tables};
use weir_units::Time;

use crate::common::{MS, S, add_flow, droptail, dumbbell, run_with, tcp, traced};
use crate::random::{self, Menu, cases};

const CASES: u32 = 192;

const FUSED: Options = Options { reference: false, lookahead: Some(false), window_events: None };
pub const REFERENCE: Options = Options { reference: true, lookahead: None, window_events: None };
pub const AHEAD: Options = Options { reference: false, lookahead: Some(true), window_events: None };

/// Compares column by column, so that a failure names the first one that differs.
pub fn assert_same(a: &Tables, b: &Tables, except: &[&str]) -> Result<(), TestCaseError> {
    let columns = |t: &Tables| {
        let t = t.clone();
        [
            ("events", t.events.into_columns()),
            ("flows", t.flows.into_columns()),
            ("goodput", t.goodput.into_columns()),
            ("samples", t.samples.into_columns()),
            ("links", t.links.into_columns()),
            ("classes", t.classes.into_columns()),
            ("probes", t.probes.into_columns()),
            ("acks", t.acks.into_columns()),
            ("ports", t.ports.into_columns()),
            ("delays", t.delays.into_columns()),
            ("delay_bins", t.delay_bins.into_columns()),
        ]
    };
    for ((table, left), (_, right)) in columns(a).into_iter().zip(columns(b)) {
        for ((name, left), (_, right)) in left.into_iter().zip(right) {
            if except.contains(&name) {
                continue;
            }
            let (left, right) = (numbers(left), numbers(right));
            let differ: Option<usize> = (0..left.len().max(right.len())).find(|&row| left.get(row) != right.get(row));
            if let Some(row) = differ {
                let (left, right) = (left.get(row), right.get(row));
                prop_assert!(false, "{table}.{name} row {row}: {left:?} and {right:?}");
            }
        }
    }
    Ok(())
}

fn numbers(column: Column) -> Vec<i128> {
    match column {
        Column::U8(values) => values.into_iter().map(i128::from).collect(),
        Column::U32(values) => values.into_iter().map(i128::from).collect(),
        Column::U64(values) => values.into_iter().map(i128::from).collect(),
        Column::I64(values) => values.into_iter().map(i128::from).collect(),
        Column::Name(values) => values.into_iter().map(i128::from_le_bytes).collect(),
    }
}

pub fn append(all: &mut Tables, part: Tables) {
    let Tables { flows, goodput, samples, links, classes, probes, acks, ports, delays, delay_bins, events } = part;
    all.flows.extend(flows);
    all.goodput.extend(goodput);
    all.samples.extend(samples);
    all.links.extend(links);
    all.classes.extend(classes);
    all.probes.extend(probes);
    all.acks.extend(acks);
    all.ports.extend(ports);
    all.delays.extend(delays);
    all.delay_bins.extend(delay_bins);
    all.events.extend(events);
}

/// Runs in steps of `step_ns` and puts the drained parts together.
fn run_in_steps(plan: &Plan, step_ns: u64) -> Tables {
    counted_in_steps(plan, step_ns).0
}

/// The same, and how much work it was.
fn counted_in_steps(plan: &Plan, step_ns: u64) -> (Tables, Statistics) {
    let mut simulation = Simulation::new(plan).expect("the plan can be simulated");
    let (mut all, mut at) = (Tables::default(), 0);
    loop {
        at += step_ns;
        let ended = simulation.advance(Time(at));
        append(&mut all, simulation.drain());
        if ended {
            return (all, simulation.statistics());
        }
    }
}

/// The same plan, but every link is driven by events: a change at the very end, which changes nothing, makes it so.
fn with_evented_links(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for (i, link) in plan.links.iter().enumerate() {
        let change = ChangeKind::Rate { rate_bps: link.rate_bps };
        plan.changes.push(Change { at_ns: u64::MAX, link: i as u32, change });
    }
    plan
}

/// The same plan on hosts that answer at once: those on links driven by events always do.
fn without_processing(mut plan: Plan) -> Plan {
    for flow in &mut plan.flows {
        if let Transport::Tcp(tcp) = &mut flow.transport {
            tcp.processing_ns = 0;
        }
    }
    plan
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn twice_the_same(plan in random::plan(Menu::ALL)) {
        assert_same(&run_with(&plan, FUSED), &run_with(&plan, FUSED), &[])?;
    }

    #[test]
    fn fused_links_change_nothing(plan in random::plan(Menu::ALL)) {
        assert_same(&run_with(&plan, FUSED), &run_with(&plan, REFERENCE), &[])?;
    }

    #[test]
    fn regions_that_run_ahead_change_nothing(plan in random::plan(Menu::ALL)) {
        assert_same(&run_with(&plan, AHEAD), &run_with(&plan, FUSED), &[])?;
    }

    /// Few random plans of all sources have none with an end; these have a choice of bulk flows and datagrams only.
    #[test]
    fn regions_of_endless_flows_change_nothing(plan in random::plan(Menu::ALL)) {
        let mut plan = plan;
        for flow in &mut plan.flows {
            if let Source::Transfers { .. } = flow.source {
                flow.source = Source::Bulk;
            }
        }
        plan.measure.delay_ns = 0;
        assert_same(&run_with(&plan, AHEAD), &run_with(&plan, REFERENCE), &[])?;
    }

    #[test]
    fn fused_links_change_no_trace(plan in random::plan(Menu::ALL)) {
        let plan = traced(&plan);
        let trace = |options| {
            let mut simulation = Simulation::with_options(&plan, options).expect("the plan can be simulated");
            simulation.advance(Time::MAX);
            simulation.drain_trace()
        };
        let (fused, reference) = (trace(FUSED), trace(REFERENCE));
        for (a, b) in fused.iter().zip(&reference) {
            prop_assert_eq!(a, b);
        }
        prop_assert_eq!(fused.len(), reference.len());
    }

    #[test]
    fn the_size_of_steps_changes_nothing(plan in random::plan(Menu::ALL), step_us in 100u64..300_000) {
        assert_same(&run_with(&plan, FUSED), &run_in_steps(&plan, step_us * 1000), &[])?;
    }

    #[test]
    fn steps_of_the_driver_change_no_count(plan in random::plan(Menu::ALL), step_us in 1_000u64..3_000_000) {
        let (_, whole) = counted_in_steps(&plan, plan.end_ns);
        prop_assert_eq!(counted_in_steps(&plan, step_us * 1000).1, whole);
    }

    #[test]
    fn analytic_queues_change_nothing(plan in random::plan(Menu { dequeue_aqm: false, changes: false, finite: false })) {
        let plan = without_processing(plan);
        assert_same(&run_with(&plan, FUSED), &run_with(&with_evented_links(&plan), REFERENCE), &["queue_delay_ns", "queue_delay_max_ns"])?;
    }
}

#[test]
fn time_does_not_go_back() {
    let mut plan = dumbbell(1, 100_000_000, 10_000_000, 10 * MS, droptail(None, Some(10)), S);
    add_flow(&mut plan, 0, 0, tcp("reno"), Source::Bulk);
    let mut simulation = Simulation::new(&plan).expect("the plan can be simulated");
    assert!(!simulation.advance(Time(S / 2)));
    assert!(!simulation.advance(Time::ZERO));
    assert_eq!(simulation.now(), Time(S / 2));
    assert!(simulation.advance(Time::MAX));
    assert!(simulation.advance(Time::ZERO));
    let mut all = Tables::default();
    append(&mut all, simulation.drain());
    assert_eq!(all, run_with(&plan, FUSED));
}

/// More packets than a random plan sends: nine flows of three round-trip times each way through one RED bottleneck, all
/// bytes of the tables and every record of the trace.
#[test]
fn a_loaded_dumbbell_is_the_same_in_every_mode() {
    let curve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 50_000, max_bytes: 300_000, max_p: 0.02 };
    let limit = Limit { bytes: Some(400_000), packets: None };
    let red = Queue::Red(RedQueue { limit, curves: vec![curve], weight: 0.002, gentle: true, mark: Mark::Ecn });
    let mut plan = dumbbell(9, 100_000_000, 200_000_000, 10 * MS, red.clone(), 3 * S);
    plan.links[1].queue = red;
    plan.links[0].loss = Some(Loss::Bernoulli { p: 1e-4 });
    plan.measure.links = vec![];
    plan.measure.delay_ns = 100 * MS;
    let names: Vec<&str> = weir_cc::list().iter().map(|algorithm| algorithm.name()).collect();
    for pair in 0..9 {
        let settings = Tcp { ecn: pair % 2 == 0, sack: pair != 3, ..tcp(names[pair as usize % names.len()]) };
        let flow = add_flow(&mut plan, pair, u64::from(pair) * 37 * MS, settings, Source::Bulk);
        plan.links[3 + 4 * pair as usize].delay = Delay::Fixed { delay_ns: u64::from(pair % 3) * 20 * MS };
        if pair % 3 == 0 {
            let flow = &mut plan.flows[flow];
            (flow.from, flow.to) = (flow.to, flow.from);
            std::mem::swap(&mut flow.path, &mut flow.reverse_path);
        }
    }
    let plan = traced(&plan);
    let outcome = |plan: &Plan, options| {
        let mut simulation = Simulation::with_options(plan, options).expect("the plan can be simulated");
        simulation.advance(Time::MAX);
        (simulation.drain(), simulation.drain_trace())
    };
    let (tables, trace) = outcome(&plan, FUSED);
    assert!(trace.len() > 100_000, "{} records", trace.len());
    assert!(tables.delays.rows() > 200 && tables.delay_bins.rows() > 2_000);
    assert!(tables.flows.marked_packets.iter().sum::<u64>() > 10);
    assert!(tables.flows.retransmitted_packets.iter().sum::<u64>() > 10);
    let (reference, reference_trace) = outcome(&plan, REFERENCE);
    assert_same(&tables, &reference, &[]).unwrap();
    assert!(trace == reference_trace);
    let (evented, evented_trace) = outcome(&with_evented_links(&plan), REFERENCE);
    assert_same(&tables, &evented, &["queue_delay_ns", "queue_delay_max_ns"]).unwrap();
    assert!(trace == evented_trace);
}
