//! Transports of the kernel beside TCP and UDP: their sockets, their options and what they tell of a connection.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{SocketType, ipproto};

use crate::call::{get_option, set_option};
use crate::socket::Socket;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Multipath TCP (RFC 8684).
    Mptcp,
    /// SCTP (RFC 9260), one association a socket.
    Sctp,
}

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Mptcp => "MPTCP",
            Protocol::Sctp => "SCTP",
        }
    }
}

/// The state of an SCTP association (`struct sctp_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctpState {
    /// Congestion window of the primary path, bytes.
    pub cwnd_bytes: u32,
    /// Smoothed round-trip time of the primary path, milliseconds.
    pub srtt_ms: u32,
    /// Chunks that were sent and not acknowledged.
    pub unacknowledged: u16,
}

/// What an SCTP association has sent (`struct sctp_assoc_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctpCounts {
    /// Data chunks, without retransmissions.
    pub chunks: u64,
    /// Chunks that were sent again.
    pub retransmitted: u64,
}

const SOL_SCTP: libc::c_int = 132;
const SCTP_NODELAY: libc::c_int = 3;
const SCTP_STATUS: libc::c_int = 14;
const SCTP_GET_ASSOC_STATS: libc::c_int = 112;
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;

/// Offsets in the kernel's structures (include/uapi/linux/sctp.h, mptcp.h).
mod offset {
    pub const STATUS_UNACKNOWLEDGED: usize = 12;
    pub const STATUS_CWND: usize = 160;
    pub const STATUS_SRTT: usize = 164;
    pub const STATS_RETRANSMITTED: usize = 176;
    pub const STATS_UNORDERED: usize = 208;
    pub const STATS_ORDERED: usize = 224;
    pub const MPTCP_FLAGS: usize = 8;
}
const STATUS_BYTES: usize = 176;
const STATS_BYTES: usize = 256;
const MPTCP_INFO_BYTES: usize = 128;
const MPTCP_FALLBACK: u32 = 1;

impl Socket {
    /// Creates a socket of `protocol`.
    ///
    /// # Errors
    /// `Unsupported` if the kernel has no such protocol; or the process has no descriptor left.
    pub fn native(protocol: Protocol, family: &IpAddr) -> io::Result<Socket> {
        let number = match protocol {
            Protocol::Mptcp => ipproto::MPTCP,
            Protocol::Sctp => ipproto::SCTP,
        };
        Socket::new(family, SocketType::STREAM, Some(number)).map_err(|error| lacking(error, protocol.name()))
    }

    /// Makes SCTP send small messages at once.
    ///
    /// # Errors
    /// From the kernel; none is expected of an SCTP socket.
    pub fn set_sctp_no_delay(&self) -> io::Result<()> {
        Ok(set_option(self.as_fd(), SOL_SCTP, SCTP_NODELAY, &1_u32)?)
    }

    /// The state of an SCTP association.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn sctp_state(&self) -> io::Result<SctpState> {
        let mut raw = [0; STATUS_BYTES];
        get_option(self.as_fd(), SOL_SCTP, SCTP_STATUS, &mut raw)?;
        Ok(SctpState {
            cwnd_bytes: u32_at(&raw, offset::STATUS_CWND),
            srtt_ms: u32_at(&raw, offset::STATUS_SRTT),
            unacknowledged: u16_at(&raw, offset::STATUS_UNACKNOWLEDGED),
        })
    }

    /// What an SCTP association has sent.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn sctp_counts(&self) -> io::Result<SctpCounts> {
        let mut raw = [0; STATS_BYTES];
        get_option(self.as_fd(), SOL_SCTP, SCTP_GET_ASSOC_STATS, &mut raw)?;
        Ok(SctpCounts {
            chunks: u64_at(&raw, offset::STATS_ORDERED) + u64_at(&raw, offset::STATS_UNORDERED),
            retransmitted: u64_at(&raw, offset::STATS_RETRANSMITTED),
        })
    }

    /// Whether an MPTCP connection is an ordinary one of TCP, because the peer or the path does not have MPTCP.
    ///
    /// # Errors
    /// From the kernel; none is expected of an MPTCP connection.
    pub fn fell_back_to_tcp(&self) -> io::Result<bool> {
        let mut raw = [0; MPTCP_INFO_BYTES];
        match get_option(self.as_fd(), SOL_MPTCP, MPTCP_INFO, &mut raw) {
            Ok(_) => Ok(u32_at(&raw, offset::MPTCP_FLAGS) & MPTCP_FALLBACK != 0),
            // A connection that fell back before it was established has no such state.
            Err(Errno::OPNOTSUPP | Errno::NOPROTOOPT) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The error of opening a socket of protocol `name`; `Unsupported` if the kernel has no such protocol.
pub(crate) fn lacking(error: io::Error, name: &str) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::PROTONOSUPPORT | Errno::NOPROTOOPT | Errno::SOCKTNOSUPPORT | Errno::INVAL) => {
            io::Error::new(io::ErrorKind::Unsupported, format!("the kernel of this host has no {name}"))
        }
        _ => error,
    }
}

fn u16_at(raw: &[u8], at: usize) -> u16 {
    raw.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

pub(crate) fn u32_at(raw: &[u8], at: usize) -> u32 {
    raw.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

pub(crate) fn u64_at(raw: &[u8], at: usize) -> u64 {
    u64::from(u32_at(raw, at)) | u64::from(u32_at(raw, at + 4)) << 32
}
