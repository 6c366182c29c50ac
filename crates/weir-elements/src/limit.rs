//! Parts common to the plans of queues: the hard limit, and the treatment of packets that can carry ECN.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declare::{Fault, Key, Kind, check, key};

/// The hard limit of a queue; a packet that would exceed either is dropped. At least one is given.
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

impl Limit {
    /// The limit in bytes for packets of `packet_bytes`: the lower of both; none without a limit.
    pub fn max_bytes(&self, packet_bytes: u64) -> Option<u64> {
        let by_packets = self.packets.map(|packets| packets.saturating_mul(packet_bytes));
        self.bytes.into_iter().chain(by_packets).min()
    }

    /// The limit in packets of `packet_bytes`; none without a limit.
    pub fn max_packets(&self, packet_bytes: u64) -> Option<u64> {
        let by_bytes = self.bytes.map(|bytes| bytes / packet_bytes);
        self.packets.into_iter().chain(by_bytes).min()
    }

    pub(crate) fn validate(&self, at: &str) -> Result<(), Fault> {
        let place = || format!("{at}.limit");
        check(self.bytes.or(self.packets).is_some(), place, "expected bytes, packets or both")?;
        check(self.bytes != Some(0) && self.packets != Some(0), place, "a queue of size 0 passes nothing")
    }
}

/// Signal of an active queue on a packet that can carry ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Drop it like any other.
    Drop,
    /// Mark it congestion-experienced.
    Ecn,
}

/// The key `size`, which every queue has.
pub(crate) const fn size(meaning: &'static str) -> Key {
    key("size", "limit", Kind::Limit, meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_of_both_limits_counts() {
        let both = Limit { bytes: Some(10_000), packets: Some(5) };
        assert_eq!((both.max_bytes(1500), both.max_packets(1500)), (Some(7500), Some(5)));
        assert_eq!((both.max_bytes(3000), both.max_packets(3000)), (Some(10_000), Some(3)));
        assert_eq!(Limit { bytes: None, packets: None }.max_bytes(1), None);
    }
}
