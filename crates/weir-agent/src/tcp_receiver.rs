//! The receiving end of a TCP flow: takes what comes and counts it, transfer by transfer.

use weir_plan::Source;
use weir_units::Time;

use crate::context::Context;
use crate::error::AgentError;
use crate::open;
use crate::session::token;
use crate::sys::epoll::{Interest, Ready};
use crate::sys::socket::{IntOption, Socket};

/// More than any receive buffer holds.
const EVERYTHING: usize = 1 << 30;

/// The receiving end of a TCP flow.
pub struct TcpReceiver {
    flow: u32,
    endpoint: u32,
    generation: u32,
    listener: Socket,
    connection: Option<Socket>,
    /// Connections that wait for the one before to end.
    waiting: Vec<Socket>,
    unread_limit: u32,
    /// Sizes of the transfers of one connection; empty: a connection is a transfer.
    sizes: Vec<u64>,
    transfer: u32,
    /// Of the present transfer, delivered in all; of it, since the last tick.
    delivered: u64,
    fresh: u64,
    /// Transfers of this interval that are complete: number and bytes.
    complete: Vec<(u32, u64)>,
}

impl TcpReceiver {
    /// Listens.
    ///
    /// # Errors
    /// When a setting of the plan cannot be had here.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<TcpReceiver, AgentError> {
        let listener = open::tcp_listener(context, flow)?;
        context.epoll.add(&listener, token(endpoint, 0), Interest::READ)?;
        let plan = context.flow(flow);
        let sizes = match &plan.source {
            Source::Transfers { transfers, keep_connection: true } => transfers.iter().map(|t| t.bytes).collect(),
            _ => Vec::new(),
        };
        Ok(TcpReceiver {
            flow,
            endpoint,
            generation: 0,
            listener,
            connection: None,
            waiting: Vec::new(),
            unread_limit: open::unread_limit(open::tcp_of(plan).receive_buffer_bytes),
            sizes,
            transfer: 0,
            delivered: 0,
            fresh: 0,
            complete: Vec::new(),
        })
    }

    /// A connection has come, or data.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32, _ready: Ready) -> Result<(), AgentError> {
        if generation == 0 {
            return self.accept(context);
        }
        if generation == self.generation {
            self.read(context)?;
        }
        Ok(())
    }

    /// The end of an interval of `measure.goodput`.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        self.read(context)?;
        for (transfer, bytes) in self.complete.drain(..) {
            context.telemetry.delivered(at, self.flow, transfer, bytes);
        }
        if self.fresh > 0 {
            context.telemetry.delivered(at, self.flow, self.transfer, self.fresh);
            self.fresh = 0;
        }
        Ok(())
    }

    /// The plan has ended.
    pub fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.abort();
        }
    }

    fn accept(&mut self, context: &mut Context) -> Result<(), AgentError> {
        while let Some(socket) = self.listener.accept()? {
            // Before the start, somebody probes the path.
            if context.begun() {
                self.waiting.insert(0, socket);
            }
        }
        if self.connection.is_none() { self.next_connection(context) } else { Ok(()) }
    }

    /// Takes the connection that came next, if there is one.
    fn next_connection(&mut self, context: &mut Context) -> Result<(), AgentError> {
        while let Some(socket) = self.waiting.pop() {
            self.generation += 1;
            socket.set(IntOption::ReceiveLowWater, self.unread_limit)?;
            context.epoll.add(&socket, token(self.endpoint, self.generation), Interest::READ)?;
            self.connection = Some(socket);
            self.read_one();
            if self.connection.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.read_one();
        if self.connection.is_none() { self.next_connection(context) } else { Ok(()) }
    }

    /// Takes all that is there.
    fn read_one(&mut self) {
        let Some(connection) = &self.connection else { return };
        match connection.discard(EVERYTHING) {
            Ok(None) => {}
            Ok(Some(bytes)) if bytes > 0 => {
                self.count(bytes as u64);
                // What has come behind the end of a stream is a zero read; without a look it would be seen too late.
                self.read_end();
            }
            // The end of the stream, or of the connection: its sender will tell why.
            Ok(Some(_)) | Err(_) => self.end_connection(),
        }
    }

    fn read_end(&mut self) {
        loop {
            let Some(connection) = &self.connection else { return };
            match connection.discard(EVERYTHING) {
                Ok(None) => return,
                Ok(Some(bytes)) if bytes > 0 => self.count(bytes as u64),
                Ok(Some(_)) | Err(_) => self.end_connection(),
            }
        }
    }

    fn end_connection(&mut self) {
        self.connection = None;
        if self.sizes.is_empty() {
            self.complete_transfer();
        }
    }

    fn count(&mut self, mut bytes: u64) {
        while let Some(size) = self.sizes.get(self.transfer as usize) {
            let here = bytes.min(size - self.delivered);
            self.delivered += here;
            self.fresh += here;
            bytes -= here;
            if self.delivered < *size {
                return;
            }
            self.complete_transfer();
        }
        self.delivered += bytes;
        self.fresh += bytes;
    }

    fn complete_transfer(&mut self) {
        if self.fresh > 0 {
            self.complete.push((self.transfer, self.fresh));
        }
        self.transfer += 1;
        (self.delivered, self.fresh) = (0, 0);
    }
}
