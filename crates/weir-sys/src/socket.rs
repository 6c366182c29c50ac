//! Sockets with the options that a plan sets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, accept_with, bind, connect,
    getpeername, getsockname, listen, recv, recvfrom, send, sendto, socket_with, sockopt,
};

use crate::call::{check, get_option, ioctl, none_if_would_block, set_option};

/// A non-blocking socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    v6: bool,
}

/// The sender of a datagram.
pub struct Peer(SocketAddrAny);

impl Peer {
    /// Its address and port; `None` if it is no host of IP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.clone().try_into().ok()
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer(address.into())
    }
}

/// Options whose value is an integer.
#[derive(Clone, Copy, Debug)]
pub enum IntOption {
    /// `TCP_MAXSEG`.
    MaxSegment,
    /// `TCP_NODELAY`.
    NoDelay,
    /// `TCP_NOTSENT_LOWAT`.
    NotSentLowWater,
    /// `TCP_QUICKACK`.
    QuickAck,
    /// `TCP_WINDOW_CLAMP`.
    WindowClamp,
    /// `SO_RCVLOWAT`.
    ReceiveLowWater,
    /// `SO_REUSEADDR`.
    ReuseAddress,
    /// `SO_TIMESTAMPING`.
    Timestamping,
    /// `SO_TIMESTAMPNS`.
    ReceiveStamps,
    /// `SO_RXQ_OVFL`.
    ReceiveDrops,
    /// `IP_BIND_ADDRESS_NO_PORT`.
    BindNoPort,
}

impl IntOption {
    fn name(self) -> (libc::c_int, libc::c_int) {
        match self {
            IntOption::MaxSegment => (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
            IntOption::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            IntOption::NotSentLowWater => (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT),
            IntOption::QuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
            IntOption::WindowClamp => (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
            IntOption::ReceiveLowWater => (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
            IntOption::ReuseAddress => (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            IntOption::Timestamping => (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
            IntOption::ReceiveStamps => (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
            IntOption::ReceiveDrops => (libc::SOL_SOCKET, libc::SO_RXQ_OVFL),
            IntOption::BindNoPort => (libc::IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT),
        }
    }
}

const TCP_NOTSENT_LOWAT: libc::c_int = 25;
const IP_BIND_ADDRESS_NO_PORT: libc::c_int = 24;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

impl Socket {
    /// Creates a TCP socket.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn tcp(family: &IpAddr) -> io::Result<Socket> {
        Socket::new(family, SocketType::STREAM, None)
    }

    /// Creates a UDP socket.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn udp(family: &IpAddr) -> io::Result<Socket> {
        Socket::new(family, SocketType::DGRAM, None)
    }

    pub(crate) fn new(family: &IpAddr, kind: SocketType, protocol: Option<Protocol>) -> io::Result<Socket> {
        let v6 = family.is_ipv6();
        let domain = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let fd = socket_with(domain, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, protocol)?;
        Ok(Socket { fd, v6 })
    }

    /// Sets the local address; with port 0, the kernel chooses the port.
    ///
    /// # Errors
    /// The host has no such address, or the port is in use.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        Ok(bind(&self.fd, &address)?)
    }

    /// Begins to connect; true if the connection is established already, as always with UDP.
    ///
    /// # Errors
    /// There is no route, or no local port.
    pub fn connect(&self, address: SocketAddr) -> io::Result<bool> {
        match connect(&self.fd, &address) {
            Ok(()) => Ok(true),
            Err(Errno::INPROGRESS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Listens for connections.
    ///
    /// # Errors
    /// The port is in use.
    pub fn listen(&self) -> io::Result<()> {
        Ok(listen(&self.fd, BACKLOG)?)
    }

    /// Accepts the next connection, if one waits.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        match accept_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(fd) => Ok(Some(Socket { fd, v6: self.v6 })),
            Err(Errno::CONNABORTED) => Ok(None),
            Err(error) => none_if_would_block(Err(error)),
        }
    }

    /// The local port.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn local_port(&self) -> io::Result<u16> {
        Ok(SocketAddr::try_from(getsockname(&self.fd)?)?.port())
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// The socket is not connected, or no longer.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        let peer = getpeername(&self.fd)?.ok_or(Errno::NOTCONN)?;
        Ok(SocketAddr::try_from(peer)?)
    }

    /// Sends the part of `bytes` for which there is room; `None` without room.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        none_if_would_block(send(&self.fd, bytes, SendFlags::NOSIGNAL))
    }

    /// As [`send`](Socket::send), and holds the bytes back for those of the next call: they share a segment.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn send_ahead(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        none_if_would_block(send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::MORE))
    }

    /// Discards at most `most` bytes of a TCP stream without copying them; `None` if no bytes wait, 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn discard(&self, most: usize) -> io::Result<Option<usize>> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_TRUNC | libc::MSG_DONTWAIT);
        // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket, so none is needed.
        none_if_would_block(check(unsafe { libc::recv(fd, std::ptr::null_mut(), most, flags) }))
    }

    /// Bytes of a stream that wait to be read.
    ///
    /// # Errors
    /// This is not a stream.
    pub fn waiting(&self) -> io::Result<u64> {
        Ok(ioctl_fionread(&self.fd)?)
    }

    /// Reads into `buffer`; `None` if nothing waits, 0 at the end of a stream.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        none_if_would_block(recv(&self.fd, buffer, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes))
    }

    /// Reads a datagram into `buffer`: its length and its sender; `None` if none waits.
    ///
    /// # Errors
    /// From the socket.
    pub fn receive_from(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Peer)>> {
        let received = none_if_would_block(recvfrom(&self.fd, buffer, RecvFlags::DONTWAIT))?;
        Ok(received.and_then(|(bytes, _, peer)| Some((bytes, Peer(peer?)))))
    }

    /// Sends a datagram to `peer`; `None` without room.
    ///
    /// # Errors
    /// From the socket.
    pub fn send_to(&self, bytes: &[u8], peer: &Peer) -> io::Result<Option<usize>> {
        none_if_would_block(sendto(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT, &peer.0))
    }

    /// Sets an option whose value is an integer.
    ///
    /// # Errors
    /// The kernel does not know the option, or refuses the value.
    pub fn set(&self, option: IntOption, value: u32) -> io::Result<()> {
        let (level, name) = option.name();
        Ok(set_option(self.fd.as_fd(), level, name, &value)?)
    }

    /// Sets the differentiated-services code point.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        let field = dscp << 2;
        let set = if self.v6 {
            sockopt::set_ipv6_tclass(&self.fd, field.into())
        } else {
            sockopt::set_ip_tos(&self.fd, field)
        };
        Ok(set?)
    }

    /// Chooses the congestion control.
    ///
    /// # Errors
    /// `NotFound` if the kernel has none of that name, `PermissionDenied` if it is reserved for root.
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        Ok(sockopt::set_tcp_congestion(&self.fd, name)?)
    }

    /// The name of the congestion control.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn congestion_control(&self) -> io::Result<String> {
        Ok(sockopt::tcp_congestion(&self.fd)?)
    }

    /// Limits the sending rate to `bytes_per_s`, by pacing.
    ///
    /// # Errors
    /// The kernel is too old for 64-bit rates.
    pub fn set_pacing(&self, bytes_per_s: u64) -> io::Result<()> {
        Ok(set_option(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s)?)
    }

    /// Requests a send buffer of `bytes` as the kernel counts them; returns its size. Only a privileged process gets
    /// more than `net.core.wmem_max`.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn set_send_buffer(&self, bytes: u64) -> io::Result<u64> {
        let half = half_of_buffer(bytes);
        sockopt::set_socket_send_buffer_size_force(&self.fd, half)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&self.fd, half))?;
        Ok(sockopt::socket_send_buffer_size(&self.fd)? as u64)
    }

    /// The same for the receive buffer and `net.core.rmem_max`.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn set_receive_buffer(&self, bytes: u64) -> io::Result<u64> {
        let half = half_of_buffer(bytes);
        sockopt::set_socket_recv_buffer_size_force(&self.fd, half)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&self.fd, half))?;
        Ok(sockopt::socket_recv_buffer_size(&self.fd)? as u64)
    }

    /// The connection's error since the last call, if there was one.
    pub fn take_error(&self) -> Option<io::Error> {
        match sockopt::socket_error(&self.fd) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error.into()),
        }
    }

    /// Bytes that were written and not yet acknowledged.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn unacknowledged(&self) -> io::Result<u64> {
        let mut bytes: libc::c_int = 0;
        ioctl(self.fd.as_fd(), libc::TIOCOUTQ as u32, &mut bytes)?;
        Ok(bytes as u64)
    }

    /// Resets the connection: the kernel forgets unacknowledged bytes and keeps no state.
    pub fn abort(self) {
        // After a failure, dropping the socket closes it in the ordinary way.
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }

    /// `TCP_INFO` as bytes; returns how many the kernel wrote.
    pub(crate) fn tcp_info(&self, info: &mut [u8]) -> io::Result<usize> {
        Ok(get_option(self.fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info)?)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel doubles the request, and counts in a signed integer.
fn half_of_buffer(bytes: u64) -> usize {
    (bytes / 2).min(i32::MAX as u64 / 2) as usize
}
