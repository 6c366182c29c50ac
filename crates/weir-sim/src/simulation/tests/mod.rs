//! Parts of a network that no plan describes yet: queues with classes, nodes with state. Kinds of regions. Windows.

#[path = "../../../tests/common/mod.rs"]
mod common;

mod batches;
mod classes;
mod nodes;
mod windows;

use weir_plan::Plan;
use weir_run::Tables;
use weir_units::Time;

use super::prepare::Parts;
use super::{Options, Simulation};

/// Runs a plan whose parts `change` has replaced, draining every `step_ns`.
fn run(plan: &Plan, options: Options, step_ns: u64, change: impl FnOnce(&mut Parts)) -> Tables {
    plan.validate().expect("the plan is sound");
    let mut parts = Parts::of(plan);
    change(&mut parts);
    let mut simulation = Simulation::assemble(plan, options, parts).expect("the plan can be simulated");
    let mut all = Tables::default();
    loop {
        let ended = simulation.advance(Time(simulation.now().0 + step_ns));
        let Tables { flows, goodput, samples, links, classes, probes, acks, ports, delays, delay_bins, events } =
            simulation.drain();
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
        if ended {
            return all;
        }
    }
}
