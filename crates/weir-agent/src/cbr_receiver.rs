//! The receiving end of a constant-bit-rate flow: counts datagrams and measures the change of their spacing.

use weir_plan::Source;
use weir_sys::socket::Socket;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Arrival, Arrivals, IP_UDP_BYTES, Seal};
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
    flow: u32,
    endpoint: u32,
    socket: Socket,
    arrivals: Arrivals,
    interval_ns: u64,
    fresh: u64,
    /// Bytes of datagrams that came after the present tick.
    ahead: u64,
    /// The measurements of the flow.
    pub report: Report,
    last: Option<Arrival>,
    dropped: u64,
}

/// A receiver's measurements of a constant-bit-rate flow.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of received datagrams.
    pub received: u64,
    /// The greatest received number, plus one.
    pub expected: u64,
    /// Datagrams received after one with a greater number.
    pub reordered: u64,
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
            flow,
            endpoint,
            socket,
            arrivals: Arrivals::new(payload_bytes, Seal::new(context.job.token)),
            interval_ns: fit.saturating_mul(spacing_ns).clamp(SHORTEST_NS, LONGEST_NS),
            fresh: 0,
            ahead: 0,
            report: Report::default(),
            last: None,
            dropped: 0,
        })
    }

    /// The number of its flow.
    pub fn flow(&self) -> u32 {
        self.flow
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
        if self.fresh > 0 {
            context.telemetry.delivered(at, self.flow, 0, self.fresh);
        }
        self.fresh = std::mem::take(&mut self.ahead);
        Ok(())
    }

    /// Records the results at the end of the plan.
    pub fn finish(&mut self, context: &mut Context) {
        if self.dropped > 0 {
            let place = context.describe(self.flow);
            context.warn(format!(
                "{place}: the receiving socket dropped {} datagrams: this host is too slow",
                self.dropped
            ));
        }
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
                    context.refuse(self.flow, &"a datagram");
                }
            }
            if count < self.arrivals.room() {
                return Ok(());
            }
        }
    }

    fn count(&mut self, arrival: &Arrival, at: Time, tick: Time) {
        let place = if at > tick { &mut self.ahead } else { &mut self.fresh };
        *place += u64::from(arrival.bytes);
        self.dropped = self.dropped.max(u64::from(arrival.dropped));
        let report = &mut self.report;
        report.received += 1;
        let Some(header) = arrival.header else { return };
        if header.number < report.expected {
            report.reordered += 1;
        }
        report.expected = report.expected.max(header.number + 1);
        report.delay.add(at.0.saturating_sub(header.sent_ns), 1);
        if let Some(Arrival { header: Some(before), at_ns, .. }) = self.last
            && before.number + 1 == header.number
        {
            let planned = header.due_ns - before.due_ns;
            report.spacing_error.add((arrival.at_ns - at_ns).abs_diff(planned), 1);
        }
        self.last = Some(*arrival);
    }
}
