//! `TCP_INFO`: the kernel's state of a connection.

use std::io;

use crate::socket::Socket;

/// Bytes of the structure that this module reads. A kernel may have more or fewer.
pub const BYTES: usize = 256;

/// The state of a connection. Fields that the kernel is too old to know are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub options: u8,
    pub snd_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub rcv_ssthresh: u32,
    pub rtt_us: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub total_retrans: u32,
    /// Bytes per second; `u64::MAX` means unlimited.
    pub pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub min_rtt_us: u32,
    pub data_segs_out: u32,
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
    pub bytes_sent: u64,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub total_rto: u16,
    /// Whether the kernel counts timeouts, since Linux 6.7.
    pub counts_timeouts: bool,
}

/// Bits of [`TcpInfo::options`].
pub mod option {
    /// Timestamps.
    pub const TIMESTAMPS: u8 = 1;
    /// Selective acknowledgements.
    pub const SACK: u8 = 2;
    /// Explicit congestion notification was negotiated.
    pub const ECN: u8 = 8;
}

/// States of [`TcpInfo::state`].
pub mod state {
    /// The connection is open.
    pub const ESTABLISHED: u8 = 1;
    /// The SYN is not yet answered.
    pub const SYN_SENT: u8 = 2;
    /// The peer sends no more.
    pub const CLOSE_WAIT: u8 = 8;
    /// Closed.
    pub const CLOSE: u8 = 7;
    /// Both ends have closed; late packets may come.
    pub const TIME_WAIT: u8 = 6;
    /// The socket listens.
    pub const LISTEN: u8 = 10;
}

/// Offsets of the fields of `struct tcp_info` (include/uapi/linux/tcp.h), which grows at its end only.
mod offset {
    pub const STATE: usize = 0;
    pub const CA_STATE: usize = 1;
    pub const OPTIONS: usize = 5;
    pub const SND_MSS: usize = 16;
    pub const UNACKED: usize = 24;
    pub const SACKED: usize = 28;
    pub const LOST: usize = 32;
    pub const RETRANS: usize = 36;
    pub const RCV_SSTHRESH: usize = 64;
    pub const RTT: usize = 68;
    pub const SND_SSTHRESH: usize = 76;
    pub const SND_CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const PACING_RATE: usize = 104;
    pub const BYTES_ACKED: usize = 120;
    pub const BYTES_RECEIVED: usize = 128;
    pub const MIN_RTT: usize = 148;
    pub const DATA_SEGS_OUT: usize = 156;
    pub const BUSY_TIME: usize = 168;
    pub const RWND_LIMITED: usize = 176;
    pub const SNDBUF_LIMITED: usize = 184;
    pub const BYTES_SENT: usize = 200;
    pub const SND_WND: usize = 228;
    pub const RCV_WND: usize = 232;
    pub const TOTAL_RTO: usize = 240;
}

impl TcpInfo {
    /// Reads the state of `socket`.
    ///
    /// # Errors
    /// From the kernel; none is expected of a TCP socket.
    pub fn of(socket: &Socket) -> io::Result<TcpInfo> {
        let mut raw = [0; BYTES];
        let len = socket.tcp_info(&mut raw)?;
        Ok(TcpInfo::from_bytes(&raw[..len]))
    }

    /// Parses the kernel's structure, of any length.
    pub fn from_bytes(raw: &[u8]) -> TcpInfo {
        let u8_at = |at: usize| raw.get(at).copied().unwrap_or(0);
        let u16_at = |at: usize| raw.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
        let u32_at = |at: usize| raw.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        let u64_at = |at: usize| {
            raw.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
        };
        TcpInfo {
            state: u8_at(offset::STATE),
            ca_state: u8_at(offset::CA_STATE),
            options: u8_at(offset::OPTIONS),
            snd_mss: u32_at(offset::SND_MSS),
            unacked: u32_at(offset::UNACKED),
            sacked: u32_at(offset::SACKED),
            lost: u32_at(offset::LOST),
            retrans: u32_at(offset::RETRANS),
            rcv_ssthresh: u32_at(offset::RCV_SSTHRESH),
            rtt_us: u32_at(offset::RTT),
            snd_ssthresh: u32_at(offset::SND_SSTHRESH),
            snd_cwnd: u32_at(offset::SND_CWND),
            total_retrans: u32_at(offset::TOTAL_RETRANS),
            pacing_rate: u64_at(offset::PACING_RATE),
            bytes_acked: u64_at(offset::BYTES_ACKED),
            bytes_received: u64_at(offset::BYTES_RECEIVED),
            min_rtt_us: u32_at(offset::MIN_RTT),
            data_segs_out: u32_at(offset::DATA_SEGS_OUT),
            busy_us: u64_at(offset::BUSY_TIME),
            rwnd_limited_us: u64_at(offset::RWND_LIMITED),
            sndbuf_limited_us: u64_at(offset::SNDBUF_LIMITED),
            bytes_sent: u64_at(offset::BYTES_SENT),
            snd_wnd: u32_at(offset::SND_WND),
            rcv_wnd: u32_at(offset::RCV_WND),
            total_rto: u16_at(offset::TOTAL_RTO),
            counts_timeouts: raw.len() >= offset::TOTAL_RTO + 2,
        }
    }

    /// The sender's estimate of the packets in flight.
    pub fn in_flight(&self) -> u32 {
        (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost)
    }

    /// Acknowledged payload, bytes. The kernel also counts an acknowledged SYN and an acknowledged FIN, one byte each.
    pub fn acked_payload(&self, written: u64) -> u64 {
        self.bytes_acked.saturating_sub(1).min(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_older_kernel_are_zero() {
        let mut raw = [0_u8; 104];
        raw[offset::SND_CWND] = 10;
        raw[offset::TOTAL_RETRANS] = 3;
        let info = TcpInfo::from_bytes(&raw);
        assert_eq!((info.snd_cwnd, info.total_retrans, info.bytes_acked, info.counts_timeouts), (10, 3, 0, false));
        assert_eq!(TcpInfo::from_bytes(&[]), TcpInfo::default());
    }

    #[test]
    fn packets_in_flight_are_those_not_known_to_have_left() {
        let info = TcpInfo { unacked: 20, sacked: 5, lost: 4, retrans: 2, ..TcpInfo::default() };
        assert_eq!(info.in_flight(), 13);
    }
}
