//! Windows of very many events are cut.

use weir_plan::{Plan, Source};
use weir_units::Time;

use super::super::lookahead::EVENTS_A_WINDOW;
use super::super::prepare::Parts;
use super::super::{Options, Simulation};
use super::common::{CONTROL, MS, S, add_flow, droptail, dumbbell, tcp};

/// Three flows that fill 2 Gb/s, about 500 events a millisecond, with samples every 500 ms.
fn plan() -> Plan {
    let mut plan = dumbbell(3, S, 2 * S, 10 * MS, droptail(None, Some(1000)), S);
    (plan.measure.tcp_ns, plan.measure.links_ns) = (500 * MS, 500 * MS);
    for pair in 0..3 {
        add_flow(&mut plan, pair, 0, tcp(CONTROL), Source::Bulk);
    }
    plan
}

/// The length of a window at the end of the plan, nanoseconds, and the number of events in one by their mean rate.
fn at_end(options: Options) -> (u64, f64) {
    let plan = plan();
    let mut simulation = Simulation::assemble(&plan, options, Parts::of(&plan)).expect("it can be simulated");
    simulation.advance(Time(plan.end_ns));
    let lookahead = simulation.lookahead.as_ref().expect("it has regions");
    let rate = lookahead.events() as f64 / plan.end_ns as f64;
    (lookahead.span_ns(), rate * lookahead.span_ns() as f64)
}

#[test]
fn a_window_has_the_events_that_the_options_permit() {
    for most in [200, 1000, 4000] {
        let (span_ns, events) = at_end(Options { window_events: Some(most), ..Options::default() });
        let share = events / most as f64;
        assert!((0.2..1.5).contains(&share), "{most}: {span_ns} ns, {events} events");
    }
}

#[test]
fn a_window_without_an_option_has_sixteen_thousand_events_at_most() {
    let (span_ns, events) = at_end(Options::default());
    assert!(span_ns < u64::MAX);
    assert!(events <= 1.5 * EVENTS_A_WINDOW as f64, "{span_ns} ns, {events} events");
}

/// Samples of TCP state every 2 ms, each with a row of each flow that has started.
#[test]
fn a_window_holds_several_samples() {
    let mut plan = plan();
    (plan.measure.tcp_ns, plan.flows[2].start_ns) = (2 * MS, 333 * MS);
    let rows = |lookahead| {
        let options = Options { lookahead: Some(lookahead), ..Options::default() };
        let mut simulation = Simulation::assemble(&plan, options, Parts::of(&plan)).expect("it can be simulated");
        simulation.advance(Time(plan.end_ns));
        (simulation.drain().samples, simulation.ticks.map_or(0, |ticks| ticks.most))
    };
    let ((ahead, most), (in_order, none)) = (rows(true), rows(false));
    assert!(most > 3, "{most} samples in a window");
    assert_eq!(none, 0);
    assert_eq!(ahead.rows(), 500 + 500 + 334);
    assert_eq!(ahead, in_order);
}
