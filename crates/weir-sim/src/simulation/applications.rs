//! The applications of flows in the event loop.

use weir_run::EventKind;
use weir_traffic::Step;
use weir_units::Time;

use super::Simulation;
use crate::application::{Active, Application, Client};
use crate::packet::{Kind, Packet, UDP_HEADERS};

impl Simulation {
    /// Handles a flow's event: its start, its application, its sender's timer, or room in its host's queue.
    pub(super) fn on_sender_due(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if !flow.started {
            self.start_flow(index);
            return;
        }
        match flow.application {
            Application::Cbr(_) => return self.send_datagrams(index),
            Application::Tfrc(_) => return self.on_tfrc_sender_due(index),
            Application::Udt(_) => return self.on_udt_sender_due(index),
            Application::Transfers(_) => {}
        }
        if let Some(connection) = &mut flow.connection {
            connection.sender.settle_timer(self.now);
        }
        let due = flow.due();
        if due > self.now {
            // Its event was postponed.
            self.calendar.set(self.slots.senders + index as u32, due);
            return;
        }
        self.stop_writing(index);
        if self.flows[index].work_due <= self.now {
            self.end_sack_work(index);
        }
        self.on_sender_timer(index);
        let next = self.flows[index].application.client().filter(|client| client.active.is_none());
        if next.and_then(|client| client.next).is_some_and(|job| job.at <= self.now) {
            self.begin_transfer(index);
        }
        self.pump(index);
        let due = self.flows[index].due();
        self.calendar.set(self.slots.senders + index as u32, due);
    }

    fn start_flow(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.started = true;
        self.telemetry.flow_event(self.now, EventKind::FlowStart, index as u32, 0);
        match flow.application {
            Application::Cbr(_) => self.send_datagrams(index),
            Application::Tfrc(_) => self.on_tfrc_sender_due(index),
            Application::Transfers(_) | Application::Udt(_) => {
                self.take_next_job(index, self.now);
                let due = self.flows[index].due();
                self.calendar.set(self.slots.senders + index as u32, due);
            }
        }
    }

    pub(super) fn finish_flow(&mut self, index: usize) {
        self.flows[index].finished = true;
        self.telemetry.flow_event(self.now, EventKind::FlowEnd, index as u32, 0);
        self.waits.over(index as u32);
        self.wake_waiting(index);
    }

    /// Stops the application of a bulk flow at its end.
    pub(super) fn stop_writing(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Some(client) = flow.application.client() else { return };
        if !client.writing || self.now < client.transfers.stop() {
            return;
        }
        client.writing = false;
        flow.application_changed();
        if let Application::Udt(udt) = &mut flow.application {
            udt.sender.stop_writing();
            if udt.sender.is_idle() {
                self.end_transfer(index);
            }
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        connection.sender.stop_writing();
        if connection.sender.is_idle() {
            self.end_transfer(index);
        }
    }

    /// Determines the next step after a transfer that ended at `ended`.
    fn take_next_job(&mut self, index: usize, ended: Time) {
        let flow = &mut self.flows[index];
        let Some(client) = flow.application.client() else { return };
        match client.transfers.step(&self.waits, index as u32, ended) {
            Step::Begin(job) => client.next = Some(job),
            Step::Wait => client.waiting = Some(ended),
            Step::End => self.finish_flow(index),
        }
        self.flows[index].application_changed();
    }

    /// Wakes the flows of the same user that waited for the end of a transfer of this one.
    fn wake_waiting(&mut self, index: usize) {
        for other in self.waits.others(index as u32) {
            let client = self.flows[other as usize].application.client();
            let Some(ended) = client.and_then(|client| client.waiting.take()) else { continue };
            self.take_next_job(other as usize, ended);
            let client = self.flows[other as usize].application.client();
            if let Some(job) = client.and_then(|client| client.next) {
                self.calendar.set_earlier(self.slots.senders + other, job.at);
            }
        }
    }

    pub(super) fn begin_transfer(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Some(client) = flow.application.client() else { return };
        let Some(job) = client.next.take() else { return };
        let fresh = !client.transfers.keeps_connection() || !flow.has_connection();
        let bytes = job.bytes.unwrap_or(0);
        self.telemetry.flow_event(self.now, EventKind::TransferStart, index as u32, bytes as i64);
        if fresh {
            flow.open();
        }
        // Those after the end of the transfer before belong to neither.
        flow.settle_losses(self.now);
        let before = flow.totals();
        let bytes = job.bytes.unwrap_or(u64::MAX);
        match (&mut flow.connection, &mut flow.application) {
            (Some(connection), _) => {
                connection.sender.write(self.now, bytes);
                if fresh {
                    connection.sender.connect(self.now);
                }
            }
            (None, Application::Udt(udt)) => udt.write(self.now, bytes, fresh),
            (None, _) => unreachable!("it was opened above"),
        }
        let Some(client) = flow.application.client() else { unreachable!("it was one above") };
        client.active = Some(Active { job, established: (!fresh).then_some(self.now), before });
        client.writing = client.transfers.is_bulk();
        flow.application_changed();
    }

    /// Ends the transfer in progress: all its data are acknowledged.
    pub(super) fn end_transfer(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        flow.settle_losses(now);
        self.telemetry.flow_row(index as u32, flow, Some(now));
        self.telemetry.flow_event(now, EventKind::TransferEnd, index as u32, 0);
        let Some(client) = flow.application.client() else { return };
        client.active = None;
        self.waits.ended(index as u32, now);
        self.take_next_job(index, now);
        let client = self.flows[index].application.client();
        if client.and_then(|client| client.next).is_some_and(|job| job.at <= now) {
            self.begin_transfer(index);
        }
        self.wake_waiting(index);
    }

    fn send_datagrams(&mut self, index: usize) {
        let slot = self.slots.senders + index as u32;
        loop {
            let flow = &mut self.flows[index];
            let Application::Cbr(cbr) = &mut flow.application else { return };
            match cbr.clock.due() {
                None => {
                    self.finish_flow(index);
                    self.calendar.set(slot, Time::MAX);
                    return;
                }
                Some(due) if due > self.now => {
                    self.calendar.set(slot, due);
                    return;
                }
                Some(_) => cbr.clock.sent(),
            }
            cbr.sent = cbr.sent.wrapping_add(1);
            cbr.last_sent = self.now;
            flow.base.sent_ip_bytes += u64::from(cbr.ip_bytes);
            flow.base.counters.sent_bytes += u64::from(cbr.ip_bytes - UDP_HEADERS);
            flow.base.counters.sent_packets += 1;
            let packet = Packet::new(Kind::Datagram, index, flow.forward_start, cbr.ip_bytes, 0, flow.dscp)
                .numbered(u64::from(cbr.sent));
            self.inject(packet);
        }
    }

    /// Writes the rows of unfinished transfers at the end of the run.
    pub(super) fn finish(&mut self) {
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            flow.settle_losses(self.now);
            match &flow.application {
                Application::Cbr(cbr) if flow.started => {
                    let end = flow.finished.then_some(cbr.last_sent);
                    self.telemetry.flow_row(index as u32, flow, end);
                }
                Application::Tfrc(tfrc) if flow.started => {
                    let end = flow.finished.then_some(tfrc.last_sent);
                    self.telemetry.flow_row(index as u32, flow, end);
                }
                Application::Transfers(Client { active: Some(_), .. }) => {
                    self.telemetry.flow_row(index as u32, flow, None);
                }
                Application::Udt(udt) if udt.client.active.is_some() => {
                    self.telemetry.flow_row(index as u32, flow, None);
                }
                Application::Cbr(_) | Application::Tfrc(_) | Application::Transfers(_) | Application::Udt(_) => {}
            }
        }
        self.statistics.delivered_bytes = self.flows.iter().map(|flow| flow.totals().delivered_bytes).sum();
    }
}
