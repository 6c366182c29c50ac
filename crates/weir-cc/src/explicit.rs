//! Congestion controls that routers tell what to do, by the congestion header of each packet.
//!
//! They are Rust, and exist in the simulator only: no kernel has such a header. To the transport they are controls with
//! `cong_control`. Beside the calls of the others, the transport asks them what a packet's header shall say, an
//! [`Announcement`], and gives them what the receiver returned, a [`Feedback`]; both pass through their private state.

use crate::{
    algorithm::Algorithm,
    ops::{ABI, Ops},
    rcp,
    sock::Sock,
    xcp,
};

/// The flag of [`Algorithm::flags`] that these controls have; no C source has it.
pub(crate) const EXPLICIT: u32 = 1 << 16;

/// Words of the private state that this file reads and writes: feedback that the control has not taken yet, time between
/// two packets, and the last rate that routers gave, which precedes the call of `init`.
pub(crate) const CHANGE: usize = 12;
pub(crate) const SPACING_NS: usize = 11;
pub(crate) const RATE: usize = 10;

/// Words of the private state.
const WORDS: usize = 13;

/// The operations of these controls, for each to add its name and its own.
pub(crate) const OPS: Ops = Ops {
    abi: ABI,
    sock_size: size_of::<Sock>() as u32,
    priv_size: (WORDS * 8) as u32,
    flags: EXPLICIT,
    name: std::ptr::null(),
    title: std::ptr::null(),
    source: std::ptr::null(),
    year: 0,
    option_count: 0,
    options: std::ptr::null(),
    init: None,
    release: None,
    ssthresh: None,
    cong_avoid: None,
    set_state: None,
    cwnd_event: None,
    in_ack_event: None,
    undo_cwnd: None,
    pkts_acked: None,
    cong_control: None,
    cong_control_rs: None,
    min_tso_segs: None,
    sndbuf_expand: None,
    min_cwnd: None,
};

/// What a sender says of itself in a congestion header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Smoothed round-trip time, nanoseconds; zero before the first sample.
    pub rtt_ns: u64,
    /// Time between two packets, nanoseconds; zero before the connection is established.
    pub spacing_ns: u64,
    /// Whether the window, and not the application, limits the sender: it can use more.
    pub wants_more: bool,
}

/// What an acknowledgement returns of the headers of data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Sum of the changes of throughput that routers permit, payload in bit/s, over the packets since the last
    /// acknowledgement.
    pub change_bps: i64,
    /// The rate that routers permit, payload in bit/s; 0 if they say none.
    pub rate_bps: u64,
}

/// The congestion controls with explicit feedback.
pub(crate) fn all() -> [Algorithm; 2] {
    [xcp::algorithm(), rcp::algorithm()]
}

/// What the header of the next packet says.
pub(crate) fn announcement(sock: &Sock) -> Announcement {
    Announcement {
        rtt_ns: u64::from(sock.srtt_us >> 3) * 1000,
        spacing_ns: sock.private[SPACING_NS],
        wants_more: sock.is_cwnd_limited != 0 || sock.app_limited == 0,
    }
}

/// Adds feedback to what the control has not taken yet.
pub(crate) fn give(sock: &mut Sock, feedback: Feedback) {
    let change = (sock.private[CHANGE] as i64).saturating_add(feedback.change_bps);
    sock.private[CHANGE] = change as u64;
    if feedback.rate_bps > 0 {
        sock.private[RATE] = feedback.rate_bps;
    }
}

/// Takes the sum of the changes since the last call, bit/s.
pub(crate) fn take_change(sock: &mut Sock) -> i64 {
    std::mem::take(&mut sock.private[CHANGE]) as i64
}
