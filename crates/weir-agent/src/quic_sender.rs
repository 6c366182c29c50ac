//! The sending end of a QUIC flow: a client on a UDP socket, which sends transfers as streams of its connection.

use std::io;
use std::time::Duration;

use weir_quic::{Client, Event, Settings, State, Turn};
use weir_run::{EventKind, SampleRow};
use weir_sys::Errno;
use weir_sys::epoll::Interest;
use weir_sys::socket::Socket;
use weir_traffic::Job;
use weir_units::Time;

use crate::context::Context;
use crate::course::{Course, Transferring};
use crate::datagram::IP_UDP_BYTES;
use crate::error::AgentError;
use crate::open;
use crate::quic::{self, Anchor, MAX_DATAGRAM_BYTES};
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::telemetry::Totals;

const NULL_U32: u32 = u32::MAX;
const NULL_U64: u64 = u64::MAX;
const CA_OPEN: u8 = 0;
const CA_RECOVERY: u8 = 3;
/// Bytes written at a time to a flow without an end.
const CHUNK_BYTES: u64 = 1 << 20;
/// Time after which a socket without room is tried again.
const RETRY_NS: u64 = 1_000_000;

/// The sending end of a QUIC flow.
pub struct QuicSender {
    flow: u32,
    endpoint: u32,
    generation: u32,
    settings: Settings,
    anchor: Anchor,
    course: Course,
    /// The socket of the first connection, opened before the start.
    spare: Option<Socket>,
    connection: Option<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    socket: Socket,
    client: Client,
    established: bool,
    /// Whether the stream of the transfer under way is finished.
    whole: bool,
    /// A datagram for which the socket had no room.
    held: Option<Vec<u8>>,
    /// The instant for which this end is scheduled.
    armed: Time,
}

impl QuicSender {
    /// Opens the first socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<QuicSender, AgentError> {
        let settings = quic::settings(context, flow, "client")?;
        let spare = Some(open::udp_sender(context, flow)?);
        Ok(QuicSender {
            flow,
            endpoint,
            generation: 0,
            settings,
            anchor: Anchor::new(),
            course: Course::new(context, endpoint, flow),
            spare,
            connection: None,
            buffer: vec![0; MAX_DATAGRAM_BYTES],
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
        self.proceed(context);
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

    /// Reads the datagrams that wait.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32) -> Result<(), AgentError> {
        if generation != self.generation || self.course.broken {
            return Ok(());
        }
        let now = self.anchor.now(context);
        while let Some(connection) = &mut self.connection {
            match connection.socket.receive(&mut self.buffer) {
                Ok(Some(bytes)) => connection.client.receive(now, &self.buffer[..bytes]),
                Ok(None) => break,
                Err(error) => {
                    self.fail(context, &error);
                    return Ok(());
                }
            }
        }
        self.proceed(context);
        self.on_due(context)
    }

    /// Records the ticks of `measure`, for tables `sent` and `samples`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due) {
        if !self.course.is_measured() {
            return;
        }
        let totals = self.totals();
        if let (true, Some(connection), Some(_)) = (due.tcp, &self.connection, &self.course.active)
            && connection.established
        {
            let row = self.sample(at, &connection.client.state(), &totals);
            context.telemetry.foreign_sample(row);
        }
        if due.goodput {
            self.course.record_sent(context, at, &totals);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        self.observe(context);
        let after = self.totals();
        self.course.abandon(context, after);
        self.course.finish();
        self.connection = None;
    }

    fn begin_transfer(&mut self, context: &mut Context, job: Job) -> Result<(), AgentError> {
        let before = self.totals();
        self.course.begin(context, job, self.connection.is_some(), before);
        match &mut self.connection {
            Some(connection) => connection.whole = false,
            None => self.connect(context)?,
        }
        Ok(())
    }

    fn connect(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let socket = match self.spare.take() {
            Some(socket) => socket,
            None => open::udp_sender(context, self.flow)?,
        };
        self.generation += 1;
        context.epoll.add(&socket, token(self.endpoint, self.generation), Interest::READ)?;
        let (now, receiver) = (self.anchor.now(context), context.receiver(self.flow));
        let client = Client::new(&self.settings, now, receiver);
        let client = client.map_err(|error| quic::failed(context, self.flow, &error))?;
        self.connection =
            Some(Connection { socket, client, established: false, whole: false, held: None, armed: Time::MAX });
        self.course.schedule_stop(context);
        Ok(())
    }

    /// Serves timers and events, writes, and sends what may be sent.
    fn proceed(&mut self, context: &mut Context) {
        let now = self.anchor.now(context);
        if let Some(connection) = &mut self.connection {
            connection.client.on_time(now);
        }
        while let Some(event) = self.connection.as_mut().and_then(|connection| connection.client.event()) {
            match event {
                Event::Established => self.on_established(context),
                Event::Acknowledged => self.complete(context),
                Event::Lost(reason) => return self.lose(context, &reason),
            }
        }
        self.observe(context);
        self.write();
        if let Err(error) = self.transmit(context) {
            return self.fail(context, &error);
        }
        self.arm(context);
    }

    fn on_established(&mut self, context: &mut Context) {
        let Some(connection) = self.connection.as_mut().filter(|_| self.course.active.is_some()) else { return };
        connection.established = true;
        self.course.established(context);
    }

    /// Writes as much as the connection takes.
    fn write(&mut self) {
        let (Some(connection), Some(active)) = (&mut self.connection, &mut self.course.active) else { return };
        if !connection.established || connection.whole {
            return;
        }
        loop {
            let wanted = active.left.unwrap_or(CHUNK_BYTES);
            let taken = connection.client.write(wanted);
            active.left = active.left.map(|left| left - taken);
            if active.left == Some(0) {
                connection.client.finish();
                connection.whole = true;
                return;
            }
            if taken < wanted {
                return;
            }
        }
    }

    fn transmit(&mut self, context: &Context) -> io::Result<()> {
        let now = self.anchor.now(context);
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let mut datagram = connection.held.take().unwrap_or_default();
        while !datagram.is_empty() || connection.client.transmit(now, &mut datagram) {
            if !take(&connection.socket, &datagram)? {
                connection.held = Some(datagram);
                break;
            }
            datagram.clear();
        }
        Ok(())
    }

    /// Schedules this end for the protocol's next deadline.
    fn arm(&mut self, context: &mut Context) {
        let Some(connection) = &mut self.connection else { return };
        let retry = connection.held.is_some().then_some(Time(context.now.0 + RETRY_NS));
        let deadline = connection.client.deadline().map(|at| self.anchor.plan_time(context, at));
        let Some(at) = retry.into_iter().chain(deadline).min() else { return };
        if at < connection.armed {
            connection.armed = at;
            context.schedule.add(at, Slot::Endpoint(self.endpoint));
        }
    }

    fn complete(&mut self, context: &mut Context) {
        self.observe(context);
        let (at, after) = (context.now, self.totals());
        self.end_transfer(context, at, after);
    }

    /// Ends the flow after the connection was lost. The run goes on: the path may lose everything.
    fn lose(&mut self, context: &mut Context, reason: &str) {
        let place = context.describe(self.flow);
        context.warn(format!("{place}: the connection was lost at {:.3} s: {reason}", context.now.as_secs_f64()));
        let after = self.totals();
        self.course.abandon(context, after);
        self.course.base = self.totals();
        self.connection = None;
        self.course.end_flow(context, context.now);
    }

    /// Fails the run: nobody receives, or this host does not send.
    fn fail(&mut self, context: &mut Context, error: &io::Error) {
        self.course.broken = true;
        let (place, port) = (context.describe(self.flow), context.job.port(self.flow));
        context
            .fail(format!("{place}: QUIC to port {port}: {error}; is the receiving agent running, and a route there?"));
    }

    /// Records the changes of the sender's state.
    fn observe(&mut self, context: &mut Context) {
        let Some(connection) = &mut self.connection else { return };
        for moment in connection.client.moments() {
            let at = self.anchor.plan_time(context, moment.at);
            let (kind, cwnd) = match moment.turn {
                Turn::Recovery => (EventKind::Recovery, moment.cwnd),
                Turn::RecoveryEnd => (EventKind::RecoveryEnd, 0),
                Turn::Collapse => (EventKind::Rto, moment.cwnd),
            };
            let packets = cwnd / u64::from(self.settings.payload_bytes);
            context.telemetry.event(at, kind, self.flow, packets as i64);
        }
    }

    fn sample(&self, at: Time, state: &State, totals: &Totals) -> SampleRow {
        let packets = |bytes: u64| (bytes / u64::from(self.settings.payload_bytes)).min(u64::from(NULL_U32 - 1)) as u32;
        let ns = |time: Option<Duration>| time.map_or(NULL_U64, |time| time.as_nanos() as u64);
        SampleRow {
            time_ns: at.0,
            flow: self.flow,
            cwnd: packets(state.cwnd),
            ssthresh: state.ssthresh.map_or(NULL_U32, packets),
            in_flight: packets(state.in_flight + u64::from(self.settings.payload_bytes) - 1),
            srtt_ns: ns(state.srtt),
            min_rtt_ns: ns(state.min_rtt),
            pacing_rate_bps: state.pacing_rate_bps.unwrap_or(NULL_U64),
            acked_bytes: totals.acked_bytes,
            sent_bytes: totals.sent_bytes,
            retransmitted_packets: totals.retransmitted_packets,
            timeouts: totals.timeouts as u32,
            ca_state: if state.recovering { CA_RECOVERY } else { CA_OPEN },
        }
    }

    fn totals(&self) -> Totals {
        let Some(connection) = &self.connection else { return self.course.base };
        let state = connection.client.state();
        let here = Totals {
            acked_bytes: state.acked_bytes,
            sent_bytes: state.sent_bytes,
            sent_ip_bytes: state.udp_bytes + state.datagrams * u64::from(IP_UDP_BYTES),
            sent_packets: state.datagrams,
            retransmitted_packets: state.lost_packets,
            timeouts: state.collapses,
            ..Totals::default()
        };
        self.course.base + here
    }
}

impl Transferring for QuicSender {
    fn course(&mut self) -> &mut Course {
        &mut self.course
    }

    /// Tells the server that the connection ends, and forgets it.
    fn close(&mut self, context: &Context) {
        let now = self.anchor.now(context);
        if let Some(connection) = &mut self.connection {
            connection.client.close(now);
        }
        // Without this packet, the server keeps a connection on which nothing comes.
        let _ = self.transmit(context);
        self.course.base = self.totals();
        self.connection = None;
    }
}

/// Sends a datagram; false without room. A full queue of this host loses it, as a network would.
fn take(socket: &Socket, datagram: &[u8]) -> io::Result<bool> {
    match socket.send(datagram) {
        Ok(sent) => Ok(sent.is_some()),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => Ok(true),
        Err(error) => Err(error),
    }
}
