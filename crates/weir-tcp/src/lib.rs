//! Sans-IO TCP, modelled on Linux.
//!
//! [`Sender`] and [`Receiver`] are the two ends of a connection whose data flow one way. They read no clock, own no
//! timer and know no driver: every call passes `now`, a driver asks for [`Sender::poll_transmit`] until it yields
//! nothing, and calls `on_timer` at `deadline`. What they model and what they leave out is said in their modules.
//! The congestion control is a C source hosted by `weir-cc`; all the rest of Linux' behaviour is here.
//!
//! Not modelled: connection teardown, Nagle's algorithm, MTU probing, SACK reneging, receive-buffer auto-tuning,
//! segmentation-offload deferral.

mod packet;
mod ranges;
mod receiver;
mod sender;

pub use packet::{Ack, SackBlocks, Segment};
pub use ranges::{Range, Ranges};
pub use receiver::{Arrival, Receiver};
pub use sender::{Counters, Notice, Sender, Transmit};

/// Bytes of IPv4 and TCP headers of a data segment or a pure ACK without SACK blocks.
pub const fn header_bytes(timestamps: bool) -> u32 {
    if timestamps { 20 + 20 + 12 } else { 20 + 20 }
}

/// Bytes that `blocks` SACK blocks add to an ACK (RFC 2018, padded to words).
pub const fn sack_option_bytes(blocks: usize) -> u32 {
    if blocks == 0 { 0 } else { 4 + 8 * blocks as u32 }
}
