//! The instant at which a write was acknowledged: the kernel's transmit timestamps of kind ACK
//! (`Documentation/networking/timestamping.rst` of Linux).
//!
//! Polling with a timer would wake the process often and learn the instant late. Waiting for the peer's end of stream
//! would add the peer's reaction. The kernel's timestamp is exact and comes once.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::call::{check, none_if_would_block};
use crate::clock;
use crate::control::{self, Room};
use crate::datagrams::{control_len, message};
use crate::socket::{IntOption, Socket};

/// Words for the control messages of one call.
const CONTROL_WORDS: usize = 32;
/// Offsets in `struct sock_extended_err`.
const ORIGIN_AT: usize = 4;
const DATA_AT: usize = 12;

impl Socket {
    /// Enables timestamps, on a connected socket.
    ///
    /// # Errors
    /// The kernel does not support them.
    pub fn enable_ack_stamps(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.set(IntOption::Timestamping, flags)
    }

    /// Sends, and requests a timestamp of the acknowledgement of the last byte that the kernel takes.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn send_stamped(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut request =
            control::integer_message(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, libc::SOF_TIMESTAMPING_TX_ACK);
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let message = message(Some(&mut part), &mut request);
        let fd = self.as_fd().as_raw_fd();
        // SAFETY: `message` points to `bytes` and `request`, which outlive the call and which the kernel only reads.
        none_if_would_block(check(unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) }))
    }

    /// The next timestamp: the number of the acknowledged byte, modulo 2^32, and the instant on `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn take_ack_stamp(&self) -> io::Result<Option<(u32, u64)>> {
        loop {
            let mut room: Room<CONTROL_WORDS> = [0; CONTROL_WORDS];
            let Some(len) = self.take_error_message(&mut room)? else { return Ok(None) };
            if let Some(stamp) = stamp_in(&control::bytes(&room)[..len]) {
                return Ok(Some(stamp));
            }
        }
    }

    /// Reads the control messages of one message of the error queue; returns their length.
    fn take_error_message(&self, room: &mut Room<CONTROL_WORDS>) -> io::Result<Option<usize>> {
        let mut message = message(None, room);
        let (fd, flags) = (self.as_fd().as_raw_fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT);
        // SAFETY: `message` points to `room`, with its length, and nowhere else.
        let got = none_if_would_block(check(unsafe { libc::recvmsg(fd, &raw mut message, flags) }))?;
        Ok(got.map(|_| control_len(&message)))
    }
}

fn stamp_in(control: &[u8]) -> Option<(u32, u64)> {
    let (mut number, mut at_ns) = (None, None);
    for (level, kind, content) in control::messages(control) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => at_ns = control::timestamp_ns(content),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                if content.get(ORIGIN_AT) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING) =>
            {
                number = control::integer(content, DATA_AT);
            }
            _ => {}
        }
    }
    number.zip(at_ns).map(|(number, at_ns)| (number, clock::monotonic_of_realtime(at_ns)))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_stand_where_the_kernel_puts_them() {
        assert_eq!(offset_of!(libc::sock_extended_err, ee_origin), ORIGIN_AT);
        assert_eq!(offset_of!(libc::sock_extended_err, ee_data), DATA_AT);
    }
}
