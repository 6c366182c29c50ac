//! Switches between the links of the network.

use std::collections::BTreeMap;

use weir_plan::{ChangeKind, Plan};
use weir_run::{EventKind, EventRow, Ports as Table};
use weir_switch::{Passing, Ports, Switch};
use weir_units::Time;

use super::Network;
use crate::train::Segment;

/// The switches of a plan, in the order of their slots in the calendar.
#[derive(Default)]
pub(super) struct Nodes {
    /// Empty while the switch acts.
    switches: Vec<Option<Box<Switch<Segment>>>>,
    /// By link: the switch at its near end, or [`NONE`].
    before: Vec<u32>,
    /// By input port: the places behind the switch at which copies of a flooded packet go on, one for each output port.
    floods: BTreeMap<u32, Vec<u32>>,
}

const NONE: u32 = u32::MAX;

impl Nodes {
    pub fn new(plan: &Plan) -> Nodes {
        let mut nodes = Nodes { before: vec![NONE; plan.links.len()], ..Nodes::default() };
        for (number, node) in (0..).zip(&plan.nodes) {
            let Some(switch) = &node.switch else { continue };
            for (before, link) in nodes.before.iter_mut().zip(&plan.links) {
                if link.from == number {
                    *before = nodes.switches.len() as u32;
                }
            }
            nodes.switches.push(Some(Box::new(Switch::new(plan, number, switch))));
        }
        nodes
    }

    pub fn len(&self) -> usize {
        self.switches.len()
    }

    /// Whether a switch is at the near end of a link.
    pub fn is_behind(&self, link: u32) -> bool {
        self.before[link as usize] != NONE
    }
}

impl Network {
    /// Finds where flooded packets go: to each output port that a route from their input port has.
    pub(super) fn find_floods(&mut self) {
        let paths = self.plan.flows.iter().flat_map(|flow| [&flow.path, &flow.reverse_path]);
        let mut outputs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (route, path) in (0..).zip(paths) {
            let &[input, output] = &path[..] else { continue };
            let known = outputs.entry(input).or_default();
            if self.nodes.is_behind(output) && !known.contains(&output) {
                known.push(output);
                self.nodes.floods.entry(input).or_default().push(self.routes.start(route) + 1);
            }
        }
    }

    /// Hands a packet that arrived over link `input` to the switch before link `output`; copies of a flooded packet go
    /// to all outputs.
    pub(super) fn arrive_at_node(&mut self, packet: Segment, input: u32, output: u32) {
        if !packet.is_flooded() {
            return self.with_switch(output, |switch, ports| switch.arrive(Passing { packet, input, output }, ports));
        }
        let places = self.nodes.floods.get(&input).cloned().unwrap_or_default();
        self.trains.share(packet.train, places.len() as u32);
        for place in places {
            let weir_links::Stop::Node(output) = self.routes.stop(place) else { continue };
            let packet = packet.alone_at(place);
            self.with_switch(output, |switch, ports| switch.arrive(Passing { packet, input, output }, ports));
        }
        self.trains.release(packet.train, 1);
    }

    /// The switch with this number may act.
    pub(super) fn act_at_node(&mut self, number: u32) {
        self.with_numbered(number, |switch, ports| switch.act(ports));
    }

    fn with_switch(&mut self, output: u32, act: impl FnOnce(&mut Switch<Segment>, &mut SwitchPorts<'_>)) {
        self.with_numbered(self.nodes.before[output as usize], act);
    }

    fn with_numbered(&mut self, number: u32, act: impl FnOnce(&mut Switch<Segment>, &mut SwitchPorts<'_>)) {
        let Some(mut switch) = self.nodes.switches[number as usize].take() else {
            unreachable!("no switch acts within another")
        };
        act(&mut switch, &mut SwitchPorts { network: self });
        self.calendar.set(self.slots.nodes + number, switch.due());
        self.nodes.switches[number as usize] = Some(switch);
    }

    /// Removes and returns the rows of table `ports` in the intervals that end by `now`, in the order of time, node,
    /// output and input; none without a switch.
    pub(super) fn drain_ports(&mut self, now: Time) -> Option<Table> {
        if self.nodes.len() == 0 || self.plan.measure.links_ns == 0 {
            return None;
        }
        let mut rows = Vec::new();
        self.nodes.switches.iter_mut().flatten().for_each(|switch| switch.drain(now, &mut rows));
        rows.sort_by_key(|row| (row.time_ns, row.node, row.output, row.input));
        let mut table = Table::default();
        rows.into_iter().for_each(|row| table.push(row));
        Some(table)
    }
}

/// The ports of a switch, while it acts.
struct SwitchPorts<'a> {
    network: &'a mut Network,
}

impl Ports<Segment> for SwitchPorts<'_> {
    fn now(&self) -> Time {
        self.network.now
    }

    fn idle_from(&self, output: u32) -> Time {
        self.network.links[output as usize].drained(self.network.now)
    }

    fn forward(&mut self, passing: Passing<Segment>) {
        self.network.enter(passing.output, passing.packet, self.network.now);
    }

    fn drop(&mut self, passing: Passing<Segment>) {
        let Network { links, lost, now, .. } = &mut *self.network;
        links[passing.output as usize].refuse(*now, passing.packet, lost);
        self.network.account_losses(passing.output, self.network.now);
    }

    fn throttle(&mut self, input: u32, rate_bps: u64) {
        let now = self.network.now;
        let kind = if rate_bps == 0 { EventKind::Pause } else { EventKind::Resume } as u8;
        self.network.events.push(EventRow { time_ns: now.0, kind, flow: u32::MAX, link: input, value: 0 });
        if self.network.links[input as usize].change(now, &ChangeKind::Rate { rate_bps }) {
            self.network.start_transmission(input);
        }
    }
}
