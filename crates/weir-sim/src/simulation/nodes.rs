//! Nodes with state, such as switches: they decide when a packet that has arrived goes on, and whether it does.
//!
//! Hosts and routers have none: a packet that reaches a router enters the next link of its route at once. A packet that
//! reaches a [`Node`] is the node's until it sends it into that link or drops it. A node owns its ports, its memory and
//! its arbiter; the simulator moves packets and keeps the clock.

use weir_units::Time;

use super::Simulation;
use crate::packet::Packet;

/// A node with state.
pub(super) trait Node: Send + Sync {
    /// A packet has arrived.
    fn arrive(&mut self, passing: Passing, ports: &mut Ports<'_>);

    /// The instant of [`due`](Node::due) has come. All packets that arrive at this instant have arrived.
    fn act(&mut self, ports: &mut Ports<'_>);

    /// The instant at which the node acts next, unless a packet arrives before; [`Time::MAX`] for none. Asked after each
    /// call.
    fn due(&self) -> Time;

    /// Packets in the node.
    fn packets(&self) -> u64;
}

/// A packet at a node.
#[derive(Clone, Copy)]
pub(super) struct Passing {
    pub packet: Packet,
    /// The link over which it arrived: its input port.
    #[cfg_attr(not(test), expect(dead_code, reason = "no plan describes a node with state yet"))]
    pub input: u32,
    /// The next link of its route: its output port.
    pub output: u32,
}

/// The ports of a node, while it acts.
pub(super) struct Ports<'a> {
    simulation: &'a mut Simulation,
}

#[cfg_attr(not(test), expect(dead_code, reason = "no plan describes a node with state yet"))]
impl Ports<'_> {
    /// The present of the simulation.
    pub fn now(&self) -> Time {
        self.simulation.now
    }

    /// The instant from which on a packet sent to `output` is transmitted at once; not before now. While the rate of a link
    /// is 0, the instant to ask again.
    pub fn idle_from(&self, output: u32) -> Time {
        self.simulation.links[output as usize].drained(self.simulation.now)
    }

    /// Sends a packet to its output port: it enters the link's queue.
    pub fn forward(&mut self, passing: Passing) {
        self.simulation.enter(passing.output, passing.packet, self.simulation.now);
    }

    /// Drops a packet; table `links` counts it at its output port.
    pub fn drop(&mut self, passing: Passing) {
        let Simulation { links, lost, now, .. } = &mut *self.simulation;
        links[passing.output as usize].refuse(*now, passing.packet, lost);
        self.simulation.account_losses(passing.output, self.simulation.now);
    }
}

/// The nodes with state of a network, by the order of their slots in the calendar.
#[derive(Default)]
pub(super) struct Nodes {
    /// A node is out while it acts.
    nodes: Vec<Option<Box<dyn Node>>>,
    /// By link: the node at its near end; only where there is any node with state.
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

    pub fn packets(&self) -> u64 {
        self.nodes.iter().flatten().map(|node| node.packets()).sum()
    }
}

impl Simulation {
    /// A packet that arrived over link `input` is at the node before link `output`.
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
