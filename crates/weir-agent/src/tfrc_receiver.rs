//! The receiving end of a TFRC flow: a UDP socket, and the receiver of `weir-tfrc`, which the simulator has, too.

use weir_sys::epoll::Interest;
use weir_sys::socket::Socket;
use weir_tfrc::{Feedback, Receiver};
use weir_units::{Dur, Time};

use crate::context::Context;
use crate::datagram::{Arrivals, Header, Seal};
use crate::datagram_flow::Incoming;
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;
use crate::session::token;
use crate::tfrc;

/// The receiving end of a TFRC flow.
///
/// The kernel stamps each datagram. A report says how long ago the last one came, so the time that this process takes does not
/// count as time on the path.
pub struct TfrcReceiver {
    endpoint: u32,
    socket: Socket,
    receiver: Receiver,
    seal: Seal,
    arrivals: Arrivals,
    payload_bytes: u32,
    /// Whether the socket is connected to the sender: to the source of the first datagram of this run.
    connected: bool,
    /// The last arrival; arrivals are taken in the order of their stamps.
    last: Time,
    /// The instant for which this end is scheduled.
    armed: Time,
    pub incoming: Incoming,
    /// Reports sent.
    pub reports: u64,
}

impl TfrcReceiver {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<TfrcReceiver, AgentError> {
        let socket = open::udp_receiver(context, flow)?;
        socket.set_dscp(context.flow(flow).dscp)?;
        context.epoll.add(&socket, token(endpoint, 0), Interest::READ)?;
        let (payload_bytes, seal) = (tfrc::payload_bytes(context, flow), Seal::new(context.job.token));
        Ok(TfrcReceiver {
            endpoint,
            socket,
            receiver: Receiver::new(payload_bytes),
            seal,
            arrivals: Arrivals::new(payload_bytes, seal),
            payload_bytes,
            connected: false,
            last: Time::ZERO,
            armed: Time::MAX,
            incoming: Incoming::new(flow),
            reports: 0,
        })
    }

    /// Handles datagrams.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_ready(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.read(context, Time::MAX)
    }

    /// Continues at an instant that it has scheduled.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if context.now >= self.armed {
            self.armed = Time::MAX;
        }
        self.read(context, Time::MAX)
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) -> Result<(), AgentError> {
        self.read(context, at)?;
        self.incoming.record(context, at);
        Ok(())
    }

    /// Records the results at the end of the plan.
    pub fn finish(&self, context: &mut Context) {
        self.incoming.finish(context);
    }

    /// Takes what waits, and serves the feedback timer.
    fn read(&mut self, context: &mut Context, tick: Time) -> Result<(), AgentError> {
        if !self.connected && !self.meet(context)? {
            return Ok(());
        }
        loop {
            let count = match self.arrivals.receive(&self.socket) {
                Ok(count) => count,
                // The sender has left; what it sent before may wait still.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error.into()),
            };
            context.read_clock();
            for index in 0..count {
                let arrival = self.arrivals.get(index);
                self.incoming.note_dropped(arrival.dropped);
                match arrival.header.filter(|_| arrival.admitted) {
                    Some(header) => self.take(context, &header, context.plan_time(arrival.at_ns), tick),
                    None => context.refuse(self.incoming.flow(), &"a datagram"),
                }
            }
            if count < self.arrivals.room() {
                break;
            }
        }
        let timed = self.receiver.on_timer(context.now);
        self.send(context, timed, context.now);
        let due = self.receiver.deadline();
        if due < self.armed {
            self.armed = due;
            context.schedule.add(due, Slot::Endpoint(self.endpoint));
        }
        Ok(())
    }

    /// Waits for the first datagram of this run, and connects the socket to its sender; false if none has come.
    fn meet(&mut self, context: &mut Context) -> Result<bool, AgentError> {
        // One byte more than a datagram has: what is longer is none of this run.
        let mut buffer = vec![0; self.payload_bytes as usize + 1];
        while let Some((bytes, peer)) = self.socket.receive_from(&mut buffer)? {
            context.read_clock();
            // Datagrams before the start are probes of the path.
            if !context.begun {
                continue;
            }
            let whole = bytes == self.payload_bytes as usize;
            let header = Header::admitted(&buffer[..bytes], &self.seal).filter(|_| whole);
            let (Some(header), Some(address)) = (header, peer.address()) else {
                context.refuse(self.incoming.flow(), &"a datagram");
                continue;
            };
            self.socket.connect(address)?;
            self.connected = true;
            self.take(context, &header, context.now, Time::MAX);
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes a datagram that came at `at`.
    fn take(&mut self, context: &mut Context, header: &Header, at: Time, tick: Time) {
        self.incoming.count(self.payload_bytes, at, tick);
        self.incoming.note(header.number);
        self.last = self.last.max(at);
        let timed = self.receiver.on_timer(self.last);
        self.send(context, timed, self.last);
        let asked = self.receiver.on_data(self.last, tfrc::data(header));
        self.send(context, asked, self.last);
    }

    /// Sends a report that was due at `at`.
    fn send(&mut self, context: &Context, report: Option<Feedback>, at: Time) {
        let Some(report) = report else { return };
        let late = Dur(context.now.0.saturating_sub(at.0));
        let report = Feedback { delay: Dur(report.delay.0 + late.0), ..report };
        // A full queue loses the report as a network would; a sender that has left needs none.
        let _ = self.socket.send(&tfrc::write_report(&report, context.job.token.as_ref()));
        self.reports += 1;
    }
}
