//! When the last byte of a write was acknowledged, as the kernel saw it: transmit timestamps of the ACK kind.
//!
//! A timer that asks would wake the process again and again, and know it late; the end of the stream as a signal would
//! add the other end's reaction. The kernel's stamp is exact and comes once.

use std::io;

use super::socket::{IntOption, Socket, none_if_would_block};
use super::{check, check_size, clock};

/// Room for the control messages of one call.
const CONTROL_BYTES: usize = 256;

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Socket {
    /// Makes stamps possible; to be called once it is connected.
    ///
    /// # Errors
    /// When the kernel cannot do it.
    pub fn enable_ack_stamps(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.set(IntOption::Timestamping, flags)
    }

    /// Sends, and asks for a stamp when the last byte taken is acknowledged.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn send_stamped(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut control = Control([0; CONTROL_BYTES]);
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: `message` points to `part` and `control`, which outlive the call; the control message is written within
        // the room that CMSG_SPACE counts; the kernel only reads `bytes`.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SO_TIMESTAMPING;
            (*header).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(header).cast::<u32>().write_unaligned(libc::SOF_TIMESTAMPING_TX_ACK);
            libc::sendmsg(self.raw(), &message, libc::MSG_NOSIGNAL)
        };
        none_if_would_block(check_size(sent))
    }

    /// The next stamp: the number of the byte acknowledged, modulo 2^32, and when, on `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn take_ack_stamp(&self) -> io::Result<Option<(u32, u64)>> {
        loop {
            match self.take_error_message()? {
                None => return Ok(None),
                Some(Some(stamp)) => return Ok(Some(stamp)),
                Some(None) => {}
            }
        }
    }

    /// One message of the error queue, if there is one, and the stamp in it, if there is one.
    #[allow(clippy::type_complexity)]
    fn take_error_message(&self) -> io::Result<Option<Option<(u32, u64)>>> {
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: `message` points to `control`, which outlives its uses and has the length given; the macros walk only
        // what the kernel wrote there; reads are unaligned.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = CONTROL_BYTES as _;
            let got = libc::recvmsg(self.raw(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT);
            if none_if_would_block(check(got as libc::c_int))?.is_none() {
                return Ok(None);
            }
            let (mut key, mut at) = (None, None);
            let mut header = libc::CMSG_FIRSTHDR(&message);
            while !header.is_null() {
                let data = libc::CMSG_DATA(header);
                match ((*header).cmsg_level, (*header).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        at = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                    }
                    (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                        let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                        if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                            key = Some(error.ee_data);
                        }
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(&message, header);
            }
            Ok(Some(key.zip(at).map(|(key, at)| (key, clock::monotonic_of_realtime(at)))))
        }
    }
}
