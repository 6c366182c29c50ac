//! The sending end of a DCCP flow: the kernel controls its rate, and this end keeps the socket's buffer full.

use std::io;

use weir_sys::epoll::{Interest, Ready};
use weir_units::Time;

use crate::context::Context;
use crate::datagram::Header;
use crate::datagram_flow::Outgoing;
use crate::dccp::{self, HEADER_BYTES};
use crate::error::AgentError;
use crate::schedule::Slot;
use crate::session::{Due, token};

/// Datagrams offered in one turn.
const TURN: u32 = 64;

/// The sending end of a DCCP flow.
pub struct DccpSender {
    endpoint: u32,
    outgoing: Outgoing,
    payload_bytes: u32,
    /// Whether the kernel tells the state of its congestion control.
    is_shown: bool,
    /// Number of the next datagram.
    next: u64,
    stop: Time,
    started: bool,
}

impl DccpSender {
    /// Opens the socket.
    ///
    /// # Errors
    /// The kernel of this host has no DCCP, or refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<DccpSender, AgentError> {
        let socket = dccp::sender(context, flow)?;
        let settings = dccp::dccp_of(context, flow);
        let (payload_bytes, is_shown) = (settings.payload_bytes, settings.ccid == 3);
        let stop = context.flow(flow).stop_ns.map_or(Time::MAX, Time);
        let outgoing = Outgoing::new(context, flow, socket, payload_bytes, HEADER_BYTES);
        Ok(DccpSender { endpoint, outgoing, payload_bytes, is_shown, next: 0, stop, started: false })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.outgoing.flow()
    }

    /// Continues at an instant that it has scheduled: its start, or its stop.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if !self.started {
            self.started = true;
            self.outgoing.start(context);
            context.schedule.add(self.stop, Slot::Endpoint(self.endpoint));
            return self.connect(context);
        }
        if context.now >= self.stop && !self.outgoing.is_finished() {
            // The kernel still sends what its buffer holds.
            self.outgoing.end(context);
        }
        Ok(())
    }

    /// Continues after an event of its socket.
    pub fn on_ready(&mut self, context: &mut Context, ready: Ready) {
        let error = self.outgoing.socket.take_error();
        if let Some(error) = error.or_else(|| ready.ended().then(|| io::ErrorKind::ConnectionReset.into())) {
            return self.outgoing.on_error(context, &error);
        }
        if self.outgoing.established.is_none() && ready.writable() {
            self.on_established(context);
        }
        self.write(context);
    }

    /// Offers datagrams while the kernel takes them, at most some in one turn.
    pub fn write(&mut self, context: &mut Context) {
        if self.outgoing.established.is_none() || self.outgoing.is_finished() || context.now >= self.stop {
            return;
        }
        for _ in 0..TURN {
            let header = Header { number: self.next, due_ns: context.now.0, sent_ns: context.now.0 };
            // Without room, an event follows when there is some.
            if !self.outgoing.offer(context, &header) {
                return;
            }
            self.next += 1;
        }
        context.hungry.push(self.endpoint);
    }

    /// Records the intervals of `measure` that end at `at`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time, due: Due) {
        if !self.started {
            return;
        }
        if due.goodput {
            self.outgoing.record_sent(context, at);
        }
        if due.tcp && self.is_shown && !self.outgoing.is_finished() {
            self.show(context, at);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        self.outgoing.finish(context, self.started);
    }

    fn connect(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let result = self.outgoing.socket.connect(context.receiver(self.flow()));
        context.epoll.add(&self.outgoing.socket, token(self.endpoint, 0), Interest::WRITE)?;
        if let Err(error) = result {
            self.outgoing.on_error(context, &error);
        }
        Ok(())
    }

    fn on_established(&mut self, context: &mut Context) {
        self.outgoing.established = Some(context.now);
        let room = self.outgoing.socket.dccp_room().unwrap_or(self.payload_bytes);
        if room < self.payload_bytes {
            let place = context.describe(self.flow());
            context.fail(format!(
                "{place}: a datagram of DCCP carries {room} bytes on this path, and the plan has {}",
                self.payload_bytes
            ));
        }
    }

    /// Records the state of CCID 3, by the names that TFRC has for it.
    fn show(&self, context: &mut Context, at: Time) {
        let Ok(state) = self.outgoing.socket.ccid3() else { return };
        if self.outgoing.established.is_none() || state.rtt_us == 0 {
            return;
        }
        let values = [
            ("allowed_bps", i64::try_from(state.allowed_bps).unwrap_or(i64::MAX)),
            ("loss_event_ppm", state.loss_event_ppm.into()),
            ("rtt_ns", i64::from(state.rtt_us) * 1_000),
        ];
        for (name, value) in values {
            let mut probe = [0; 16];
            probe[..name.len()].copy_from_slice(name.as_bytes());
            context.telemetry.probe(at, self.flow(), probe, value);
        }
    }
}
