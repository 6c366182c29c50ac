//! Explicit feedback: the congestion header that packets carry beside their IP header, and the routers that rewrite it.
//!
//! The sender writes its round-trip time and the time between its packets, and asks for feedback; each router on the path
//! lowers the feedback to what it permits; the receiver returns it. A driver keeps the headers of packets in flight: a
//! queue of a driver without headers treats all packets alike.

use serde::Serialize;
use weir_units::{Dur, Time};

/// A protocol with explicit feedback. A router reads the headers of its own only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Explicit Control Protocol: feedback is a change of the throughput.
    Xcp,
    /// Rate Control Protocol: feedback is the rate of every flow.
    Rcp,
    /// Quick-Start: feedback is the rate that a new connection may begin with.
    QuickStart,
}

impl Scheme {
    /// Its name, the same for the queue and, if there is one, the congestion control.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Xcp => "xcp",
            Scheme::Rcp => "rcp",
            Scheme::QuickStart => "quickstart",
        }
    }

    /// The protocol with this name.
    pub fn named(name: &str) -> Option<Scheme> {
        [Scheme::Xcp, Scheme::Rcp, Scheme::QuickStart].into_iter().find(|scheme| scheme.name() == name)
    }
}

/// The feedback of a sender that takes as much as the routers give.
pub const UNLIMITED: i64 = i64::MAX;

/// A congestion header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its protocol.
    pub scheme: Scheme,
    /// The sender's estimate of its round-trip time; zero if it has none.
    pub rtt: Dur,
    /// Time between two packets of the sender; zero if it has no estimate.
    pub spacing: Dur,
    /// What the path permits, bit/s on the wire: lowered by routers, [`UNLIMITED`] before the first one.
    pub feedback_bps: i64,
    /// Routers of Quick-Start that have read it: if one of the path has not, the rate is not approved (RFC 4782, section 3.3,
    /// which counts them by a second time to live).
    pub routers: u8,
}

/// A queue that gives explicit feedback.
///
/// The queue counts all packets by itself, when it gets and yields them. The driver calls these beside
/// [`Qdisc::enqueue`](crate::Qdisc::enqueue) and [`Qdisc::dequeue`](crate::Qdisc::dequeue), for packets with a header.
pub trait Explicit {
    /// A packet with a header has arrived at `now`: it was enqueued, or dropped on arrival.
    fn arrived(&mut self, now: Time, header: &Header);

    /// A packet with a header, of `wire_bytes`, begins its transmission at `now`: lowers the feedback.
    fn departs(&mut self, now: Time, wire_bytes: u32, header: &mut Header);
}
