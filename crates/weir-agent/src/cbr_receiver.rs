//! The receiving end of a constant-bit-rate flow: counts datagrams and measures the change of their spacing.

use weir_plan::Source;
use weir_sys::socket::Socket;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Arrival, Arrivals, IP_UDP_BYTES, Seal};
use crate::datagram_flow::Incoming;
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;

/// Maximum bytes that the kernel counts for a datagram beside its payload; limits the datagrams in a buffer.
const OVERHEAD_BYTES: u64 = 2048;
/// The buffer must hold the datagrams of a queue that drains this many times faster than the sending rate.
const BURSTINESS: u64 = 8;
const LONGEST_NS: u64 = 100_000_000;
const SHORTEST_NS: u64 = 1_000_000;

/// The receiving end of a constant-bit-rate flow.
///
/// The kernel stamps each datagram, so that this end need not wake for each. It reads as often as the buffer requires.
pub struct CbrReceiver {
    endpoint: u32,
    socket: Socket,
    arrivals: Arrivals,
    interval_ns: u64,
    pub incoming: Incoming,
    last: Option<Arrival>,
    /// Absolute difference between the spacing of neighbours at arrival and as planned.
    pub spacing_error: Histogram,
    /// Time from the sender's system call to arrival; both ends have the same clock.
    pub delay: Histogram,
}

impl CbrReceiver {
    /// Opens the socket.
    ///
    /// # Errors
    /// This host refuses a setting of the plan.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<CbrReceiver, AgentError> {
        let socket = open::udp_receiver(context, flow)?;
        let plan = context.flow(flow);
        let payload_bytes = open::udp_of(plan).payload_bytes;
        let payload = u64::from(payload_bytes);
        let Source::Cbr(cbr) = &plan.source else { unreachable!("the plan was checked: UDP has such a source") };
        let fit = open::UDP_BUFFER_BYTES / (payload + OVERHEAD_BYTES) / BURSTINESS;
        let spacing_ns = (payload + u64::from(IP_UDP_BYTES)) * 8 * 1_000_000_000 / cbr.rate_bps.max(1);
        Ok(CbrReceiver {
            endpoint,
            socket,
            arrivals: Arrivals::new(payload_bytes, Seal::new(context.job.token)),
            interval_ns: fit.saturating_mul(spacing_ns).clamp(SHORTEST_NS, LONGEST_NS),
            incoming: Incoming::new(flow),
            last: None,
            spacing_error: Histogram::default(),
            delay: Histogram::default(),
        })
    }

    /// Reads the datagrams that wait.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.read(context, Time::MAX)?;
        context.schedule.add(Time(context.now.0 + self.interval_ns), Slot::Endpoint(self.endpoint));
        Ok(())
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

    fn read(&mut self, context: &mut Context, tick: Time) -> Result<(), AgentError> {
        loop {
            let count = self.arrivals.receive(&self.socket)?;
            for index in 0..count {
                let arrival = self.arrivals.get(index);
                // Datagrams before the start are probes of the path.
                if context.epoch_ns.is_none_or(|epoch| arrival.at_ns < epoch) {
                    continue;
                }
                if arrival.admitted {
                    let at = context.plan_time(arrival.at_ns);
                    self.count(&arrival, at, tick);
                } else {
                    context.refuse(self.incoming.flow(), &"a datagram");
                }
            }
            if count < self.arrivals.room() {
                return Ok(());
            }
        }
    }

    fn count(&mut self, arrival: &Arrival, at: Time, tick: Time) {
        self.incoming.count(arrival.bytes, at, tick);
        self.incoming.note_dropped(arrival.dropped);
        let Some(header) = arrival.header else { return };
        self.incoming.note(header.number);
        self.delay.add(at.0.saturating_sub(header.sent_ns), 1);
        if let Some(Arrival { header: Some(before), at_ns, .. }) = self.last
            && before.number + 1 == header.number
        {
            let planned = header.due_ns - before.due_ns;
            self.spacing_error.add((arrival.at_ns - at_ns).abs_diff(planned), 1);
        }
        self.last = Some(*arrival);
    }
}
