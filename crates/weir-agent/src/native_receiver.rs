//! The receiving end of a flow over MPTCP or SCTP: reads and counts the data of each transfer.

use weir_sys::epoll::Interest;
use weir_sys::native::Protocol;
use weir_sys::socket::Socket;
use weir_units::Time;

use crate::context::Context;
use crate::deliveries::Deliveries;
use crate::error::AgentError;
use crate::native;
use crate::session::token;

const BUFFER_BYTES: usize = 256 << 10;

/// The receiving end.
pub struct NativeReceiver {
    flow: u32,
    endpoint: u32,
    generation: u32,
    protocol: Protocol,
    listener: Socket,
    connection: Option<Connection>,
    /// Connections that wait for the end of an earlier one, the first last.
    waiting: Vec<Socket>,
    deliveries: Deliveries,
    buffer: Vec<u8>,
}

struct Connection {
    socket: Socket,
    /// Bytes of the run's token that came and were right.
    shown: usize,
}

impl NativeReceiver {
    /// Opens the listening socket.
    ///
    /// # Errors
    /// The kernel of this host has no such protocol, or refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<NativeReceiver, AgentError> {
        let listener = native::listener(context, flow)?;
        context.epoll.add(&listener, token(endpoint, 0), Interest::READ)?;
        Ok(NativeReceiver {
            flow,
            endpoint,
            generation: 0,
            protocol: native::native_of(context, flow).0,
            listener,
            connection: None,
            waiting: Vec::new(),
            deliveries: Deliveries::new(context, flow),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Handles a connection or data.
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
        self.read(context)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        self.read(context)?;
        self.deliveries.record(context, at);
        Ok(())
    }

    /// Ends the connection at the end of the plan.
    pub fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.socket.abort();
        }
    }

    /// Reads what waits, of this connection and, if it has ended, of the next ones.
    fn read(&mut self, context: &mut Context) -> Result<(), AgentError> {
        loop {
            if self.connection.is_none() {
                let Some(socket) = self.waiting.pop() else { return Ok(()) };
                self.generation += 1;
                context.epoll.add(&socket, token(self.endpoint, self.generation), Interest::READ)?;
                self.connection = Some(Connection { socket, shown: 0 });
            }
            while let Some(connection) = &self.connection {
                match connection.socket.receive(&mut self.buffer) {
                    Ok(None) => return Ok(()),
                    Ok(Some(bytes)) if bytes > 0 => self.take(context, bytes),
                    // The stream or the connection has ended; the sender reports why.
                    Ok(Some(_)) | Err(_) => self.end_connection(),
                }
            }
        }
    }

    /// Counts `bytes` of the buffer, after the run's token.
    fn take(&mut self, context: &mut Context, bytes: usize) {
        let Some(connection) = &mut self.connection else { return };
        let token = context.job.token.as_ref().map_or(&[][..], |token| token.as_bytes());
        let expected = &token[connection.shown..];
        let shown = expected.len().min(bytes);
        if self.buffer[..shown] != expected[..shown] {
            // Not a connection of this run.
            self.connection = None;
            context.refuse(self.flow, &format!("a connection of {}", self.protocol.name()));
            return;
        }
        connection.shown += shown;
        self.deliveries.count((bytes - shown) as u64);
    }

    fn end_connection(&mut self) {
        self.connection = None;
        self.deliveries.end_connection();
    }
}
