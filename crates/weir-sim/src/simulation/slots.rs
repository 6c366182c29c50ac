//! The sources of events and their places in the calendar.

use weir_plan::Plan;

/// The calendar's slots: one event source each.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub transmitters: u32,
    pub pipes: u32,
    pub nodes: u32,
    pub senders: u32,
    pub receivers: u32,
    pub tcp_tick: u32,
    pub goodput_tick: u32,
    pub count: u32,
}

/// Changes of links come first: what happens at the same instant sees them.
pub(super) const CHANGES: u32 = 0;

impl Slots {
    /// The slots of a plan with `stateful` nodes that have state.
    pub fn new(plan: &Plan, stateful: u32) -> Slots {
        let (links, flows) = (plan.links.len() as u32, plan.flows.len() as u32);
        // A transmitter before the arrivals: a packet that begins transmission makes room for one that arrives then.
        let transmitters = CHANGES + 1;
        let pipes = transmitters + links;
        // A node after the arrivals: its arbiter chooses among all packets of an instant.
        let nodes = pipes + links;
        let senders = nodes + stateful;
        let receivers = senders + flows;
        let tcp_tick = receivers + flows;
        let (goodput_tick, count) = (tcp_tick + 1, tcp_tick + 2);
        Slots { transmitters, pipes, nodes, senders, receivers, tcp_tick, goodput_tick, count }
    }
}
