//! Prefetching: with many flows, the state of an end is in no near cache when it is visited.
//!
//! Ends are visited in a known order, so that their state can be on its way while others are processed. Pointers lead from
//! one part to the next; each stage fetches what the stage before made readable.

use weir_units::fetch;

use super::Simulation;
use super::ends::End;

/// Visits between a stage and the use of what it fetches.
const FIRST: usize = 6;
const SECOND: usize = 4;
const THIRD: usize = 2;

impl Simulation {
    /// Fetches the state of ends that are visited soon; `next` begins with the present one, each with the link whose pipe
    /// leads there.
    #[inline]
    pub(super) fn fetch_for(&self, next: &[(End, u32)]) {
        if let Some((side, input)) = next.get(FIRST) {
            fetch(&self.links[*input as usize]);
            self.flows[side.flow()].fetch();
        }
        if let Some((side, input)) = next.get(SECOND) {
            let flow = &self.flows[side.flow()];
            let first = match side {
                End::Sender(_) => Some(flow.first_link as u32),
                End::Receiver(_) => self.routes.link(flow.reverse_start),
            };
            self.links[*input as usize].fetch_ends();
            if let Some(connection) = &flow.connection {
                match side {
                    End::Sender(_) => connection.sender.fetch(),
                    End::Receiver(_) => fetch(&connection.receiver),
                }
            }
            if let Some(link) = first {
                fetch(&self.links[link as usize]);
            }
        }
        if let Some((side, _)) = next.get(THIRD) {
            self.fetch_deep(*side);
        }
    }

    /// Fetches the records behind the state of an end.
    #[inline]
    fn fetch_deep(&self, side: End) {
        let flow = &self.flows[side.flow()];
        match side {
            End::Sender(_) => {
                self.links[flow.first_link].fetch_ends();
                flow.local.fetch_ends();
                if let Some(connection) = &flow.connection {
                    connection.sender.fetch_records();
                }
            }
            End::Receiver(_) => {
                if let Some(link) = self.routes.link(flow.reverse_start) {
                    self.links[link as usize].fetch_ends();
                }
            }
        }
    }
}
