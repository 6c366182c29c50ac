//! The sending end of a constant-bit-rate flow.

use std::io;

use weir_plan::Source;
use weir_run::EventKind;
use weir_sys::socket::Socket;
use weir_sys::{Errno, would_block};
use weir_traffic::CbrClock;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Batch, Header, IP_UDP_BYTES, Seal};
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;
use crate::telemetry::{Totals, TransferRecord};

/// The sending end of a constant-bit-rate flow.
pub struct CbrSender {
    flow: u32,
    endpoint: u32,
    socket: Socket,
    clock: CbrClock,
    batch: Batch,
    payload_bytes: u32,
    /// Number of the next datagram.
    next: u64,
    /// Datagrams that the kernel refused.
    refused: u64,
    totals: Totals,
    sampled_ip_bytes: u64,
    last_sent: Time,
    /// Time from a datagram's due instant to its system call.
    pub lateness: Histogram,
    started: bool,
    finished: bool,
}

impl CbrSender {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<CbrSender, AgentError> {
        let socket = open::udp_sender(context, flow)?;
        let plan = context.flow(flow);
        let payload_bytes = open::udp_of(plan).payload_bytes;
        let Source::Cbr(cbr) = &plan.source else { unreachable!("the plan was checked: UDP has such a source") };
        let clock = CbrClock::new(cbr, payload_bytes + IP_UDP_BYTES, Time(plan.start_ns), plan.stop_ns);
        Ok(CbrSender {
            flow,
            endpoint,
            socket,
            clock,
            batch: Batch::new(payload_bytes as usize, Seal::new(context.job.token)),
            payload_bytes,
            next: 0,
            refused: 0,
            totals: Totals::default(),
            sampled_ip_bytes: 0,
            last_sent: Time::ZERO,
            lateness: Histogram::default(),
            started: false,
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
        if !self.started {
            self.started = true;
            context.telemetry.event(context.now, EventKind::FlowStart, self.flow, 0);
        }
        loop {
            match self.clock.due() {
                None => return self.end(context),
                Some(due) if due > context.now => {
                    context.schedule.add(due, Slot::Endpoint(self.endpoint));
                    return;
                }
                Some(_) => self.send_due(context),
            }
        }
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) {
        let sent = self.totals.sent_ip_bytes - self.sampled_ip_bytes;
        self.sampled_ip_bytes = self.totals.sent_ip_bytes;
        if self.started && (!self.finished || sent > 0) {
            context.telemetry.sent(at, self.flow, sent);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        if self.started && !self.finished {
            self.record(context, None);
            self.finished = true;
        }
        if self.refused > 0 {
            let text = format!(
                "{}: this host did not take {} of {} datagrams",
                context.describe(self.flow),
                self.refused,
                self.next
            );
            context.warn(text);
        }
    }

    /// Sends due datagrams, at most a batch.
    fn send_due(&mut self, context: &mut Context) {
        self.batch.clear();
        while let Some(due) = self.clock.due().filter(|due| *due <= context.now) {
            let header = Header { number: self.next, due_ns: due.0, sent_ns: context.now.0 };
            if !self.batch.push(&header) {
                break;
            }
            self.lateness.add(context.now.since(due).0, 1);
            self.next += 1;
            self.clock.sent();
        }
        let count = self.batch.len() as u64;
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
    }

    fn on_error(&self, context: &mut Context, error: &io::Error) {
        let full = would_block(error) || Errno::from_io_error(error) == Some(Errno::NOBUFS);
        if !full {
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
