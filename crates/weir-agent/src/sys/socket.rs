//! Sockets with the options that a plan sets.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, check_size};

/// A socket, non-blocking.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    v6: bool,
}

/// Who sent a datagram.
pub struct Peer {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
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

/// `TCP_CA_NAME_MAX`: bytes of the name of a congestion control, with the NUL at its end.
const MAX_NAME_BYTES: usize = 16;
const TCP_NOTSENT_LOWAT: libc::c_int = 25;
const IP_BIND_ADDRESS_NO_PORT: libc::c_int = 24;

impl Socket {
    /// A TCP socket.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn tcp(family: &IpAddr) -> io::Result<Socket> {
        Socket::new(family, libc::SOCK_STREAM)
    }

    /// A UDP socket.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn udp(family: &IpAddr) -> io::Result<Socket> {
        Socket::new(family, libc::SOCK_DGRAM)
    }

    fn new(family: &IpAddr, kind: libc::c_int) -> io::Result<Socket> {
        let domain = if family.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        // SAFETY: the call has no pointers.
        let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(Socket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, v6: family.is_ipv6() })
    }

    /// Gives it a local address; port 0 leaves the choice of the port to the kernel.
    ///
    /// # Errors
    /// When the host has no such address, or the port is in use.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let (storage, len) = raw_address(address);
        // SAFETY: `storage` holds an address of `len` bytes.
        check(unsafe { libc::bind(self.raw(), (&raw const storage).cast(), len) }).map(drop)
    }

    /// Begins to connect; true if that is done at once, as it is for UDP.
    ///
    /// # Errors
    /// When there is no route, or no local port.
    pub fn connect(&self, address: SocketAddr) -> io::Result<bool> {
        let (storage, len) = raw_address(address);
        // SAFETY: `storage` holds an address of `len` bytes.
        match check(unsafe { libc::connect(self.raw(), (&raw const storage).cast(), len) }) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes connections from now on.
    ///
    /// # Errors
    /// When the port is in use.
    pub fn listen(&self) -> io::Result<()> {
        // SAFETY: the call has no pointers.
        check(unsafe { libc::listen(self.raw(), 128) }).map(drop)
    }

    /// The next connection and who began it; none if there is none now.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the peer's address is not asked for, so there are no pointers.
        let fd = unsafe { libc::accept4(self.raw(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        match check(fd) {
            // SAFETY: the descriptor was just made and nobody else owns it.
            Ok(fd) => Ok(Some(Socket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, v6: self.v6 })),
            Err(error) if would_block(&error) || error.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The local port.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn local_port(&self) -> io::Result<u16> {
        // SAFETY: an all-zero address is valid; the call writes at most `len` bytes into it.
        let storage = unsafe {
            let mut storage: libc::sockaddr_storage = std::mem::zeroed();
            let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            check(libc::getsockname(self.raw(), (&raw mut storage).cast(), &mut len))?;
            storage
        };
        // The port follows the family in both kinds of address.
        // SAFETY: sockaddr_in fits in sockaddr_storage, and any bytes are one.
        let address = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in>() };
        Ok(u16::from_be(address.sin_port))
    }

    /// Sends as much of `bytes` as there is room for; none if there is no room now.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        // SAFETY: the kernel reads `bytes`, which outlive the call.
        let sent = unsafe { libc::send(self.raw(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        none_if_would_block(check_size(sent))
    }

    /// Reads at most `most` bytes of a TCP stream and throws them away without copying them; none if there are none now,
    /// 0 at the end of the stream.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn discard(&self, most: usize) -> io::Result<Option<usize>> {
        // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket, so that it needs none.
        let read = unsafe { libc::recv(self.raw(), std::ptr::null_mut(), most, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
        none_if_would_block(check_size(read))
    }

    /// Reads into `buffer`; none if there is nothing now, 0 at the end of a stream.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the kernel writes at most the length of `buffer` into it.
        let read = unsafe { libc::recv(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
        none_if_would_block(check_size(read))
    }

    /// Reads a datagram into `buffer`: its length and who sent it; none if there is none now.
    ///
    /// # Errors
    /// From the socket.
    pub fn receive_from(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Peer)>> {
        // SAFETY: an all-zero address is valid; the kernel writes at most the lengths given into it and into `buffer`.
        let (read, peer) = unsafe {
            let mut peer = Peer { storage: std::mem::zeroed(), len: size_of::<libc::sockaddr_storage>() as _ };
            let (to, flags) = (buffer.as_mut_ptr().cast(), libc::MSG_DONTWAIT);
            let from = (&raw mut peer.storage).cast();
            (libc::recvfrom(self.raw(), to, buffer.len(), flags, from, &mut peer.len), peer)
        };
        Ok(none_if_would_block(check_size(read))?.map(|bytes| (bytes, peer)))
    }

    /// Sends a datagram; none if there is no room now.
    ///
    /// # Errors
    /// From the socket.
    pub fn send_to(&self, bytes: &[u8], peer: &Peer) -> io::Result<Option<usize>> {
        let (from, flags) = (bytes.as_ptr().cast(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        let to = (&raw const peer.storage).cast();
        // SAFETY: the kernel reads `bytes` and the address, which outlive the call.
        let sent = unsafe { libc::sendto(self.raw(), from, bytes.len(), flags, to, peer.len) };
        none_if_would_block(check_size(sent))
    }

    /// Sets an option whose value is an integer.
    ///
    /// # Errors
    /// When the kernel does not know it or refuses the value.
    pub fn set(&self, option: IntOption, value: u32) -> io::Result<()> {
        let (level, name) = option.name();
        self.set_raw(level, name, &value.to_ne_bytes())
    }

    /// Sets the differentiated-services code point.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        let (level, name) =
            if self.v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
        self.set_raw(level, name, &(libc::c_int::from(dscp) << 2).to_ne_bytes())
    }

    /// Chooses the congestion control.
    ///
    /// # Errors
    /// `NotFound` if the kernel has none of that name, `PermissionDenied` if only root may choose it.
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        self.set_raw(libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    /// Paces, at most at `bytes_per_s`.
    ///
    /// # Errors
    /// When the kernel is too old for it.
    pub fn set_pacing(&self, bytes_per_s: u64) -> io::Result<()> {
        self.set_raw(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s.to_ne_bytes())
    }

    /// Asks for a send buffer of `bytes` as the kernel accounts them; answers what it granted. Beyond
    /// `net.core.wmem_max` only a privileged process gets it.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn set_send_buffer(&self, bytes: u64) -> io::Result<u64> {
        self.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    /// The same for the receive buffer and `net.core.rmem_max`.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn set_receive_buffer(&self, bytes: u64) -> io::Result<u64> {
        self.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    fn set_buffer(&self, force: libc::c_int, plain: libc::c_int, bytes: u64) -> io::Result<u64> {
        // The kernel doubles what it is asked for, and counts in a signed integer.
        let half = (bytes / 2).min(i32::MAX as u64 / 2) as u32;
        self.set_raw(libc::SOL_SOCKET, force, &half.to_ne_bytes())
            .or_else(|_| self.set_raw(libc::SOL_SOCKET, plain, &half.to_ne_bytes()))?;
        let mut value = [0; 4];
        self.get_raw(libc::SOL_SOCKET, plain, &mut value)?;
        Ok(u64::from(u32::from_ne_bytes(value)))
    }

    /// The name of its congestion control.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn congestion_control(&self) -> io::Result<String> {
        let mut name = [0; MAX_NAME_BYTES];
        let length = self.get_raw(libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
        let name = &name[..length];
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(length);
        Ok(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    /// What has gone wrong with the connection since this was asked last.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut value = [0; 4];
        match self.get_raw(libc::SOL_SOCKET, libc::SO_ERROR, &mut value) {
            Ok(_) => Some(i32::from_ne_bytes(value)).filter(|code| *code != 0).map(io::Error::from_raw_os_error),
            Err(error) => Some(error),
        }
    }

    /// Bytes written and not acknowledged yet.
    ///
    /// # Errors
    /// When it is not connected.
    pub fn unacknowledged(&self) -> io::Result<u64> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the call writes one integer.
        check(unsafe { libc::ioctl(self.raw(), libc::TIOCOUTQ, &mut bytes) })?;
        Ok(bytes as u64)
    }

    /// Closes it at once: what is not acknowledged is forgotten, and nothing lingers in the kernel.
    pub fn abort(self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: `linger` outlives the call. A failure leaves an ordinary close.
        unsafe {
            let len = size_of::<libc::linger>() as libc::socklen_t;
            libc::setsockopt(self.raw(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), len);
        }
    }

    pub(crate) fn set_raw(&self, level: libc::c_int, name: libc::c_int, value: &[u8]) -> io::Result<()> {
        let len = value.len() as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of `value`.
        check(unsafe { libc::setsockopt(self.raw(), level, name, value.as_ptr().cast(), len) }).map(drop)
    }

    pub(crate) fn get_raw(&self, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> io::Result<usize> {
        let mut len = value.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into `value`.
        check(unsafe { libc::getsockopt(self.raw(), level, name, value.as_mut_ptr().cast(), &mut len) })?;
        Ok(len as usize)
    }

    pub(crate) fn raw(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether a call could not be done without waiting.
pub fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

pub(crate) fn none_if_would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if would_block(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An address as the kernel takes it, and its length.
pub(crate) fn raw_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: an all-zero address is valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage has room for, and the alignment of, every kind of address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}
