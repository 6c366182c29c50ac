//! The two ends of a flow: processing of arriving packets, and sending.

use weir_run::EventKind;
use weir_tcp::{Ack, Arrival, Segment, Transmit, sack_option_bytes};
use weir_units::Time;

use super::Simulation;
use super::sending::Sending;
use crate::application::Application;
use crate::connection::Connection;
use crate::flow::Flow;
use crate::hosts::Way;
use crate::packet::{CE, CWR_OR_ECE, ECT, Kind, PUSH, Packet, RESENT, UDP_HEADERS, unwrap};

/// Bytes of a SYN or SYN-ACK with its options.
const SYN_BYTES: u32 = 60;

impl Simulation {
    /// Delivers a packet at the end of its route.
    #[inline(always)]
    pub(super) fn deliver(&mut self, packet: Packet) {
        self.gone += 1;
        if self.watch.is_some() {
            return self.deliver_watched(packet);
        }
        self.receive(packet);
    }

    /// Delivers a packet that was observed, or that takes time at its host.
    #[cold]
    fn deliver_watched(&mut self, packet: Packet) {
        let packet = self.taken(packet);
        match self.hosts.begin(packet, Way::In) {
            Some(job) => self.pass_host(job),
            None => self.receive(packet),
        }
    }

    /// The transport of a host receives a packet.
    #[inline(always)]
    pub(super) fn receive(&mut self, packet: Packet) {
        match packet.kind() {
            Kind::Data => self.deliver_data(packet),
            Kind::Ack => self.deliver_ack(packet),
            Kind::Datagram => self.deliver_datagram(packet),
            Kind::Feedback => self.deliver_feedback(packet),
            Kind::Syn => self.deliver_syn(packet),
            Kind::SynAck => self.deliver_syn_ack(packet),
            Kind::Confirmation => self.deliver_confirmation(packet),
        }
    }

    /// A packet at the end of its route without what was kept beside it; its sender gets explicit feedback.
    fn taken(&mut self, packet: Packet) -> Packet {
        let Some(watch) = &mut self.watch else { return packet };
        let (packet, feedback) = watch.received(self.now, packet);
        if let Some(feedback) = feedback
            && let Some(connection) = &mut self.flows[packet.flow()].connection
        {
            connection.sender.feedback(feedback);
        }
        packet
    }

    #[inline]
    fn deliver_data(&mut self, packet: Packet) {
        let index = packet.flow();
        let flow = &mut self.flows[index];
        flow.base.marked_packets += u64::from(packet.has(CE));
        if packet.connection() != flow.connection_number {
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        if let Some(syn_ack_at) = connection.syn_ack_at.take() {
            connection.receiver.set_rtt(self.now.since(syn_ack_at));
        }
        let receiver = &mut connection.receiver;
        let arrival = Arrival {
            seq: unwrap(packet.number(), receiver.next()),
            len: packet.bytes() - connection.headers,
            tsval: packet.stamp(),
            ce: packet.has(CE),
            cwr: packet.has(CWR_OR_ECE),
            push: packet.has(PUSH),
        };
        let ack = receiver.on_data(self.now, arrival);
        let prior = receiver.take_prior();
        let deadline = receiver.deadline();
        self.calendar.set_earlier(self.slots.receivers + index as u32, deadline);
        if let Some(prior) = prior {
            self.send_ack(index, &prior);
        }
        if let Some(ack) = ack {
            self.send_ack(index, &ack);
        }
    }

    #[inline]
    fn send_ack(&mut self, index: usize, ack: &Ack) {
        let flow = &self.flows[index];
        let Some(connection) = &flow.connection else { return };
        let bytes = connection.headers + sack_option_bytes(ack.sack.as_slice().len());
        let packet = Packet::new(Kind::Ack, index, flow.reverse_start, bytes, flow.connection_number, flow.dscp)
            .numbered(ack.ack)
            .stamped(ack.tsecr)
            .echoing(ack.echo)
            .with_sack(self.sacks.put(ack.sack));
        self.answer(index, packet);
    }

    /// Sends a packet of a flow's receiver, after the processing time of its host.
    #[inline]
    fn answer(&mut self, index: usize, packet: Packet) {
        let flow = &mut self.flows[index];
        if let Some(processing) = &mut flow.processing {
            let until = &mut self.host_until[processing.link];
            *until = (*until).max(self.now + processing.draw());
        }
        self.inject(packet);
    }

    pub(super) fn on_receiver_due(&mut self, index: usize) {
        let slot = self.slots.receivers + index as u32;
        let Some(connection) = &mut self.flows[index].connection else {
            if let Application::Udt(_) = self.flows[index].application {
                self.on_udt_receiver_due(index);
            } else {
                self.on_tfrc_receiver_due(index);
            }
            return;
        };
        let ack = connection.receiver.on_timer(self.now);
        self.calendar.set(slot, connection.receiver.deadline());
        if let Some(ack) = ack {
            self.send_ack(index, &ack);
        }
    }

    /// Runs the sender's timer if it has expired.
    pub(super) fn on_sender_timer(&mut self, index: usize) {
        let Some(connection) = &mut self.flows[index].connection else { return };
        connection.sender.on_timer(self.now);
        if connection.sender.has_notices() {
            self.telemetry.take_notices(self.now, index as u32, &mut connection.sender);
        }
    }

    #[inline]
    fn deliver_ack(&mut self, packet: Packet) {
        match self.flows[packet.flow()].work {
            Some(work) => self.arrive_at_busy_host(packet, work),
            None => self.process_ack(packet),
        }
    }

    #[inline]
    pub(super) fn process_ack(&mut self, packet: Packet) {
        let index = packet.flow();
        let sack = self.sacks.take(packet.sack());
        let flow = &mut self.flows[index];
        if packet.connection() != flow.connection_number {
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        let ack = Ack {
            ack: unwrap(packet.number(), connection.sender.una()),
            sack,
            echo: packet.echo(),
            tsecr: packet.stamp(),
        };
        connection.sender.on_ack(self.now, &ack);
        if let Some(watch) = &mut self.watch {
            watch.acknowledged(self.now, index, packet.connection(), &mut connection.sender);
        }
        let idle = connection.sender.is_idle();
        if connection.sender.has_notices() {
            self.telemetry.take_notices(self.now, index as u32, &mut connection.sender);
        }
        if idle && flow.application.active().is_some() {
            self.end_transfer(index);
        }
        self.pump(index);
    }

    fn deliver_datagram(&mut self, packet: Packet) {
        let flow = &mut self.flows[packet.flow()];
        flow.base.marked_packets += u64::from(packet.has(CE));
        if let Application::Udt(_) = flow.application {
            self.deliver_udt_data(packet);
            return;
        }
        flow.base.delivered_bytes += u64::from(packet.bytes() - UDP_HEADERS);
        if let Application::Tfrc(_) = flow.application {
            self.deliver_tfrc_data(packet);
        }
    }

    fn deliver_syn(&mut self, packet: Packet) {
        let flow = &mut self.flows[packet.flow()];
        if packet.connection() != flow.connection_number {
            return;
        }
        if let Some(connection) = &mut flow.connection {
            connection.syn_ack_at = Some(self.now);
            let reply =
                Packet::new(Kind::SynAck, packet.flow(), flow.reverse_start, SYN_BYTES, packet.connection(), flow.dscp);
            self.answer(packet.flow(), reply);
        }
    }

    fn deliver_syn_ack(&mut self, packet: Packet) {
        let index = packet.flow();
        let flow = &mut self.flows[index];
        if packet.connection() != flow.connection_number {
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        if connection.sender.is_established() {
            return;
        }
        connection.sender.on_syn_ack(self.now);
        if let Some(active) = flow.application.client().and_then(|client| client.active.as_mut()) {
            active.established = Some(self.now);
        }
        let confirms = connection.confirms.then_some(connection.headers);
        self.telemetry.flow_event(self.now, EventKind::Established, index as u32, 0);
        if let Some(bytes) = confirms {
            self.send_control(index, Kind::Confirmation, bytes);
        }
        self.pump(index);
    }

    /// The receiver's connection is established; otherwise the first data do that.
    fn deliver_confirmation(&mut self, packet: Packet) {
        let flow = &mut self.flows[packet.flow()];
        if packet.connection() != flow.connection_number {
            return;
        }
        if let Some(connection) = &mut flow.connection
            && let Some(syn_ack_at) = connection.syn_ack_at.take()
        {
            connection.receiver.set_rtt(self.now.since(syn_ack_at));
        }
    }

    /// Transmits all packets that the sender may send now.
    #[inline]
    pub(super) fn pump(&mut self, index: usize) {
        let now = self.now;
        while let Some(transmit) = Sending::of(self, index).and_then(|mut sending| sending.next(now, false)) {
            self.move_train(None);
            self.transmit(index, transmit);
        }
        self.move_train(None);
        let flow = &mut self.flows[index];
        if flow.wake <= now {
            // Left in the past, it would be due again and again at the same instant.
            flow.wake = Time::MAX;
        }
        let due = flow.due();
        self.calendar.set_earlier(self.slots.senders + index as u32, due);
    }

    /// Transmits a packet.
    #[inline]
    pub(super) fn transmit(&mut self, index: usize, transmit: Transmit) {
        match transmit {
            Transmit::Syn => self.send_control(index, Kind::Syn, SYN_BYTES),
            Transmit::Data(segment) => self.send_segment(index, segment),
        }
    }

    /// Sends a packet of the handshake to the receiver.
    fn send_control(&mut self, index: usize, kind: Kind, bytes: u32) {
        let flow = &self.flows[index];
        let packet = Packet::new(kind, index, flow.forward_start, bytes, flow.connection_number, flow.dscp);
        self.inject(packet);
    }

    #[inline]
    fn send_segment(&mut self, index: usize, segment: Segment) {
        let flow = &self.flows[index];
        let Some(connection) = &flow.connection else { return };
        let bytes = segment.len + connection.headers;
        let packet = data_packet(index, flow, connection, &segment);
        if let Some(watch) = &mut self.watch {
            watch.segment(self.now, index, flow.connection_number, &segment, &connection.sender);
        }
        if flow.local_limited && flow.first_evented && !flow.held {
            self.flows[index].local.wait(bytes);
        }
        let departure = self.inject(packet);
        let flow = &mut self.flows[index];
        if flow.local_limited
            && let Some(departure) = departure
        {
            flow.local.push(self.now, departure, bytes);
        }
    }
}

/// The packet of a data segment of flow `index`.
#[inline]
fn data_packet(index: usize, flow: &Flow, connection: &Connection, segment: &Segment) -> Packet {
    let bytes = segment.len + connection.headers;
    Packet::new(Kind::Data, index, flow.forward_start, bytes, flow.connection_number, flow.dscp)
        .numbered(segment.seq)
        .stamped(segment.tsval)
        .flagged(ECT, connection.ecn && !segment.retransmission)
        .with_ect_1(connection.ect_1 && !segment.retransmission)
        .flagged(CWR_OR_ECE, segment.cwr)
        .flagged(RESENT, segment.retransmission)
        .flagged(PUSH, segment.push)
}
