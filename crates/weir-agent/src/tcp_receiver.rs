//! The receiving end of a TCP flow: reads and counts the data of each transfer.

use std::io;

use weir_sys::epoll::{Interest, Ready};
use weir_sys::socket::{IntOption, Socket};
use weir_units::Time;

use crate::context::Context;
use crate::deliveries::Deliveries;
use crate::error::AgentError;
use crate::newcomers::{NEWCOMER, Newcomers};
use crate::open;
use crate::session::token;
use crate::window::{WindowKeeper, WindowPlan};

/// Most bytes that one system call reads. A socket acknowledges nothing while it is being read, and some megabytes may wait.
const PIECE_BYTES: usize = 1 << 16;

/// The receiving end of a TCP flow.
pub struct TcpReceiver {
    endpoint: u32,
    generation: u32,
    listener: Socket,
    connection: Option<Connection>,
    /// Connections that wait for the end of an earlier one; with a window if they were newcomers.
    waiting: Vec<(Socket, Option<WindowKeeper>)>,
    /// In a run with a token.
    newcomers: Option<Newcomers>,
    window: WindowPlan,
    deliveries: Deliveries,
}

struct Connection {
    socket: Socket,
    keeper: WindowKeeper,
    /// Waiting bytes that wake this end; 0 before they were chosen.
    low_water: u32,
    /// Bytes that are counted and wait unread.
    counted: u64,
}

impl TcpReceiver {
    /// Opens the listening socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<TcpReceiver, AgentError> {
        let listener = open::tcp_listener(context, flow)?;
        context.epoll.add(&listener, token(endpoint, 0), Interest::READ)?;
        let window = open::window_of(context, flow);
        Ok(TcpReceiver {
            endpoint,
            generation: 0,
            listener,
            connection: None,
            waiting: Vec::new(),
            newcomers: Newcomers::new(context, endpoint, flow),
            window,
            deliveries: Deliveries::new(context, flow),
        })
    }

    /// Handles a connection or data.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32, ready: Ready) -> Result<(), AgentError> {
        if generation == 0 {
            return self.accept(context);
        }
        if generation == NEWCOMER {
            return self.admit(context);
        }
        if generation == self.generation {
            self.read(context, ready.ended())?;
        }
        Ok(())
    }

    /// Closes connections that have not shown the run's token in time.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.admit(context)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        if let Some(connection) = &mut self.connection
            && let Ok(waiting) = connection.socket.waiting()
        {
            self.deliveries.count(waiting.saturating_sub(connection.counted));
            connection.counted = waiting.max(connection.counted);
        }
        self.deliveries.record(context, at);
        Ok(())
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.socket.abort();
        }
    }

    fn accept(&mut self, context: &mut Context) -> Result<(), AgentError> {
        while let Some(socket) = self.listener.accept()? {
            // Connections before the start are probes of the path.
            if !context.begun {
                continue;
            }
            match &mut self.newcomers {
                None => self.waiting.insert(0, (socket, None)),
                Some(newcomers) => {
                    let keeper = WindowKeeper::new(self.window, &socket, context.now)?;
                    newcomers.take(context, (socket, keeper))?;
                    self.screen(context);
                }
            }
        }
        if self.connection.is_none() { self.next_connection(context) } else { Ok(()) }
    }

    /// Continues with the connections that have shown the run's token.
    fn admit(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.screen(context);
        if self.connection.is_none() { self.next_connection(context) } else { Ok(()) }
    }

    fn screen(&mut self, context: &mut Context) {
        if let Some(newcomers) = &mut self.newcomers {
            for (socket, keeper) in newcomers.screen(context) {
                self.waiting.insert(0, (socket, Some(keeper)));
            }
        }
    }

    /// Takes the next waiting connection, if there is one.
    fn next_connection(&mut self, context: &mut Context) -> Result<(), AgentError> {
        while let Some((socket, keeper)) = self.waiting.pop() {
            self.generation += 1;
            let token = token(self.endpoint, self.generation);
            let keeper = match keeper {
                None => {
                    let keeper = WindowKeeper::new(self.window, &socket, context.now)?;
                    context.epoll.add(&socket, token, Interest::READ)?;
                    keeper
                }
                Some(keeper) => {
                    context.epoll.change(&socket, token, Interest::READ)?;
                    keeper
                }
            };
            self.connection = Some(Connection { socket, keeper, low_water: 0, counted: 0 });
            self.read_one(true);
            self.choose_low_water()?;
            if self.connection.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, context: &mut Context, ended: bool) -> Result<(), AgentError> {
        let taken = self.read_one(ended);
        if let Some(Connection { socket, keeper, .. }) = &mut self.connection {
            keeper.look(socket, context.now, taken)?;
        }
        self.choose_low_water()?;
        if self.connection.is_none() { self.next_connection(context) } else { Ok(()) }
    }

    /// Sets how many waiting bytes wake this end: at most the rest of the transfer, because the last segment is
    /// acknowledged at once only if it is read at once.
    fn choose_low_water(&mut self) -> io::Result<()> {
        let left = self.left_unread();
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let wanted = u64::from(connection.keeper.unread_bytes()).min(left).max(1) as u32;
        if connection.low_water == wanted {
            return Ok(());
        }
        connection.low_water = wanted;
        connection.socket.set(IntOption::ReceiveLowWater, wanted)
    }

    /// Unread bytes of the present transfer, whether they have come or not; [`u64::MAX`] if it has no end.
    fn left_unread(&self) -> u64 {
        let counted = self.connection.as_ref().map_or(0, |connection| connection.counted);
        self.deliveries.left().saturating_add(counted)
    }

    /// Reads waiting data in pieces; if the peer may have `ended`, also the end. Returns the bytes read.
    ///
    /// One byte stays until the transfer is complete: Linux acknowledges a single pushed segment when a program has read
    /// all that waits (`tcp_cleanup_rbuf`). This end reads seldom, to save time; when it does, must not matter. Not so of a
    /// window that limits, of which the byte's buffer of up to 64 kB would take a part.
    fn read_one(&mut self, ended: bool) -> u64 {
        let left = self.left_unread();
        let mut rest = u64::MAX;
        if let Some(Connection { socket, low_water, keeper, .. }) = &self.connection
            && !ended
            && *low_water > 1
            && !keeper.limits()
            && let Ok(waiting) = socket.waiting()
            && waiting < left
        {
            rest = waiting.saturating_sub(1);
        }
        let mut taken = 0;
        while let Some(connection) = &mut self.connection
            && rest > 0
        {
            let piece = usize::try_from(rest).unwrap_or(usize::MAX).min(PIECE_BYTES);
            match connection.socket.discard(piece) {
                Ok(None) => break,
                Ok(Some(bytes)) if bytes > 0 => {
                    let read = bytes as u64;
                    let fresh = read.saturating_sub(connection.counted);
                    connection.counted = connection.counted.saturating_sub(read);
                    taken += read;
                    rest -= read;
                    self.deliveries.count(fresh);
                    if bytes < piece && !ended {
                        break;
                    }
                }
                // The stream or the connection has ended; the sender reports why.
                Ok(Some(_)) | Err(_) => self.end_connection(),
            }
        }
        taken
    }

    fn end_connection(&mut self) {
        self.connection = None;
        self.deliveries.end_connection();
    }
}
