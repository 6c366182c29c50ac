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

/// Two bottlenecks and the ends of three flows.
fn assert_two_bottlenecks(kinds: &[Kind]) {
    let ends = kinds.iter().filter(|kind| matches!(kind, Kind::End { .. })).count();
    assert_eq!((kinds.len(), ends), (8, 6));
    // The links of pair `i` follow link `2 + 4 i`: to the left router, from the right one, and back.
    for (link, inputs) in [(0, vec![2, 6, 10]), (1, vec![4, 8, 12])] {
        assert!(kinds.contains(&Kind::Bottleneck { link, inputs }), "{kinds:?}");
    }
}

#[test]
fn a_dumbbell_is_two_bottlenecks_and_the_ends_of_its_flows() {
    assert_two_bottlenecks(&kinds(&plan(MS)));
}

#[test]
fn hosts_without_a_delay_to_their_router_are_regions_of_their_own() {
    assert_two_bottlenecks(&kinds(&plan(0)));
}

#[test]
fn a_router_behind_a_delay_that_varies_is_one_region_with_its_hosts() {
    let mut plan = plan(0);
    for link in &mut plan.links[2..] {
        link.delay = Delay::Jitter { delay_ns: 0, jitter_ns: MS, normal: false, reorder: false };
    }
    let kinds = kinds(&plan);
    assert!(kinds.iter().all(|kind| *kind == Kind::Mixed), "{kinds:?}");
}

#[test]
fn a_router_whose_links_transmit_in_no_time_is_one_region_with_its_hosts() {
    let mut plan = plan(0);
    for link in &mut plan.links[2..] {
        link.rate_bps = 400_000_000_000;
    }
    let kinds = kinds(&plan);
    assert!(kinds.iter().all(|kind| *kind == Kind::Mixed), "{kinds:?}");
}

#[test]
fn a_circle_of_links_without_delay_is_one_region() {
    let mut plan = plan(0);
    // Both directions of the bottleneck; only a host far away is a region of its own.
    for link in [0, 1] {
        plan.links[link].delay = Delay::Fixed { delay_ns: 0 };
    }
    for link in [2 + 8, 2 + 11] {
        plan.links[link].delay = Delay::Fixed { delay_ns: MS };
    }
    let kinds = kinds(&plan);
    assert_eq!(kinds.iter().filter(|kind| matches!(kind, Kind::End { .. })).count(), 1, "{kinds:?}");
    assert_eq!(kinds.len(), 2, "{kinds:?}");
}
