//! What both ends of a QUIC flow need: their settings, and the clock of the protocol.

use std::time::{Duration, Instant};

use weir_plan::{Quic, Transport};
use weir_quic::{Control, QuicError, Settings};
use weir_sys::clock;
use weir_units::{Stream, Time};

use crate::context::Context;
use crate::error::AgentError;

/// The greatest payload of a datagram.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// The QUIC settings of a flow.
pub fn quic_of(context: &Context, flow: u32) -> &Quic {
    match &context.flow(flow).transport {
        Transport::Quic(quic) => quic,
        _ => unreachable!("only QUIC flows have such endpoints"),
    }
}

/// The settings of one end of a flow; `end` names it, because each draws its own random numbers.
///
/// # Errors
/// The library has no such congestion control.
pub fn settings(context: &Context, flow: u32, end: &str) -> Result<Settings, AgentError> {
    let (plan, quic) = (context.flow(flow), quic_of(context, flow));
    let control = Control::of(&quic.cc).ok_or_else(|| {
        AgentError(format!("{}: QUIC has no congestion control {:?}", context.describe(flow), quic.cc))
    })?;
    let mut draws = Stream::new(context.job.plan.seed, &format!("flow/{}/quic/{end}", plan.name));
    let mut seed = [0; 32];
    seed.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&draws.bits().to_be_bytes()));
    Ok(Settings {
        control,
        payload_bytes: u16::try_from(quic.payload_bytes).unwrap_or(u16::MAX),
        initial_window: u64::from(quic.initial_window) * u64::from(quic.payload_bytes),
        send_buffer_bytes: quic.send_buffer_bytes,
        receive_buffer_bytes: quic.receive_buffer_bytes,
        secret: context.job.token.map_or_else(Vec::new, |token| token.as_bytes().to_vec()),
        seed,
    })
}

/// An error of the library, with the flow.
pub fn failed(context: &Context, flow: u32, error: &QuicError) -> AgentError {
    AgentError(format!("{}: QUIC: {error}", context.describe(flow)))
}

/// Converts instants between the protocol's clock and the plan's; both are `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    at: Instant,
    monotonic_ns: u64,
}

impl Anchor {
    /// Compares both clocks now.
    pub fn new() -> Anchor {
        Anchor { at: Instant::now(), monotonic_ns: clock::monotonic_ns() }
    }

    /// The present of the plan, as the protocol knows it.
    pub fn now(&self, context: &Context) -> Instant {
        let monotonic_ns = context.epoch_ns.unwrap_or(0).saturating_add(context.now.0);
        self.at + Duration::from_nanos(monotonic_ns.saturating_sub(self.monotonic_ns))
    }

    /// An instant of the protocol in the plan's time.
    pub fn plan_time(&self, context: &Context, at: Instant) -> Time {
        let since = at.saturating_duration_since(self.at).as_nanos();
        context.plan_time(self.monotonic_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }
}
