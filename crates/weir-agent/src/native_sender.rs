//! The sending end of a flow over MPTCP or SCTP.
//!
//! A transfer has ended when all its bytes are acknowledged. The kernel tells it when asked, so that an end is known to a
//! millisecond.

use std::io;

use weir_run::SampleRow;
use weir_sys::epoll::{Interest, Ready};
use weir_sys::native::Protocol;
use weir_sys::socket::Socket;
use weir_sys::tcp_info::TcpInfo;
use weir_traffic::Job;
use weir_units::Time;

use crate::context::Context;
use crate::course::{Course, Transferring};
use crate::error::AgentError;
use crate::native;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::telemetry::Totals;

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
    course: Course,
    /// The socket of the first connection, opened before the start.
    spare: Option<Socket>,
    connection: Option<Connection>,
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

impl NativeSender {
    /// Opens the first socket.
    ///
    /// # Errors
    /// The kernel of this host has no such protocol, or refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<NativeSender, AgentError> {
        let spare = Some(native::sender(context, flow)?);
        let (protocol, settings) = native::native_of(context, flow);
        Ok(NativeSender {
            flow,
            endpoint,
            generation: 0,
            protocol,
            payload_bytes: settings.payload_bytes.into(),
            course: Course::new(context, endpoint, flow),
            spare,
            connection: None,
        })
    }

    /// Continues at an instant that it has scheduled.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if self.course.is_over() {
            return Ok(());
        }
        if let Some(start) = self.course.start(context) {
            self.take_next_job(context, start, start);
        }
        if self.course.stops(context.now)
            && let Some(active) = &mut self.course.active
        {
            // What the send buffer holds is still sent.
            active.left = Some(0);
        }
        if let Some(job) = self.course.take_due(context.now) {
            self.begin_transfer(context, job)?;
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
        let Some(ended) = self.course.resume() else { return Ok(()) };
        self.take_next_job(context, ended, context.now);
        self.on_due(context)
    }

    /// Continues after an event of its socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32, ready: Ready) -> Result<(), AgentError> {
        if generation != self.generation || self.course.broken {
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
        if !self.course.is_measured() {
            return;
        }
        let totals = self.totals();
        if due.tcp && self.course.active.is_some() {
            self.sample(context, at, &totals);
        }
        if due.goodput {
            self.course.record_sent(context, at, &totals);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        let after = self.totals();
        self.course.abandon(context, after);
        self.course.finish();
        if let Some(connection) = self.connection.take() {
            connection.socket.abort();
        }
    }

    fn begin_transfer(&mut self, context: &mut Context, job: Job) -> Result<(), AgentError> {
        let connected = self.connection.is_some();
        let before = self.totals();
        self.course.begin(context, job, connected, before);
        if connected { Ok(()) } else { self.connect(context) }
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
        self.course.schedule_stop(context);
        Ok(())
    }

    fn on_established(&mut self, context: &mut Context) {
        let Some(connection) = self.connection.as_mut().filter(|_| self.course.active.is_some()) else { return };
        connection.established = true;
        self.course.established(context);
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
        if self.course.broken || self.connection.as_ref().is_none_or(|connection| !connection.established) {
            return;
        }
        match self.fill(context) {
            Ok(()) => {}
            Err(error) => return self.lose(context, &error),
        }
        let (Some(connection), Some(active)) = (&self.connection, &self.course.active) else { return };
        match active.left {
            Some(0) if self.held(connection) == 0 => self.complete(context),
            Some(0) => self.arm(context),
            _ => {}
        }
    }

    fn fill(&mut self, context: &mut Context) -> io::Result<()> {
        let (Some(connection), Some(active)) = (&mut self.connection, &mut self.course.active) else { return Ok(()) };
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

    fn complete(&mut self, context: &mut Context) {
        let (at, after) = (context.now, self.totals());
        self.end_transfer(context, at, after);
    }

    /// Handles a failed connection. A path that loses all packets is a result; a missing receiver is an error.
    fn lose(&mut self, context: &mut Context, error: &io::Error) {
        let (place, name) = (context.describe(self.flow), self.protocol.name());
        if error.kind() == io::ErrorKind::TimedOut {
            context.warn(format!("{place}: the connection timed out at {:.3} s", context.now.as_secs_f64()));
            let after = self.totals();
            self.course.abandon(context, after);
            self.close(context);
            return self.course.end_flow(context, context.now);
        }
        self.course.broken = true;
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
        let Some(connection) = &self.connection else { return self.course.base };
        let headers = native::header_bytes(self.protocol);
        let here = match self.protocol {
            Protocol::Mptcp => {
                let Ok(info) = TcpInfo::of(&connection.socket) else { return self.course.base };
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
        self.course.base + here
    }
}

impl Transferring for NativeSender {
    fn course(&mut self) -> &mut Course {
        &mut self.course
    }

    fn close(&mut self, _: &Context) {
        self.course.base = self.totals();
        self.connection = None;
    }
}
