//! Flows over TFRC in the event loop.

use weir_units::Time;

use super::Simulation;
use crate::application::Application;
use crate::packet::{Kind, Packet, UDP_HEADERS};
use crate::tfrc::Tfrc;

impl Simulation {
    /// Sends the packets that are due, or ends the flow.
    pub(super) fn on_tfrc_sender_due(&mut self, index: usize) {
        let slot = self.slots.senders + index as u32;
        if self.flows[index].finished {
            self.calendar.set(slot, Time::MAX);
            return;
        }
        let now = self.now;
        let Some(tfrc) = self.tfrc(index) else { return };
        if tfrc.stop <= now {
            tfrc.sender.stop();
            self.calendar.set(slot, Time::MAX);
            self.finish_flow(index);
            return;
        }
        tfrc.sender.on_timer(now);
        self.send_tfrc_data(index);
    }

    fn send_tfrc_data(&mut self, index: usize) {
        let now = self.now;
        while let Some(tfrc) = self.tfrc(index)
            && let Some(number) = tfrc.send(now)
        {
            let bytes = tfrc.ip_bytes;
            let flow = &mut self.flows[index];
            flow.base.sent_ip_bytes += u64::from(bytes);
            flow.base.counters.sent_bytes += u64::from(bytes - UDP_HEADERS);
            flow.base.counters.sent_packets += 1;
            let packet = Packet::new(Kind::Datagram, index, flow.forward_start, bytes, 0, flow.dscp);
            self.inject(packet.numbered(number));
        }
        let due = self.tfrc(index).map_or(Time::MAX, |tfrc| tfrc.sender_due());
        self.calendar.set(self.slots.senders + index as u32, due);
    }

    pub(super) fn deliver_tfrc_data(&mut self, packet: Packet) {
        let (now, index) = (self.now, packet.flow());
        let report = self.tfrc(index).and_then(|tfrc| tfrc.data_arrived(now, packet.number()));
        self.send_tfrc_report(index, report);
    }

    /// Runs the feedback timer of a flow's receiver, if it is over TFRC.
    pub(super) fn on_tfrc_receiver_due(&mut self, index: usize) {
        let now = self.now;
        let report = self.tfrc(index).and_then(|tfrc| tfrc.receiver_timer(now));
        self.send_tfrc_report(index, report);
    }

    fn send_tfrc_report(&mut self, index: usize, report: Option<u64>) {
        if let Some(number) = report {
            let flow = &self.flows[index];
            let packet = Packet::new(Kind::Feedback, index, flow.reverse_start, Tfrc::REPORT_IP_BYTES, 0, flow.dscp);
            self.inject(packet.numbered(number));
        }
        let due = self.tfrc(index).map_or(Time::MAX, |tfrc| tfrc.receiver.deadline());
        self.calendar.set(self.slots.receivers + index as u32, due);
    }

    pub(super) fn deliver_feedback(&mut self, packet: Packet) {
        let (now, index) = (self.now, packet.flow());
        let Some(tfrc) = self.tfrc(index) else {
            self.deliver_udt_control(packet);
            return;
        };
        tfrc.report_arrived(now, packet.number());
        if !self.flows[index].finished {
            self.send_tfrc_data(index);
        }
    }

    fn tfrc(&mut self, index: usize) -> Option<&mut Tfrc> {
        match &mut self.flows[index].application {
            Application::Tfrc(tfrc) => Some(tfrc),
            Application::Transfers(_) | Application::Cbr(_) | Application::Udt(_) => None,
        }
    }
}
