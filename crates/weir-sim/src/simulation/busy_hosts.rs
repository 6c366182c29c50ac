//! Sending hosts that take time for selective acknowledgements: what [`crate::sack_work`] says, in the event loop.
//!
//! A host has no slot in the calendar. The flow whose acknowledgement is in work has the instant at which the work ends
//! ([`crate::flow::Flow::work_due`]), and its sender's slot with it.

use weir_units::{Dur, Time};

use super::Simulation;
use crate::packet::Packet;
use crate::sack_work::{Arrived, SackWork};

impl Simulation {
    /// An acknowledgement arrives at a sending host that takes time for it.
    #[cold]
    pub(super) fn arrive_at_busy_host(&mut self, packet: Packet, work: SackWork) {
        let time = self.sack_time(packet);
        match self.busy_hosts[work.host].arrive(self.now, packet, work, time) {
            Arrived::Processed => self.process_ack(packet),
            Arrived::Begun => self.await_sack_work(packet, work),
            Arrived::Waits => {}
            Arrived::Dropped => {
                self.sacks.take(packet.sack());
            }
        }
    }

    /// The host of flow `index` ends its work for an acknowledgement of this flow, and takes the next ones.
    #[cold]
    pub(super) fn end_sack_work(&mut self, index: usize) {
        self.flows[index].work_due = Time::MAX;
        let Some(work) = self.flows[index].work else { return };
        while let Some(packet) = self.busy_hosts[work.host].end(self.now) {
            self.process_ack(packet);
            let Some(next) = self.busy_hosts[work.host].first() else { return };
            let time = self.sack_time(next);
            if self.busy_hosts[work.host].begin(self.now, time) > self.now {
                self.await_sack_work(next, work);
            }
        }
    }

    /// Makes the flow of an acknowledgement in work due when the work ends.
    fn await_sack_work(&mut self, packet: Packet, work: SackWork) {
        let until = self.busy_hosts[work.host].until();
        self.flows[packet.flow()].work_due = until;
        self.calendar.set_earlier(self.slots.senders + packet.flow() as u32, until);
    }

    /// The time of an acknowledgement's host for it; none if its connection is closed.
    fn sack_time(&self, packet: Packet) -> Dur {
        let flow = &self.flows[packet.flow()];
        let (Some(work), Some(connection)) = (&flow.work, &flow.connection) else { return Dur::ZERO };
        if packet.connection() != flow.connection_number {
            return Dur::ZERO;
        }
        work.time(&self.sacks.get(packet.sack()), connection.sender.una())
    }
}
