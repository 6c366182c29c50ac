//! The receiving end of a DCCP flow: counts the datagrams of a connection, and the gaps in their numbers.

use weir_sys::epoll::Interest;
use weir_sys::socket::Socket;
use weir_units::Time;

use crate::context::Context;
use crate::datagram::{Header, Seal};
use crate::datagram_flow::Incoming;
use crate::dccp;
use crate::error::AgentError;
use crate::session::token;

/// The receiving end of a DCCP flow.
pub struct DccpReceiver {
    endpoint: u32,
    generation: u32,
    listener: Socket,
    connection: Option<Socket>,
    /// Connections that wait for the end of an earlier one, the first last.
    waiting: Vec<Socket>,
    seal: Seal,
    payload_bytes: usize,
    buffer: Vec<u8>,
    pub incoming: Incoming,
}

impl DccpReceiver {
    /// Opens the listening socket.
    ///
    /// # Errors
    /// The kernel of this host has no DCCP, or refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<DccpReceiver, AgentError> {
        let listener = dccp::listener(context, flow)?;
        context.epoll.add(&listener, token(endpoint, 0), Interest::READ)?;
        let payload_bytes = dccp::dccp_of(context, flow).payload_bytes as usize;
        Ok(DccpReceiver {
            endpoint,
            generation: 0,
            listener,
            connection: None,
            waiting: Vec::new(),
            seal: Seal::new(context.job.token),
            payload_bytes,
            // One byte more than a datagram has: what is longer is none of this run.
            buffer: vec![0; payload_bytes + 1],
            incoming: Incoming::new(flow),
        })
    }

    /// Handles a connection or datagrams.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32) -> Result<(), AgentError> {
        if generation == 0 {
            while let Some(socket) = self.listener.accept()? {
                // Connections before the start are probes of the path.
                if context.begun {
                    self.waiting.insert(0, socket);
                }
            }
        }
        self.read(context, Time::MAX)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        self.read(context, at)?;
        self.incoming.record(context, at);
        Ok(())
    }

    /// Ends the connection, and records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        if let Some(connection) = self.connection.take() {
            connection.abort();
        }
        self.incoming.finish(context);
    }

    /// Reads what waits, of this connection and, if it has ended, of the next ones.
    fn read(&mut self, context: &mut Context, tick: Time) -> Result<(), AgentError> {
        loop {
            if self.connection.is_none() {
                let Some(socket) = self.waiting.pop() else { return Ok(()) };
                self.generation += 1;
                context.epoll.add(&socket, token(self.endpoint, self.generation), Interest::READ)?;
                self.connection = Some(socket);
            }
            while let Some(connection) = &self.connection {
                match connection.receive(&mut self.buffer) {
                    Ok(None) => return Ok(()),
                    Ok(Some(bytes)) if bytes > 0 => self.take(context, bytes, tick),
                    // The connection has ended; the sender reports why.
                    Ok(Some(_)) | Err(_) => self.connection = None,
                }
            }
        }
    }

    /// Counts the datagram of `bytes` in the buffer.
    fn take(&mut self, context: &mut Context, bytes: usize, tick: Time) {
        let whole = bytes == self.payload_bytes;
        let Some(header) = Header::admitted(&self.buffer[..bytes], &self.seal).filter(|_| whole) else {
            self.connection = None;
            return context.refuse(self.incoming.flow(), &"a connection of DCCP");
        };
        // The kernel does not stamp datagrams of DCCP: this process reads them when they come, at a tick before it.
        self.incoming.count(bytes as u32, context.now.min(tick), tick);
        self.incoming.note(header.number);
    }
}
