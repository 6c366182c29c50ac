//! Hosts whose components take time for packets: what [`crate::hosts`] says, in the event loop.
//!
//! Each component has a slot in the calendar, due when it ends the work for a packet.

use weir_units::Time;

use super::Simulation;
use crate::hosts::{Job, Step, Way};
use crate::packet::{Kind, Packet};

impl Simulation {
    /// A packet begins its way through a host.
    pub(super) fn pass_host(&mut self, job: Job) {
        if job.way == Way::Out && job.packet.kind() == Kind::Data {
            self.hosts.hold(job.packet.flow());
        }
        self.go_on(job);
    }

    /// A component ends its work for a packet, or looks again for room at the card.
    pub(super) fn on_component_due(&mut self, component: u32) {
        let slot = self.slots.components + component;
        if let Some(until) = self.waits_for_card(component) {
            self.calendar.set(slot, until);
            return;
        }
        let Some((job, next)) = self.hosts.end(self.now, component) else {
            unreachable!("a component is due only while it works")
        };
        self.calendar.set(slot, next.unwrap_or(Time::MAX));
        self.go_on(job);
    }

    /// The next look for room, if a component's packet comes to the card and its queue is full.
    fn waits_for_card(&mut self, component: u32) -> Option<Time> {
        let job = self.hosts.in_work(component).filter(|job| job.leaves())?;
        let packet = job.packet;
        if packet.kind() != Kind::Data {
            return None;
        }
        let first = &mut self.links[self.flows[packet.flow()].first_link];
        let has_room = first.has_room(self.now, packet.bytes());
        (!has_room).then(|| first.half_drained(self.now))
    }

    fn go_on(&mut self, job: Job) {
        match self.hosts.go_on(self.now, job) {
            Step::Waits => {}
            Step::Begun(component, until) => self.calendar.set(self.slots.components + component, until),
            Step::Passed(job) => match job.way {
                Way::In => self.receive(job.packet),
                Way::Out => self.leave_host(job.packet),
            },
        }
    }

    /// A packet comes to the first link. Its process may send the next one if it waited for that.
    fn leave_host(&mut self, packet: Packet) {
        if packet.kind() != Kind::Data {
            let packet = self.observed(packet);
            self.launch(packet);
            return;
        }
        let index = packet.flow();
        let flow = &mut self.flows[index];
        let counts = flow.local_limited && packet.connection() == flow.connection_number;
        if counts && flow.first_evented {
            flow.local.wait(packet.bytes());
        }
        let observed = self.observed(packet);
        let departure = self.launch(observed);
        let flow = &mut self.flows[index];
        if counts && let Some(departure) = departure {
            flow.local.push(self.now, departure, packet.bytes());
        }
        if self.hosts.release(index) {
            self.pump(index);
        }
    }
}
