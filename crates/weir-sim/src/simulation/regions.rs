//! Regions of the network that cannot reach each other at once, and how far each may run ahead of the others.
//!
//! Conservative lookahead (K. M. Chandy and J. Misra, "Distributed simulation", IEEE Transactions on Software
//! Engineering SE-5(5), 1979): what a region does at `t` reaches another one over a link with a fixed delay `d`, not
//! before `t + d`. A region whose neighbours have finished everything before `c` may finish everything before `c + d`,
//! without a look at what they do in between. Each region processes its own events in their order, so the result is the
//! same as with one order for all.
//!
//! The delay `d` may be zero, as on the link of a host, if no regions feed each other in a circle of such links: those
//! that are fed follow their feeders. An arrival is later than its cause then by the time of a transmission, so that
//! events of one instant have one order.
//!
//! A packet that enters a queue leaves it after all that wait there already. So what a region does at `t` reaches another
//! one over a link that is busy until `b` not before `b + d`, even if `t` is earlier. Where all delays are zero, a queue
//! that many flows share divides the network in this way for as long as it is not empty (see [`Regions::gate`]).
//!
//! Sender and receiver of a flow belong to the regions of their hosts' first links; packets that leave one link for
//! different links keep these together.

use weir_links::{Link, Routes, Stop, UNUSED};
use weir_plan::{ChangeKind, Delay, Plan};
use weir_units::{Bytes, Dur, Rate, Time};

use super::batches::{Kind, Kinds};
use super::ends::End;
use super::slots::Slots;
use crate::packet::Packet;

/// Headers of a datagram, bytes: no packet is smaller.
const SMALLEST_PACKET: u64 = 28;

/// The region of events that concern everything: changes of links, samples.
pub(super) const COMMON: u32 = 0;

/// The regions of a plan.
pub(super) struct Regions {
    /// By slot of the calendar: its region.
    pub of_slots: Vec<u32>,
    /// The regions but [`COMMON`], in the order in which packets pass them.
    pub all: Vec<Region>,
    /// A link whose queue divides the network: regions are regions only until what waits there now has left it.
    pub gate: Option<u32>,
}

/// A region.
pub(super) struct Region {
    pub number: u32,
    pub kind: Kind,
    /// What feeds it.
    pub feeders: Vec<Feeder>,
}

/// How packets come to a region from another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Feeder {
    /// The place of the other region in [`Regions::all`].
    pub region: u32,
    /// The least delay from there, nanoseconds.
    pub delay_ns: u64,
    /// The link that all these packets enter first in the other region, if its departures are known at arrival.
    pub gate: Option<u32>,
}

/// Links, then senders, then receivers, in sets that are one region.
struct Sets {
    parent: Vec<u32>,
    links: u32,
    flows: u32,
}

impl Sets {
    fn new(links: u32, flows: u32) -> Sets {
        Sets { parent: (0..links + 2 * flows).collect(), links, flows }
    }

    fn sender(&self, flow: u32) -> u32 {
        self.links + flow
    }

    fn receiver(&self, flow: u32) -> u32 {
        self.links + self.flows + flow
    }

    fn find(&mut self, mut element: u32) -> u32 {
        while self.parent[element as usize] != element {
            let grand = self.parent[self.parent[element as usize] as usize];
            self.parent[element as usize] = grand;
            element = grand;
        }
        element
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }

    /// Unites sets that depend on each other at once: `edges` lead from an element to one that depends on it at once. Sets
    /// between two such circles join them.
    fn unite_mutual(&mut self, edges: &[Edge]) {
        let mut edges: Vec<(u32, u32)> = edges
            .iter()
            .filter_map(|edge| match *edge {
                Edge::Later(from, to) => Some((self.find(from), self.find(to))),
                Edge::AtOnce(from, to) => {
                    self.unite(from, to);
                    None
                }
            })
            .collect();
        // What has no edge to it, or none from it, is in no circle.
        loop {
            for edge in &mut edges {
                *edge = (self.find(edge.0), self.find(edge.1));
            }
            let before = edges.len();
            let (mut is_left, mut is_reached) = (vec![false; self.parent.len()], vec![false; self.parent.len()]);
            for (from, to) in &edges {
                (is_left[*from as usize], is_reached[*to as usize]) = (true, true);
            }
            edges.retain(|(from, to)| from != to && is_reached[*from as usize] && is_left[*to as usize]);
            if edges.len() == before {
                break;
            }
        }
        edges.iter().for_each(|(from, to)| self.unite(*from, *to));
    }
}

/// What happens at the first element may concern the second one without a delay between.
#[derive(Clone, Copy)]
enum Edge {
    /// After the time of a transmission: always later than its cause.
    Later(u32, u32),
    /// Possibly at the same nanosecond.
    AtOnce(u32, u32),
}

/// A link whose pipe holds packets: the element that takes them, and their least delay since they entered the region.
#[derive(Clone, Copy)]
struct Crossing {
    taker: u32,
    delay_ns: u64,
    /// See [`Feeder::gate`].
    gate: Option<u32>,
}

impl Regions {
    /// Everything in one region: all events in one order.
    pub fn one(slots: Slots, links: &[Link<Packet>]) -> Regions {
        let of_slots = (0..slots.count).map(|slot| if is_used(slot, slots, links) { COMMON } else { UNUSED });
        Regions { of_slots: of_slots.collect(), all: Vec::new(), gate: None }
    }

    /// The regions of a plan; none if there is only one, or if parts of the network depend on each other at once.
    pub fn of(plan: &Plan, slots: Slots, links: &[Link<Packet>], routes: &Routes) -> Option<Regions> {
        if links.iter().any(|link| link.shares_buffer || link.behind_node) {
            return None;
        }
        let divided =
            || most_shared(plan, links).and_then(|gate| Regions::divided(plan, slots, links, routes, Some(gate)));
        Regions::divided(plan, slots, links, routes, None).or_else(divided)
    }

    /// As [`Regions::of`]; over the link `gate`, packets take as long as they wait for its queue.
    fn divided(
        plan: &Plan,
        slots: Slots,
        links: &[Link<Packet>],
        routes: &Routes,
        gate: Option<u32>,
    ) -> Option<Regions> {
        let mut sets = Sets::new(links.len() as u32, plan.flows.len() as u32);
        let crossings = crossings(plan, links, routes, &mut sets);
        sets.unite_mutual(&without_delay(plan, &crossings, gate));
        let number = numbers(plan, &mut sets);
        let count = number.iter().filter(|number| **number != UNUSED).max().map_or(0, |last| *last as usize);
        if count < 2 {
            return None;
        }
        let mut all: Vec<Region> =
            (1..=count as u32).map(|number| Region { number, kind: Kind::Mixed, feeders: Vec::new() }).collect();
        let mut of_slots = Regions::one(slots, links).of_slots;
        let mut feeds_itself = vec![false; count];
        for (link, crossing) in (0..).zip(&crossings) {
            if links[link as usize].is_evented() {
                let region = number[sets.find(link) as usize];
                of_slots[(slots.transmitters + link) as usize] = if region == UNUSED { COMMON } else { region };
            }
            let pipe = &mut of_slots[(slots.pipes + link) as usize];
            let Some(Crossing { taker, delay_ns, gate }) = *crossing else {
                *pipe = UNUSED;
                continue;
            };
            let (from, to) = (number[sets.find(link) as usize], number[sets.find(taker) as usize]);
            *pipe = to;
            if from != to {
                let feeders = &mut all[to as usize - 1].feeders;
                match feeders.iter_mut().find(|feeder| (feeder.region, feeder.gate) == (from - 1, gate)) {
                    Some(feeder) => feeder.delay_ns = delay_ns.min(feeder.delay_ns),
                    None => feeders.push(Feeder { region: from - 1, delay_ns, gate }),
                }
            } else {
                feeds_itself[to as usize - 1] = true;
            }
        }
        for flow in 0..sets.flows {
            let (sender, receiver) = (sets.sender(flow), sets.receiver(flow));
            of_slots[(slots.senders + flow) as usize] = number[sets.find(sender) as usize];
            of_slots[(slots.receivers + flow) as usize] = number[sets.find(receiver) as usize];
        }
        let kinds = Kinds { plan, slots, links, routes, of_slots: &of_slots, feeds_itself }.all();
        all.iter_mut().zip(kinds).for_each(|(region, kind)| region.kind = kind);
        Some(Regions { of_slots, all, gate })
    }
}

impl Region {
    /// The end of a flow and the link that leads there, if the region is one.
    pub fn end(&self) -> Option<(End, u32)> {
        match self.kind {
            Kind::End { end, input } => Some((end, input)),
            _ => None,
        }
    }

    /// The link that leads to the end of a flow, if the region is one.
    pub fn end_input(&self) -> Option<u32> {
        self.end().map(|(_, input)| input)
    }
}

impl Feeder {
    /// The instant before which nothing comes from it, nanoseconds; it is at `clock` itself.
    #[inline]
    pub fn reach(&self, clock: u64, links: &[Link<Packet>]) -> u64 {
        self.gate.map_or(clock, |link| links[link as usize].drained(Time(clock)).0) + self.delay_ns
    }
}

/// Whether a link can be a gate: it is of a router, so that several flows may share it, and its departures are known.
fn is_gate(plan: &Plan, links: &[Link<Packet>], link: u32) -> bool {
    !plan.links[link as usize].host_nic && links[link as usize].passes_batches()
}

/// The link that most flows share, if it can be a gate.
fn most_shared(plan: &Plan, links: &[Link<Packet>]) -> Option<u32> {
    let mut flows = vec![0_u32; links.len()];
    plan.flows.iter().flat_map(|flow| &flow.path).for_each(|link| flows[*link as usize] += 1);
    let gates = (0..links.len() as u32).filter(|link| flows[*link as usize] > 1 && is_gate(plan, links, *link));
    gates.max_by_key(|link| (flows[*link as usize], std::cmp::Reverse(*link)))
}

/// Whether a slot is ever set.
fn is_used(slot: u32, slots: Slots, links: &[Link<Packet>]) -> bool {
    let transmitter = slots.transmitters <= slot && slot < slots.pipes;
    !transmitter || links[(slot - slots.transmitters) as usize].is_evented()
}

/// By link: who takes the packets from its pipe; none if its packets pass on to a fused link. Unites what acts at once.
fn crossings(plan: &Plan, links: &[Link<Packet>], routes: &Routes, sets: &mut Sets) -> Vec<Option<Crossing>> {
    let mut crossings = vec![None; links.len()];
    for (index, flow) in (0..).zip(&plan.flows) {
        let (sender, receiver) = (sets.sender(index), sets.receiver(index));
        for (path, route, begin, end) in
            [(&flow.path, 2 * index, sender, receiver), (&flow.reverse_path, 2 * index + 1, receiver, sender)]
        {
            let (mut here, mut delay_ns, mut gate) = (begin, 0, None);
            for (link, place) in path.iter().zip(routes.start(route)..) {
                let enters = is_gate(plan, links, *link).then_some(*link);
                if here == begin {
                    sets.unite(begin, *link);
                    gate = enters;
                } else if let Stop::Fused(_) = routes.stop(place) {
                    sets.unite(here, *link);
                } else {
                    cross(&mut crossings, here, Crossing { taker: *link, delay_ns, gate }, sets);
                    (delay_ns, gate) = (0, enters);
                }
                delay_ns += links[*link as usize].least_delay().0;
                here = *link;
            }
            if here != begin {
                cross(&mut crossings, here, Crossing { taker: end, delay_ns, gate }, sets);
            }
        }
    }
    crossings
}

/// The crossings without a delay but those behind the queue of `gate`.
fn without_delay(plan: &Plan, crossings: &[Option<Crossing>], gate: Option<u32>) -> Vec<Edge> {
    let mut takes_time: Vec<bool> = plan.links.iter().map(|link| transmits_in_time(link.rate_bps)).collect();
    for (link, given) in plan.links.iter().enumerate() {
        takes_time[link] &= matches!(given.delay, Delay::Fixed { .. });
    }
    for change in &plan.changes {
        takes_time[change.link as usize] &= match change.change {
            ChangeKind::Rate { rate_bps } => transmits_in_time(rate_bps),
            ChangeKind::Delay { .. } => false,
            ChangeKind::Loss { .. } | ChangeKind::Shares { .. } | ChangeKind::TokenRates { .. } => true,
        };
    }
    let edge = |(link, crossing): (usize, &Option<Crossing>)| match crossing {
        Some(crossing) if gate.is_some() && crossing.gate == gate => None,
        Some(Crossing { taker, delay_ns: 0, .. }) if takes_time[link] => Some(Edge::Later(link as u32, *taker)),
        Some(Crossing { taker, delay_ns: 0, .. }) => Some(Edge::AtOnce(link as u32, *taker)),
        _ => None,
    };
    crossings.iter().enumerate().filter_map(edge).collect()
}

/// Whether the smallest packet takes longer than the nanosecond by which an instant may be rounded.
fn transmits_in_time(rate_bps: u64) -> bool {
    // A rate of zero stops the link.
    Rate::from_bps(rate_bps.max(1)).time_for(Bytes(SMALLEST_PACKET)) > Dur(2)
}

/// Notes who takes packets from the pipe of `link`.
fn cross(crossings: &mut [Option<Crossing>], link: u32, found: Crossing, sets: &mut Sets) {
    let crossing = crossings[link as usize].get_or_insert(found);
    crossing.delay_ns = crossing.delay_ns.min(found.delay_ns);
    crossing.gate = crossing.gate.filter(|_| crossing.gate == found.gate);
    sets.unite(crossing.taker, found.taker);
}

/// The numbers of the regions from 1 on, by the first element of each set, in the order in which packets pass them: all
/// first regions of the paths, then all second ones, ...
fn numbers(plan: &Plan, sets: &mut Sets) -> Vec<u32> {
    let mut numbers = vec![UNUSED; sets.parent.len()];
    let mut next = 1;
    let round_trips: Vec<Vec<u32>> = (0..)
        .zip(&plan.flows)
        .map(|(flow, given)| {
            let (sender, receiver) = (sets.sender(flow), sets.receiver(flow));
            let there = std::iter::once(sender).chain(given.path.iter().copied());
            there.chain(std::iter::once(receiver)).chain(given.reverse_path.iter().copied()).collect()
        })
        .collect();
    let longest = round_trips.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..longest {
        for element in round_trips.iter().filter_map(|trip| trip.get(step)) {
            let first = sets.find(*element) as usize;
            if numbers[first] == UNUSED {
                numbers[first] = next;
                next += 1;
            }
        }
    }
    numbers
}
