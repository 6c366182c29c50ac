//! What the ends of flows of datagrams have in common, at a constant bit rate, over TFRC or over DCCP: a batch that is
//! sent, what the kernel refused, and what is recorded of it.

use std::io;

use weir_run::EventKind;
use weir_sys::socket::Socket;
use weir_sys::{Errno, would_block};
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Batch, Header, Seal};
use crate::telemetry::{Totals, TransferRecord};

/// The datagrams that a flow sends.
pub struct Outgoing {
    flow: u32,
    pub socket: Socket,
    batch: Batch,
    payload_bytes: u32,
    header_bytes: u32,
    /// When the connection was established, if the flow has one.
    pub established: Option<Time>,
    /// Datagrams that the kernel refused.
    refused: u64,
    totals: Totals,
    sampled_ip_bytes: u64,
    last_sent: Time,
    /// Time from a datagram's due instant to its system call.
    pub lateness: Histogram,
    finished: bool,
}

impl Outgoing {
    /// Those of a flow, before its start; `header_bytes`: those of IP and of the transport.
    pub fn new(context: &Context, flow: u32, socket: Socket, payload_bytes: u32, header_bytes: u32) -> Outgoing {
        Outgoing {
            flow,
            socket,
            batch: Batch::new(payload_bytes as usize, Seal::new(context.job.token)),
            payload_bytes,
            header_bytes,
            established: None,
            refused: 0,
            totals: Totals::default(),
            sampled_ip_bytes: 0,
            last_sent: Time::ZERO,
            lateness: Histogram::default(),
            finished: false,
        }
    }

    /// The number of the flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Whether the flow has ended.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Records that the flow begins.
    pub fn start(&self, context: &mut Context) {
        context.telemetry.event(context.now, EventKind::FlowStart, self.flow, 0);
    }

    /// Whether the batch has no room for another datagram.
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Appends a datagram that was `due` to the batch, which has room.
    pub fn push(&mut self, context: &Context, due: Time, header: &Header) {
        self.lateness.add(context.now.since(due).0, 1);
        self.batch.push(header);
    }

    /// Sends the batch, and empties it; false if it was empty.
    pub fn send(&mut self, context: &mut Context) -> bool {
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
        self.batch.clear();
        self.refused += count - sent;
        self.count(context, sent);
        true
    }

    /// Sends one datagram; false if the kernel has no room, or the connection has failed.
    pub fn offer(&mut self, context: &mut Context, header: &Header) -> bool {
        self.batch.push(header);
        let sent = self.batch.send(&self.socket);
        self.batch.clear();
        match sent {
            Ok(sent) => self.count(context, sent as u64),
            Err(error) => {
                self.on_error(context, &error);
                return false;
            }
        }
        true
    }

    fn count(&mut self, context: &Context, sent: u64) {
        self.totals.sent_packets += sent;
        self.totals.sent_bytes += sent * u64::from(self.payload_bytes);
        self.totals.sent_ip_bytes += sent * u64::from(self.payload_bytes + self.header_bytes);
        self.last_sent = context.now;
    }

    /// An error of the socket: the run fails, unless a queue is full or the flow has ended.
    pub fn on_error(&self, context: &mut Context, error: &io::Error) {
        let full = would_block(error) || Errno::from_io_error(error) == Some(Errno::NOBUFS);
        if !full && !self.finished {
            let port = context.job.port(self.flow);
            let place = context.describe(self.flow);
            context.fail(format!("{place}: datagrams to port {port}: {error}; is the receiving agent running?"));
        }
    }

    /// Records what was sent since the last time, for table `sent`.
    pub fn record_sent(&mut self, context: &mut Context, at: Time) {
        let sent = self.totals.sent_ip_bytes - self.sampled_ip_bytes;
        self.sampled_ip_bytes = self.totals.sent_ip_bytes;
        if !self.finished || sent > 0 {
            context.telemetry.sent(at, self.flow, sent);
        }
    }

    /// Ends the flow.
    pub fn end(&mut self, context: &mut Context) {
        self.record(context, Some(self.last_sent));
        self.finished = true;
        context.telemetry.event(context.now, EventKind::FlowEnd, self.flow, 0);
    }

    /// Records the results at the end of the plan; `started`: whether the flow has begun.
    pub fn finish(&mut self, context: &mut Context, started: bool) {
        if started && !self.finished {
            self.record(context, None);
            self.finished = true;
        }
        if self.refused > 0 {
            let (place, all) = (context.describe(self.flow), self.refused + self.totals.sent_packets);
            context.warn(format!("{place}: this host did not take {} of {all} datagrams", self.refused));
        }
    }

    fn record(&self, context: &mut Context, end: Option<Time>) {
        let start = Time(context.flow(self.flow).start_ns);
        let (before, after) = (Totals::default(), self.totals);
        let record =
            TransferRecord { number: 0, start, established: self.established, end, bytes: None, before, after };
        context.telemetry.transfer(self.flow, &record);
    }
}

/// The datagrams that come to a flow.
pub struct Incoming {
    flow: u32,
    fresh: u64,
    /// Bytes of datagrams that came after the present tick.
    ahead: u64,
    dropped: u64,
    /// Number of received datagrams.
    pub received: u64,
    /// The greatest received number, plus one.
    expected: u64,
    /// Datagrams received after one with a greater number.
    pub reordered: u64,
}

impl Incoming {
    /// Those of a flow, before its start.
    pub fn new(flow: u32) -> Incoming {
        Incoming { flow, fresh: 0, ahead: 0, dropped: 0, received: 0, expected: 0, reordered: 0 }
    }

    /// The number of the flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Counts a datagram of `bytes` that came at `at`; `tick`: the end of the present interval.
    pub fn count(&mut self, bytes: u32, at: Time, tick: Time) {
        let place = if at > tick { &mut self.ahead } else { &mut self.fresh };
        *place += u64::from(bytes);
        self.received += 1;
    }

    /// Notes the number of a datagram.
    pub fn note(&mut self, number: u64) {
        self.reordered += u64::from(number < self.expected);
        self.expected = self.expected.max(number + 1);
    }

    /// Notes how many datagrams the socket has dropped so far.
    pub fn note_dropped(&mut self, dropped: u32) {
        self.dropped = self.dropped.max(u64::from(dropped));
    }

    /// Numbers that have not come, below the greatest one that has.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    pub fn record(&mut self, context: &mut Context, at: Time) {
        if self.fresh > 0 {
            context.telemetry.delivered(at, self.flow, 0, self.fresh);
        }
        self.fresh = std::mem::take(&mut self.ahead);
    }

    /// Records the results at the end of the plan.
    pub fn finish(&self, context: &mut Context) {
        if self.dropped > 0 {
            let place = context.describe(self.flow);
            context.warn(format!(
                "{place}: the receiving socket dropped {} datagrams: this host is too slow",
                self.dropped
            ));
        }
    }
}
