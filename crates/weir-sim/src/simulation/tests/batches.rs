//! The kinds of the regions of a plan.

use weir_plan::{Delay, Plan, Source};

use super::super::batches::Kind;
use super::super::prepare::Parts;
use super::super::{Options, Simulation};
use super::common::{CONTROL, MS, S, add_flow, droptail, dumbbell, tcp};

fn plan(access_delay_ns: u64) -> Plan {
    let mut plan = dumbbell(3, S, 2 * S, 10 * MS, droptail(None, Some(100)), S);
    for link in &mut plan.links[2..] {
        link.delay = Delay::Fixed { delay_ns: access_delay_ns };
    }
    for pair in 0..3 {
        add_flow(&mut plan, pair, 0, tcp(CONTROL), Source::Bulk);
    }
    plan
}

fn kinds(plan: &Plan) -> Vec<Kind> {
    let simulation = Simulation::assemble(plan, Options::default(), Parts::of(plan)).expect("it can be simulated");
    simulation.lookahead.expect("it has regions").kinds()
}

#[test]
fn a_dumbbell_is_two_bottlenecks_and_the_ends_of_its_flows() {
    let kinds = kinds(&plan(MS));
    let ends = kinds.iter().filter(|kind| matches!(kind, Kind::End { .. })).count();
    assert_eq!((kinds.len(), ends), (8, 6));
    // The links of pair `i` follow link `2 + 4 i`: to the left router, from the right one, and back.
    for (link, inputs) in [(0, vec![2, 6, 10]), (1, vec![4, 8, 12])] {
        assert!(kinds.contains(&Kind::Bottleneck { link, inputs }), "{kinds:?}");
    }
}

#[test]
fn a_router_without_a_delay_before_it_is_one_region_with_the_hosts() {
    let kinds = kinds(&plan(0));
    assert!(kinds.iter().all(|kind| *kind == Kind::Mixed), "{kinds:?}");
}
