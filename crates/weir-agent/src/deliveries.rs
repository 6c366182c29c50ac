//! What a receiving end counts: the bytes of each transfer, as they come from a stream. The ends of TCP, MPTCP and SCTP have
//! it in common.

use weir_plan::Source;
use weir_units::Time;

use crate::context::Context;

/// The delivered bytes of a flow by transfer.
pub struct Deliveries {
    flow: u32,
    /// Sizes of the transfers; empty for a flow without an end.
    sizes: Vec<u64>,
    /// Whether all transfers share one connection; otherwise each has its own.
    shared: bool,
    transfer: u32,
    /// Delivered bytes of the present transfer: in total, and since the last tick.
    delivered: u64,
    fresh: u64,
    /// Complete transfers of this interval: number and bytes.
    complete: Vec<(u32, u64)>,
}

impl Deliveries {
    /// Those of a flow, before its start.
    pub fn new(context: &Context, flow: u32) -> Deliveries {
        let (sizes, shared) = match &context.flow(flow).source {
            Source::Transfers { transfers, keep_connection } => {
                (transfers.iter().map(|transfer| transfer.bytes).collect(), *keep_connection)
            }
            _ => (Vec::new(), false),
        };
        Deliveries { flow, sizes, shared, transfer: 0, delivered: 0, fresh: 0, complete: Vec::new() }
    }

    /// Bytes that the present transfer lacks; [`u64::MAX`] if it has no end.
    pub fn left(&self) -> u64 {
        self.sizes.get(self.transfer as usize).map_or(u64::MAX, |size| size.saturating_sub(self.delivered))
    }

    /// `bytes` have come.
    pub fn count(&mut self, mut bytes: u64) {
        while let Some(size) = self.sizes.get(self.transfer as usize).filter(|_| self.shared) {
            let here = bytes.min(size - self.delivered);
            self.delivered += here;
            self.fresh += here;
            bytes -= here;
            if self.delivered < *size {
                return;
            }
            self.complete_transfer();
        }
        self.delivered += bytes;
        self.fresh += bytes;
    }

    /// The connection has ended, and with it the transfer, unless all share it.
    pub fn end_connection(&mut self) {
        if !self.shared {
            self.complete_transfer();
        }
    }

    /// Records the interval of `measure.goodput` that ends at `at`.
    pub fn record(&mut self, context: &mut Context, at: Time) {
        for (transfer, bytes) in self.complete.drain(..) {
            context.telemetry.delivered(at, self.flow, transfer, bytes);
        }
        if self.fresh > 0 {
            context.telemetry.delivered(at, self.flow, self.transfer, self.fresh);
            self.fresh = 0;
        }
    }

    fn complete_transfer(&mut self) {
        if self.fresh > 0 {
            self.complete.push((self.transfer, self.fresh));
        }
        self.transfer += 1;
        (self.delivered, self.fresh) = (0, 0);
    }
}
