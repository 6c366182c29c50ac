//! The receiving end of a UDT flow: a UDP socket, and the receiver of `weir-udt`, which the simulator has, too.

use std::io;

use weir_protocol::Token;
use weir_sys::datagrams::{self, Datagram};
use weir_sys::epoll::Interest;
use weir_sys::socket::{Peer, Socket};
use weir_udt::wire::{self, HANDSHAKE_BYTES, Handshake, Head, Packet};
use weir_udt::{Control, Receiver, Settings};
use weir_units::Time;

use crate::context::Context;
use crate::deliveries::Deliveries;
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;
use crate::session::token;
use crate::udt::{self, HEADER, Names};

/// Datagrams of one system call.
const BATCH: usize = 64;

/// The receiving end of a UDT flow.
///
/// The kernel stamps each datagram, so the time that this process takes does not count as time on the path.
pub struct UdtReceiver {
    flow: u32,
    endpoint: u32,
    socket: Socket,
    settings: Settings,
    token: Option<Token>,
    arrivals: datagrams::Receiver<HANDSHAKE_BYTES>,
    batch: Vec<Datagram<HANDSHAKE_BYTES>>,
    /// Whether the socket is connected to the sender: to the source of the first handshake of this run.
    connected: bool,
    /// Numbered 0 before the first connection.
    names: Names,
    receiver: Receiver,
    since: Time,
    deliveries: Deliveries,
    /// The last arrival; arrivals are taken in the order of their stamps.
    last: Time,
    /// The instant for which this end is scheduled.
    armed: Time,
    dropped: u32,
    /// Data packets that came, and those of them that had come before.
    pub received: u64,
    pub duplicates: u64,
}

impl UdtReceiver {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<UdtReceiver, AgentError> {
        let socket = open::udp_receiver(context, flow)?;
        socket.set_dscp(context.flow(flow).dscp)?;
        context.epoll.add(&socket, token(endpoint, 0), Interest::READ)?;
        let settings = udt::settings(context, flow);
        Ok(UdtReceiver {
            flow,
            endpoint,
            socket,
            token: context.job.token,
            arrivals: datagrams::Receiver::new(BATCH),
            batch: Vec::with_capacity(BATCH),
            connected: false,
            names: Names::new(context.job.token.as_ref(), 0),
            receiver: Receiver::new(settings.receive_buffer),
            settings,
            since: Time::ZERO,
            deliveries: Deliveries::new(context, flow),
            last: Time::ZERO,
            armed: Time::MAX,
            dropped: 0,
            received: 0,
            duplicates: 0,
        })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Handles datagrams.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_ready(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.read(context)
    }

    /// Continues at an instant that it has scheduled.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if context.now >= self.armed {
            self.armed = Time::MAX;
        }
        self.read(context)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        self.read(context)?;
        self.deliveries.record(context, at);
        Ok(())
    }

    /// Records the results at the end of the plan.
    pub fn finish(&self, context: &mut Context) {
        if self.dropped > 0 {
            let place = context.describe(self.flow);
            let text =
                format!("{place}: the receiving socket dropped {} datagrams: this host is too slow", self.dropped);
            context.warn(text);
        }
    }

    /// Takes what waits, serves the timers, and answers.
    fn read(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if !self.connected && !self.meet(context)? {
            return Ok(());
        }
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            batch.clear();
            let count = match self.arrivals.receive(&self.socket, |datagram| batch.push(datagram)) {
                Ok(count) => count,
                // The sender has left; what it sent before may wait still.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => BATCH,
                Err(error) => return Err(error.into()),
            };
            context.read_clock();
            // Timers go first: they were due before the last packets came.
            self.receiver.on_timer(context.now);
            for datagram in &batch {
                self.dropped = self.dropped.max(datagram.dropped);
                if !self.take(datagram, context.plan_time(datagram.at_ns)) {
                    context.refuse(self.flow, &"a packet of UDT");
                }
            }
            self.answer(context.now);
            self.batch = batch;
            if count < BATCH {
                break;
            }
        }
        let due = self.receiver.deadline();
        if due < self.armed {
            self.armed = due;
            context.schedule.add(due, Slot::Endpoint(self.endpoint));
        }
        Ok(())
    }

    /// Waits for the first handshake of this run, and connects the socket to its sender; false if none has come.
    fn meet(&mut self, context: &mut Context) -> Result<bool, AgentError> {
        // One byte more than a handshake has: what is longer is none.
        let mut buffer = [0; HANDSHAKE_BYTES + 1];
        while let Some((bytes, peer)) = self.socket.receive_from(&mut buffer)? {
            context.read_clock();
            // Datagrams before the start are probes of the path.
            if !context.begun {
                continue;
            }
            if self.begin(context, &buffer[..bytes], &peer)? {
                return Ok(true);
            }
            context.refuse(self.flow, &"a packet of UDT");
        }
        Ok(false)
    }

    /// Takes the first datagram; whether it is a handshake of this run.
    fn begin(&mut self, context: &Context, datagram: &[u8], peer: &Peer) -> io::Result<bool> {
        let found = wire::read(datagram, self.names.numbering(), 0);
        let (Some((head, Packet::Handshake(it))), Some(address)) = (found, peer.address()) else { return Ok(false) };
        if !self.take_handshake(head, &it, context.now) {
            return Ok(false);
        }
        self.socket.connect(address)?;
        self.connected = true;
        Ok(true)
    }

    /// Takes a datagram that came at `at`; whether it is one of this run.
    fn take(&mut self, datagram: &Datagram<HANDSHAKE_BYTES>, at: Time) -> bool {
        self.last = self.last.max(at);
        let bytes = datagram.bytes as usize;
        let found =
            wire::read(&datagram.head[..bytes.min(HANDSHAKE_BYTES)], self.names.numbering(), self.receiver.next());
        let Some((head, packet)) = found else { return false };
        if let Packet::Handshake(it) = packet {
            return bytes == HANDSHAKE_BYTES && self.take_handshake(head, &it, at);
        }
        if head.destination != self.names.receiver {
            // A packet of an earlier connection may be late.
            return self.names.receives(head.destination);
        }
        match packet {
            Packet::Data(number) => self.take_data(number, bytes - HEADER),
            Packet::Control(control @ Control::Ack2(_)) => {
                self.receiver.on_control(self.last, &control);
                true
            }
            Packet::Control(_) | Packet::Handshake(_) => false,
        }
    }

    fn take_data(&mut self, number: u64, payload: usize) -> bool {
        if payload == 0 || payload > self.settings.payload_bytes as usize || !self.receiver.has_room(number) {
            return false;
        }
        self.received += 1;
        if self.receiver.on_data(self.last, number) {
            self.deliveries.count(payload as u64);
        } else {
            self.duplicates += 1;
        }
        true
    }

    /// Takes a handshake; whether it is one of this connection, or begins the next one.
    fn take_handshake(&mut self, head: Head, it: &Handshake, at: Time) -> bool {
        let next = self.names.following(self.token.as_ref());
        let known = [self.names, next].into_iter().filter(|names| names.connection > 0);
        let found = known.filter_map(|names| Some((names, names.requested(it, &self.settings)?))).next();
        let Some((names, step)) = found else { return false };
        if head.destination != if step == 1 { 0 } else { names.receiver } {
            return false;
        }
        if names != self.names {
            if self.names.connection > 0 {
                self.deliveries.end_connection();
            }
            (self.names, self.since) = (names, at);
            self.receiver = Receiver::new(self.settings.receive_buffer);
        }
        self.receiver.on_control(at, &Control::Handshake(step));
        true
    }

    /// Sends what the receiver has to say.
    fn answer(&mut self, now: Time) {
        let head = Head { stamp_us: udt::stamp_us(self.since, now), destination: self.names.sender };
        while let Some(control) = self.receiver.poll() {
            let packet = match control {
                Control::Handshake(step) => wire::write_handshake(head, &self.names.answer(&self.settings, step)),
                control => wire::write_control(head, self.names.numbering(), &control),
            };
            // A full queue loses the packet as a network would; a sender that has left needs none.
            let _ = self.socket.send(&packet);
        }
    }
}
