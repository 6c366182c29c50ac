//! The sending end of a TFRC flow: a UDP socket, and the sender of `weir-tfrc`, which the simulator has, too.

use std::io;

use weir_run::EventKind;
use weir_sys::epoll::Interest;
use weir_sys::socket::Socket;
use weir_sys::{Errno, would_block};
use weir_tfrc::Sender;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Batch, IP_UDP_BYTES, Seal};
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::telemetry::{Totals, TransferRecord};
use crate::tfrc::{self, REPORT_BYTES};

/// The sending end of a TFRC flow.
pub struct TfrcSender {
    flow: u32,
    endpoint: u32,
    socket: Socket,
    /// None before the start.
    sender: Option<Sender>,
    batch: Batch,
    payload_bytes: u32,
    stop: Time,
    /// The instant for which this end is scheduled.
    armed: Time,
    /// Datagrams that the kernel refused.
    refused: u64,
    totals: Totals,
    sampled_ip_bytes: u64,
    last_sent: Time,
    /// Reports that came.
    pub reports: u64,
    /// Time from a datagram's due instant to its system call.
    pub lateness: Histogram,
    finished: bool,
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
            flow,
            endpoint,
            socket,
            sender: None,
            batch: Batch::new(payload_bytes as usize, Seal::new(context.job.token)),
            payload_bytes,
            stop: context.flow(flow).stop_ns.map_or(Time::MAX, Time),
            armed: Time::MAX,
            refused: 0,
            totals: Totals::default(),
            sampled_ip_bytes: 0,
            last_sent: Time::ZERO,
            reports: 0,
            lateness: Histogram::default(),
            finished: false,
        })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Sends due datagrams and schedules the next one.
    pub fn on_due(&mut self, context: &mut Context) {
        if self.finished {
            return;
        }
        if context.now >= self.armed {
            self.armed = Time::MAX;
        }
        if self.sender.is_none() {
            let start = Time(context.flow(self.flow).start_ns);
            self.sender = Some(Sender::new(self.payload_bytes, start));
            context.telemetry.event(context.now, EventKind::FlowStart, self.flow, 0);
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
            match self.socket.receive(&mut buffer) {
                Ok(None) => break,
                Ok(Some(bytes)) => self.take_report(context, &buffer[..bytes]),
                Err(error) => {
                    self.on_error(context, &error);
                    break;
                }
            }
        }
        if self.sender.is_some() && !self.finished {
            self.proceed(context);
        }
        Ok(())
    }

    /// Records the intervals of `measure` that end at `at`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due) {
        let Some(sender) = &self.sender else { return };
        let sent = self.totals.sent_ip_bytes - self.sampled_ip_bytes;
        if due.goodput && (!self.finished || sent > 0) {
            self.sampled_ip_bytes = self.totals.sent_ip_bytes;
            context.telemetry.sent(at, self.flow, sent);
        }
        if due.tcp && !self.finished {
            for (name, value) in sender.probes() {
                let mut probe = [0; 16];
                probe[..name.len()].copy_from_slice(name.as_bytes());
                context.telemetry.probe(at, self.flow, probe, value);
            }
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        if self.sender.is_some() && !self.finished {
            self.record(context, None);
            self.finished = true;
        }
        if self.refused > 0 {
            let text = format!(
                "{}: this host did not take {} of {} datagrams",
                context.describe(self.flow),
                self.refused,
                self.refused + self.totals.sent_packets
            );
            context.warn(text);
        }
    }

    fn take_report(&mut self, context: &mut Context, payload: &[u8]) {
        // Datagrams before the start are probes of the path.
        let Some(sender) = self.sender.as_mut().filter(|_| context.begun) else { return };
        match tfrc::read_report(payload, context.job.token.as_ref()) {
            Some(report) => {
                self.reports += 1;
                sender.on_feedback(context.now, &report);
            }
            None => context.refuse(self.flow, &"a report of TFRC"),
        }
    }

    /// Serves the timers, sends what is due, and schedules the next instant.
    fn proceed(&mut self, context: &mut Context) {
        if context.now >= self.stop {
            return self.end(context);
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
        self.batch.clear();
        while !self.batch.is_full() {
            let due = sender.due();
            let Some(data) = sender.poll(context.now) else { break };
            self.lateness.add(context.now.since(due).0, 1);
            self.batch.push(&tfrc::header(&data));
        }
        let count = self.batch.len() as u64;
        if count == 0 {
            return false;
        }
        let sent = match self.batch.send(&self.socket) {
            Ok(sent) => sent as u64,
            Err(error) => {
                self.on_error(context, &error);
                0
            }
        };
        self.refused += count - sent;
        self.totals.sent_packets += sent;
        self.totals.sent_bytes += sent * u64::from(self.payload_bytes);
        self.totals.sent_ip_bytes += sent * u64::from(self.payload_bytes + IP_UDP_BYTES);
        self.last_sent = context.now;
        true
    }

    fn on_error(&self, context: &mut Context, error: &io::Error) {
        let full = would_block(error) || Errno::from_io_error(error) == Some(Errno::NOBUFS);
        if !full && !self.finished {
            let port = context.job.port(self.flow);
            let place = context.describe(self.flow);
            context.fail(format!("{place}: datagrams to port {port}: {error}; is the receiving agent running?"));
        }
    }

    fn end(&mut self, context: &mut Context) {
        self.record(context, Some(self.last_sent));
        self.finished = true;
        context.telemetry.event(context.now, EventKind::FlowEnd, self.flow, 0);
    }

    fn record(&self, context: &mut Context, end: Option<Time>) {
        let start = Time(context.flow(self.flow).start_ns);
        let (before, after) = (Totals::default(), self.totals);
        let record = TransferRecord { number: 0, start, established: None, end, bytes: None, before, after };
        context.telemetry.transfer(self.flow, &record);
    }
}
