//! Directed links and their elements.
//!
//! A packet that enters a link passes, in this order: `loss`, the `queue` (which may drop or mark it), the transmitter
//! (`rate_bps`), and the delay line (`delay`). The queue limit never counts packets in the delay line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Bytes added to each IP packet when it is put on the wire (38 for Ethernet: preamble, header, FCS and gap).
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
    /// True for the first link of a host: the sender sees its queue (a full one pushes back or signals local congestion,
    /// as its stack does) and no packet is lost silently.
    #[serde(default)]
    pub host_nic: bool,
}

/// A delay line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Delay {
    /// Every packet the same.
    Fixed {
        /// Delay.
        delay_ns: u64,
    },
    /// `delay_ns` plus a normal or uniform deviation drawn per packet, never negative.
    Jitter {
        /// Mean delay.
        delay_ns: u64,
        /// Standard deviation (normal) or half width (uniform).
        jitter_ns: u64,
        /// Normal instead of uniform.
        normal: bool,
        /// Whether a packet may overtake another one; without, each is held until its predecessor left.
        reorder: bool,
    },
    /// `delay_ns`, but with probability `probability` a packet is `extra_ns` later, so that others overtake it.
    Reorder {
        /// Delay of the other packets.
        delay_ns: u64,
        /// Delay added to a chosen packet.
        extra_ns: u64,
        /// Probability that a packet is chosen.
        probability: f64,
    },
}

/// A limit of a queue; a packet that would pass either is dropped. At least one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// In bytes on the wire, the packet in transmission not counted.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// In packets, the packet in transmission not counted.
    #[serde(default)]
    pub packets: Option<u64>,
}

/// What an active queue does to a packet that can carry ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Drop it like any other.
    Drop,
    /// Mark it congestion-experienced.
    Ecn,
}

/// One drop curve of RED: none below `min_bytes`, up to `max_p` at `max_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedCurve {
    /// Differentiated-services code points this curve serves; empty: all others.
    pub dscp_from: u8,
    /// Last code point of the range, inclusive.
    pub dscp_to: u8,
    /// Lower threshold of the average queue.
    pub min_bytes: u64,
    /// Upper threshold of the average queue.
    pub max_bytes: u64,
    /// Probability at the upper threshold.
    pub max_p: f64,
}

/// Parameters of CoDel (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelParams {
    /// Acceptable standing delay; 5 ms.
    pub target_ns: u64,
    /// Sliding-minimum window; 100 ms.
    pub interval_ns: u64,
    /// Mark instead of dropping.
    pub mark: Mark,
}

/// A queue discipline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Queue {
    /// First in, first out; drops what does not fit.
    Droptail {
        /// Limit.
        limit: Limit,
    },
    /// Random early detection (Floyd and Jacobson 1993); several curves make it weighted (WRED).
    Red {
        /// Hard limit.
        limit: Limit,
        /// One curve, or one per class of code points.
        curves: Vec<RedCurve>,
        /// Weight of the averaging filter, `w_q`.
        weight: f64,
        /// Between `max_bytes` and twice that, the probability climbs from `max_p` to 1 instead of jumping.
        gentle: bool,
        /// Mark instead of dropping.
        mark: Mark,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// Hard limit.
        limit: Limit,
        /// Parameters.
        codel: CodelParams,
    },
    /// Flow queue CoDel (RFC 8290).
    FqCodel {
        /// Hard limit over all flows; a packet is dropped from the longest queue.
        limit: Limit,
        /// Number of hash buckets; 1024.
        buckets: u32,
        /// Bytes a flow may send a round.
        quantum_bytes: u32,
        /// Parameters of each queue.
        codel: CodelParams,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// Hard limit.
        limit: Limit,
        /// Delay aimed at; 15 ms.
        target_ns: u64,
        /// Time between two updates of the probability; 15 ms.
        update_ns: u64,
        /// Weight of the deviation from the target, in 1/s; 0.125.
        alpha: f64,
        /// Weight of the change of the delay, in 1/s; 1.25.
        beta: f64,
        /// Mark instead of dropping while the probability is at most 10 %.
        mark: Mark,
    },
}

/// Losses before a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Loss {
    /// Each packet with probability `p`.
    Bernoulli {
        /// Probability.
        p: f64,
    },
    /// Two-state Markov chain (Gilbert 1960, Elliott 1963), stepped once a packet.
    GilbertElliott {
        /// Probability of good to bad.
        p: f64,
        /// Probability of bad to good.
        r: f64,
        /// Loss probability in the good state.
        good: f64,
        /// Loss probability in the bad state.
        bad: f64,
    },
    /// These packets of this link, counted from 1 over data packets only (segments with payload, and datagrams).
    List {
        /// Packet numbers, ascending.
        packets: Vec<u64>,
    },
}

/// A change of a link while the plan runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When.
    pub at_ns: u64,
    /// Index of the link.
    pub link: u32,
    /// What.
    pub change: ChangeKind,
}

/// What changes. Packets already in the delay line keep their delay.
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
}
