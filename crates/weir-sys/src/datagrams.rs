//! Many datagrams in one system call.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::call::{check, none_if_would_block};
use crate::clock::monotonic_of_realtime;
use crate::control::{self, Room};
use crate::socket::Socket;

/// Words for a timestamp and a count of drops.
const CONTROL_WORDS: usize = 16;

/// Sends datagrams over a connected socket; returns how many the kernel took.
///
/// # Errors
/// The kernel took none.
pub fn send(socket: &Socket, datagrams: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut controls: Vec<_> = datagrams.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let messages = datagrams.chunks_exact(1).zip(&mut controls);
    let mut messages: Vec<_> = messages.map(|(part, control)| MMsgHdr::new(part, control)).collect();
    Ok(sendmmsg(socket.as_fd(), &mut messages, SendFlags::NOSIGNAL)?)
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<const HEAD: usize> {
    /// Length of its payload, bytes.
    pub bytes: u32,
    /// When it came, on `CLOCK_MONOTONIC`; meaningful with [`IntOption::ReceiveStamps`](crate::socket::IntOption).
    pub at_ns: u64,
    /// Datagrams that the socket has dropped so far, with [`IntOption::ReceiveDrops`](crate::socket::IntOption).
    pub dropped: u32,
    /// The first bytes of its payload; if it has fewer, those that follow mean nothing.
    pub head: [u8; HEAD],
}

/// Room for the datagrams of one system call; only their first `HEAD` bytes are copied.
pub struct Receiver<const HEAD: usize> {
    heads: Vec<[u8; HEAD]>,
    controls: Vec<Room<CONTROL_WORDS>>,
}

impl<const HEAD: usize> Receiver<HEAD> {
    /// Room for `most` datagrams.
    pub fn new(most: usize) -> Receiver<HEAD> {
        Receiver { heads: vec![[0; HEAD]; most], controls: vec![[0; CONTROL_WORDS]; most] }
    }

    /// Receives the datagrams that wait in `socket`, calls `each` with them and returns their number.
    ///
    /// # Errors
    /// From the socket.
    pub fn receive(&mut self, socket: &Socket, mut each: impl FnMut(Datagram<HEAD>)) -> io::Result<usize> {
        let part = |head: &mut [u8; HEAD]| libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD };
        let mut parts: Vec<libc::iovec> = self.heads.iter_mut().map(part).collect();
        let ends = parts.iter_mut().zip(&mut self.controls);
        let mut messages: Vec<libc::mmsghdr> = ends
            .map(|(part, control)| libc::mmsghdr { msg_hdr: message(Some(part), &mut control[..]), msg_len: 0 })
            .collect();
        let (count, flags) = (messages.len() as libc::c_uint, libc::MSG_DONTWAIT | libc::MSG_TRUNC);
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: each message points to its part and its control room, with their lengths; all outlive the call.
        let got = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags as _, std::ptr::null_mut()) };
        let Some(count) = none_if_would_block(check(got))? else { return Ok(0) };
        let lens = messages[..count].iter().map(|message| (message.msg_len, control_len(&message.msg_hdr)));
        let lead_ns = 0_u64.wrapping_sub(monotonic_of_realtime(0));
        for ((bytes, control_bytes), (head, control)) in lens.zip(self.heads.iter().zip(&self.controls)) {
            let (stamp_ns, dropped) = read_control(&control::bytes(control)[..control_bytes]);
            each(Datagram { bytes, at_ns: stamp_ns.wrapping_sub(lead_ns), dropped, head: *head });
        }
        Ok(count)
    }
}

/// The kernel's timestamp, and the datagrams that the socket has dropped.
fn read_control(control: &[u8]) -> (u64, u32) {
    let (mut stamp_ns, mut dropped) = (0, 0);
    for (level, kind, content) in control::messages(control) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => stamp_ns = control::timestamp_ns(content).unwrap_or(0),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => dropped = control::integer(content, 0).unwrap_or(0),
            _ => {}
        }
    }
    (stamp_ns, dropped)
}

/// A message of one part, or of none, with room for control messages. It points to both.
pub(crate) fn message(part: Option<&mut libc::iovec>, control: &mut [u64]) -> libc::msghdr {
    // SAFETY: a msghdr of zeros is valid.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    if let Some(part) = part {
        message.msg_iov = part;
        message.msg_iovlen = 1;
    }
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control) as _;
    message
}

/// Bytes of control messages.
#[allow(clippy::unnecessary_cast, reason = "the type differs between C libraries")]
pub(crate) fn control_len(message: &libc::msghdr) -> usize {
    message.msg_controllen as usize
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::socket::IntOption;

    #[test]
    fn datagrams_come_with_their_heads_their_lengths_and_their_instants() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (sender, receiver) = (Socket::udp(&here).expect("a socket"), Socket::udp(&here).expect("a socket"));
        receiver.bind(SocketAddr::new(here, 0)).expect("a port");
        receiver.set(IntOption::ReceiveStamps, 1).expect("an option of every kernel");
        sender.connect(SocketAddr::new(here, receiver.local_port().expect("a port"))).expect("it is here");
        let before = monotonic_ns();
        let datagrams = [&b"abcdefgh"[..], b"xy", b"ijkl"].map(IoSlice::new);
        assert_eq!(send(&sender, &datagrams).expect("room"), 3);
        let (mut room, mut came) = (Receiver::<4>::new(8), Vec::new());
        assert_eq!(room.receive(&receiver, |datagram| came.push(datagram)).expect("a socket"), 3);
        assert_eq!(room.receive(&receiver, |_| ()).expect("a socket"), 0);
        let heads: Vec<_> = came.iter().map(|datagram| (datagram.bytes, &datagram.head[..])).collect();
        assert_eq!((heads[0], heads[1].0, heads[2]), ((8, &b"abcd"[..]), 2, (4, &b"ijkl"[..])));
        assert_eq!(heads[1].1[..2], *b"xy");
        let slack = 50_000_000;
        for datagram in came {
            assert!(datagram.at_ns + slack >= before && datagram.at_ns <= monotonic_ns() + slack, "{datagram:?}");
            assert_eq!(datagram.dropped, 0);
        }
    }
}
