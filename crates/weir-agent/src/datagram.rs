//! Datagrams of constant-bit-rate flows: what is written in them, and many of them in one system call.

use std::io;

use crate::sys::socket::{Socket, would_block};

/// Bytes of the IPv4 and UDP headers.
pub const IP_UDP_BYTES: u32 = 20 + 8;

/// Most datagrams of one system call.
const BATCH: usize = 64;
const CONTROL_BYTES: usize = 128;

/// What a datagram says of itself, if its payload has the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number, from 0.
    pub number: u64,
    /// When it was due, since the start of the run.
    pub due_ns: u64,
    /// When it was sent, since the start of the run.
    pub sent_ns: u64,
}

impl Header {
    /// Its length.
    pub const BYTES: usize = 24;

    fn write(&self, payload: &mut [u8]) {
        if let Some(place) = payload.get_mut(..Header::BYTES) {
            place[..8].copy_from_slice(&self.number.to_be_bytes());
            place[8..16].copy_from_slice(&self.due_ns.to_be_bytes());
            place[16..].copy_from_slice(&self.sent_ns.to_be_bytes());
        }
    }

    fn read(payload: &[u8]) -> Option<Header> {
        let field = |at: usize| payload.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        Some(Header { number: field(0)?, due_ns: field(8)?, sent_ns: field(16)? })
    }
}

/// Datagrams to be sent in one system call.
pub struct Batch {
    payload_bytes: usize,
    payloads: Vec<u8>,
    len: usize,
}

impl Batch {
    /// Of datagrams of this payload.
    pub fn new(payload_bytes: usize) -> Batch {
        Batch { payload_bytes, payloads: vec![0; payload_bytes * BATCH], len: 0 }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends a datagram; false if there is no room.
    pub fn push(&mut self, header: &Header) -> bool {
        if self.len == BATCH {
            return false;
        }
        let start = self.len * self.payload_bytes;
        header.write(&mut self.payloads[start..start + self.payload_bytes]);
        self.len += 1;
        true
    }

    /// Sends them; answers how many the kernel took.
    ///
    /// # Errors
    /// When it took none.
    pub fn send(&mut self, socket: &Socket) -> io::Result<usize> {
        if self.len == 1 {
            let payload = &self.payloads[..self.payload_bytes];
            return socket.send(payload)?.map(|_| 1).ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let mut parts: Vec<libc::iovec> = self
            .payloads
            .chunks_exact_mut(self.payload_bytes)
            .take(self.len)
            .map(|payload| libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message_of).collect();
        let count = messages.len() as libc::c_uint;
        // SAFETY: each message points to its part, which points to its payload; all outlive the call.
        let sent = unsafe { libc::sendmmsg(socket.raw(), messages.as_mut_ptr(), count, libc::MSG_NOSIGNAL as _) };
        crate::sys::check(sent).map(|sent| sent as usize)
    }
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its payload.
    pub bytes: u32,
    /// When it came, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Datagrams that the socket has dropped so far.
    pub dropped: u32,
    /// What it says of itself; none in one too short.
    pub header: Option<Header>,
}

/// Room for datagrams that come in one system call; only their headers are copied.
pub struct Arrivals {
    headers: Vec<[u8; Header::BYTES]>,
    controls: Vec<[u64; CONTROL_BYTES / 8]>,
    arrivals: Vec<Arrival>,
}

impl Arrivals {
    /// Room for some.
    pub fn new() -> Arrivals {
        Arrivals {
            headers: vec![[0; Header::BYTES]; BATCH],
            controls: vec![[0; CONTROL_BYTES / 8]; BATCH],
            arrivals: Vec::with_capacity(BATCH),
        }
    }

    /// How many one call may bring.
    pub fn room(&self) -> usize {
        BATCH
    }

    /// The datagram with this number of the last call.
    pub fn get(&self, index: usize) -> Arrival {
        self.arrivals[index]
    }

    /// Takes what is there; answers how many that are.
    ///
    /// # Errors
    /// From the socket.
    pub fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.arrivals.clear();
        let mut parts: Vec<libc::iovec> = self
            .headers
            .iter_mut()
            .map(|header| libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: Header::BYTES })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message_of).collect();
        for (message, control) in messages.iter_mut().zip(&mut self.controls) {
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each message points to its part and its control room, with their lengths; all outlive the call.
        let got = unsafe {
            libc::recvmmsg(socket.raw(), messages.as_mut_ptr(), BATCH as libc::c_uint, flags as _, std::ptr::null_mut())
        };
        let count = match crate::sys::check(got) {
            Err(error) if would_block(&error) => return Ok(0),
            other => other? as usize,
        };
        let offset = realtime_ahead_ns();
        for (message, header) in messages.iter().zip(&self.headers).take(count) {
            let (stamp, dropped) = read_control(&message.msg_hdr);
            let header = Header::read(header).filter(|_| message.msg_len as usize >= Header::BYTES);
            let at_ns = stamp.wrapping_sub(offset);
            self.arrivals.push(Arrival { bytes: message.msg_len, at_ns, dropped, header });
        }
        Ok(count)
    }
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals::new()
    }
}

fn message_of(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero message is valid.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}

/// How far `CLOCK_REALTIME`, by which the kernel stamps, is ahead of `CLOCK_MONOTONIC`.
fn realtime_ahead_ns() -> u64 {
    0_u64.wrapping_sub(crate::sys::clock::monotonic_of_realtime(0))
}

/// The kernel's stamp, and how many datagrams the socket has dropped.
fn read_control(message: &libc::msghdr) -> (u64, u32) {
    let (mut stamp, mut dropped) = (0, 0);
    // SAFETY: the macros walk only what the kernel wrote into the control room; reads are unaligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    stamp = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => dropped = data.cast::<u32>().read_unaligned(),
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (stamp, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_written_where_there_is_room() {
        let header = Header { number: 7, due_ns: 1 << 40, sent_ns: u64::MAX };
        let mut payload = [0; 30];
        header.write(&mut payload);
        assert_eq!(Header::read(&payload), Some(header));
        let mut short = [0; 23];
        header.write(&mut short);
        assert_eq!((short, Header::read(&short)), ([0; 23], None));
    }
}
