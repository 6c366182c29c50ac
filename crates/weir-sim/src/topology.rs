//! The routes of the flows, and which links may be fused.

use weir_plan::Plan;

use crate::link::Link;

/// End of a route.
const END: u32 = u32::MAX;

/// The links of every route, one after another.
pub(crate) struct Routes {
    links: Vec<u32>,
    start: Vec<u32>,
}

impl Routes {
    /// Route `2 f` is the path of flow `f`, route `2 f + 1` its reverse path.
    pub fn new(plan: &Plan) -> Routes {
        let mut routes = Routes { links: Vec::new(), start: Vec::new() };
        for flow in &plan.flows {
            for path in [&flow.path, &flow.reverse_path] {
                routes.start.push(routes.links.len() as u32);
                routes.links.extend_from_slice(path);
                routes.links.push(END);
            }
        }
        routes
    }

    /// The link after `hop` links of a route; none at its end.
    #[inline]
    pub fn link(&self, route: u32, hop: u8) -> Option<u32> {
        let link = self.links[self.start[route as usize] as usize + hop as usize];
        (link != END).then_some(link)
    }
}

/// Marks the links whose packets all come from one analytic link: their order is known when they enter that one.
pub(crate) fn mark_fused(plan: &Plan, links: &mut [Link]) {
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
            links[index].fused = links[index].is_analytic() && links[feeder as usize].is_analytic();
        }
    }
}
