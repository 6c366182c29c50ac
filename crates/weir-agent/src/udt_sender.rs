//! The sending end of a UDT flow: a UDP socket, and the sender of `weir-udt`, which the simulator has, too.

use std::io::{self, IoSlice};

use weir_sys::epoll::Interest;
use weir_sys::socket::Socket;
use weir_sys::{Errno, datagrams, would_block};
use weir_traffic::Job;
use weir_udt::wire::{self, Head, MOST_CONTROL_BYTES, Packet};
use weir_udt::{Control, Outgoing, Sender, Settings};
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::course::{Course, Transferring};
use crate::datagram::IP_UDP_BYTES;
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::telemetry::Totals;
use crate::udt::{self, HEADER, Names};

/// Maximum datagrams of one system call.
const BATCH: usize = 64;

/// The sending end of a UDT flow.
pub struct UdtSender {
    flow: u32,
    endpoint: u32,
    socket: Socket,
    settings: Settings,
    course: Course,
    /// The connection, or the last one.
    names: Names,
    connection: Option<Connection>,
    batch: Batch,
    /// The instant for which this end is scheduled.
    armed: Time,
    /// When packets were sent last: what could leave before was held back by the window.
    polled: Time,
    /// Data packets that the kernel refused.
    refused: u64,
    totals: Totals,
    /// Time from the instant at which a packet may leave to its system call.
    pub lateness: Histogram,
}

struct Connection {
    sender: Sender,
    since: Time,
    /// Timeouts and acknowledged bytes of earlier connections.
    before: (u64, u64),
}

/// Data packets that leave in one system call.
struct Batch {
    room: usize,
    packets: Vec<u8>,
    lengths: Vec<usize>,
}

impl UdtSender {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<UdtSender, AgentError> {
        let socket = open::udp_sender(context, flow)?;
        context.epoll.add(&socket, token(endpoint, 0), Interest::READ)?;
        let settings = udt::settings(context, flow);
        Ok(UdtSender {
            flow,
            endpoint,
            socket,
            course: Course::new(context, endpoint, flow),
            names: Names::new(context.job.token.as_ref(), 0),
            connection: None,
            batch: Batch::new(settings.payload_bytes as usize + HEADER),
            settings,
            armed: Time::MAX,
            polled: Time::ZERO,
            refused: 0,
            totals: Totals::default(),
            lateness: Histogram::default(),
        })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Continues at an instant that it has scheduled.
    pub fn on_due(&mut self, context: &mut Context) {
        if self.course.is_over() {
            return;
        }
        if context.now >= self.armed {
            self.armed = Time::MAX;
        }
        if let Some(start) = self.course.start(context) {
            self.take_next_job(context, start, start);
        }
        if self.course.stops(context.now)
            && let (Some(active), Some(connection)) = (&mut self.course.active, &mut self.connection)
        {
            active.left = Some(0);
            connection.sender.stop_writing();
        }
        if let Some(job) = self.course.take_due(context.now) {
            self.begin_transfer(context, job);
        }
        self.proceed(context);
    }

    /// Continues if its next transfer no longer waits for others.
    pub fn on_others(&mut self, context: &mut Context) {
        if let Some(ended) = self.course.resume() {
            self.take_next_job(context, ended, context.now);
            self.on_due(context);
        }
    }

    /// Reads the control packets that wait.
    pub fn on_ready(&mut self, context: &mut Context) {
        // One byte more than a packet has: what is longer is none.
        let mut buffer = [0; MOST_CONTROL_BYTES + 1];
        loop {
            match self.socket.receive(&mut buffer) {
                Ok(None) => break,
                // Datagrams before the start are probes of the path.
                Ok(Some(bytes)) if context.begun => self.take(context, &buffer[..bytes]),
                Ok(Some(_)) => {}
                Err(error) => {
                    self.on_error(context, &error);
                    break;
                }
            }
        }
        if !self.course.is_over() {
            self.proceed(context);
        }
    }

    /// Records the intervals of `measure` that end at `at`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due) {
        if !self.course.is_measured() {
            return;
        }
        if due.goodput {
            let totals = self.totals();
            self.course.record_sent(context, at, &totals);
        }
        let connection = self.connection.as_ref().filter(|it| due.tcp && it.sender.is_established());
        for (name, value) in connection.iter().flat_map(|it| it.sender.probes()) {
            let mut probe = [0; 16];
            probe[..name.len()].copy_from_slice(name.as_bytes());
            context.telemetry.probe(at, self.flow, probe, value);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        let after = self.totals();
        self.course.abandon(context, after);
        self.course.finish();
        if self.refused > 0 {
            let (place, all) = (context.describe(self.flow), self.refused + self.totals.sent_packets);
            context.warn(format!("{place}: this host did not take {} of {all} datagrams", self.refused));
        }
    }

    fn begin_transfer(&mut self, context: &mut Context, job: Job) {
        let before = self.totals();
        self.course.begin(context, job, self.connection.is_some(), before);
        if self.connection.is_none() {
            self.names = self.names.following(context.job.token.as_ref());
            let mut sender = Sender::new(self.settings.clone());
            sender.connect(context.now);
            let before = (before.timeouts, before.acked_bytes);
            self.connection = Some(Connection { sender, since: context.now, before });
            self.course.schedule_stop(context);
        }
        if let Some(connection) = &mut self.connection {
            connection.sender.write(job.bytes.unwrap_or(u64::MAX));
        }
    }

    /// Takes a datagram.
    fn take(&mut self, context: &mut Context, datagram: &[u8]) {
        let numbering = self.names.numbering();
        let near = self.connection.as_ref().map_or(0, |it| it.sender.una());
        let found = wire::read(datagram, numbering, near);
        let control = match found {
            Some((head, packet)) if self.names.knows(head.destination) => {
                // The other end may still speak of a connection that has ended here.
                if head.destination != self.names.sender || self.connection.is_none() {
                    return;
                }
                match packet {
                    Packet::Control(control) => Some(control),
                    Packet::Handshake(it) => self.names.answered(&it, &self.settings).map(Control::Handshake),
                    Packet::Data(_) => None,
                }
            }
            _ => None,
        };
        let Some(control) = control else { return context.refuse(self.flow, &"a packet of UDT") };
        let Some(connection) = &mut self.connection else { return };
        if connection.sender.on_control(context.now, control) {
            self.course.established(context);
        }
    }

    /// Serves the timers, sends what may leave, and schedules the next instant.
    fn proceed(&mut self, context: &mut Context) {
        if let Some(connection) = &mut self.connection {
            connection.sender.on_timer(context.now);
        }
        self.transmit(context);
        let over = self.connection.as_ref().is_some_and(|it| it.sender.is_idle());
        if over && self.course.active.is_some() {
            self.complete(context);
        }
        let due = self.connection.as_ref().map_or(Time::MAX, |it| it.sender.due());
        if due < self.armed {
            self.armed = due;
            context.schedule.add(due, Slot::Endpoint(self.endpoint));
        }
    }

    /// Sends what may leave now.
    fn transmit(&mut self, context: &mut Context) {
        let numbering = self.names.numbering();
        while let Some(connection) = &mut self.connection {
            let due = connection.sender.due();
            let Some(outgoing) = connection.sender.poll(context.now) else { break };
            let head =
                Head { stamp_us: udt::stamp_us(connection.since, context.now), destination: self.names.receiver };
            match outgoing {
                Outgoing::Control(Control::Handshake(step)) => {
                    let destination = if step == 1 { 0 } else { self.names.receiver };
                    let request = self.names.request(&self.settings, step);
                    self.send_control(context, &wire::write_handshake(Head { destination, ..head }, &request));
                }
                Outgoing::Control(control) => {
                    self.send_control(context, &wire::write_control(head, numbering, &control));
                }
                Outgoing::Data { number, bytes, resent } => {
                    if due >= self.polled {
                        self.lateness.add(context.now.since(due).0, 1);
                    }
                    self.totals.retransmitted_packets += u64::from(resent);
                    let packet = self.batch.push(bytes as usize + HEADER);
                    wire::write_data(head, numbering, number, packet);
                    if self.batch.is_full() {
                        self.send_batch(context);
                    }
                }
            }
        }
        self.polled = context.now;
        self.send_batch(context);
    }

    fn send_control(&mut self, context: &mut Context, packet: &[u8]) {
        if let Err(error) = self.socket.send(packet) {
            self.on_error(context, &error);
        }
    }

    fn send_batch(&mut self, context: &mut Context) {
        if self.batch.lengths.is_empty() {
            return;
        }
        let sent = match self.batch.send(&self.socket) {
            Ok(sent) => sent,
            Err(error) => {
                self.on_error(context, &error);
                0
            }
        };
        // What the kernel refuses is lost, as in the queue of a card.
        self.refused += (self.batch.lengths.len() - sent) as u64;
        for length in self.batch.lengths.drain(..).take(sent) {
            self.totals.sent_packets += 1;
            self.totals.sent_bytes += (length - HEADER) as u64;
            self.totals.sent_ip_bytes += length as u64 + u64::from(IP_UDP_BYTES);
        }
    }

    fn complete(&mut self, context: &mut Context) {
        let (at, after) = (context.now, self.totals());
        self.end_transfer(context, at, after);
    }

    fn totals(&self) -> Totals {
        let Some(Connection { sender, before: (timeouts, acked_bytes), .. }) = &self.connection else {
            return self.totals;
        };
        Totals {
            timeouts: timeouts + sender.timeouts(),
            acked_bytes: acked_bytes + sender.acked_bytes(),
            ..self.totals
        }
    }

    /// An error of the socket: the run fails, unless a queue is full or the flow has ended.
    fn on_error(&mut self, context: &mut Context, error: &io::Error) {
        let full = would_block(error) || Errno::from_io_error(error) == Some(Errno::NOBUFS);
        if !full && !self.course.is_over() {
            self.course.broken = true;
            let (place, port) = (context.describe(self.flow), context.job.port(self.flow));
            context.fail(format!("{place}: UDT to port {port}: {error}; is the receiving agent running?"));
        }
    }
}

impl Transferring for UdtSender {
    fn course(&mut self) -> &mut Course {
        &mut self.course
    }

    fn close(&mut self, _: &Context) {
        self.totals = self.totals();
        self.course.base = self.totals;
        self.connection = None;
    }
}

impl Batch {
    fn new(room: usize) -> Batch {
        Batch { room, packets: vec![0; room * BATCH], lengths: Vec::with_capacity(BATCH) }
    }

    fn is_full(&self) -> bool {
        self.lengths.len() == BATCH
    }

    /// Room for a packet of `length` bytes; its payload is 0.
    fn push(&mut self, length: usize) -> &mut [u8] {
        let start = self.lengths.len() * self.room;
        self.lengths.push(length);
        &mut self.packets[start..start + length]
    }

    /// Sends the packets; returns how many the kernel took.
    fn send(&self, socket: &Socket) -> io::Result<usize> {
        if let [length] = self.lengths[..] {
            return Ok(usize::from(socket.send(&self.packets[..length])?.is_some()));
        }
        let packets = self.packets.chunks_exact(self.room).zip(&self.lengths);
        let parts: Vec<_> = packets.map(|(packet, length)| IoSlice::new(&packet[..*length])).collect();
        match datagrams::send(socket, &parts) {
            Err(error) if would_block(&error) => Ok(0),
            other => other,
        }
    }
}
