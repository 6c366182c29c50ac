//! Nodes with state, such as switches: they decide whether and when a packet is forwarded.
//!
//! Hosts and routers have no state: a router forwards a packet to the next link of its route at once. A [`Node`] keeps
//! a packet until it forwards or drops it. It owns its ports, memory and arbiter; the simulator moves packets and keeps
//! the clock.

use weir_plan::ChangeKind;
use weir_run::{PortRow, Ports as Table};
use weir_switch::Switch;
use weir_units::Time;

use super::Simulation;
use crate::packet::Packet;

/// A node with state.
pub(super) trait Node: Send + Sync {
    /// A packet has arrived.
    fn arrive(&mut self, passing: Passing, ports: &mut Ports<'_>);

    /// The instant of [`due`](Node::due) has come. All packets that arrive at this instant have arrived.
    fn act(&mut self, ports: &mut Ports<'_>);

    /// The instant at which the node acts next, unless a packet arrives before; [`Time::MAX`] for none. Asked after
    /// each call.
    fn due(&self) -> Time;

    /// Packets in the node.
    fn packets(&self) -> u64;

    /// Moves the rows of table `ports` in the intervals that end by `now` to `rows`.
    fn drain(&mut self, _now: Time, _rows: &mut Vec<PortRow>) {}
}

/// A packet at a node.
pub(super) type Passing = weir_switch::Passing<Packet>;

impl Node for Switch<Packet> {
    fn arrive(&mut self, passing: Passing, ports: &mut Ports<'_>) {
        Switch::arrive(self, passing, ports);
    }

    fn act(&mut self, ports: &mut Ports<'_>) {
        Switch::act(self, ports);
    }

    fn due(&self) -> Time {
        Switch::due(self)
    }

    fn packets(&self) -> u64 {
        Switch::packets(self)
    }

    fn drain(&mut self, now: Time, rows: &mut Vec<PortRow>) {
        Switch::drain(self, now, rows);
    }
}

/// The ports of a node, while it acts.
pub(super) struct Ports<'a> {
    simulation: &'a mut Simulation,
}

impl weir_switch::Ports<Packet> for Ports<'_> {
    fn now(&self) -> Time {
        self.simulation.now
    }

    fn idle_from(&self, output: u32) -> Time {
        self.simulation.links[output as usize].drained(self.simulation.now)
    }

    fn forward(&mut self, passing: Passing) {
        self.simulation.enter(passing.output, passing.packet, self.simulation.now);
    }

    /// Table `links` counts the packet at its output port.
    fn drop(&mut self, passing: Passing) {
        let Simulation { links, lost, now, .. } = &mut *self.simulation;
        links[passing.output as usize].refuse(*now, passing.packet, lost);
        self.simulation.account_losses(passing.output, self.simulation.now);
    }

    /// Table `events` has a row.
    fn throttle(&mut self, input: u32, rate_bps: u64) {
        let now = self.simulation.now;
        self.simulation.telemetry.pause(now, input, rate_bps == 0);
        if self.simulation.links[input as usize].change(now, &ChangeKind::Rate { rate_bps }) {
            self.simulation.start_transmission(input);
        }
    }
}

/// The nodes with state of a network, by the order of their slots in the calendar.
#[derive(Default)]
pub(super) struct Nodes {
    /// Empty while the node acts.
    nodes: Vec<Option<Box<dyn Node>>>,
    /// By link: the node at its near end; empty without nodes with state.
    before: Vec<u32>,
}

impl Nodes {
    /// The nodes with their numbers in the plan; `links` has the number of the node at the near end of each link.
    pub fn new(nodes: Vec<(u32, Box<dyn Node>)>, links: impl Iterator<Item = u32>) -> Nodes {
        let numbers: Vec<u32> = nodes.iter().map(|(number, _)| *number).collect();
        let place = |node| numbers.iter().position(|number| *number == node).map_or(u32::MAX, |place| place as u32);
        let before = if nodes.is_empty() { Vec::new() } else { links.map(place).collect() };
        Nodes { nodes: nodes.into_iter().map(|(_, node)| Some(node)).collect(), before }
    }

    /// Moves the rows of the intervals that end by `now` to the table, in the order of time, node, output and input.
    pub fn drain(&mut self, now: Time, table: &mut Table) {
        let mut rows = Vec::new();
        self.nodes.iter_mut().flatten().for_each(|node| node.drain(now, &mut rows));
        rows.sort_by_key(|row| (row.time_ns, row.node, row.output, row.input));
        rows.into_iter().for_each(|row| table.push(row));
    }

    pub fn packets(&self) -> u64 {
        self.nodes.iter().flatten().map(|node| node.packets()).sum()
    }
}

impl Simulation {
    /// Hands a packet that arrived over link `input` to the node before link `output`.
    #[cold]
    pub(super) fn on_node_arrival(&mut self, packet: Packet, input: u32, output: u32) {
        let node = self.nodes.before[output as usize];
        self.with_node(node, |node, ports| node.arrive(Passing { packet, input, output }, ports));
    }

    #[cold]
    pub(super) fn on_node_due(&mut self, node: u32) {
        self.with_node(node, |node, ports| node.act(ports));
    }

    fn with_node(&mut self, index: u32, act: impl FnOnce(&mut dyn Node, &mut Ports<'_>)) {
        let Some(mut node) = self.nodes.nodes[index as usize].take() else {
            unreachable!("no node acts within another")
        };
        act(&mut *node, &mut Ports { simulation: self });
        self.calendar.set(self.slots.nodes + index, node.due());
        self.nodes.nodes[index as usize] = Some(node);
    }
}
