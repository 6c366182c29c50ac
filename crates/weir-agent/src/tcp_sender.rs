//! The sending end of a TCP flow: sends transfers one after another, or as fast as the transport permits.

use std::io;

use weir_plan::{Tcp, Transport};
use weir_sys::epoll::{Interest, Ready};
use weir_sys::socket::{IntOption, Socket};
use weir_sys::tcp_info::{self, TcpInfo};
use weir_traffic::Job;
use weir_units::Time;

use crate::context::Context;
use crate::course::{Active, Course, Transferring};
use crate::error::AgentError;
use crate::open::{self, MAX_UNSENT_BYTES};
use crate::pursuit::Pursuit;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::telemetry::Totals;

/// Initial limit of unsent bytes. It doubles when a flow sends them within [`BUSY_NS`]. So a fast flow is woken a few
/// hundred times a second, and a slow one needs little memory.
const FIRST_UNSENT_BYTES: u32 = 256 << 10;
/// With this limit, the kernel takes nothing while it holds an unsent segment.
const NOTHING_UNSENT: u32 = 1;
const BUSY_NS: u64 = 4_000_000;
/// Bytes of the IPv4 and TCP headers without options.
const HEADER_BYTES: u64 = 40;
const TIMESTAMPS_BYTES: u64 = 12;

/// The sending end of a TCP flow.
pub struct TcpSender {
    flow: u32,
    endpoint: u32,
    generation: u32,
    tcp: Tcp,
    paced: bool,
    /// The rate profile, if the flow follows one.
    pursuit: Option<Pursuit>,
    course: Course,
    /// The socket of the first connection, opened before the start.
    spare: Option<Socket>,
    connection: Option<Connection>,
}

struct Connection {
    socket: Socket,
    established: bool,
    /// Bytes that the kernel took: the run's token, then payload.
    written: u64,
    /// Length of the run's token; 0 without one.
    token_bytes: u64,
    unsent_limit: u32,
    /// Whether the kernel takes unsent bytes.
    ahead: bool,
    had_room_at: Time,
}

impl TcpSender {
    /// Opens the first socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<TcpSender, AgentError> {
        let spare = Some(open::tcp_sender(context, flow)?);
        let plan = context.flow(flow);
        let tcp = open::tcp_of(plan).clone();
        let paces_itself = open::kernel_cc(context, flow).is_some_and(|name| name.contains("bbr"));
        Ok(TcpSender {
            flow,
            endpoint,
            generation: 0,
            // The kernel always reports a pacing rate, and never whether it applies.
            paced: tcp.pacing || paces_itself || !tcp.profile.is_empty(),
            pursuit: Pursuit::of(&tcp),
            tcp,
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
        self.follow(context)?;
        if self.course.stops(context.now) {
            self.stop(context);
        }
        if let Some(job) = self.course.take_due(context.now) {
            self.begin_transfer(context, job)?;
        }
        Ok(())
    }

    /// Follows the profile: tells the kernel a new rate, and writes a segment that is due.
    fn follow(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let Some(pursuit) = &mut self.pursuit else { return Ok(()) };
        if let (Some(rate), Some(connection)) = (pursuit.new_rate(context.now), &self.connection) {
            connection.socket.set_pacing(rate)?;
        }
        if let Some(at) = pursuit.new_step() {
            context.schedule.add(at, Slot::Endpoint(self.endpoint));
        }
        if pursuit.take_turn(context.now) {
            self.write(context);
        }
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
        if generation != self.generation || self.connection.is_none() || self.course.broken {
            return Ok(());
        }
        if ready.failed() {
            self.take_stamps(context)?;
        }
        let Some(connection) = &mut self.connection else { return self.on_due(context) };
        if !connection.established && ready.writable() {
            if let Some(error) = connection.socket.take_error() {
                self.lose_connection(context, error);
                return Ok(());
            }
            self.on_established(context);
        }
        if ready.ended() && self.course.active.is_some() {
            let error = self.connection.as_ref().and_then(|c| c.socket.take_error());
            self.lose_connection(context, error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()));
            return Ok(());
        }
        if ready.writable() {
            self.write(context);
        }
        self.on_due(context)
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Records the ticks of `measure`, for tables `sent` and `samples`; `info` is the connection's state if it was read
    /// already.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due, info: Option<TcpInfo>) {
        if !self.course.is_measured() {
            return;
        }
        let info = info.filter(|_| self.connection.is_some()).or_else(|| self.info());
        let totals = self.totals(info.as_ref());
        if let (true, Some(info), Some(_)) = (due.tcp, &info, &self.course.active) {
            context.telemetry.sample(at, self.flow, info, &totals, self.paced);
            context.telemetry.observe(at, self.flow, info, &totals);
            self.sample_probes(context, at);
        }
        if due.goodput {
            self.course.record_sent(context, at, &totals);
        }
    }

    /// Records the values that the congestion control shows.
    fn sample_probes(&self, context: &mut Context, at: Time) {
        let Some(connection) = &self.connection else { return };
        let Context { probes, telemetry, job, .. } = context;
        let Transport::Tcp(tcp) = &job.plan.flows[self.flow as usize].transport else { return };
        if let Some(probes) = probes.get(&tcp.cc) {
            probes.of(&connection.socket, |name, value| telemetry.probe(at, self.flow, name, value));
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        let after = self.totals(self.info().as_ref());
        self.course.abandon(context, after);
        self.course.finish();
        if let Some(connection) = self.connection.take() {
            connection.socket.abort();
        }
    }

    fn begin_transfer(&mut self, context: &mut Context, job: Job) -> Result<(), AgentError> {
        let before = self.totals(self.info().as_ref());
        let connected = self.connection.is_some();
        self.course.begin(context, job, connected, before);
        if connected {
            if let Some(pursuit) = &mut self.pursuit {
                pursuit.resume(context.now);
            }
            self.write(context);
            return Ok(());
        }
        self.connect(context)
    }

    fn connect(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let socket = match self.spare.take() {
            Some(socket) => socket,
            None => open::tcp_sender(context, self.flow)?,
        };
        self.generation += 1;
        let unsent_limit = FIRST_UNSENT_BYTES;
        match &mut self.pursuit {
            Some(pursuit) => {
                socket.set_pacing(pursuit.open(context.now))?;
                socket.set(IntOption::NotSentLowWater, NOTHING_UNSENT)?;
            }
            None => socket.set(IntOption::NotSentLowWater, unsent_limit)?,
        }
        let result = socket.connect(context.receiver(self.flow));
        context.epoll.add(&socket, token(self.endpoint, self.generation), Interest::WRITE)?;
        self.connection = Some(Connection {
            socket,
            established: false,
            written: 0,
            token_bytes: context.job.token.map_or(0, |token| token.as_bytes().len() as u64),
            unsent_limit,
            ahead: self.pursuit.is_none(),
            had_room_at: Time::ZERO,
        });
        if let Err(error) = result {
            self.lose_connection(context, error);
        }
        self.course.schedule_stop(context);
        Ok(())
    }

    fn on_established(&mut self, context: &mut Context) {
        let Some(connection) = self.connection.as_mut().filter(|_| self.course.active.is_some()) else { return };
        connection.established = true;
        self.course.established(context);
        if let Some(pursuit) = &mut self.pursuit {
            pursuit.resume(context.now);
        }
        if let Err(error) = connection.socket.enable_ack_stamps() {
            let text = format!(
                "{}: the kernel does not tell when data are acknowledged: {error}",
                context.describe(self.flow)
            );
            context.fail(text);
        }
        if self.generation == 1 {
            self.check_negotiated(context);
        }
    }

    /// Checks that the negotiated options are those of the plan: otherwise the figures would describe another
    /// connection.
    fn check_negotiated(&self, context: &mut Context) {
        let (Some(info), Some(connection)) = (self.info(), &self.connection) else { return };
        let tcp = &self.tcp;
        let name = &context.flow(self.flow).name;
        let mut wrong = Vec::new();
        if info.snd_mss != tcp.mss_bytes {
            let text = format!("segments hold {} bytes, the plan says {}: check the MTU", info.snd_mss, tcp.mss_bytes);
            wrong.push(text);
        }
        for (bit, planned, what) in [
            (tcp_info::option::TIMESTAMPS, tcp.timestamps, "net.ipv4.tcp_timestamps"),
            (tcp_info::option::SACK, tcp.sack, "net.ipv4.tcp_sack"),
            (tcp_info::option::ECN, tcp.ecn, "net.ipv4.tcp_ecn"),
        ] {
            if (info.options & bit != 0) != planned {
                let (is, wanted) = if planned { ("off", "on") } else { ("on", "off") };
                wrong.push(format!("{what} is {is}, the plan has it {wanted}"));
            }
        }
        let chosen = open::kernel_cc(context, self.flow);
        if let (Some(chosen), Ok(used)) = (chosen, connection.socket.congestion_control())
            && used != chosen
        {
            wrong.push(format!(
                "the kernel replaced the congestion control {chosen} by {used}: it may need ECN (transport.ecn)"
            ));
        }
        let text = wrong.join("; ");
        if !text.is_empty() {
            context.fail(format!("flow {name}: its connection is not that of the plan: {text}"));
        }
    }

    /// Writes while there is room, at most the limit of unsent bytes in one turn.
    pub fn write(&mut self, context: &mut Context) {
        let (Some(connection), Some(active)) = (&mut self.connection, &mut self.course.active) else { return };
        if !connection.established || self.course.broken {
            return;
        }
        if let Some(token) = &context.job.token {
            match connection.introduce(token.as_bytes()) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.lose_connection(context, error),
            }
        }
        if let Some(pursuit) = &mut self.pursuit {
            match write_first(pursuit, connection, active, context) {
                Ok(First::Wait(due)) => return context.schedule.add(due, Slot::Endpoint(self.endpoint)),
                Ok(First::Stop) => return,
                Ok(First::Done) => {}
                Err(error) => return self.lose_connection(context, error),
            }
        }
        connection.adapt(context.now);
        let zeros = context.zeros.as_slice();
        let mut budget = u64::from(connection.unsent_limit);
        while active.left != Some(0) {
            let room = budget.min(zeros.len() as u64);
            if room == 0 {
                // A very fast path would delay all other endpoints.
                context.hungry.push(self.endpoint);
                return;
            }
            let chunk = active.left.map_or(room, |left| left.min(room));
            match connection.write(&zeros[..chunk as usize], active.left == Some(chunk)) {
                Ok(taken) => {
                    active.left = active.left.map(|left| left - taken);
                    budget -= taken;
                    if taken < chunk {
                        // An event follows when there is room again.
                        return;
                    }
                }
                Err(error) => return self.lose_connection(context, error),
            }
        }
    }

    /// Ends the application's data; the data that fit in the send buffer are still sent.
    fn stop(&mut self, context: &mut Context) {
        let (Some(connection), Some(active)) = (&self.connection, &mut self.course.active) else { return };
        if !connection.established {
            active.left = Some(0);
            self.complete(context, context.now);
            return;
        }
        let queued = connection.payload(connection.written).min(connection.socket.unacknowledged().unwrap_or(0));
        // At least one byte, whose acknowledgement is the end.
        active.left = Some(self.tcp.send_buffer_bytes.saturating_sub(queued).max(1));
        self.write(context);
    }

    fn take_stamps(&mut self, context: &mut Context) -> Result<(), AgentError> {
        while let Some(connection) = &self.connection {
            let Some((byte, at)) = connection.socket.take_ack_stamp()? else { break };
            let written = self.course.active.as_ref().is_some_and(|active| active.left == Some(0));
            if written && byte == (connection.written as u32).wrapping_sub(1) {
                let at = context.plan_time(at);
                self.complete(context, at);
            }
        }
        Ok(())
    }

    fn complete(&mut self, context: &mut Context, at: Time) {
        let info = self.info();
        let after = self.totals(info.as_ref());
        if let Some(info) = &info {
            context.telemetry.observe(at, self.flow, info, &after);
        }
        self.end_transfer(context, at, after);
    }

    /// Handles a failed connection. A path that loses all packets is a result; a missing receiver is an error.
    fn lose_connection(&mut self, context: &mut Context, error: io::Error) {
        let place = context.describe(self.flow);
        if error.kind() == io::ErrorKind::TimedOut {
            context.warn(format!("{place}: the connection timed out at {:.3} s", context.now.as_secs_f64()));
            return self.give_up(context);
        }
        // At the plan's end, the receiver may just have left first.
        self.course.broken = true;
        let port = context.job.port(self.flow);
        context.fail(format!(
            "{place}: connection to port {port}: {error}; is the receiving agent running, and is there a route?"
        ));
    }

    fn give_up(&mut self, context: &mut Context) {
        let after = self.totals(self.info().as_ref());
        self.course.abandon(context, after);
        self.close(context);
        self.course.end_flow(context, context.now);
    }

    fn info(&self) -> Option<TcpInfo> {
        self.connection.as_ref().and_then(|connection| TcpInfo::of(&connection.socket).ok())
    }

    fn totals(&self, info: Option<&TcpInfo>) -> Totals {
        let (Some(info), Some(connection)) = (info, &self.connection) else { return self.course.base };
        let headers =
            HEADER_BYTES + if info.options & tcp_info::option::TIMESTAMPS != 0 { TIMESTAMPS_BYTES } else { 0 };
        let packets = u64::from(info.data_segs_out);
        let sent_bytes = connection.payload(info.bytes_sent);
        let here = Totals {
            acked_bytes: connection.payload(info.acked_payload(connection.written)),
            sent_bytes,
            sent_ip_bytes: sent_bytes + packets * headers,
            sent_packets: packets,
            retransmitted_packets: u64::from(info.total_retrans),
            timeouts: u64::from(info.total_rto),
            busy_ns: info.busy_us * 1_000,
            rwnd_limited_ns: info.rwnd_limited_us * 1_000,
            sndbuf_limited_ns: info.sndbuf_limited_us * 1_000,
        };
        self.course.base + here
    }
}

impl Transferring for TcpSender {
    fn course(&mut self) -> &mut Course {
        &mut self.course
    }

    fn close(&mut self, _: &Context) {
        self.course.base = self.totals(self.info().as_ref());
        self.connection = None;
    }
}

/// What is left to do of the segments that the kernel does not pace.
enum First {
    /// The next one is due then.
    Wait(Time),
    /// Nothing: the data end with them, or the window holds one back.
    Stop,
    /// Nothing: the kernel paces from here on.
    Done,
}

/// Writes the segments that are due and that the kernel does not pace.
fn write_first(
    pursuit: &mut Pursuit,
    connection: &mut Connection,
    active: &mut Active,
    context: &Context,
) -> io::Result<First> {
    while active.left != Some(0) {
        if let Some(due) = pursuit.wait(context.now) {
            return Ok(First::Wait(due));
        }
        let Some(room) = pursuit.segment(connection.written) else {
            return connection.permit_unsent().map(|()| First::Done);
        };
        let chunk = active.left.map_or(room, |left| left.min(room));
        let taken = connection.write(&context.zeros.as_slice()[..chunk as usize], active.left == Some(chunk))?;
        if taken == 0 {
            pursuit.hold();
            return Ok(First::Stop);
        }
        active.left = active.left.map(|left| left - taken);
        pursuit.wrote(context.now, taken);
    }
    Ok(First::Stop)
}

impl Connection {
    /// Payload among the first `bytes` of the stream.
    fn payload(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.token_bytes)
    }

    /// Writes what is left of the run's token, which shares a segment with the first payload; false without room.
    fn introduce(&mut self, token: &[u8]) -> io::Result<bool> {
        let left = token.get(self.written as usize..).unwrap_or_default();
        if !left.is_empty() {
            self.written += self.socket.send_ahead(left)?.unwrap_or(0) as u64;
        }
        Ok(self.written >= self.token_bytes)
    }

    /// Writes, and requests a timestamp of the last byte's acknowledgement; returns the bytes written.
    fn write(&mut self, bytes: &[u8], last: bool) -> io::Result<u64> {
        let taken = if last { self.socket.send_stamped(bytes) } else { self.socket.send(bytes) };
        let taken = taken?.unwrap_or(0) as u64;
        self.written += taken;
        Ok(taken)
    }

    /// Permits unsent bytes: the kernel paces.
    fn permit_unsent(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.ahead, true) {
            self.socket.set(IntOption::NotSentLowWater, self.unsent_limit)?;
        }
        Ok(())
    }

    /// Raises the limit of unsent bytes of a flow that has sent them quickly.
    fn adapt(&mut self, now: Time) {
        let soon = now.since(self.had_room_at).0 < BUSY_NS;
        self.had_room_at = now;
        if soon && self.unsent_limit < MAX_UNSENT_BYTES {
            self.unsent_limit *= 2;
            // The old limit works too.
            let _ = self.socket.set(IntOption::NotSentLowWater, self.unsent_limit);
        }
    }
}
