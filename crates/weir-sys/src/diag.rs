//! `inet_diag`: the state of all TCP sockets of a network namespace at once, including those of other processes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use crate::netlink::{Netlink, SOCK_DIAG, attribute};
use crate::tcp_info::{TcpInfo, state};

/// Layouts and numbers of linux/sock_diag.h and linux/inet_diag.h.
mod abi {
    pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
    pub const REQUEST_BYTES: usize = 56;
    pub const MESSAGE_BYTES: usize = 72;
    pub const ATTRIBUTE_BYTES: usize = 4;
    pub const INET_DIAG_REQ_BYTECODE: u16 = 1;
    pub const INET_DIAG_INFO: u16 = 2;
    /// The groups that learn of the end of TCP sockets, of IPv4 and IPv6: numbers 1 and 3.
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
    /// Connections that this end is opening, or over which it may send.
    Open,
    /// Connections over which either end may still send.
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

/// A TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagSocket {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The state of the connection.
    pub info: TcpInfo,
}

/// Lists the sockets of the namespace in which it was created.
pub struct Diag(Netlink);

impl Diag {
    /// For this thread's present namespace.
    ///
    /// # Errors
    /// The kernel has no `inet_diag`.
    pub fn new() -> io::Result<Diag> {
        Netlink::new(SOCK_DIAG).map(Diag)
    }

    /// Calls `each` for the TCP connections of a family with these states and ports, in the kernel's order.
    ///
    /// # Errors
    /// The kernel lacks `tcp_diag`, the TCP part of `inet_diag`.
    pub fn dump(
        &mut self,
        v6: bool,
        states: States,
        ports: &Ports,
        mut each: impl FnMut(DiagSocket),
    ) -> io::Result<()> {
        self.0.dump(abi::SOCK_DIAG_BY_FAMILY, &request(v6, states, ports), |_, content| {
            if let Some(socket) = socket(content) {
                each(socket);
            }
        })
    }
}

/// Reports the sockets that end in the namespace in which it was created, with their final state. It misses no short
/// connection.
pub struct Departures(Netlink);

impl Departures {
    /// For this thread's present namespace.
    ///
    /// # Errors
    /// The kernel has no `inet_diag`, or does not report the end of sockets.
    pub fn new() -> io::Result<Departures> {
        let mut netlink = Netlink::new(SOCK_DIAG)?;
        netlink.subscribe(abi::TCP_DESTROY_GROUPS)?;
        Ok(Departures(netlink))
    }

    /// Calls `each` for the sockets that have ended since the last call. The kernel may omit some if there were very
    /// many.
    pub fn take(&mut self, mut each: impl FnMut(DiagSocket)) {
        self.0.take(|_, content| {
            if let Some(socket) = socket(content) {
                each(socket);
            }
        });
    }
}

fn request(v6: bool, states: States, ports: &Ports) -> Vec<u8> {
    let filter = port_filter(ports);
    let mut request = Vec::with_capacity(abi::REQUEST_BYTES + abi::ATTRIBUTE_BYTES + filter.len());
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    let wanted = 1_u8 << (abi::INET_DIAG_INFO - 1);
    request.extend([family as u8, libc::IPPROTO_TCP as u8, wanted, 0]);
    request.extend(states.bits().to_ne_bytes());
    request.resize(abi::REQUEST_BYTES, 0);
    request.extend(((abi::ATTRIBUTE_BYTES + filter.len()) as u16).to_ne_bytes());
    request.extend(abi::INET_DIAG_REQ_BYTECODE.to_ne_bytes());
    request.extend(filter);
    request
}

/// A program of comparisons. Each comparison takes two words: the operation with its two jump distances, for true and
/// for false, and the port. A jump to the end accepts the socket; a jump one word beyond the end rejects it.
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
            // An unconditional jump uses the distance for false; the kernel checks that the other one leads on.
            [&[abi::BC_JMP, 4][..], &20_u16.to_ne_bytes()].concat(),
            compare(abi::BC_S_GE, 8, 20, *range.start()),
            compare(abi::BC_S_LE, 8, 12, *range.end()),
        ]
        .concat(),
    }
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
        info: TcpInfo::from_bytes(attribute(content.get(abi::MESSAGE_BYTES..)?, abi::INET_DIAG_INFO)?),
    })
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
        for len in 0..90 {
            assert_eq!(socket(&vec![2; len]), None);
        }
    }
}
