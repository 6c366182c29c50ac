//! DCCP (RFC 4340) of the kernel: sockets, and the state of its congestion control CCID 3.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use rustix::net::{SocketType, ipproto};

use crate::call::{get_option, set_option};
use crate::native::{lacking, u32_at, u64_at};
use crate::socket::Socket;

/// `SOCK_DCCP`.
const SOCK_DCCP: u32 = 6;
const SOL_DCCP: libc::c_int = 269;
const DCCP_SOCKOPT_SERVICE: libc::c_int = 2;
const DCCP_SOCKOPT_GET_CUR_MPS: libc::c_int = 5;
const DCCP_SOCKOPT_CCID: libc::c_int = 13;
const DCCP_SOCKOPT_QPOLICY_TXQLEN: libc::c_int = 17;
const DCCP_SOCKOPT_CCID_TX_INFO: libc::c_int = 192;
/// The service code (RFC 4340, section 8.1.2).
const SERVICE: [u8; 4] = *b"weir";

/// Offsets in the kernel's `struct tfrc_tx_info` (include/linux/tfrc.h).
mod offset {
    pub const RATE: usize = 0;
    pub const RTT: usize = 20;
    pub const LOSS: usize = 24;
}
const TX_INFO_BYTES: usize = 40;
/// The kernel counts the allowed rate in units of 1/64 byte per second.
const RATE_UNITS_PER_BYTE: u64 = 64;

/// The state of the sender of CCID 3 (RFC 4342).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ccid3 {
    /// Allowed rate of payload, bit/s.
    pub allowed_bps: u64,
    /// Loss event rate, in millionths.
    pub loss_event_ppm: u32,
    /// Smoothed round-trip time, microseconds; 0 before the first.
    pub rtt_us: u32,
}

impl Ccid3 {
    fn read(raw: &[u8]) -> Ccid3 {
        Ccid3 {
            allowed_bps: u64_at(raw, offset::RATE).saturating_mul(8) / RATE_UNITS_PER_BYTE,
            loss_event_ppm: u32_at(raw, offset::LOSS),
            rtt_us: u32_at(raw, offset::RTT),
        }
    }
}

impl Socket {
    /// Creates a socket of DCCP with congestion control `ccid` in both directions. Its send buffer alone limits what
    /// waits in it: the limit in packets is off.
    ///
    /// The kernel checks the limit in packets after it has allocated a packet, so each refused one wakes the sender again.
    ///
    /// # Errors
    /// `Unsupported` if the kernel has no DCCP; or it lacks `ccid`, or the process has no descriptor left.
    pub fn dccp(family: &IpAddr, ccid: u8) -> io::Result<Socket> {
        let socket = Socket::new(family, SocketType::from_raw(SOCK_DCCP), Some(ipproto::DCCP))
            .map_err(|error| lacking(error, "DCCP"))?;
        set_option(socket.as_fd(), SOL_DCCP, DCCP_SOCKOPT_SERVICE, &SERVICE)?;
        set_option(socket.as_fd(), SOL_DCCP, DCCP_SOCKOPT_CCID, &ccid)?;
        set_option(socket.as_fd(), SOL_DCCP, DCCP_SOCKOPT_QPOLICY_TXQLEN, &0_i32)?;
        Ok(socket)
    }

    /// The greatest payload of a datagram of DCCP, bytes.
    ///
    /// # Errors
    /// From the kernel; none is expected of a connection of DCCP.
    pub fn dccp_room(&self) -> io::Result<u32> {
        let mut raw = [0; 4];
        get_option(self.as_fd(), SOL_DCCP, DCCP_SOCKOPT_GET_CUR_MPS, &mut raw)?;
        Ok(u32::from_ne_bytes(raw))
    }

    /// The state of the sender of CCID 3. CCID 2 tells none.
    ///
    /// # Errors
    /// The connection has another control, or ended.
    pub fn ccid3(&self) -> io::Result<Ccid3> {
        let mut raw = [0; TX_INFO_BYTES];
        get_option(self.as_fd(), SOL_DCCP, DCCP_SOCKOPT_CCID_TX_INFO, &mut raw)?;
        Ok(Ccid3::read(&raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_ccid_3_has_the_units_of_the_tables() {
        let mut raw = [0; TX_INFO_BYTES];
        raw[..8].copy_from_slice(&(64 * 250_000_u64).to_ne_bytes());
        raw[20..24].copy_from_slice(&50_000_u32.to_ne_bytes());
        raw[24..28].copy_from_slice(&10_000_u32.to_ne_bytes());
        let state = Ccid3 { allowed_bps: 2_000_000, loss_event_ppm: 10_000, rtt_us: 50_000 };
        assert_eq!(Ccid3::read(&raw), state);
    }

    #[test]
    fn a_kernel_without_dccp_says_so() {
        let Err(error) = Socket::dccp(&IpAddr::from([127, 0, 0, 1]), 2) else { return };
        assert_eq!(error.to_string(), "the kernel of this host has no DCCP");
    }
}
