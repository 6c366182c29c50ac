//! The receiving end of a QUIC flow: a server on a UDP socket, which counts the data of each transfer.

use std::collections::BTreeMap;
use std::io;

use weir_plan::Source;
use weir_quic::Server;
use weir_sys::epoll::Interest;
use weir_sys::socket::{Peer, Socket};
use weir_units::Time;

use crate::context::Context;
use crate::error::AgentError;
use crate::open;
use crate::quic::{self, Anchor, MAX_DATAGRAM_BYTES};
use crate::schedule::Slot;
use crate::session::token;

/// Datagrams that are read before answers are sent.
const BATCH: usize = 32;

/// The receiving end of a QUIC flow.
pub struct QuicReceiver {
    flow: u32,
    endpoint: u32,
    socket: Socket,
    server: Server,
    anchor: Anchor,
    /// The instant for which this end is scheduled.
    armed: Time,
    /// Whether all transfers share one connection; otherwise each has its own.
    shared: bool,
    /// Bytes of this interval by transfer.
    fresh: BTreeMap<u32, u64>,
    buffer: Vec<u8>,
}

impl QuicReceiver {
    /// Opens the socket, and makes the server's key.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<QuicReceiver, AgentError> {
        let socket = open::udp_receiver(context, flow)?;
        socket.set_dscp(context.flow(flow).dscp)?;
        context.epoll.add(&socket, token(endpoint, 0), Interest::READ)?;
        let settings = quic::settings(context, flow, "server")?;
        let server = Server::new(&settings).map_err(|error| quic::failed(context, flow, &error))?;
        Ok(QuicReceiver {
            flow,
            endpoint,
            socket,
            server,
            anchor: Anchor::new(),
            armed: Time::MAX,
            shared: !matches!(context.flow(flow).source, Source::Transfers { keep_connection: false, .. }),
            fresh: BTreeMap::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        })
    }

    /// Handles datagrams.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_ready(&mut self, context: &mut Context) -> Result<(), AgentError> {
        loop {
            context.read_clock();
            let now = self.anchor.now(context);
            let mut count = 0;
            while count < BATCH
                && let Some((bytes, peer)) = self.socket.receive_from(&mut self.buffer)?
            {
                count += 1;
                // Datagrams before the start are probes of the path.
                if let Some(address) = peer.address().filter(|_| context.begun) {
                    self.server.receive(now, address, &self.buffer[..bytes]);
                }
            }
            self.proceed(context)?;
            if count < BATCH {
                return Ok(());
            }
        }
    }

    /// Continues at an instant that it has scheduled.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if context.now >= self.armed {
            self.armed = Time::MAX;
        }
        Ok(self.proceed(context)?)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        self.on_ready(context)?;
        for (transfer, bytes) in std::mem::take(&mut self.fresh) {
            context.telemetry.delivered(at, self.flow, transfer, bytes);
        }
        Ok(())
    }

    /// Serves timers, counts what came, and sends answers.
    fn proceed(&mut self, context: &mut Context) -> io::Result<()> {
        let now = self.anchor.now(context);
        self.server.on_time(now);
        let mut answer = Vec::new();
        while let Some(destination) = self.server.transmit(now, &mut answer) {
            // A peer that is gone, and a full queue, lose the datagram as a network would.
            let _ = self.socket.send_to(&answer, &Peer::from(destination));
        }
        for part in self.server.delivered() {
            let transfer = if self.shared { part.stream } else { part.connection };
            *self.fresh.entry(transfer).or_default() += part.bytes;
        }
        for _ in 0..self.server.strangers() {
            context.refuse(self.flow, &"a connection");
        }
        if let Some(deadline) = self.server.deadline() {
            let at = self.anchor.plan_time(context, deadline);
            if at < self.armed {
                self.armed = at;
                context.schedule.add(at, Slot::Endpoint(self.endpoint));
            }
        }
        Ok(())
    }
}
