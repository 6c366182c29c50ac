//! The sending end of a TFRC flow: a UDP socket, and the sender of `weir-tfrc`, which the simulator has, too.

use weir_sys::epoll::Interest;
use weir_tfrc::Sender;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::IP_UDP_BYTES;
use crate::datagram_flow::Outgoing;
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::tfrc::{self, REPORT_BYTES};

/// The sending end of a TFRC flow.
pub struct TfrcSender {
    endpoint: u32,
    outgoing: Outgoing,
    /// None before the start.
    sender: Option<Sender>,
    payload_bytes: u32,
    stop: Time,
    /// The instant for which this end is scheduled.
    armed: Time,
    /// Reports that came.
    pub reports: u64,
}

impl TfrcSender {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<TfrcSender, AgentError> {
        let socket = open::udp_sender(context, flow)?;
        context.epoll.add(&socket, token(endpoint, 0), Interest::READ)?;
        let payload_bytes = tfrc::payload_bytes(context, flow);
        Ok(TfrcSender {
            endpoint,
            outgoing: Outgoing::new(context, flow, socket, payload_bytes, IP_UDP_BYTES),
            sender: None,
            payload_bytes,
            stop: context.flow(flow).stop_ns.map_or(Time::MAX, Time),
            armed: Time::MAX,
            reports: 0,
        })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.outgoing.flow()
    }

    /// Time from a datagram's due instant to its system call.
    pub fn lateness(&self) -> &Histogram {
        &self.outgoing.lateness
    }

    /// Sends due datagrams and schedules the next one.
    pub fn on_due(&mut self, context: &mut Context) {
        if self.outgoing.is_finished() {
            return;
        }
        if context.now >= self.armed {
            self.armed = Time::MAX;
        }
        if self.sender.is_none() {
            let start = Time(context.flow(self.flow()).start_ns);
            self.sender = Some(Sender::new(self.payload_bytes, start));
            self.outgoing.start(context);
        }
        self.proceed(context);
    }

    /// Reads the reports that wait.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_ready(&mut self, context: &mut Context) -> Result<(), AgentError> {
        // One byte more than a report has: what is longer is none.
        let mut buffer = [0; REPORT_BYTES + 1];
        loop {
            match self.outgoing.socket.receive(&mut buffer) {
                Ok(None) => break,
                Ok(Some(bytes)) => self.take_report(context, &buffer[..bytes]),
                Err(error) => {
                    self.outgoing.on_error(context, &error);
                    break;
                }
            }
        }
        if self.sender.is_some() && !self.outgoing.is_finished() {
            self.proceed(context);
        }
        Ok(())
    }

    /// Records the intervals of `measure` that end at `at`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due) {
        let Some(sender) = &self.sender else { return };
        if due.goodput {
            self.outgoing.record_sent(context, at);
        }
        if due.tcp && !self.outgoing.is_finished() {
            for (name, value) in sender.probes() {
                let mut probe = [0; 16];
                probe[..name.len()].copy_from_slice(name.as_bytes());
                context.telemetry.probe(at, self.flow(), probe, value);
            }
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        self.outgoing.finish(context, self.sender.is_some());
    }

    fn take_report(&mut self, context: &mut Context, payload: &[u8]) {
        // Datagrams before the start are probes of the path.
        let Some(sender) = self.sender.as_mut().filter(|_| context.begun) else { return };
        match tfrc::read_report(payload, context.job.token.as_ref()) {
            Some(report) => {
                self.reports += 1;
                sender.on_feedback(context.now, &report);
            }
            None => context.refuse(self.flow(), &"a report of TFRC"),
        }
    }

    /// Serves the timers, sends what is due, and schedules the next instant.
    fn proceed(&mut self, context: &mut Context) {
        if context.now >= self.stop {
            return self.outgoing.end(context);
        }
        if let Some(sender) = &mut self.sender {
            sender.on_timer(context.now);
        }
        while self.send_due(context) {}
        let due = self.sender.as_ref().map_or(Time::MAX, Sender::due).min(self.stop);
        if due < self.armed {
            self.armed = due;
            context.schedule.add(due, Slot::Endpoint(self.endpoint));
        }
    }

    /// Sends due datagrams, at most a batch; whether there was one.
    fn send_due(&mut self, context: &mut Context) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        while !self.outgoing.is_full() {
            let due = sender.due();
            let Some(data) = sender.poll(context.now) else { break };
            self.outgoing.push(context, due, &tfrc::header(&data));
        }
        self.outgoing.send(context)
    }
}
