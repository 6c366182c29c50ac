//! The sending end of a constant-bit-rate flow.

use weir_plan::Source;
use weir_traffic::CbrClock;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Header, IP_UDP_BYTES};
use crate::datagram_flow::Outgoing;
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;

/// The sending end of a constant-bit-rate flow.
pub struct CbrSender {
    endpoint: u32,
    outgoing: Outgoing,
    clock: CbrClock,
    /// Number of the next datagram.
    next: u64,
    started: bool,
}

impl CbrSender {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<CbrSender, AgentError> {
        let socket = open::udp_sender(context, flow)?;
        let plan = context.flow(flow);
        let payload_bytes = open::udp_of(plan).payload_bytes;
        let Source::Cbr(cbr) = &plan.source else { unreachable!("the plan was checked: UDP has such a source") };
        let clock = CbrClock::new(cbr, payload_bytes + IP_UDP_BYTES, Time(plan.start_ns), plan.stop_ns);
        let outgoing = Outgoing::new(context, flow, socket, payload_bytes, IP_UDP_BYTES);
        Ok(CbrSender { endpoint, outgoing, clock, next: 0, started: false })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.outgoing.flow()
    }

    /// Time from a datagram's due instant to its system call.
    pub fn lateness(&self) -> &Histogram {
        &self.outgoing.lateness
    }

    /// Sends due datagrams and schedules the next one.
    pub fn on_due(&mut self, context: &mut Context) {
        if self.outgoing.is_finished() {
            return;
        }
        if !self.started {
            self.started = true;
            self.outgoing.start(context);
        }
        loop {
            match self.clock.due() {
                None => return self.outgoing.end(context),
                Some(due) if due > context.now => {
                    context.schedule.add(due, Slot::Endpoint(self.endpoint));
                    return;
                }
                Some(_) => self.send_due(context),
            }
        }
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    pub fn on_tick(&mut self, context: &mut Context, at: Time) {
        if self.started {
            self.outgoing.record_sent(context, at);
        }
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        self.outgoing.finish(context, self.started);
    }

    /// Sends due datagrams, at most a batch.
    fn send_due(&mut self, context: &mut Context) {
        while let Some(due) = self.clock.due().filter(|due| *due <= context.now && !self.outgoing.is_full()) {
            let header = Header { number: self.next, due_ns: due.0, sent_ns: context.now.0 };
            self.outgoing.push(context, due, &header);
            self.next += 1;
            self.clock.sent();
        }
        self.outgoing.send(context);
    }
}
