//! The sources of events and their places in the calendar.

use weir_plan::Plan;

/// The calendar's slots: one event source each.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub transmitters: u32,
    pub pipes: u32,
    pub senders: u32,
    pub receivers: u32,
    pub tcp_tick: u32,
    pub goodput_tick: u32,
    pub count: u32,
}

/// Changes of links come first: what happens at the same instant sees them.
pub(super) const CHANGES: u32 = 0;

impl Slots {
    pub fn new(plan: &Plan) -> Slots {
        let (links, flows) = (plan.links.len() as u32, plan.flows.len() as u32);
        // A transmitter before the arrivals: a packet that begins transmission makes room for one that arrives then.
        let transmitters = CHANGES + 1;
        let pipes = transmitters + links;
        let senders = pipes + links;
        let receivers = senders + flows;
        let tcp_tick = receivers + flows;
        Slots { transmitters, pipes, senders, receivers, tcp_tick, goodput_tick: tcp_tick + 1, count: tcp_tick + 2 }
    }
}
