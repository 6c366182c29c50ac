//! The messages between the two ends of a connection.
//!
//! Sequence space is counted in segments, not bytes: a connection cuts its stream into segments once, when they are
//! first sent, and every later message names them by number. The driver maps them to packets of its own.

use weir_units::Time;

/// A host's clock in the timestamps option (RFC 7323). It counts milliseconds, as Linux does by default. It starts at
/// 1, because an echo of 0 means that there is none.
pub const fn timestamp(now: Time) -> u32 {
    (now.0 / 1_000_000 + 1) as u32
}

/// A segment to transmit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Number of the segment.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// A retransmission.
    pub retransmission: bool,
    /// The congestion-window-reduced flag of ECN (RFC 3168).
    pub cwr: bool,
    /// The push flag: the last segment of the data written so far.
    pub push: bool,
    /// The timestamps option: [`timestamp`] of the instant of sending.
    pub tsval: u32,
}

/// At most four selective-acknowledgement blocks (RFC 2018), most recent first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    len: u8,
    /// The first block reports a duplicate (RFC 2883).
    pub dsack: bool,
    blocks: [(u64, u64); 4],
}

impl SackBlocks {
    /// Appends `[start, end)`; does nothing once `max` blocks are there.
    pub fn push(&mut self, start: u64, end: u64, max: usize) {
        if usize::from(self.len) < max.min(self.blocks.len()) {
            self.blocks[usize::from(self.len)] = (start, end);
            self.len += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// The cumulative acknowledgement: the next segment expected.
    pub ack: u64,
    /// The selective acknowledgements above it.
    pub sack: SackBlocks,
    /// The echo of marks: 1 for congestion experienced (RFC 3168), or the counter ACE (RFC 9768, section 3.2.2).
    pub echo: u8,
    /// The echoed [`timestamp`]; 0 without one.
    pub tsecr: u32,
}

/// An acknowledgement without SACK blocks; the fields are those of [`Ack`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "`Ack` says it")]
pub struct PlainAck {
    pub ack: u64,
    pub echo: u8,
    pub tsecr: u32,
}
