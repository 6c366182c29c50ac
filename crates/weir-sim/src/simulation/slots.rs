//! The sources of events and their places in the calendar.

use weir_plan::Plan;

/// The first slot of each kind of event source.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub transmitters: u32,
    pub pipes: u32,
    pub nodes: u32,
    pub senders: u32,
    pub receivers: u32,
    pub tcp_tick: u32,
    pub goodput_tick: u32,
    /// Components of hosts.
    pub components: u32,
    pub count: u32,
}

/// Changes of links precede all other events of the same instant.
pub(super) const CHANGES: u32 = 0;

impl Slots {
    /// The slots of a plan with `stateful` nodes that have state, and so many components of hosts.
    pub fn new(plan: &Plan, stateful: u32, of_hosts: u32) -> Slots {
        let (links, flows) = (plan.links.len() as u32, plan.flows.len() as u32);
        // Transmitters precede arrivals: a packet that begins transmission makes room for one that arrives.
        let transmitters = CHANGES + 1;
        let pipes = transmitters + links;
        // Nodes follow arrivals: an arbiter chooses among all packets of an instant.
        let nodes = pipes + links;
        let senders = nodes + stateful;
        let receivers = senders + flows;
        let tcp_tick = receivers + flows;
        let (goodput_tick, components) = (tcp_tick + 1, tcp_tick + 2);
        let count = components + of_hosts;
        Slots { transmitters, pipes, nodes, senders, receivers, tcp_tick, goodput_tick, components, count }
    }
}
