//! The time that a receiving host takes to answer.
//!
//! Without it nothing in a run is random, and flows whose packets arrive in step with the departures of a drop-tail queue
//! find room each time, others never: S. Floyd and V. Jacobson, "On traffic phase effects in packet-switched gateways",
//! Internetworking: Research and Experience 3(3), 1992, who add a random processing time for this reason. Hosts have one:
//! interrupts, scheduling.

use weir_links::Link;
use weir_plan::{Plan, Transport};
use weir_units::{Dur, Stream};

use crate::packet::Packet;

/// Draws the processing times of a flow's receiver.
pub(crate) struct Processing {
    /// The first link of the answers.
    pub link: usize,
    most_ns: u64,
    stream: Stream,
}

impl Processing {
    /// That of flow `index`; none where it takes no time, or where packets may not enter a link ahead of the clock
    /// because it is driven by events, changes or shares its buffer.
    pub fn of(plan: &Plan, links: &[Link<Packet>], index: usize) -> Option<Processing> {
        let flow = &plan.flows[index];
        let Transport::Tcp(tcp) = &flow.transport else { return None };
        let link = *flow.reverse_path.first()? as usize;
        let changes = plan.changes.iter().any(|change| change.link as usize == link);
        if tcp.processing_ns == 0 || changes || !links[link].may_run_ahead() {
            return None;
        }
        let stream = Stream::new(plan.seed, &format!("flow/{}/processing", flow.name));
        Some(Processing { link, most_ns: tcp.processing_ns, stream })
    }

    /// Uniform in `[0, most_ns)`.
    #[inline]
    pub fn draw(&mut self) -> Dur {
        Dur(((u128::from(self.stream.bits()) * u128::from(self.most_ns)) >> 64) as u64)
    }
}
