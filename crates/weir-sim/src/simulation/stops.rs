//! Instants that need one order of all events: a transfer that begins or ends reads and changes both ends of its flow.
//!
//! The beginning of a transfer is known once the one before has ended. Its end is not, but it has a lower bound: data that
//! the sender has not sent must still pass the slowest link of the path, and the last of them takes a round trip until it
//! is acknowledged. Regions may run ahead of each other until the earliest of these instants. Once all data of a transfer
//! are sent, nothing is known of its end, and one calendar orders all events for a round trip.
//!
//! A bulk flow stops at a known instant. From then on, one order is needed until its last acknowledgement.

use weir_links::Link;
use weir_plan::{ChangeKind, Plan, Source};
use weir_units::Time;

use crate::application::Application;
use crate::flow::Flow;
use crate::packet::Packet;

/// One order lasts at least so long at a stop: another look for each event would cost more than it saves.
const LEAST_PATIENCE_NS: u64 = 1_000_000;
/// Events for each flow between two looks at all: with many small transfers, some transfer always needs one order.
const EVENTS_A_LOOK: u64 = 16;

/// Instants that need one order of all events.
pub(super) struct Stops {
    /// Ends of bulk flows and their flows, latest first.
    bulk: Vec<(Time, usize)>,
    finite: Vec<Finite>,
    /// No finite transfer begins or ends before, nanoseconds.
    clear: u64,
    /// The place of a transfer that began or ended early, when all were looked at.
    early: usize,
    /// All may be looked at again after so many events of the simulation: a look costs less than it may save.
    next_look: u64,
}

/// A flow with transfers that end, and what bounds them.
struct Finite {
    flow: usize,
    /// The highest rate of the slowest link of its path, bits per second.
    rate_bps: u64,
    /// The sum of all fixed delays there and back, nanoseconds.
    round_trip_ns: u64,
}

impl Stops {
    /// The stops of a plan.
    pub fn new(plan: &Plan, links: &[Link<Packet>]) -> Stops {
        let of_kind = |bulk: bool| {
            let kind = move |flow: &weir_plan::Flow| match flow.source {
                Source::Bulk => bulk,
                Source::Transfers { .. } => !bulk,
                Source::Cbr(_) | Source::Command(_) => false,
            };
            plan.flows.iter().enumerate().filter(move |(_, flow)| kind(flow))
        };
        let mut bulk: Vec<(Time, usize)> =
            of_kind(true).filter_map(|(index, flow)| Some((Time(flow.stop_ns?), index))).collect();
        bulk.sort_unstable_by_key(|stop| std::cmp::Reverse(*stop));
        let rates = highest_rates(plan);
        let delay_ns = |path: &[u32]| path.iter().map(|link| links[*link as usize].least_delay().0).sum::<u64>();
        let finite = of_kind(false).map(|(index, flow)| Finite {
            flow: index,
            rate_bps: flow.path.iter().map(|link| rates[*link as usize]).min().unwrap_or(u64::MAX),
            round_trip_ns: delay_ns(&flow.path) + delay_ns(&flow.reverse_path),
        });
        Stops { bulk, finite: finite.collect(), clear: 0, early: 0, next_look: 0 }
    }

    /// The first stop, nanoseconds; one order is needed now if it is not after `now`. `events`: those of the simulation so
    /// far.
    pub fn first(&mut self, now: u64, flows: &[Flow], events: u64) -> u64 {
        self.first_bulk(flows).min(self.first_finite(now, flows, events))
    }

    /// Notes that transfers may have begun.
    pub fn passed_in_order(&mut self) {
        self.clear = 0;
    }

    /// The longest time for which one order is needed at a stop, before another look is worth while, nanoseconds.
    pub fn patience_ns(&self) -> u64 {
        self.finite.iter().map(|finite| finite.round_trip_ns.max(LEAST_PATIENCE_NS)).max().unwrap_or(u64::MAX)
    }

    /// The first end of a bulk flow that is not over, nanoseconds.
    fn first_bulk(&mut self, flows: &[Flow]) -> u64 {
        while self.bulk.last().is_some_and(|(_, flow)| flows[*flow].finished) {
            self.bulk.pop();
        }
        self.bulk.last().map_or(u64::MAX, |(at, _)| at.0)
    }

    fn first_finite(&mut self, now: u64, flows: &[Flow], events: u64) -> u64 {
        if self.finite.is_empty() {
            return u64::MAX;
        }
        if now < self.clear {
            return self.clear;
        }
        // Most often, what needed one order still does.
        if self.finite[self.early].first_stop(now, flows) <= now || events < self.next_look {
            return now;
        }
        self.next_look = events + EVENTS_A_LOOK * self.finite.len() as u64;
        self.clear = u64::MAX;
        for (place, finite) in self.finite.iter().enumerate() {
            let stop = finite.first_stop(now, flows);
            if stop < self.clear {
                (self.clear, self.early) = (stop, place);
                if stop <= now {
                    break;
                }
            }
        }
        self.clear
    }
}

impl Finite {
    /// The earliest instant at which a transfer of the flow may begin or end, nanoseconds: not before `now`.
    fn first_stop(&self, now: u64, flows: &[Flow]) -> u64 {
        let flow = &flows[self.flow];
        let Application::Transfers(client) = &flow.application else { return u64::MAX };
        if flow.finished {
            return u64::MAX;
        }
        if !flow.started {
            return flow.start.0;
        }
        if client.active.is_none() {
            // Without a next transfer it waits for the end of another flow's.
            return client.next.map_or(u64::MAX, |job| job.at.0);
        }
        let unsent = flow.connection.as_ref().map_or(0, |connection| connection.sender.unsent_bytes());
        if unsent == 0 {
            return now;
        }
        let passage_ns = u128::from(unsent) * 8_000_000_000 / u128::from(self.rate_bps.max(1));
        now.saturating_add(self.round_trip_ns).saturating_add(u64::try_from(passage_ns).unwrap_or(u64::MAX))
    }
}

/// By link: the highest rate that it ever has, bits per second.
fn highest_rates(plan: &Plan) -> Vec<u64> {
    let mut rates: Vec<u64> = plan.links.iter().map(|link| link.rate_bps).collect();
    for change in &plan.changes {
        if let ChangeKind::Rate { rate_bps } = change.change {
            let rate = &mut rates[change.link as usize];
            *rate = rate_bps.max(*rate);
        }
    }
    rates
}
