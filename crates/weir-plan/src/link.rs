//! Directed links and their elements.
//!
//! A packet that enters a link passes, in this order: `loss`, the `queue` (which may drop or mark it), the transmitter
//! (`rate_bps`), and the delay line (`delay`). The queue limit never counts packets in the delay line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_elements::{Delay, Loss, Port, Queue, TokenRates};
use weir_units::Rate;

/// A directed link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Unique name, such as `bottleneck` or `src3->left`.
    pub name: String,
    /// Index of the node it leaves.
    pub from: u32,
    /// Index of the node it reaches.
    pub to: u32,
    /// Rate of the transmitter.
    pub rate_bps: u64,
    /// Bytes added to each IP packet on the wire (38 for Ethernet: preamble, header, FCS and gap).
    pub overhead_bytes: u32,
    /// Largest IP packet; larger ones are dropped and counted.
    pub mtu_bytes: u32,
    /// The delay line.
    pub delay: Delay,
    /// The queue before the transmitter.
    pub queue: Queue,
    /// Losses before the queue.
    #[serde(default)]
    pub loss: Option<Loss>,
    /// True for the first link of a host. The sender sees its queue: a full queue pushes back or signals local
    /// congestion, as the stack does, and loses no packet silently.
    #[serde(default)]
    pub host_nic: bool,
}

impl From<&Link> for Port {
    fn from(link: &Link) -> Port {
        Port { rate: Rate::from_bps(link.rate_bps), overhead_bytes: link.overhead_bytes, mtu_bytes: link.mtu_bytes }
    }
}

/// A change of a link while the plan runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time of the change.
    pub at_ns: u64,
    /// Index of the link.
    pub link: u32,
    /// The change.
    pub change: ChangeKind,
}

/// Kinds of changes. Packets already in the delay line keep their delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum ChangeKind {
    /// A new rate, from the next packet transmitted.
    Rate {
        /// New rate; 0 stops the transmitter until the next change.
        rate_bps: u64,
    },
    /// A new delay line.
    Delay {
        /// New delay line.
        delay: Delay,
    },
    /// New losses.
    Loss {
        /// New losses; none switches them off.
        loss: Option<Loss>,
    },
    /// New shares of the classes of the link's scheduler, from the next packet that it chooses.
    Shares {
        /// For each of its classes the weight in millionths, or the quantum in bytes.
        shares: Vec<u64>,
    },
    /// New rates of the token buckets of the link's queue, from that instant on.
    TokenRates {
        /// For each shaper, policer, class of hierarchical token buckets, and root of these with a rate of its own: in the
        /// order of the plan, those of a queue before those within.
        rates: Vec<TokenRates>,
    },
}
