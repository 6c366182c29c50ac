//! `inet_diag`: the state of all TCP sockets of a network namespace at once, whoever opened them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::tcp_info::{TcpInfo, state};
use super::{check, check_size};

/// A dump's messages come in parts of at most this size.
const PART_BYTES: usize = 64 << 10;

/// Layouts and numbers of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
mod abi {
    pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
    pub const NLMSG_ERROR: u16 = 2;
    pub const NLMSG_DONE: u16 = 3;
    pub const NLM_F_REQUEST: u16 = 1;
    pub const NLM_F_DUMP: u16 = 0x300;
    pub const HEADER_BYTES: usize = 16;
    pub const REQUEST_BYTES: usize = 56;
    pub const MESSAGE_BYTES: usize = 72;
    pub const ATTRIBUTE_BYTES: usize = 4;
    pub const INET_DIAG_REQ_BYTECODE: u16 = 1;
    pub const INET_DIAG_INFO: u16 = 2;
    /// Groups to which the end of a TCP socket is told, IPv4 and IPv6: numbers 1 and 3.
    pub const TCP_DESTROY_GROUPS: u32 = 0b101;
    pub const BC_JMP: u8 = 1;
    pub const BC_S_GE: u8 = 2;
    pub const BC_S_LE: u8 = 3;
    pub const BC_D_GE: u8 = 4;
    pub const BC_D_LE: u8 = 5;
}

/// Ports of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// The peer's port is one of these.
    Remote(RangeInclusive<u16>),
    /// The peer's port or its own is one of these.
    Either(RangeInclusive<u16>),
}

/// States of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum States {
    /// Being opened or open in the direction from this end.
    Open,
    /// All in which anything may still be sent.
    Alive,
}

impl States {
    fn bits(self) -> u32 {
        match self {
            States::Open => 1 << state::ESTABLISHED | 1 << state::SYN_SENT | 1 << state::CLOSE_WAIT,
            States::Alive => 0xfff & !(1 << state::LISTEN) & !(1 << state::TIME_WAIT) & !(1 << state::CLOSE),
        }
    }
}

/// A socket of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// Its peer's address.
    pub remote: SocketAddr,
    /// The state of its connection.
    pub info: TcpInfo,
}

/// Asks for the sockets of the namespace in which it was made.
pub struct Diag {
    fd: OwnedFd,
    part: Vec<u8>,
    sequence: u32,
}

impl Diag {
    /// For the present namespace of the thread.
    ///
    /// # Errors
    /// When the kernel has no `inet_diag`.
    pub fn new() -> io::Result<Diag> {
        Ok(Diag { fd: open()?, part: vec![0; PART_BYTES], sequence: 0 })
    }

    /// Calls `each` for the TCP connections of a family with these ports, in the kernel's order.
    ///
    /// # Errors
    /// When the kernel has no TCP part of `inet_diag` (`tcp_diag`).
    pub fn dump(
        &mut self,
        v6: bool,
        states: States,
        ports: &Ports,
        mut each: impl FnMut(DiagSocket),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(v6, states, ports, self.sequence);
        // SAFETY: the kernel reads `request`, which outlives the call.
        check_size(unsafe { libc::send(self.fd.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) })?;
        loop {
            // SAFETY: the kernel writes at most the length of `part` into it.
            let read = unsafe { libc::recv(self.fd.as_raw_fd(), self.part.as_mut_ptr().cast(), self.part.len(), 0) };
            if messages(&self.part[..check_size(read)?], self.sequence, &mut each)? {
                return Ok(());
            }
        }
    }
}

/// Hears of the sockets that end in the namespace in which it was made: what a connection had done in the end, however
/// short it was.
pub struct Departures {
    fd: OwnedFd,
    part: Vec<u8>,
}

impl Departures {
    /// For the present namespace of the thread.
    ///
    /// # Errors
    /// When the kernel has no `inet_diag`, or tells nobody of sockets that end.
    pub fn new() -> io::Result<Departures> {
        let fd = open()?;
        // SAFETY: an all-zero address is valid; it outlives the call, which gets its size.
        unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
            address.nl_groups = abi::TCP_DESTROY_GROUPS;
            let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size))?;
        }
        Ok(Departures { fd, part: vec![0; PART_BYTES] })
    }

    /// Calls `each` for the sockets that have ended since the last call. Some may be missing if they were very many.
    pub fn take(&mut self, mut each: impl FnMut(DiagSocket)) {
        loop {
            let (at, room) = (self.part.as_mut_ptr().cast(), self.part.len());
            // SAFETY: the kernel writes at most the length of `part` into it.
            let read = unsafe { libc::recv(self.fd.as_raw_fd(), at, room, libc::MSG_DONTWAIT) };
            let Ok(read) = usize::try_from(read) else {
                // Of an overflow, which the kernel tells once, what came after is still there.
                match io::Error::last_os_error().raw_os_error() {
                    Some(libc::ENOBUFS) => continue,
                    _ => return,
                }
            };
            const UNASKED: u32 = 0;
            // What cannot be read tells nothing.
            let _ = messages(&self.part[..read], UNASKED, &mut each);
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers.
    let fd =
        check(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn request(v6: bool, states: States, ports: &Ports, sequence: u32) -> Vec<u8> {
    let filter = port_filter(ports);
    let len = abi::HEADER_BYTES + abi::REQUEST_BYTES + abi::ATTRIBUTE_BYTES + filter.len();
    let mut request = Vec::with_capacity(len);
    request.extend((len as u32).to_ne_bytes());
    request.extend(abi::SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend((abi::NLM_F_REQUEST | abi::NLM_F_DUMP).to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend([0; 4]);
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    let wanted = 1_u8 << (abi::INET_DIAG_INFO - 1);
    request.extend([family as u8, libc::IPPROTO_TCP as u8, wanted, 0]);
    request.extend(states.bits().to_ne_bytes());
    request.resize(abi::HEADER_BYTES + abi::REQUEST_BYTES, 0);
    request.extend(((abi::ATTRIBUTE_BYTES + filter.len()) as u16).to_ne_bytes());
    request.extend(abi::INET_DIAG_REQ_BYTECODE.to_ne_bytes());
    request.extend(filter);
    request
}

/// Comparisons of a port. Each takes two words: the operation with the distances to go if it holds and if it does not,
/// and the port. A distance to the end means: this socket; one beyond the end by a word: not this one.
fn port_filter(ports: &Ports) -> Vec<u8> {
    let compare = |code: u8, yes: u8, no: u16, port: u16| {
        [&[code, yes][..], &no.to_ne_bytes(), &[0, 0], &port.to_ne_bytes()].concat()
    };
    match ports {
        Ports::Remote(range) => {
            [compare(abi::BC_D_GE, 8, 20, *range.start()), compare(abi::BC_D_LE, 8, 12, *range.end())].concat()
        }
        Ports::Either(range) => [
            compare(abi::BC_D_GE, 8, 20, *range.start()),
            compare(abi::BC_D_LE, 8, 12, *range.end()),
            // A jump has no condition that holds; the kernel checks that its other way leads on.
            [&[abi::BC_JMP, 4][..], &20_u16.to_ne_bytes()].concat(),
            compare(abi::BC_S_GE, 8, 20, *range.start()),
            compare(abi::BC_S_LE, 8, 12, *range.end()),
        ]
        .concat(),
    }
}

/// Reads the messages of one part; true at the end of the dump.
fn messages(mut part: &[u8], sequence: u32, each: &mut impl FnMut(DiagSocket)) -> io::Result<bool> {
    while let Some(len) = u32_at(part, 0).map(|len| len as usize) {
        let Some(message) = part.get(..len).filter(|_| len >= abi::HEADER_BYTES) else { break };
        part = part.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        if u32_at(message, 8) != Some(sequence) {
            continue;
        }
        let content = &message[abi::HEADER_BYTES..];
        match u16_at(message, 4) {
            Some(abi::NLMSG_DONE) => return Ok(true),
            Some(abi::NLMSG_ERROR) => {
                let code = u32_at(content, 0).map_or(libc::EIO, |code| -(code as i32));
                return Err(io::Error::from_raw_os_error(code));
            }
            _ => {
                if let Some(socket) = socket(content) {
                    each(socket);
                }
            }
        }
    }
    Ok(false)
}

fn socket(content: &[u8]) -> Option<DiagSocket> {
    let v6 = i32::from(*content.first()?) == libc::AF_INET6;
    let address = |at: usize| -> Option<IpAddr> {
        let raw: [u8; 16] = content.get(at..at + 16)?.try_into().ok()?;
        let v4 = Ipv4Addr::new(raw[0], raw[1], raw[2], raw[3]);
        Some(if v6 { IpAddr::V6(Ipv6Addr::from(raw)) } else { IpAddr::V4(v4) })
    };
    let port = |at: usize| content.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    Some(DiagSocket {
        local: SocketAddr::new(address(8)?, port(4)?),
        remote: SocketAddr::new(address(24)?, port(6)?),
        info: info(content.get(abi::MESSAGE_BYTES..)?)?,
    })
}

/// Looks for `TCP_INFO` among the attributes.
fn info(mut attributes: &[u8]) -> Option<TcpInfo> {
    loop {
        let len = usize::from(u16_at(attributes, 0)?);
        let content = attributes.get(abi::ATTRIBUTE_BYTES..len)?;
        if u16_at(attributes, 2)? == abi::INET_DIAG_INFO {
            return Some(TcpInfo::from_bytes(content));
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_found_by_its_remote_port() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(at).expect("it listens");
        let Ok(mut diag) = Diag::new() else {
            eprintln!("skipped: this kernel has no inet_diag");
            return;
        };
        let mut found = Vec::new();
        if diag.dump(false, States::Alive, &Ports::Remote(at.port()..=at.port()), |socket| found.push(socket)).is_err()
        {
            eprintln!("skipped: this kernel has no tcp_diag");
            return;
        }
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].local, found[0].remote), (stream.local_addr().expect("an address"), at));
        assert_eq!(found[0].info.state, state::ESTABLISHED);
        assert!(found[0].info.snd_cwnd > 0);
        let mut both = Vec::new();
        let either = Ports::Either(at.port()..=at.port());
        diag.dump(false, States::Alive, &either, |socket| both.push(socket.local)).expect("it worked before");
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both.contains(&at) && both.contains(&found[0].local));
        let mut others = 0;
        diag.dump(false, States::Alive, &Ports::Remote(1..=1), |_| others += 1).expect("it worked before");
        assert_eq!(others, 0);
    }

    #[test]
    fn a_connection_that_ends_is_told_with_what_it_did() {
        use std::io::{Read, Write};
        let Ok(mut departures) = Departures::new() else {
            eprintln!("skipped: this kernel tells nobody of sockets that end");
            return;
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut stream = TcpStream::connect(at).expect("it listens");
        let (mut reader, _) = listener.accept().expect("a connection");
        let local = stream.local_addr().expect("an address");
        stream.write_all(&[0; 5000]).expect("room");
        drop(stream);
        assert_eq!(reader.read_to_end(&mut Vec::new()).expect("all of it"), 5000);
        drop(reader);
        let begun = std::time::Instant::now();
        let mut found = Vec::new();
        while found.len() < 2 && begun.elapsed().as_secs() < 10 {
            departures
                .take(|socket| found.extend([socket].into_iter().filter(|s| s.local == local || s.remote == local)));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        found.sort_by_key(|socket| socket.local != local);
        let [sender, receiver] = found[..] else { panic!("{found:?}") };
        assert_eq!((sender.local, sender.remote, sender.info.bytes_sent), (local, at, 5000));
        assert_eq!((receiver.local, receiver.remote, receiver.info.bytes_received), (at, local, 5001));
    }

    #[test]
    fn broken_messages_are_not_read_beyond_their_end() {
        let good = request(false, States::Open, &Ports::Either(1..=2), 7);
        for len in 0..good.len() {
            let _ = messages(&good[..len], 7, &mut |_| ());
        }
        let mut lying = good;
        lying[0] = 3;
        assert!(matches!(messages(&lying, 7, &mut |_| ()), Ok(false)));
        assert_eq!(socket(&[2; 90]), None);
    }
}
