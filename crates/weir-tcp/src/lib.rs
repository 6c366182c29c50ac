//! Sans-IO TCP, modelled on Linux.
//!
//! [`Sender`] and [`Receiver`] are the two ends of a connection whose data flow one way. They read no clock, own no
//! timer and know no driver: every call passes `now`, a driver calls [`Sender::poll_transmit`] until it yields
//! nothing, and calls `on_timer` at `deadline`. The modules describe the model and its limits. The congestion control
//! is a C source hosted by `weir-cc`; the rest of Linux' behaviour is here.
//!
//! Not modelled: connection teardown, Nagle's algorithm, MTU probing, SACK reneging, receive-buffer auto-tuning,
//! segmentation-offload deferral, protection against wrapped sequence numbers (PAWS).

use weir_cc::Algorithm;
use weir_plan::Tcp;

mod packet;
mod ranges;
mod receiver;
mod sender;
mod ticks;

pub use packet::{Ack, PlainAck, SackBlocks, Segment, timestamp};
pub use ranges::{Range, Ranges};
pub use receiver::{Arrival, Feedback, Receiver};
pub use sender::{Counters, Notice, Sample, Sender, Train, Transmit};

/// Bytes of IPv4 and TCP headers of a data segment or a pure ACK without SACK blocks.
pub const fn header_bytes(timestamps: bool) -> u32 {
    if timestamps { 20 + 20 + 12 } else { 20 + 20 }
}

/// How the receiver of a connection tells of marks. A congestion control that needs a counter has one whenever ECN is
/// negotiated, as in Linux.
pub fn feedback(tcp: &Tcp, algorithm: &Algorithm) -> Feedback {
    match (tcp.ecn, tcp.accecn || algorithm.needs_accecn(), algorithm.needs_ecn()) {
        (true, true, _) => Feedback::Counter,
        (true, false, true) => Feedback::Exact,
        _ => Feedback::Flag,
    }
}

/// Payload of a full segment of a connection. Linux bounds it by half the peer's window; it also fits into the send
/// buffer.
fn segment_bytes(tcp: &Tcp) -> u32 {
    const DEFAULT_MSS: u64 = 536;
    let window = tcp.receive_buffer_bytes;
    let half = if window > DEFAULT_MSS { window / 2 } else { window };
    u64::from(tcp.mss_bytes).min(half).min(tcp.send_buffer_bytes).max(1) as u32
}

/// Bytes that `blocks` SACK blocks add to an ACK (RFC 2018, padded to words).
pub const fn sack_option_bytes(blocks: usize) -> u32 {
    if blocks == 0 { 0 } else { 4 + 8 * blocks as u32 }
}
