//! Processing time of a receiving host.
//!
//! Real hosts take a random time to answer: interrupts, scheduling. Without it, flows in step with the departures of a
//! drop-tail queue always find room and others never do (S. Floyd and V. Jacobson, "On traffic phase effects in
//! packet-switched gateways", Internetworking: Research and Experience 3(3), 1992; they add a random time, too).

use weir_links::Link;
use weir_plan::{Plan, Transport};
use weir_units::{Dur, Stream};

use crate::packet::Packet;

/// Draws the processing times of a flow's receiver.
pub(crate) struct Processing {
    /// First link of the answers.
    pub link: usize,
    most_ns: u64,
    stream: Stream,
}

impl Processing {
    /// The processing time of flow `index`. None if the plan has none, or if packets may not enter the first link ahead
    /// of the clock.
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

    /// Draws a time uniformly from `[0, most_ns)`.
    #[inline]
    pub fn draw(&mut self) -> Dur {
        Dur(((u128::from(self.stream.bits()) * u128::from(self.most_ns)) >> 64) as u64)
    }
}
