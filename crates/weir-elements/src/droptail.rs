//! Drop-tail: first in, first out; packets that do not fit are dropped.
//!
//! The limit is in bytes on the wire, in packets, or both; a packet that would exceed either is dropped. The compiler
//! of scenarios converts limits in time or bandwidth-delay products to bytes. The packet in transmission does not
//! count, so an idle link accepts every packet that the empty queue could hold.
//!
//! Train: each packet is offered on its own; those that fit are queued and the others are dropped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::admission::{Admits, AtArrival};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, key};
use crate::limit::size;
use crate::{Arrival, Backlog, DropReason, Limit, Port, Verdict};

/// First in, first out; drops packets that do not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DroptailQueue {
    /// Limit.
    pub limit: Limit,
}

const FORM: Form = Form {
    name: "droptail",
    title: "First in, first out; packets that do not fit are dropped.",
    keys: &[
        size(
            "Limit, in bytes on the wire (`64KiB`), packets (`100packets`), time at the rate of the link (`100ms`), or \
             multiples of the bandwidth-delay product (`0.5bdp`). The packet in transmission is not counted.",
        ),
        key(
            "least",
            "limit",
            Kind::AtLeast,
            "Minimum of packets if `size` is less: a tenth of a short path's bandwidth-delay product may be less than one.",
        )
        .optional(),
    ],
};

impl QueuePlan for DroptailQueue {
    const INFO: ElementInfo = ElementInfo {
        plain: true,
        ..ElementInfo::new("droptail", Place::Queue, "First in, first out; drops packets that do not fit", "", &[FORM])
    };

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, _at: &str) -> Result<(), Fault> {
        Ok(())
    }
}

impl AtArrival for DroptailQueue {
    type Admits = DropTail;

    fn admission(&self, _port: &Port, _stream: Stream) -> DropTail {
        DropTail::from_plan(&self.limit)
    }
}

/// A limit in bytes and packets; [`u64::MAX`] where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTail {
    max_bytes: u64,
    max_packets: u64,
}

impl DropTail {
    /// The limit of the plan.
    pub fn from_plan(limit: &Limit) -> DropTail {
        DropTail { max_bytes: limit.bytes.unwrap_or(u64::MAX), max_packets: limit.packets.unwrap_or(u64::MAX) }
    }

    /// No room at all.
    pub(crate) const NOTHING: DropTail = DropTail { max_bytes: 0, max_packets: 0 };

    /// The same limit, but at most `bytes`.
    #[must_use]
    pub(crate) fn within(self, bytes: u64) -> DropTail {
        DropTail { max_bytes: self.max_bytes.min(bytes), ..self }
    }

    /// Whether a packet of `bytes` fits behind `queue_packets` packets of `queue_bytes` bytes.
    #[inline]
    pub fn fits(&self, bytes: u32, queue_bytes: u64, queue_packets: u64) -> bool {
        // `&`, not `&&`: two compares and no branch between them.
        (queue_bytes + u64::from(bytes) <= self.max_bytes) & (queue_packets < self.max_packets)
    }

    /// Whether a queue of this size exceeds the limit.
    pub(crate) fn is_exceeded(&self, queue_bytes: u64, queue_packets: u64) -> bool {
        queue_bytes > self.max_bytes || queue_packets > self.max_packets
    }
}

impl Admits for DropTail {
    #[inline]
    fn admit(&mut self, _now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
        if self.fits(arrival.bytes, queue.bytes, queue.packets) {
            Verdict::Pass
        } else {
            Verdict::Drop(DropReason::Overflow)
        }
    }

    #[inline]
    fn has_room(&self, bytes: u32, queue_bytes: u64, queue_packets: u64) -> bool {
        self.fits(bytes, queue_bytes, queue_packets)
    }

    fn room(&self) -> DropTail {
        *self
    }

    fn set_rate(&mut self, _rate: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed_and_one_more_is_not() {
        let bytes = DropTail::from_plan(&Limit { bytes: Some(3000), packets: None });
        assert!(bytes.fits(1500, 1500, 1));
        assert!(!bytes.fits(1501, 1500, 1));
        let packets = DropTail::from_plan(&Limit { bytes: None, packets: Some(2) });
        assert!(packets.fits(9000, 9000, 1));
        assert!(!packets.fits(1, 2, 2));
    }

    #[test]
    fn with_two_limits_the_first_one_reached_decides() {
        let both = DropTail::from_plan(&Limit { bytes: Some(10_000), packets: Some(2) });
        assert!(!both.fits(100, 200, 2));
        assert!(!both.fits(9000, 1500, 1));
        assert!(both.fits(8500, 1500, 1));
    }
}
