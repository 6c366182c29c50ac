//! Flows over UDT in the event loop.

use weir_plan::UDT_HEADERS;
use weir_run::EventKind;
use weir_udt::{Control, Outgoing};

use super::Simulation;
use crate::application::Application;
use crate::packet::{Kind, ONWARD, Packet, unwrap};
use crate::udt::{Udt, control_ip_bytes};

impl Simulation {
    /// Handles the event of a flow's sender: its application, its timers, and the packets that are due.
    pub(super) fn on_udt_sender_due(&mut self, index: usize) {
        let now = self.now;
        self.stop_writing(index);
        let next = self.flows[index].application.client().filter(|client| client.active.is_none());
        if next.and_then(|client| client.next).is_some_and(|job| job.at <= now) {
            self.begin_transfer(index);
        }
        if let Some(udt) = self.udt(index) {
            let before = udt.sender.timeouts();
            udt.sender.on_timer(now);
            let more = udt.sender.timeouts() - before;
            self.flows[index].base.counters.timeouts += more;
        }
        self.send_udt(index);
    }

    /// Sends what may leave now.
    fn send_udt(&mut self, index: usize) {
        let now = self.now;
        while let Some(outgoing) = self.udt(index).and_then(|udt| udt.sender.poll(now)) {
            match outgoing {
                Outgoing::Control(control) => self.send_udt_control(index, control, true),
                Outgoing::Data { number, bytes, resent } => self.send_udt_data(index, number, bytes, resent),
            }
        }
        let acting = self.flows[index].application_due;
        let due = self.udt(index).map_or(acting, |udt| udt.sender.due().min(acting));
        self.calendar.set(self.slots.senders + index as u32, due);
    }

    fn send_udt_data(&mut self, index: usize, number: u64, bytes: u32, resent: bool) {
        let flow = &mut self.flows[index];
        let ip_bytes = bytes + UDT_HEADERS;
        flow.base.sent_ip_bytes += u64::from(ip_bytes);
        flow.base.counters.sent_bytes += u64::from(bytes);
        flow.base.counters.sent_packets += 1;
        flow.base.counters.retransmitted_packets += u64::from(resent);
        let number_of = flow.connection_number;
        let packet = Packet::new(Kind::Datagram, index, flow.forward_start, ip_bytes, number_of, flow.dscp);
        self.inject(packet.numbered(number));
    }

    fn send_udt_control(&mut self, index: usize, control: Control, onward: bool) {
        let bytes = control_ip_bytes(&control);
        let Some(udt) = self.udt(index) else { return };
        let number = udt.under_way(onward).put(control);
        let flow = &self.flows[index];
        let place = if onward { flow.forward_start } else { flow.reverse_start };
        let packet = Packet::new(Kind::Feedback, index, place, bytes, flow.connection_number, flow.dscp);
        self.inject(packet.numbered(number).flagged(ONWARD, onward));
    }

    pub(super) fn deliver_udt_data(&mut self, packet: Packet) {
        let (now, index) = (self.now, packet.flow());
        if packet.connection() != self.flows[index].connection_number {
            return;
        }
        let Some(udt) = self.udt(index) else { return };
        let number = unwrap(packet.number(), udt.receiver.next());
        if udt.receiver.on_data(now, number) {
            self.flows[index].base.delivered_bytes += u64::from(packet.bytes() - UDT_HEADERS);
        }
        self.reply_udt(index);
    }

    /// Runs the timers of a flow's receiver.
    pub(super) fn on_udt_receiver_due(&mut self, index: usize) {
        let now = self.now;
        if let Some(udt) = self.udt(index) {
            udt.receiver.on_timer(now);
        }
        self.reply_udt(index);
    }

    /// Sends what the receiver has to say.
    fn reply_udt(&mut self, index: usize) {
        while let Some(control) = self.udt(index).and_then(|udt| udt.receiver.poll()) {
            self.send_udt_control(index, control, false);
        }
        if let Some(due) = self.udt(index).map(|udt| udt.receiver.deadline()) {
            self.calendar.set(self.slots.receivers + index as u32, due);
        }
    }

    pub(super) fn deliver_udt_control(&mut self, packet: Packet) {
        let (now, index) = (self.now, packet.flow());
        let current = packet.connection() == self.flows[index].connection_number;
        let onward = packet.has(ONWARD);
        let Some(udt) = self.udt(index) else { return };
        let Some(control) = udt.under_way(onward).take(packet.number()).filter(|_| current) else { return };
        if onward {
            udt.receiver.on_control(now, &control);
            self.reply_udt(index);
            return;
        }
        if udt.sender.on_control(now, control) {
            if let Some(active) = &mut udt.client.active {
                active.established = Some(now);
            }
            self.telemetry.flow_event(now, EventKind::Established, index as u32, 0);
        }
        let over = self.udt(index).is_some_and(|udt| udt.client.active.is_some() && udt.sender.is_idle());
        if over {
            self.send_udt(index);
            self.end_transfer(index);
        }
        self.send_udt(index);
    }

    fn udt(&mut self, index: usize) -> Option<&mut Udt> {
        match &mut self.flows[index].application {
            Application::Udt(udt) => Some(udt),
            Application::Transfers(_) | Application::Cbr(_) | Application::Tfrc(_) => None,
        }
    }
}
