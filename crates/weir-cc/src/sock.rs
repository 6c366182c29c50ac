//! The socket fields that a congestion control reads and writes: the Rust side of `cc/shim/native.h`.
//!
//! The layout is the C one, field for field; the test at the end compares every offset with the compiled C.

/// 64-bit words of private state: Linux' 104 bytes.
pub const PRIVATE_WORDS: usize = 13;
/// Maximum number of options of a congestion control.
pub const MAX_OPTIONS: usize = 20;
/// "No slow-start threshold yet", packets.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// One flow's transport state, with Linux' names.
///
/// The transport writes every field; a congestion control writes only those marked *writable* (the C header makes the
/// others `const`). Times are microseconds of the flow's own clock, windows are packets, sequence numbers are bytes and
/// wrap.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sock {
    /// Congestion window, packets. Writable.
    pub snd_cwnd: u32,
    /// Packets acknowledged since the last linear increase. Writable.
    pub snd_cwnd_cnt: u32,
    /// `jiffies32` of the last change by validation or undo. Writable.
    pub snd_cwnd_stamp: u32,
    /// Slow-start threshold, packets. Writable.
    pub snd_ssthresh: u32,
    /// Upper bound of the congestion window, packets.
    pub snd_cwnd_clamp: u32,
    /// Packets sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// Part of `packets_out`: selectively acknowledged.
    pub sacked_out: u32,
    /// Part of `packets_out`: marked lost.
    pub lost_out: u32,
    /// Retransmitted packets in flight.
    pub retrans_out: u32,
    /// Maximum packets in flight in the last window.
    pub max_packets_out: u32,
    /// First byte not acknowledged.
    pub snd_una: u32,
    /// Next byte to send.
    pub snd_nxt: u32,
    /// Smoothed round-trip time, microseconds << 3.
    pub srtt_us: u32,
    /// Mean deviation, microseconds << 2.
    pub mdev_us: u32,
    /// Windowed minimum round-trip time, microseconds; `u32::MAX` before the first sample.
    pub rtt_min_us: u32,
    /// Payload bytes per packet.
    pub mss_cache: u32,
    /// The flow's clock, microseconds.
    pub tcp_mstamp_us: u64,
    /// Time of the last delivery, microseconds.
    pub delivered_mstamp_us: u64,
    /// Send time of the packet delivered first in the window, microseconds.
    pub first_tx_mstamp_us: u64,
    /// The flow's clock, nanoseconds.
    pub clock_ns: u64,
    /// Departure of the next packet by pacing, nanoseconds of that clock.
    pub departure_ns: u64,
    /// Packets delivered, retransmissions included.
    pub delivered: u32,
    /// Part of `delivered`: with a congestion mark.
    pub delivered_ce: u32,
    /// Packets ever marked lost.
    pub lost: u32,
    /// Zero, or the value of `delivered` until which rate samples are application-limited. Writable.
    pub app_limited: u32,
    /// Congestion window before recovery, packets.
    pub prior_cwnd: u32,
    /// Threshold before recovery, packets.
    pub prior_ssthresh: u32,
    /// `jiffies32` of the last data packet sent.
    pub lsndtime: u32,
    /// One if the window, not the application, limited the last flight.
    pub is_cwnd_limited: u8,
    /// `TCP_ECN_*`. Writable.
    pub ecn_flags: u8,
    pub(crate) reserved_tcp: [u8; 2],
    /// Pacing rate, bytes per second; `u64::MAX` is unlimited. Writable.
    pub pacing_rate: u64,
    /// Upper bound of the pacing rate, bytes per second.
    pub max_pacing_rate: u64,
    /// `SK_PACING_*`: 0 none, 1 needed, 2 by the queueing discipline. Writable.
    pub pacing_status: u32,
    /// Jiffies per second.
    pub hz: u32,
    /// The flow's own seed, for choices that flows should not make alike.
    pub random: u32,
    pub(crate) reserved_random: u32,
    /// Address of the places of probes; 0 where nobody samples them.
    pub(crate) probes: u64,
    pub(crate) options: [u32; MAX_OPTIONS],
    /// [`CaState`](crate::CaState) as a number.
    pub ca_state: u8,
    /// Consecutive retransmission timeouts.
    pub retransmits: u8,
    pub(crate) reserved_icsk: [u8; 6],
    /// The congestion control's own 104 bytes. Writable, and last: writes beyond them are detected.
    pub(crate) private: [u64; PRIVATE_WORDS],
}

impl Default for Sock {
    /// A connection just established: initial window 10 (RFC 6928), no threshold, 1448-byte packets, HZ of 1000.
    fn default() -> Self {
        Sock {
            snd_cwnd: 10,
            snd_cwnd_cnt: 0,
            snd_cwnd_stamp: 0,
            snd_ssthresh: INFINITE_SSTHRESH,
            snd_cwnd_clamp: u32::MAX,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            max_packets_out: 0,
            snd_una: 0,
            snd_nxt: 0,
            srtt_us: 0,
            mdev_us: 0,
            rtt_min_us: u32::MAX,
            mss_cache: 1448,
            tcp_mstamp_us: 0,
            delivered_mstamp_us: 0,
            first_tx_mstamp_us: 0,
            clock_ns: 0,
            departure_ns: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            app_limited: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            lsndtime: 0,
            is_cwnd_limited: 0,
            ecn_flags: 0,
            reserved_tcp: [0; 2],
            pacing_rate: u64::MAX,
            max_pacing_rate: u64::MAX,
            pacing_status: 0,
            hz: 1000,
            random: 0,
            reserved_random: 0,
            probes: 0,
            options: [0; MAX_OPTIONS],
            ca_state: 0,
            retransmits: 0,
            reserved_icsk: [0; 6],
            private: [0; PRIVATE_WORDS],
        }
    }
}

impl Sock {
    /// The flow's clock in jiffies, as C reads it with `tcp_jiffies32`.
    #[inline]
    pub fn jiffies32(&self) -> u32 {
        (self.tcp_mstamp_us.wrapping_mul(u64::from(self.hz)) / 1_000_000) as u32
    }

    /// The congestion control's private state, for traces and tests.
    pub fn private_state(&self) -> &[u64; PRIVATE_WORDS] {
        &self.private
    }

    /// Clears the private state, as before [`Instance::init`](crate::Instance::init).
    pub fn clear_private(&mut self) {
        self.private = [0; PRIVATE_WORDS];
    }

    /// Takes from `other` the fields that a congestion control may write.
    pub(crate) fn take_writable(&mut self, other: &Sock) {
        self.snd_cwnd = other.snd_cwnd;
        self.snd_cwnd_cnt = other.snd_cwnd_cnt;
        self.snd_cwnd_stamp = other.snd_cwnd_stamp;
        self.snd_ssthresh = other.snd_ssthresh;
        self.app_limited = other.app_limited;
        self.ecn_flags = other.ecn_flags;
        self.pacing_rate = other.pacing_rate;
        self.pacing_status = other.pacing_status;
        self.private = other.private;
    }

    /// Whether the window is below the slow-start threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }
}

/// The arguments of `pkts_acked` for one acknowledgement.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Packets this acknowledgement covers.
    pub pkts_acked: u32,
    /// Round-trip time, microseconds; negative without a sample.
    pub rtt_us: i32,
    /// Bytes delivered since the acknowledged packet was sent. Where the algorithm does not ask for it
    /// ([`Algorithm::needs_samples`](crate::Algorithm::needs_samples)), those in flight before the acknowledgement.
    pub in_flight: u32,
}

/// A delivery-rate sample, as Linux' `struct rate_sample`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Start of the sample, microseconds.
    pub prior_mstamp: u64,
    /// `Sock::delivered` at `prior_mstamp`.
    pub prior_delivered: u32,
    /// `Sock::delivered_ce` at `prior_mstamp`.
    pub prior_delivered_ce: u32,
    /// Packets delivered over the interval; negative without a sample.
    pub delivered: i32,
    /// Part of `delivered`: with a congestion mark.
    pub delivered_ce: i32,
    /// Length of the sample, microseconds; negative without a sample.
    pub interval_us: i64,
    /// Send interval, microseconds.
    pub snd_interval_us: u32,
    /// Acknowledgement interval, microseconds.
    pub rcv_interval_us: u32,
    /// Round-trip time of the last packet acknowledged, microseconds; negative without a sample.
    pub rtt_us: i64,
    /// Packets marked lost on this acknowledgement.
    pub losses: i32,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub acked_sacked: u32,
    /// Packets in flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// End sequence of the last packet acknowledged.
    pub last_end_seq: u32,
    /// One if the sample is application-limited.
    pub is_app_limited: u8,
    /// One if the sample is from a retransmission.
    pub is_retrans: u8,
    /// One if the acknowledgement was likely delayed.
    pub is_ack_delayed: u8,
    #[doc(hidden)]
    pub reserved: [u8; 5],
}

impl Default for RateSample {
    /// No sample.
    fn default() -> Self {
        RateSample {
            prior_mstamp: 0,
            prior_delivered: 0,
            prior_delivered_ce: 0,
            delivered: -1,
            delivered_ce: 0,
            interval_us: -1,
            snd_interval_us: 0,
            rcv_interval_us: 0,
            rtt_us: -1,
            losses: 0,
            acked_sacked: 0,
            prior_in_flight: 0,
            last_end_seq: 0,
            is_app_limited: 0,
            is_retrans: 0,
            is_ack_delayed: 0,
            reserved: [0; 5],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    unsafe extern "C" {
        static weir_layout_sock: [u32; 41];
        static weir_layout_rate_sample: [u32; 17];
    }

    macro_rules! offsets {
        ($type:ty: $($field:ident)*) => {
            [$(offset_of!($type, $field) as u32,)* size_of::<$type>() as u32]
        };
    }

    #[test]
    fn sock_has_the_layout_of_the_c_header() {
        let rust = offsets!(Sock:
            snd_cwnd snd_cwnd_cnt snd_cwnd_stamp snd_ssthresh snd_cwnd_clamp packets_out sacked_out lost_out
            retrans_out max_packets_out snd_una snd_nxt srtt_us mdev_us rtt_min_us mss_cache tcp_mstamp_us
            delivered_mstamp_us first_tx_mstamp_us clock_ns departure_ns delivered delivered_ce lost app_limited prior_cwnd prior_ssthresh
            lsndtime is_cwnd_limited ecn_flags pacing_rate max_pacing_rate pacing_status hz random probes options ca_state
            retransmits private);
        // SAFETY: a constant of layout.c with this length.
        assert_eq!(rust, unsafe { weir_layout_sock });
    }

    #[test]
    fn rate_sample_has_the_layout_of_the_c_header() {
        let rust = offsets!(RateSample:
            prior_mstamp prior_delivered prior_delivered_ce delivered delivered_ce interval_us snd_interval_us
            rcv_interval_us rtt_us losses acked_sacked prior_in_flight last_end_seq is_app_limited is_retrans
            is_ack_delayed);
        // SAFETY: a constant of layout.c with this length.
        assert_eq!(rust, unsafe { weir_layout_rate_sample });
    }
}
