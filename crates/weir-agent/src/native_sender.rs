//! The sending end of a flow over MPTCP or SCTP.
//!
//! A transfer has ended when all its bytes are acknowledged. The kernel tells it when asked, so that an end is known to a
//! millisecond.

use std::io;

use weir_run::{EventKind, SampleRow};
use weir_sys::epoll::{Interest, Ready};
use weir_sys::native::Protocol;
use weir_sys::socket::Socket;
use weir_sys::tcp_info::TcpInfo;
use weir_traffic::{Job, Step, Transfers};
use weir_units::Time;

use crate::context::Context;
use crate::error::AgentError;
use crate::native;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::telemetry::{Totals, TransferRecord};

const NULL_U32: u32 = u32::MAX;
const NULL_U64: u64 = u64::MAX;
/// Interval at which the kernel is asked whether it holds bytes still.
const LOOK_NS: u64 = 1_000_000;
/// Bytes written in one turn.
const TURN_BYTES: u64 = 1 << 20;
/// Bytes of one write to a stream.
const CHUNK_BYTES: u64 = 256 << 10;

/// The sending end.
pub struct NativeSender {
    flow: u32,
    endpoint: u32,
    generation: u32,
    protocol: Protocol,
    payload_bytes: u64,
    transfers: Transfers,
    next_job: Option<Job>,
    /// The end of the last transfer, while the next one waits for others of its user.
    waiting: Option<Time>,
    active: Option<Active>,
    /// The socket of the first connection, opened before the start.
    spare: Option<Socket>,
    connection: Option<Connection>,
    /// Totals of the earlier connections.
    base: Totals,
    sampled_ip_bytes: u64,
    started: bool,
    finished: bool,
    /// Whether the connection has failed, and the run with it.
    broken: bool,
}

struct Connection {
    socket: Socket,
    established: bool,
    /// Bytes of the run's token that the kernel took.
    shown: usize,
    /// Payload that the kernel took: bytes, and messages.
    written: u64,
    messages: u64,
    /// The instant for which this end is scheduled.
    armed: Time,
}

/// A transfer under way.
struct Active {
    job: Job,
    start: Time,
    established: Option<Time>,
    /// Bytes to write; `None` if only the flow's stop ends it.
    left: Option<u64>,
    before: Totals,
}

impl NativeSender {
    /// Opens the first socket.
    ///
    /// # Errors
    /// The kernel of this host has no such protocol, or refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<NativeSender, AgentError> {
        let spare = Some(native::sender(context, flow)?);
        let (protocol, settings) = native::native_of(context, flow);
        let plan = context.flow(flow);
        Ok(NativeSender {
            flow,
            endpoint,
            generation: 0,
            protocol,
            payload_bytes: settings.payload_bytes.into(),
            transfers: Transfers::new(&plan.source, plan.stop_ns),
            next_job: None,
            waiting: None,
            active: None,
            spare,
            connection: None,
            base: Totals::default(),
            sampled_ip_bytes: 0,
            started: false,
            finished: false,
            broken: false,
        })
    }

    /// Continues at an instant that it has scheduled.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if self.finished || self.broken {
            return Ok(());
        }
        if !self.started {
            self.started = true;
            context.telemetry.event(context.now, EventKind::FlowStart, self.flow, 0);
            let start = Time(context.flow(self.flow).start_ns);
            self.take_next_job(context, start, start);
        }
        if let Some(active) = self.active.as_mut().filter(|active| active.left.is_none())
            && context.now >= self.transfers.stop()
        {
            // What the send buffer holds is still sent.
            active.left = Some(0);
        }
        if self.active.is_none() && self.next_job.is_some_and(|job| job.at <= context.now) {
            self.begin_transfer(context)?;
        }
        if let Some(connection) = self.connection.as_mut().filter(|connection| connection.armed <= context.now) {
            connection.armed = Time::MAX;
        }
        self.write(context);
        Ok(())
    }

    /// Continues if its next transfer no longer waits for others.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn on_others(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let Some(ended) = self.waiting.take() else { return Ok(()) };
        self.take_next_job(context, ended, context.now);
        self.on_due(context)
    }

    /// Continues after an event of its socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32, ready: Ready) -> Result<(), AgentError> {
        if generation != self.generation || self.broken {
            return Ok(());
        }
        let Some(connection) = &mut self.connection else { return self.on_due(context) };
        let error = connection.socket.take_error();
        if let Some(error) = error.or_else(|| ready.ended().then(|| io::ErrorKind::ConnectionReset.into())) {
            self.lose(context, &error);
            return Ok(());
        }
        if !connection.established && ready.writable() {
            self.on_established(context);
        }
        self.on_due(context)
    }

    /// Records the ticks of `measure`, for tables `sent` and `samples`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due) {
        if !self.started || self.broken || (self.finished && self.sampled_ip_bytes == self.base.sent_ip_bytes) {
            return;
        }
        let totals = self.totals();
        if due.tcp && self.active.is_some() {
            self.sample(context, at, &totals);
        }
        if due.goodput {
            let sent = totals.sent_ip_bytes - self.sampled_ip_bytes;
            self.sampled_ip_bytes = totals.sent_ip_bytes;
            context.telemetry.sent(at, self.flow, sent);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        if let Some(active) = self.active.take() {
            context.telemetry.transfer(self.flow, &active.record(None, self.totals()));
        }
        self.finished = true;
        if let Some(connection) = self.connection.take() {
            connection.socket.abort();
        }
    }

    fn begin_transfer(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let Some(job) = self.next_job.take() else { return Ok(()) };
        context.telemetry.event(context.now, EventKind::TransferStart, self.flow, job.bytes.unwrap_or(0) as i64);
        let established = self.connection.is_some().then_some(context.now);
        let before = self.totals();
        self.active = Some(Active { job, start: context.now, established, left: job.bytes, before });
        if established.is_some() { Ok(()) } else { self.connect(context) }
    }

    fn connect(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let socket = match self.spare.take() {
            Some(socket) => socket,
            None => native::sender(context, self.flow)?,
        };
        self.generation += 1;
        let result = socket.connect(context.receiver(self.flow));
        context.epoll.add(&socket, token(self.endpoint, self.generation), Interest::WRITE)?;
        let armed = Time::MAX;
        self.connection = Some(Connection { socket, established: false, shown: 0, written: 0, messages: 0, armed });
        if let Err(error) = result {
            self.lose(context, &error);
        }
        if self.transfers.is_bulk() {
            context.schedule.add(self.transfers.stop(), Slot::Endpoint(self.endpoint));
        }
        Ok(())
    }

    fn on_established(&mut self, context: &mut Context) {
        let (Some(connection), Some(active)) = (&mut self.connection, &mut self.active) else { return };
        connection.established = true;
        active.established = Some(context.now);
        context.telemetry.event(context.now, EventKind::Established, self.flow, 0);
        if self.protocol == Protocol::Mptcp && connection.socket.fell_back_to_tcp().unwrap_or(true) {
            let place = context.describe(self.flow);
            context.fail(format!(
                "{place}: the connection fell back to TCP: the receiver's kernel has no MPTCP (net.mptcp.enabled), or \
                 the path removes its options"
            ));
        }
    }

    /// Writes while there is room, at most some bytes in one turn; ends a transfer of which nothing is left.
    pub fn write(&mut self, context: &mut Context) {
        if self.broken || self.connection.as_ref().is_none_or(|connection| !connection.established) {
            return;
        }
        match self.fill(context) {
            Ok(()) => {}
            Err(error) => return self.lose(context, &error),
        }
        let (Some(connection), Some(active)) = (&self.connection, &self.active) else { return };
        match active.left {
            Some(0) if self.held(connection) == 0 => self.end_transfer(context),
            Some(0) => self.arm(context),
            _ => {}
        }
    }

    fn fill(&mut self, context: &mut Context) -> io::Result<()> {
        let (Some(connection), Some(active)) = (&mut self.connection, &mut self.active) else { return Ok(()) };
        let token = context.job.token.as_ref().map_or(&[][..], |token| token.as_bytes());
        while connection.shown < token.len() {
            let Some(taken) = connection.socket.send(&token[connection.shown..])? else { return Ok(()) };
            connection.shown += taken;
        }
        let mut budget = TURN_BYTES;
        while active.left != Some(0) {
            if budget == 0 {
                context.hungry.push(self.endpoint);
                return Ok(());
            }
            let most = match self.protocol {
                Protocol::Mptcp => CHUNK_BYTES,
                Protocol::Sctp => self.payload_bytes,
            };
            let chunk = active.left.map_or(most, |left| left.min(most));
            // Without room, an event follows when there is some.
            let Some(taken) = connection.socket.send(&context.zeros.as_slice()[..chunk as usize])? else { break };
            let taken = taken as u64;
            connection.written += taken;
            connection.messages += 1;
            active.left = active.left.map(|left| left - taken);
            budget = budget.saturating_sub(taken);
        }
        Ok(())
    }

    /// Bytes, or messages, that the kernel holds.
    fn held(&self, connection: &Connection) -> u64 {
        match self.protocol {
            Protocol::Mptcp => connection.socket.unacknowledged().unwrap_or(0),
            Protocol::Sctp => {
                let (Ok(state), Ok(counts)) = (connection.socket.sctp_state(), connection.socket.sctp_counts()) else {
                    return 0;
                };
                let written = connection.messages + u64::from(connection.shown > 0);
                written.saturating_sub(counts.chunks) + u64::from(state.unacknowledged)
            }
        }
    }

    /// Schedules this end for the next look.
    fn arm(&mut self, context: &mut Context) {
        let Some(connection) = &mut self.connection else { return };
        let at = Time(context.now.0 + LOOK_NS);
        if at < connection.armed {
            connection.armed = at;
            context.schedule.add(at, Slot::Endpoint(self.endpoint));
        }
    }

    fn end_transfer(&mut self, context: &mut Context) {
        let after = self.totals();
        let Some(active) = self.active.take() else { return };
        let at = context.now;
        context.telemetry.transfer(self.flow, &active.record(Some(at), after));
        context.telemetry.event(at, EventKind::TransferEnd, self.flow, 0);
        context.waits.ended(self.flow, at);
        context.came.push(self.flow);
        if !self.transfers.keeps_connection() {
            self.close();
        }
        self.take_next_job(context, at, at);
    }

    /// Continues after a transfer that ended at `ended`. After the last one, the flow ends at `at`.
    fn take_next_job(&mut self, context: &mut Context, ended: Time, at: Time) {
        match self.transfers.step(&context.waits, self.flow, ended) {
            Step::Begin(job) => {
                self.next_job = Some(job);
                context.schedule.add(job.at, Slot::Endpoint(self.endpoint));
            }
            Step::Wait => self.waiting = Some(ended),
            Step::End => {
                self.close();
                self.end_flow(context, at);
            }
        }
    }

    fn end_flow(&mut self, context: &mut Context, at: Time) {
        self.finished = true;
        context.telemetry.event(at, EventKind::FlowEnd, self.flow, 0);
        context.waits.over(self.flow);
        context.came.push(self.flow);
    }

    fn close(&mut self) {
        self.base = self.totals();
        self.connection = None;
    }

    /// Handles a failed connection. A path that loses all packets is a result; a missing receiver is an error.
    fn lose(&mut self, context: &mut Context, error: &io::Error) {
        let (place, name) = (context.describe(self.flow), self.protocol.name());
        if error.kind() == io::ErrorKind::TimedOut {
            context.warn(format!("{place}: the connection timed out at {:.3} s", context.now.as_secs_f64()));
            if let Some(active) = self.active.take() {
                context.telemetry.transfer(self.flow, &active.record(None, self.totals()));
            }
            self.close();
            self.next_job = None;
            return self.end_flow(context, context.now);
        }
        self.broken = true;
        let port = context.job.port(self.flow);
        context.fail(format!(
            "{place}: {name} to port {port}: {error}; is the receiving agent running, and is there a route for {name}?"
        ));
    }

    /// Records the state that the kernel tells of the connection.
    fn sample(&self, context: &mut Context, at: Time, totals: &Totals) {
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.established) else { return };
        let empty = SampleRow {
            time_ns: at.0,
            flow: self.flow,
            cwnd: 0,
            ssthresh: NULL_U32,
            in_flight: 0,
            srtt_ns: NULL_U64,
            min_rtt_ns: NULL_U64,
            pacing_rate_bps: NULL_U64,
            acked_bytes: totals.acked_bytes,
            sent_bytes: totals.sent_bytes,
            retransmitted_packets: totals.retransmitted_packets,
            timeouts: totals.timeouts as u32,
            ca_state: 0,
        };
        match self.protocol {
            Protocol::Mptcp => {
                if let Ok(info) = TcpInfo::of(&connection.socket) {
                    context.telemetry.sample(at, self.flow, &info, totals, false);
                    context.telemetry.observe(at, self.flow, &info, totals);
                }
            }
            Protocol::Sctp => {
                let Ok(state) = connection.socket.sctp_state() else { return };
                context.telemetry.foreign_sample(SampleRow {
                    cwnd: (u64::from(state.cwnd_bytes) / self.payload_bytes) as u32,
                    in_flight: state.unacknowledged.into(),
                    srtt_ns: if state.srtt_ms == 0 { NULL_U64 } else { u64::from(state.srtt_ms) * 1_000_000 },
                    ..empty
                });
            }
        }
    }

    fn totals(&self) -> Totals {
        let Some(connection) = &self.connection else { return self.base };
        let headers = native::header_bytes(self.protocol);
        let here = match self.protocol {
            Protocol::Mptcp => {
                let Ok(info) = TcpInfo::of(&connection.socket) else { return self.base };
                let packets = u64::from(info.data_segs_out);
                let shown = connection.shown as u64;
                let held = connection.socket.unacknowledged().unwrap_or(0);
                Totals {
                    acked_bytes: connection.written.saturating_sub(held),
                    sent_bytes: info.bytes_sent.saturating_sub(shown),
                    sent_ip_bytes: info.bytes_sent + packets * headers,
                    sent_packets: packets,
                    retransmitted_packets: info.total_retrans.into(),
                    timeouts: info.total_rto.into(),
                    busy_ns: info.busy_us * 1_000,
                    rwnd_limited_ns: info.rwnd_limited_us * 1_000,
                    sndbuf_limited_ns: info.sndbuf_limited_us * 1_000,
                }
            }
            Protocol::Sctp => {
                let counts = connection.socket.sctp_counts().unwrap_or_default();
                let packets = counts.chunks + counts.retransmitted;
                let sent_bytes =
                    (packets * self.payload_bytes).min(connection.written + counts.retransmitted * self.payload_bytes);
                Totals {
                    acked_bytes: connection.written.saturating_sub(self.held(connection) * self.payload_bytes),
                    sent_bytes,
                    sent_ip_bytes: sent_bytes + packets * headers,
                    sent_packets: packets,
                    retransmitted_packets: counts.retransmitted,
                    ..Totals::default()
                }
            }
        };
        self.base + here
    }
}

impl Active {
    fn record(&self, end: Option<Time>, after: Totals) -> TransferRecord {
        TransferRecord {
            number: self.job.number,
            start: self.start,
            established: self.established,
            end,
            bytes: self.job.bytes,
            before: self.before,
            after,
        }
    }
}
