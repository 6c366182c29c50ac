//! Regions that run ahead of each other change no table: random plans whose events mostly fall into windows, beside the
//! mode with one event for each packet and link.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_plan::{ChangeKind, Delay, Plan, Source};
use weir_sim::{Simulation, Statistics, Tables};
use weir_units::Time;

use crate::common::{MS, run_with};
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
