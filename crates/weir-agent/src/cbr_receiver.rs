//! The receiving end of a constant-bit-rate flow: counts datagrams and says how their spacing was changed.

use weir_plan::Source;
use weir_sys::socket::Socket;
use weir_units::{Histogram, Time};

use crate::context::Context;
use crate::datagram::{Arrival, Arrivals, IP_UDP_BYTES};
use crate::error::AgentError;
use crate::open;
use crate::schedule::Slot;

/// Bytes that the kernel accounts for a datagram beside its payload, at most: what fits in a buffer follows from it.
const OVERHEAD_BYTES: u64 = 2048;
/// A bottleneck may deliver what has queued this much faster than it was sent, and the buffer must still hold it.
const BURSTINESS: u64 = 8;
const LONGEST_NS: u64 = 100_000_000;
const SHORTEST_NS: u64 = 1_000_000;

/// The receiving end of a constant-bit-rate flow.
///
/// The kernel stamps each datagram, so that nobody need be awake when it comes: they are read from time to time, as often
/// as the buffer demands.
pub struct CbrReceiver {
    flow: u32,
    endpoint: u32,
    socket: Socket,
    arrivals: Arrivals,
    interval_ns: u64,
    fresh: u64,
    /// Bytes of datagrams that came after the tick that is being written.
    ahead: u64,
    /// What is known of the flow.
    pub report: Report,
    last: Option<Arrival>,
    dropped: u64,
}

/// What a receiver knows of a constant-bit-rate flow.
#[derive(Debug, Default)]
pub struct Report {
    /// Datagrams that came.
    pub received: u64,
    /// One more than the greatest number that came.
    pub expected: u64,
    /// Datagrams that came after one with a greater number.
    pub reordered: u64,
    /// Difference between the spacing of two neighbours at arrival and as planned, absolute.
    pub spacing_error: Histogram,
    /// Time from being handed to the kernel to arrival; both ends have one clock.
    pub delay: Histogram,
}

impl CbrReceiver {
    /// Opens the socket.
    ///
    /// # Errors
    /// When a setting of the plan cannot be had here.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32) -> Result<CbrReceiver, AgentError> {
        let socket = open::udp_receiver(context, flow)?;
        let plan = context.flow(flow);
        let payload = u64::from(open::udp_of(plan).payload_bytes);
        let Source::Cbr(cbr) = &plan.source else { unreachable!("the plan was checked: UDP has such a source") };
        let fit = open::UDP_BUFFER_BYTES / (payload + OVERHEAD_BYTES) / BURSTINESS;
        let spacing_ns = (payload + u64::from(IP_UDP_BYTES)) * 8 * 1_000_000_000 / cbr.rate_bps.max(1);
        Ok(CbrReceiver {
            flow,
            endpoint,
            socket,
            arrivals: Arrivals::new(),
            interval_ns: fit.saturating_mul(spacing_ns).clamp(SHORTEST_NS, LONGEST_NS),
            fresh: 0,
            ahead: 0,
            report: Report::default(),
            last: None,
            dropped: 0,
        })
    }

    /// Its number among the flows.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// It is time to look.
    ///
    /// # Errors
    /// From the socket.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        self.read(context, Time::MAX)?;
        context.schedule.add(Time(context.now.0 + self.interval_ns), Slot::Endpoint(self.endpoint));
        Ok(())
    }

    /// The end of an interval of `measure.goodput`.
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

    /// The plan has ended.
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
                // Before the start, somebody probes the path.
                if context.epoch_ns.is_some_and(|epoch| arrival.at_ns >= epoch) {
                    let at = context.plan_time(arrival.at_ns);
                    self.count(&arrival, at, tick);
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
