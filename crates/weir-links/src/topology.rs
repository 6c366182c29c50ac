//! The routes of the flows, and the links that may be fused.

use weir_plan::Plan;

use crate::Record;
use crate::link::Link;

/// An element of a packet's route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A link, entered at the packet's arrival.
    Link(u32),
    /// A link, entered ahead of the clock together with the previous one.
    Fused(u32),
    /// A node with state, which decides when the packet enters this link.
    Node(u32),
    /// The end of this route: twice the flow, plus one on the reverse path.
    End(u32),
}

const KIND_SHIFT: u32 = 30;
const FUSED: u32 = 1;
const END: u32 = 2;
const NODE: u32 = 3;

/// The links of every route, one after another; a packet carries its place in this list.
pub struct Routes {
    stops: Vec<u32>,
    start: Vec<u32>,
}

impl Routes {
    /// Route `2 f` is the path of flow `f`, route `2 f + 1` its reverse path.
    pub fn new<P: Record>(plan: &Plan, links: &[Link<P>]) -> Routes {
        let mut routes = Routes { stops: Vec::new(), start: Vec::new() };
        for path in plan.flows.iter().flat_map(|f| [&f.path, &f.reverse_path]) {
            let route = routes.start.len() as u32;
            routes.start.push(routes.stops.len() as u32);
            let kind = |link: &u32| match &links[*link as usize] {
                link if link.behind_node => NODE,
                link => u32::from(link.fused) * FUSED,
            };
            routes.stops.extend(path.iter().map(|link| kind(link) << KIND_SHIFT | link));
            routes.stops.push(END << KIND_SHIFT | route);
        }
        routes
    }

    /// The place at which a route begins, with its first link if it has any.
    #[inline]
    pub fn start(&self, route: u32) -> u32 {
        self.start[route as usize]
    }

    /// The link at a place, whether or not it is entered together with the one before; none for an end or behind a node.
    #[inline]
    pub fn link(&self, place: u32) -> Option<u32> {
        match self.stop(place) {
            Stop::Link(link) | Stop::Fused(link) => Some(link),
            Stop::Node(_) | Stop::End(_) => None,
        }
    }

    /// The link at a place, if it is entered together with the one before.
    #[inline]
    pub fn fused(&self, place: u32) -> Option<u32> {
        let stop = self.stops[place as usize];
        (stop >> KIND_SHIFT == FUSED).then_some(stop ^ FUSED << KIND_SHIFT)
    }

    /// The element at a place.
    #[inline]
    pub fn stop(&self, place: u32) -> Stop {
        let stop = self.stops[place as usize];
        let index = stop & ((1 << KIND_SHIFT) - 1);
        match stop >> KIND_SHIFT {
            0 => Stop::Link(index),
            FUSED => Stop::Fused(index),
            END => Stop::End(index),
            _ => Stop::Node(index),
        }
    }
}

/// Marks the links to fuse: all their packets come from one analytic link, whose entries determine their order.
pub fn mark_fused<P: Record>(plan: &Plan, links: &mut [Link<P>]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Feeder {
        None,
        One(u32),
        Several,
    }
    let mut feeders = vec![Feeder::None; links.len()];
    for path in plan.flows.iter().flat_map(|f| [&f.path, &f.reverse_path]) {
        if let Some(&first) = path.first() {
            // A host may send at any time.
            feeders[first as usize] = Feeder::Several;
        }
        for pair in path.windows(2) {
            let feeder = &mut feeders[pair[1] as usize];
            *feeder = match *feeder {
                Feeder::None => Feeder::One(pair[0]),
                Feeder::One(link) if link == pair[0] => Feeder::One(link),
                _ => Feeder::Several,
            };
        }
    }
    for index in 0..links.len() {
        if let Feeder::One(feeder) = feeders[index] {
            // A packet that entered ahead of the clock would miss a change in between.
            let changes = plan.changes.iter().any(|change| change.link as usize == index);
            let link = &links[index];
            let alone = link.may_run_ahead() && !changes;
            links[index].fused = alone && link.is_analytic() && links[feeder as usize].is_analytic();
        }
    }
}
